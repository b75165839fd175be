"""How much of the same kind a test tries: all of it in `make soak`, less each other time, and always the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")

SOAK = bool(os.environ.get("SOAK"))


only_in_soak = pytest.mark.soak
"""Marks a test that takes too long for each run. `tests/conftest.py` leaves it out elsewhere."""


def share(count: int) -> int:
    """How many of so many random examples are tried this time."""
    return count if SOAK else max(5, count // 10)


def some(cases: Iterable[Case]) -> list[Case]:
    """Every third of many cases of one kind, the first and the last among them; all of them in a soak."""
    every = list(cases)
    return every if SOAK else [*every[:-1:3], *every[-1:]]


def some_combinations(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every third combination of these values, in which each value occurs with each one of a factor of two; all of them
    in a soak.
    """
    numbered = product(*map(enumerate, factors))
    return [tuple(value for _, value in case) for case in numbered if SOAK or sum(at for at, _ in case) % 3 == 0]
