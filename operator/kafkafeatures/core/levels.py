"""Levels and ranges of levels: the small vocabulary everything else is said in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VersionRange:
    """An inclusive range, of an API's versions or of a feature's levels."""

    min: int
    max: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min <= level <= self.max

    def __str__(self) -> str:
        return f"{self.min}-{self.max}"


def common(ranges: Iterable[VersionRange]) -> VersionRange | None:
    """The highest minimum and the lowest maximum (min > max: no level suits all); None for no ranges at all."""
    found = tuple(ranges)
    if not found:
        return None
    return VersionRange(max([one.min for one in found]), min([one.max for one in found]))
