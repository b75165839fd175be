"""Time and randomness come from an `Environment`: no module of the operator reads a clock or sleeps by itself.

Nor does one draw random numbers. So a simulation can run the operator in virtual time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

OPERATOR = Path(__file__).resolve().parents[2] / "operator" / "kafkafeatures"
MODULES = sorted(path for path in OPERATOR.rglob("*.py") if path.name != "environment.py")
TERMINALS = OPERATOR / "cli"
"""Commands of people, which may use the clock of the machine: each is a short process that no simulation runs."""
SOURCES = {"time", "random", "secrets", "uuid"}
NOW = {"now", "utcnow", "today"}


def is_zero(arguments: list[ast.expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value == 0


def uses_of_the_machine(tree: ast.AST) -> Iterator[str]:
    """Expressions that read the clock or randomness of the machine. Allowed are `asyncio.sleep(0)`, which only lets
    other tasks run, and the type `UUID`.
    """
    pauses = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and is_zero(node.args)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name in SOURCES)
            case ast.ImportFrom(module=module, names=names) if module in SOURCES:
                yield from (f"{module}.{name.name}" for name in names if name.name != "UUID")
            case ast.ImportFrom(module="asyncio", names=names):
                yield from (f"asyncio.{name.name}" for name in names)
            case ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=attr) if attr in NOW:
                yield f"datetime.{attr}"
            case ast.Attribute(value=ast.Name(id="os"), attr="urandom"):
                yield "os.urandom"
            case ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep") if id(node) not in pauses:
                yield "asyncio.sleep"
            case ast.Call(func=ast.Attribute(attr="time"), args=[]):
                yield "loop.time"
            case ast.Attribute(attr="set_to_current_time"):
                yield "set_to_current_time"
            case _:
                pass


def test_no_module_reads_the_clock_or_randomness_except_through_the_environment() -> None:
    modules = [path for path in MODULES if not path.is_relative_to(TERMINALS)]
    assert len(modules) > 100
    found = {path: sorted(set(uses_of_the_machine(ast.parse(path.read_text())))) for path in modules}
    assert not {path: what for path, what in found.items() if what}


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("import time", "time"),
        ("from random import Random", "random.Random"),
        ("from asyncio import sleep", "asyncio.sleep"),
        ("from datetime import datetime\nat = datetime.now(UTC)", "datetime.now"),
        ("await asyncio.sleep(1)", "asyncio.sleep"),
        ("pause = asyncio.sleep", "asyncio.sleep"),
        ("asyncio.get_running_loop().time()", "loop.time"),
        ("gauge.set_to_current_time()", "set_to_current_time"),
        ("uuid.UUID\nfrom uuid import uuid4", "uuid.uuid4"),
    ],
)
def test_the_check_detects_each_way_to_read_the_environment(text: str, use: str) -> None:
    assert list(uses_of_the_machine(ast.parse(text))) == [use]


def test_the_check_allows_a_sleep_of_zero_seconds() -> None:
    assert list(uses_of_the_machine(ast.parse("from uuid import UUID\nawait asyncio.sleep(0)"))) == []


def defaults(tree: ast.AST) -> Iterator[ast.expr]:
    """Defaults of arguments, and of fields."""
    for node in ast.walk(tree):
        match node:
            case ast.arguments(defaults=by_position, kw_defaults=by_name):
                yield from (*by_position, *(one for one in by_name if one is not None))
            case ast.ClassDef(body=body):
                yield from (one.value for one in body if isinstance(one, ast.AnnAssign) and one.value is not None)
            case _:
                pass


def is_of_the_process(default: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id in ("SYSTEM", "Environment") for node in ast.walk(default))


def test_no_parameter_has_the_environment_of_the_process_as_default() -> None:
    """With a default, a forgotten argument would read the machine's clock unnoticed, also in virtual time."""
    assert not [path for path in MODULES if any(map(is_of_the_process, defaults(ast.parse(path.read_text()))))]


@pytest.mark.parametrize(
    "text",
    [
        "def f(environment: Environment = SYSTEM): ...",
        "def f(*, monotonic=SYSTEM.monotonic): ...",
        "f = lambda clock=Environment().clock: clock",
        "class A(Struct):\n    monotonic: Clock = SYSTEM.monotonic",
    ],
)
def test_the_check_detects_each_form_of_a_default(text: str) -> None:
    assert any(map(is_of_the_process, defaults(ast.parse(text))))
