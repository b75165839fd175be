"""Types are the same whatever is installed: `make check` installs less than `make test`, and must not fail for it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.amounts import only_in_soak

ROOT = Path(__file__).parents[2]
FOLDERS = ("operator", "tests", "docs/make", "release", "krew")
OURS = {"kafkafeatures", "kraftlog", "kafkasim", "featurelog", "tests", "docs", "release", "krew"}


def imported() -> Iterator[str]:
    """Modules of others that anything whose types are checked imports."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module


@only_in_soak
def test_mypy_reads_no_types_of_libraries_that_make_check_does_not_install() -> None:
    """Otherwise a line passes with the library and fails without it, in a fresh clone."""
    lock = (ROOT / "requirements" / "dev.lock").read_text()
    locked = {_plain(one) for one in re.findall(r"^([A-Za-z0-9_.-]+)==", lock, re.MULTILINE)}
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    skipped = [one for each in overrides if each.get("follow_imports") == "skip" for one in each["module"]]
    of = packages_distributions()
    found = set()
    for module in set(imported()):
        top = module.partition(".")[0]
        if top in OURS or top in sys.stdlib_module_names or {_plain(one) for one in of.get(top, ())} & locked:
            continue
        if not any(fnmatch(f"{module}.", f"{one.removesuffix('*').rstrip('.')}.*") for one in skipped):
            found.add(module)
    assert found == set(), "add them to the mypy overrides with follow_imports = skip, or to the group dev"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
