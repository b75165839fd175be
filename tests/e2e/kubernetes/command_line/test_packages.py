"""The command line, installed as the pages say: by pip, pipx and krew. Packages come from the index of pip."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.amounts import only_in_soak
from tests.e2e.kubernetes.chart.rendering import ROOT
from tests.e2e.rig.kubernetes.binaries import binary, build
from tests.e2e.rig.releasing import commit_tree

pytestmark = only_in_soak

PIPX = "pipx == 1.18.4"
PAGE = (ROOT / "docs" / "how-to" / "get-the-command-line.md").read_text()
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


def commands(heading: str) -> list[str]:
    """The commands below one heading of the page, in order."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip() for line in part.splitlines() if line.startswith("    ")]


class Newcomer:
    """A person with an empty home, and nothing of ours on the path."""

    def __init__(self, home: Path, *path: Path) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http"))}
        before = [home / ".local" / "bin", home / ".krew" / "bin", *path]
        searched = ":".join(map(str, [*before, "/usr/bin", "/bin"]))
        self.environment = {**kept, "HOME": str(home), "PATH": searched, "KREW_NO_UPGRADE_CHECK": "1"}

    def types(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.home, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout


def test_pipx_installs_the_wheel_as_a_command_and_a_plugin_of_kubectl(tmp_path: Path) -> None:
    build(["kubectl"])
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    subprocess.run([tools / "bin" / "pip", "install", "-q", PIPX], check=True)
    person = Newcomer(tmp_path, tools / "bin", binary("kubectl").parent)
    wheel, install = commands("pipx")
    person.types(wheel.removesuffix(" .") + f" {ROOT}")
    person.types(install)
    version = person.types("kafkafeatures version")
    assert version.startswith("kafkafeatures 0.1.0\n")
    assert person.types("kubectl kafkafeatures version") == version
    assert "suspend" in person.types("kubectl __complete kafkafeatures sus")
    person.types("pipx uninstall kafka-features-operator")
    assert not (tmp_path / ".local" / "bin" / "kafkafeatures").exists()


@pytest.mark.parametrize("page", ["README", "the page about the command line"])
def test_pip_installs_a_clone_as_a_command(page: str, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text().partition("\n## Inspect your own cluster\n")[2]
    install = readme.strip().splitlines()[0] if page == "README" else commands("pip")[0]
    clone = commit_tree(tmp_path / "clone")
    person = Newcomer(tmp_path, Path(sys.executable).resolve().parent)
    person.types(f"cd {clone.folder} && {install}")
    assert person.types("~/kafkafeatures/bin/kafkafeatures version").startswith("kafkafeatures 0.1.0\n")
    shutil.rmtree(clone.folder)  # what was installed needs no clone
    assert "blocked" in person.types("~/kafkafeatures/bin/kafkafeatures demo </dev/null").lower()


def test_krew_installs_the_plugin_of_kubectl(tmp_path: Path) -> None:
    build(["kubectl", "krew"])
    folder = tmp_path / "dist" / "krew"
    program, platforms = str(ROOT / "krew" / "build.py"), f"linux/{MACHINE}"
    make = [sys.executable, program, str(folder), "--platform", platforms, "--python", THIS]
    subprocess.run(make, check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl-krew").symlink_to(binary("krew"))
    person = Newcomer(tmp_path, tmp_path / "bin", binary("kubectl").parent, Path(sys.executable).resolve().parent)
    made, install, version, *_ = commands("krew")
    assert made == "make krew"
    person.types(install.replace("amd64", MACHINE))  # the page shows one of the archives
    assert person.types(version).startswith("kafkafeatures 0.1.0\n")
    assert "blocked" in person.types("kubectl kafkafeatures demo </dev/null").lower()
