"""The bases of a release: Debian with Python for two architectures in a registry, as users name them, by digest.

For the architecture that is not this machine's, Debian's packages are unpacked and not set up, so that none of their
programs has to run here: enough for an image that is built by copying.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from release.images import HERE
from release.plan import ARCHITECTURES
from tests.e2e.rig.kubernetes.binaries import CACHE, install_packages, locked, run
from tests.e2e.rig.kubernetes.images import PYTHON, SUITE, base_image, pip_context
from tests.e2e.rig.registry import Registry
from tests.e2e.rig.releasing import push_bases

OURS = HERE[platform.machine()]
(FOREIGN,) = set(ARCHITECTURES) - {OURS}
EMULATOR = {"arm64": "qemu-aarch64-static", "amd64": "qemu-x86_64-static"}[FOREIGN]
"""Runs a program of the other architecture, if it is started with it."""
_LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt/archives", "debootstrap")


def push_pythons(registry: Registry, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of a release: the bases, by digest. The one that builds asks for packages where this machine asks."""
    used = {**os.environ, **environment}
    builds, runs, foreign = (folder / one for one in ("builds", "runs", "foreign"))
    for each in (builds, runs, foreign):
        each.mkdir(parents=True)
    pip_context(builds)
    (runs / "Dockerfile").write_text(f"FROM {PYTHON}\n")
    _unpack(foreign / "tree")
    (foreign / "Dockerfile").write_text("FROM scratch\nCOPY tree /\nENV LANG=C.UTF-8\n")
    pushed = {}
    for name, contexts in {"BUILD_BASE": {OURS: builds}, "RUNTIME_BASE": {OURS: runs, FOREIGN: foreign}}.items():
        run("buildah", "pull", f"oci-archive:{base_image(PYTHON)}", env=used)
        pushed[name] = push_bases(registry, name.lower(), contexts, environment)
    shutil.rmtree(foreign)
    return pushed


def _unpack(tree: Path) -> None:
    """Debian's packages for the other architecture; they are fetched once, and cached as an archive."""
    archive = CACHE / "images" / f"python-tree-{FOREIGN}.tar"
    with locked("images"):
        if not archive.exists():
            install_packages()
            packages = "--include=python3,ca-certificates"
            run("debootstrap", "--foreign", f"--arch={FOREIGN}", "--variant=minbase", packages, SUITE, tree)
            for package in sorted((tree / "var" / "cache" / "apt" / "archives").glob("*.deb")):
                run("dpkg-deb", "--extract", package, tree)
            for path in _LEFT_OUT:
                shutil.rmtree(tree / path, ignore_errors=True)
            archive.parent.mkdir(parents=True, exist_ok=True)
            part = archive.with_suffix(".part")
            run("tar", "--create", f"--file={part}", f"--directory={tree}", ".")
            part.rename(archive)
            return
    tree.mkdir()
    run("tar", "--extract", f"--file={archive}", f"--directory={tree}")
