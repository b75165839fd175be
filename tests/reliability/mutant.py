"""A mutant: a small fault of the product, with its name, the code that it replaces, and the new code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """`file`: below `operator/`. `old`: words that are in it exactly once, and `new`: what stands there instead."""

    name: str
    area: str
    file: str
    old: str
    new: str


_Change = tuple[str, str, str]


def of(area: str, file: str, *changes: _Change) -> Iterator[Mutant]:
    for name, old, new in changes:
        yield Mutant(name, area, file, old, new)
