"""Only the package of a kind of step checks for that kind; all other code uses the interface that all kinds have.

So a new kind needs no change elsewhere. Kinds are registered in `core/kinds.py`; the only match over them is in
`reconcile/act.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafeatures.core.engine.stage import StageState
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.kinds import KINDS

PRODUCT = Path(__file__).resolve().parents[2] / "operator" / "kafkafeatures"
MODULES = sorted(str(path.relative_to(PRODUCT)) for path in PRODUCT.rglob("*.py"))
FREE = ("core/kinds.py", "reconcile/act.py")


def room_of(kind: type) -> str:
    """The folder of a kind, in which code may check for it."""
    return kind.__module__.removeprefix("kafkafeatures.").rpartition(".")[0].replace(".", "/") + "/"


CLASSES = {one.__name__: room_of(one) for one in (*KINDS.values(), *InFlight.__subclasses__())}
"""Classes of steps, and of steps in flight, each with the folder that may check for it."""
STAGES = StageState.__subclasses__()
WORDS = {one.kind: room_of(one) for one in KINDS.values()} | {one.kind: room_of(one) for one in STAGES}
"""The names of kinds in intents, in entries of the history and in stages of a plan."""
CONSTANTS = {one.kind.upper(): room_of(one) for one in STAGES}
"""The constants for these names, such as `LEVELS` and `ROLL`."""
ROOMS = CLASSES | WORDS | CONSTANTS


def checks_in(source: str, path: str) -> Iterator[str]:
    """The checks for a kind of another folder in this source: each with its line and the name of the kind."""
    for node in ast.walk(ast.parse(source)):
        for name in _named_by(node):
            if not path.startswith(ROOMS[name]):
                yield f"{path}:{getattr(node, 'lineno', 0)} {name}"


def _named_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            yield from _classes_in(classes)
        case ast.MatchClass(cls=classes):
            yield from _classes_in(classes)
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            if any(isinstance(one, ast.Call) and _is_named(one.func, "type") for one in sides):
                yield from (name for one in sides for name in _classes_in(one))
            if any(isinstance(one, ast.Attribute) and one.attr in ("kind", "recorded_as") for one in sides):
                yield from (name for one in sides for name in _kinds_in(one))
        case ast.Match(subject=ast.Attribute(attr="kind"), cases=cases):
            yield from (name for case in cases for name in _kinds_in(case.pattern))
        case _:
            pass


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _classes_in(classes: ast.AST) -> Iterator[str]:
    for node in ast.walk(classes):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in CLASSES:
            yield name


def _kinds_in(side: ast.AST) -> Iterator[str]:
    yield from _classes_in(side)
    for node in ast.walk(side):
        if isinstance(node, ast.Constant) and node.value in WORDS:
            yield str(node.value)
        if isinstance(node, ast.Name) and node.id in CONSTANTS:
            yield node.id


def test_no_module_checks_for_a_kind_of_another_package() -> None:
    assert len(MODULES) > 100
    assert not [one for path in MODULES if path not in FREE for one in checks_in((PRODUCT / path).read_text(), path)]


@pytest.mark.parametrize(
    "planted",
    [
        "isinstance(step, RestartNode)",
        "isinstance(sent, UnknownStep | ChangeInFlight)",
        "isinstance(one, (str, restart_node.RestartInFlight))",
        "type(step) is UpdateFeature",
        "intent.kind == 'RestartNode'",
        "intent.kind != UpdateFeature.kind",
        "stage.kind in (LEVELS, 'Other')",
        "'Roll' == stage.kind",
        "match step:\n  case RestartNode(pod=pod): ...",
        "match intent.kind:\n  case 'UpdateFeature': ...",
    ],
)
def test_the_search_detects_a_check_for_a_kind(planted: str) -> None:
    assert len([*checks_in(planted, "core/report/status.py")]) == 1


@pytest.mark.parametrize(
    "harmless",
    [
        "isinstance(step, UnknownStep)",
        "failure.kind is FailureKind.NOT_ASKED",
        "stage.kind == part.kind",
        "intent.get('kind') in KINDS",
        "kind_of(entry).is_followed",
        "facts.kind or 'UpdateFeature'",
    ],
)
def test_the_search_ignores_code_that_names_no_kind(harmless: str) -> None:
    assert [*checks_in(harmless, "core/report/status.py")] == []


def test_the_search_allows_a_check_in_the_package_of_the_kind() -> None:
    assert [*checks_in("isinstance(one, RestartInFlight)", "core/roll/roll.py")] == []
    assert len([*checks_in("isinstance(one, RestartInFlight)", "core/levels/soak.py")]) == 1
