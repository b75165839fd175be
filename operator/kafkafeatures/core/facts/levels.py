"""Levels and ranges of levels: the small vocabulary everything else is said in."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class VersionRange(Struct, frozen=True):
    """An inclusive range, of an API's versions or of a feature's levels."""

    min: int
    max: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min <= level <= self.max

    def __str__(self) -> str:
        return f"{self.min}-{self.max}"


def common(ranges: Iterable[VersionRange]) -> VersionRange | None:
    """The highest minimum and the lowest maximum (min > max: no level suits all); None for no ranges at all."""
    shared = None
    for version_range in ranges:
        if shared is None or (version_range.min >= shared.min and version_range.max <= shared.max):
            shared = version_range
        elif version_range.min > shared.min or version_range.max < shared.max:
            shared = VersionRange(max(version_range.min, shared.min), min(version_range.max, shared.max))
    return shared
