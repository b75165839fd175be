"""The branches of the operator's decisions and reconciliations that histories reach, and those that none reaches.

A branch is what an `if`, a loop, an `except` or a `case` leads to, or a function. Looked at by a trace function, which
costs more than the history: so only every tenth is watched, and a function only until all of its branches were seen.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

EVERY = 10
"""One history out of so many is watched; the number shares no factor with how often one is about rolls but 2."""
WATCHED = ("core", "reconcile")
OF_COMMANDS = (
    "core/report/cluster_document.py", "core/report/plan_document.py", "core/facts/observe_files.py",
    "core/levels/unregistration.py", "core/roll/report.py", "reconcile/file_store.py",
)  # fmt: skip
"""Modules that only commands use."""
_PRODUCT = Path(__file__).parents[2] / "operator" / "kafkafeatures"

Branch = tuple[str, int]
"""A file, below the product, and the first line of what it leads to."""
Tracer = Callable[[FrameType, str, Any], Any]


def is_watched(seed: int) -> bool:
    """True if branches of this history are traced."""
    return seed % EVERY == EVERY // 2


@cache
def all_branches() -> frozenset[Branch]:
    """The branches of every module that is watched."""
    found = set()
    for folder in WATCHED:
        for path in sorted((_PRODUCT / folder).rglob("*.py")):
            name = str(path.relative_to(_PRODUCT))
            if name in OF_COMMANDS:
                continue
            found |= {(name, line) for line in _lines(ast.parse(path.read_text()))}
    return frozenset(found)


def _lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(one) for one in node.bases):
            for one in ast.walk(node):
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                    one.body = []  # it is never run
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list) and not isinstance(node, ast.Module | ast.ClassDef) and (line := _first(body)):
                yield line


def _first(body: list[ast.stmt]) -> int | None:
    """The line of the first statement; None if it is `pass`, an import or `assert_never`, or if there is none."""
    for one in body:
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            continue
        is_never = isinstance(one, ast.Expr) and "assert_never" in ast.unparse(one)
        return None if is_never or isinstance(one, ast.Import | ast.ImportFrom | ast.Pass) else one.lineno
    return None


class Reached:
    """While this is entered, what is run is looked at. `branches`: those that were reached."""

    def __init__(self) -> None:
        self.branches: set[Branch] = set()
        self._tracers: dict[CodeType, Tracer | None] = {}

    def __enter__(self) -> Reached:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, _: Any) -> Tracer | None:
        code = frame.f_code
        if code not in self._tracers:
            self._tracers[code] = self._tracer_of(code)
        return self._tracers[code]

    def _tracer_of(self, code: CodeType) -> Tracer | None:
        path = Path(code.co_filename)
        if not any(path.is_relative_to(_PRODUCT / folder) for folder in WATCHED):
            return None
        name = str(path.relative_to(_PRODUCT))
        left = {line for _, _, line in code.co_lines() if line is not None and (name, line) in all_branches()}

        def trace(frame: FrameType, event: str, _: Any) -> Tracer | None:
            if event == "line" and frame.f_lineno in left:
                left.discard(frame.f_lineno)
                self.branches.add((name, frame.f_lineno))
                if not left:
                    self._tracers[code] = None
            return trace

        return trace if left else None


def report(reached: Iterable[Branch], histories: int) -> str:
    """The number of branches that are never reached, and a list of them for people."""
    never = sorted(all_branches() - set(reached))
    by_file: dict[str, list[str]] = {}
    for name, line in never:
        by_file.setdefault(name, []).append(str(line))
    total = f"branches: {len(never)} of {len(all_branches())} are not reached by {histories} histories"
    return "\n".join([total, *(f"  {name}: {' '.join(lines)}" for name, lines in sorted(by_file.items()))])
