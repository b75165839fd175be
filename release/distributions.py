"""The wheels and source distributions of the operator and of kraftlog, which can be installed alone."""

from __future__ import annotations

import hashlib
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from release.plan import Plan
from release.programs import ReleaseError, run

PROJECTS = {"kafka_features_operator": ".", "kraftlog": "operator/kraftlog"}
"""Name in the names of files -> folder of its pyproject.toml."""


def build(plan: Plan) -> None:
    """Wheel and source distribution of each. The sources must make the same wheel as the clone does."""
    for name, folder in PROJECTS.items():
        wheel = _built(plan, plan.root / folder, plan.out, "wheel", f"{name}-{plan.version}-py3-none-any.whl")
        source = _built(plan, plan.root / folder, plan.out, "sdist", f"{name}-{plan.version}.tar.gz")
        with tempfile.TemporaryDirectory() as temporary:
            with tarfile.open(source) as archive:
                archive.extractall(temporary, filter="data")
            unpacked = Path(temporary) / source.name.removesuffix(".tar.gz")
            compare(wheel, _built(plan, unpacked, Path(temporary), "wheel", wheel.name), source)


def compare(wheel: Path, other: Path, source: Path) -> None:
    """Raises an error that names a file in which the wheels differ."""
    ours, theirs = contents(wheel), contents(other)
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    if differing:
        raise ReleaseError(
            f"{source}: the wheel built from it differs from {wheel.name} in {len(differing)} files, such as "
            f"{differing[0]}: see [tool.hatch.build] in pyproject.toml"
        )


def contents(wheel: Path) -> dict[str, str]:
    """A digest of each file, by its name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def _built(plan: Plan, project: Path, folder: Path, kind: str, name: str) -> Path:
    run(plan, sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=project)
    distribution = folder / name
    if not distribution.exists():
        raise ReleaseError(f"{project}: hatchling made no {name}: its version or name in pyproject.toml differs")
    return distribution
