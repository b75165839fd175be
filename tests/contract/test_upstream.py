"""The patches of docs/upstream fit the locked versions."""

from __future__ import annotations

import py_compile
import shutil
import subprocess
from pathlib import Path

import kopf

PATCHES = sorted((Path(__file__).parents[2] / "docs" / "upstream" / "kopf").glob("*.patch"))


def test_the_patches_for_kopf_apply_to_the_locked_version_in_their_order(tmp_path: Path) -> None:
    package = Path(kopf.__file__).parent
    shutil.copytree(package, tmp_path / "kopf", ignore=shutil.ignore_patterns("__pycache__"))
    assert len(PATCHES) == 3
    for patch in PATCHES:
        subprocess.run(["git", "apply", "--include=kopf/*", "--include=tests/*", patch], cwd=tmp_path, check=True)
    for module in ("_cogs/clients/watching.py", "_cogs/configs/configuration.py"):
        assert (tmp_path / "kopf" / module).read_bytes() != (package / module).read_bytes()
        py_compile.compile(str(tmp_path / "kopf" / module), doraise=True)
