"""The plugin for krew, as far as it is made without a network. Installed: tests/e2e/kubernetes/command_line."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from krew import build
from tests.contract.test_layers import LIBRARIES

PAGE = (build.ROOT / "docs/how-to/get-the-command-line.md").read_text()
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"
PRINTS = "import sys\nprint('app', *sys.argv[1:])\n"


def made(folder: Path, *pythons: str) -> Path:
    """The folder of a plugin whose command line only prints its words."""
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "__main__.py").write_text(PRINTS)
    script = (build.HERE / build.NAME).read_text().replace("@PYTHONS@", " ".join(pythons))
    (folder / build.NAME).write_text(script)
    (folder / build.NAME).chmod(0o755)
    return folder


def run(program: Path, *words: str, python: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "KAFKAFEATURES_PYTHON": python}
    return subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)


def test_the_plugin_runs_with_a_python_whose_libraries_it_contains(tmp_path: Path) -> None:
    place = made(tmp_path / "store", "3.1", THIS)
    (tmp_path / "bin").mkdir()
    linked = tmp_path / "bin" / build.NAME  # as krew does it
    linked.symlink_to(place / build.NAME)
    for python in ("", sys.executable, "/no/such/python"):
        done = run(linked, "status", "two words", python=python)
        assert (done.stdout, done.returncode) == ("app status two words\n", 0), done.stderr


def test_without_a_supported_python_the_plugin_names_the_versions_that_it_needs(tmp_path: Path) -> None:
    done = run(made(tmp_path / "store", "3.1", "3.2") / build.NAME, "status")
    assert done.returncode == 69
    assert "this plugin needs Python 3.1 3.2; install one of them, or set KAFKAFEATURES_PYTHON" in done.stderr


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    archives = [tmp_path / "one.tar.gz", tmp_path / "two.tar.gz"]
    for archive in archives:
        build.pack(made(tmp_path / archive.stem, THIS), archive)
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_the_archives_have_every_library_in_one_version_for_all_pythons() -> None:
    lock = (build.ROOT / "requirements/runtime.lock").read_text()
    entries = re.findall(r"^([a-z0-9-]+)==(\S+) (.*)$", lock, re.MULTILINE)
    assert {rest for _, _, rest in entries} == {"\\"}  # no marker: pip would ask it of the Python that builds
    called = {"yaml": "pyyaml", "pykube": "pykube-ng"}
    used = {
        called.get(library, library.replace("_", "-"))
        for library, users in LIBRARIES.items()
        if library != "gssapi"  # of the extra kerberos: it needs a library of the system, and a compiler
        and any(user.split(".")[0] in ("api", "core", "kafka", "zookeeper", "cli") for user in users.split())
    }
    assert used - {name for name, _, _ in entries} == set()
    own = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split("[ ~=>]", one)[0] for one in own} - {name for name, _, _ in entries} == set()


@pytest.fixture
def archives(tmp_path: Path) -> dict[str, Path]:
    found = {platform: tmp_path / f"{build.NAME}-{platform.replace('/', '-')}.tar.gz" for platform in build.PLATFORMS}
    for platform, archive in found.items():
        archive.write_text(platform)
    return found


def test_the_manifest_names_each_archive_with_its_checksum(archives: dict[str, Path]) -> None:
    found = yaml.safe_load(build.manifest("0.1.0", "https://downloads.example", archives, build.PYTHONS))
    assert (found["apiVersion"], found["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert found["metadata"] == {"name": "kafkafeatures"}
    spec = found["spec"]
    assert spec["version"] == "v0.1.0"
    assert "3.11, 3.12" in spec["caveats"]
    assert "\n" not in spec["shortDescription"]
    for (platform, archive), entry in zip(archives.items(), spec["platforms"], strict=True):
        labels = entry["selector"]["matchLabels"]
        assert f"{labels['os']}/{labels['arch']}" == platform
        assert entry["uri"] == f"https://downloads.example/{archive.name}"
        assert entry["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
        assert entry["bin"] == build.NAME


def test_the_krew_manifest_names_no_address_before_a_release_is_published() -> None:
    assert "http" not in (build.HERE / "kafkafeatures.yaml").read_text()


def test_the_plugin_supports_the_python_versions_of_the_package() -> None:
    project = tomllib.loads((build.ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={build.PYTHONS[0]}"
    assert f"for Python {build.PYTHONS[0]} to {build.PYTHONS[-1]}" in PAGE
    assert build.NAME in project["scripts"]


def test_the_page_names_the_files_that_the_build_writes() -> None:
    version = re.search(r'__version__ = "(.+)"', (build.ROOT / "operator/kafkafeatures/__init__.py").read_text())
    assert version is not None
    assert f"dist/kafka_features_operator-{version[1]}-py3-none-any.whl" in PAGE
    assert f"dist/krew/{build.NAME}-linux-amd64.tar.gz" in PAGE


def test_every_platform_has_wheels_of_its_own_system_and_machine() -> None:
    machines = {"amd64": ("x86_64",), "arm64": ("aarch64", "arm64")}
    systems = {"linux": "manylinux", "darwin": "macosx"}
    for platform, tags in build.PLATFORMS.items():
        system, machine = platform.split("/")
        assert all(tag.startswith(systems[system]) and tag.endswith(machines[machine]) for tag in tags), platform
    assert {platform.split("/")[0] for platform in build.PLATFORMS} == set(systems)
