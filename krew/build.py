"""The command line as a plugin that krew installs: an archive for each platform, and the manifest that names them.

    python krew/build.py dist/krew --url https://downloads.example/kafkafeatures

An archive holds the locked dependencies for each of several Pythons side by side: the names of compiled modules say
for which Python they are. Without `--url`, the manifest names the archives where they lie, and `krew install --archive`
needs no more.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from string import Template

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NAME = "kubectl-kafkafeatures"
PLATFORMS = {
    "linux/amd64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "linux/arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "darwin/amd64": tuple(f"macosx_{system}_x86_64" for system in ("12_0", "11_0", "10_15", "10_13", "10_12", "10_9")),
    "darwin/arm64": tuple(f"macosx_{system}_arm64" for system in ("12_0", "11_0")),
}
"""Tags of wheels by platform, as krew names it."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
NEWEST_PATCH = "99"
"""Stands for the newest patch release: some packages refuse the first ones of a Python."""
MAIN = "from kafkafeatures.__main__ import main\n\nmain()\n"


def main(words: Sequence[str] | None = None) -> None:
    """Build all that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where archives and manifest are written")
    parser.add_argument("--url", default="", help="where the archives will be published; default: this folder")
    parser.add_argument("--platform", action="append", choices=PLATFORMS, help="default: all")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="default: all")
    arguments = parser.parse_args(words)
    folder: Path = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    pythons, platforms = arguments.python or PYTHONS, arguments.platform or list(PLATFORMS)
    with tempfile.TemporaryDirectory() as temporary:
        wheel = build_wheel(Path(temporary))
        archives = {platform_: folder / f"{NAME}-{platform_.replace('/', '-')}.tar.gz" for platform_ in platforms}
        for platform, archive in archives.items():
            plugin = Path(temporary) / platform
            install_dependencies(plugin / "app", platform, pythons)
            add_command_line(plugin, wheel, pythons)
            pack(plugin, archive)
    version = wheel.name.split("-")[1]
    url = arguments.url.rstrip("/") or folder.as_uri()
    (folder / "kafkafeatures.yaml").write_text(manifest(version, url, archives, pythons), encoding="utf-8")


def build_wheel(folder: Path) -> Path:
    """Our own wheel, from the sources."""
    _pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_dependencies(target: Path, platform: str, pythons: Sequence[str]) -> None:
    """All that is locked, for each Python; what two of them share is the same file."""
    lock = str(ROOT / "requirements" / "runtime.lock")
    tags = [word for tag in PLATFORMS[platform] for word in ("--platform", tag)]
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            _pip(
                "install", "--no-deps", "--only-binary=:all:", "--no-compile", "--require-hashes", "-r", lock,
                *tags, "--implementation", "cp", "--python-version", f"{python}.{NEWEST_PATCH}", "--target", folder,
            )  # fmt: skip
            shutil.rmtree(Path(folder) / "bin", ignore_errors=True)
            shutil.copytree(folder, target, dirs_exist_ok=True)


def add_command_line(plugin: Path, wheel: Path, pythons: Sequence[str]) -> None:
    """Our own packages beside the dependencies, and what starts them."""
    app = plugin / "app"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(app)  # noqa: S202 - built a moment ago
    (app / "__main__.py").write_text(MAIN, encoding="utf-8")
    script = (HERE / NAME).read_text(encoding="utf-8").replace("@PYTHONS@", " ".join(pythons))
    (plugin / NAME).write_text(script, encoding="utf-8")
    (plugin / NAME).chmod(0o755)
    shutil.copy(ROOT / "LICENSE", plugin)


def pack(plugin: Path, archive: Path) -> None:
    """The same files make the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as content,
    ):
        for path in sorted(plugin.rglob("*")):
            content.add(path, str(path.relative_to(plugin)), recursive=False, filter=plain)


def manifest(version: str, url: str, archives: dict[str, Path], pythons: Sequence[str]) -> str:
    """The text for krew; JSON is YAML as well."""
    platforms = [
        {
            "selector": {"matchLabels": dict(zip(("os", "arch"), platform.split("/"), strict=True))},
            "uri": f"{url}/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": NAME,
        }
        for platform, archive in archives.items()
    ]
    template = Template((HERE / "kafkafeatures.yaml").read_text(encoding="utf-8").partition("\n")[2])
    return template.substitute(version=version, pythons=", ".join(pythons), platforms=json.dumps(platforms))


def _pip(*words: str) -> None:
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *words], check=True)  # noqa: S603 - with words of our own


if __name__ == "__main__":
    main()
