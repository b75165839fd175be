"""Ranges of feature levels, and of API versions.

Values only. Made where answers and the metadata log are read.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class VersionRange(Struct, frozen=True):
    """An inclusive range of an API's versions or of a feature's levels."""

    min: int
    max: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min <= level <= self.max

    def __str__(self) -> str:
        return f"{self.min}-{self.max}"


def common(ranges: Iterable[VersionRange]) -> VersionRange | None:
    """The part that all ranges share, from the highest minimum to the lowest maximum; empty (min > max) where no level
    is in all of them. None if there are no ranges.
    """
    shared = None
    # No new range is made while one contains the other: nearly all nodes of a cluster have the same range.
    for version_range in ranges:
        if shared is None or (version_range.min >= shared.min and version_range.max <= shared.max):
            shared = version_range
        elif version_range.min > shared.min or version_range.max < shared.max:
            shared = VersionRange(max(version_range.min, shared.min), min(version_range.max, shared.max))
    return shared
