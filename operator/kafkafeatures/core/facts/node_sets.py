"""Sets of node ids as text in a status: "1-3, 7". A thousand consecutive brokers are one run, never a list.

Pure. A status may have been edited: text that is no run of ids is ignored, and runs are never expanded, so that
"1-999999999" costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_RUN = re.compile(r"(?<![\d-])(\d{1,10})(?:-(\d{1,10}))?(?![\d-])")
"""An id, or a run of ids, that is not part of a longer text of digits and hyphens."""


def holds(text: str, id_: int) -> bool:
    """Tell whether the set contains this id."""
    return any(first <= id_ <= last for first, last in _runs(text))


def set_of(ids: Iterable[int]) -> str:
    """The set of these ids."""
    return _merged((id_, id_) for id_ in ids)


def with_node(text: str, id_: int) -> str:
    """The set with this id added."""
    return _merged([*_runs(text), (id_, id_)])


def without_node(text: str, id_: int) -> str:
    """The set with this id removed."""
    remaining: list[tuple[int, int]] = []
    for first, last in sorted(_runs(text)):
        parts = ((first, min(last, id_ - 1)), (max(first, id_ + 1), last))
        remaining += [(start, end) for start, end in dict.fromkeys(parts) if start <= end]
    return _written(remaining)


def _merged(runs: Iterable[tuple[int, int]]) -> str:
    """The set of these runs, given as first and last id; runs that overlap or adjoin become one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return _written(merged)


def _written(runs: list[tuple[int, int]]) -> str:
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def _runs(text: str) -> list[tuple[int, int]]:
    runs = ((int(run[1]), int(run[2] or run[1])) for run in _RUN.finditer(text))
    return [(first, last) for first, last in runs if first <= last]
