"""Rules for the whole source tree, such as the length of modules and the reasons of ignored rules."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "operator").rglob("*.py"))
VALUES = [path for path in MODULES if path.relative_to(ROOT).parts[1] in ("kafkafeatures", "kafkasim")]


def test_the_source_root_is_no_package() -> None:
    """`import operator` is the standard library's; a package or module of that name would break Python itself."""
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not (ROOT / "operator" / "operator.py").exists()
    code = "import operator; print(operator.itemgetter.__module__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "operator"


def test_a_module_has_a_docstring_and_at_most_400_lines() -> None:
    assert len(MODULES) > 500
    assert not [path for path in MODULES if not is_readable(path.read_text())]


def is_readable(text: str) -> bool:
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return docstring != "" and len(text.splitlines()) <= 400


def test_no_module_of_tests_and_docs_has_more_than_400_lines() -> None:
    paths = [path for room in ("tests", "docs") for path in (ROOT / room).rglob("*.py")]
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in paths}
    assert len(lengths) > 100
    assert not {path: length for path, length in lengths.items() if length > 400}


def test_values_are_frozen_structs_and_dataclasses_are_used_only_where_structs_cannot_be() -> None:
    """mypy does not notice a `field` or `replace` of msgspec that is used for a dataclass, or the reverse."""
    assert not [one for path in VALUES for one in wrong_values(path)]


def wrong_values(path: Path) -> Iterator[str]:
    """The classes of a module that break the rule, each with its line."""
    text = path.read_text()
    tree = ast.parse(text)
    origin = {
        one.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names
    }
    if path.name != "values.py" and origin.get("replace") not in (None, "kafkafeatures.api.values"):
        yield f"{path}: replace"
    if "dataclasses" in {origin.get(name) for name in ("fields", "asdict", "astuple", "is_dataclass")}:
        yield f"{path}: of dataclasses"
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)):
        decorators = [ast.unparse(one) for one in node.decorator_list if "dataclass" in ast.unparse(one)]
        frozen = "frozen=True" in map(ast.unparse, node.keywords)
        if "Struct" in map(ast.unparse, node.bases) and not frozen:
            yield f"{path}: {node.name} is not frozen"
        needs_dataclass = re.search("repr=False|compare=False|metadata=", text)
        if any("frozen=True" in one for one in decorators) and not needs_dataclass:
            yield f"{path}: {node.name} may be a Struct"
        has_fields = (decorators or frozen) and re.search(r"[^\w.]field\(", ast.unparse(node))
        if has_fields and origin["field"] != ("dataclasses" if decorators else "msgspec"):
            yield f"{path}: {node.name} has fields of the other kind"


def test_no_import_is_circular() -> None:
    graph = grimp.build_graph("kafkafeatures", "kafkasim", "kraftlog", "featurelog", cache_dir=None)
    TopologicalSorter({one: graph.find_modules_directly_imported_by(one) for one in graph.modules}).prepare()


def test_an_ignored_rule_has_a_reason_on_its_line() -> None:
    lines = [(path, line) for path in MODULES for line in path.read_text().splitlines()]
    ignores = [one for one in lines if "# noqa" in one[1] or "# type: ignore" in one[1]]
    assert ignores
    reason = re.compile(r"# (noqa: [A-Z0-9, ]+ - \S|type: ignore\[[a-z-]+\]  # \S)")
    assert not [one for one in ignores if not reason.search(one[1])]


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)
    optional = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    wanted = [*project["project"]["dependencies"], *optional, *project["dependency-groups"]["dev"]]
    for one in wanted:
        assert re.search(rf'"{re.escape(one)}",\s+# \S', text), f"{one} has no reason"


@pytest.mark.parametrize("lock", ["runtime", "operator", "pipeline", "dev", "build"])
def test_every_locked_version_has_a_hash(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"(?m)^\s*#.*\n?", "", text).strip())
    assert entries
    for entry in entries:
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
    assert "://" not in text


def test_no_machine_path_is_in_the_tree() -> None:
    done = subprocess.run(
        ["git", "grep", "-nIE", "/(root|home|work)/[a-z]", "--", ".", ":!*.lock", ":!tests/golden"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == ""


def test_contributing_names_only_paths_that_exist_and_stays_short() -> None:
    """The paths are those in the table of places that a change needs."""
    rows = [line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert 10 < len(rows) < 25
    named = {one for row in rows for one in re.findall(r"`([\w./-]+/[\w./-]*|\w+\.(?:py|yaml|md))`", row)}
    assert "core/engine/gates.py" in named
    modules = {one.replace(".", "/") for row in rows for one in re.findall(r"`python -m ([\w.]+)", row)}
    named |= {one if (ROOT / one).is_dir() else f"{one}.py" for one in modules}
    roots = (ROOT / "operator" / "kafkafeatures", ROOT / "operator", ROOT)
    assert not [one for one in sorted(named) if not any((root / one).exists() for root in roots)]
