"""Values of inter.broker.protocol.version: which there are, and which of two is higher.

Pure. A name such as "3.9-IV0" is one version; a release such as "3.9" stands for the newest one of it, and so does
"3.9.2" (`MetadataVersion.fromVersionString`). Source of the table: `MetadataVersion.java` of Kafka 3.9.2, the last
release that has the setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import total_ordering

from msgspec import Struct

Release = tuple[int, ...]

_TEXT = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})(?:-IV([0-9]{1,4}))?")

_NEWEST = (
    "0.8.0/0 0.8.1/0 0.8.2/0 0.9.0/0 0.10.0/1 0.10.1/2 0.10.2/0 0.11.0/2 1.0/0 1.1/0 2.0/1 2.1/2 2.2/1 2.3/1 2.4/1 "
    "2.5/0 2.6/0 2.7/2 2.8/1 3.0/1 3.1/0 3.2/0 3.3/3 3.4/0 3.5/2 3.6/2 3.7/4 3.8/0 3.9/0"
)
"""Each release with the number of its newest version."""


def _numbers(text: str) -> Release:
    return tuple(map(int, text.split(".")))


NEWEST: Mapping[Release, int] = {
    _numbers(release): int(number) for release, _, number in (entry.partition("/") for entry in _NEWEST.split())
}


@total_ordering
class Version(Struct, frozen=True, eq=False):
    """One version. `text`: as it was written, which two that are equal may do differently: 3.9 and 3.9-IV0."""

    text: str
    release: Release
    number: int

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    @property
    def _key(self) -> tuple[Release, int]:
        return self.release, self.number

    @property
    def is_known(self) -> bool:
        """Tell whether Kafka has shipped it."""
        return self.number <= NEWEST.get(self.release, -1)

    @property
    def of_release(self) -> str:
        """The release that brought it: 3.9."""
        return ".".join(map(str, self.release))


def version_of(text: str) -> Version | None:
    """The version of this name; None where it is no such name. A release that is not known here stands for its first
    version.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    numbers = _numbers(match[1])
    release = numbers[: 3 if numbers[0] == 0 else 2]
    number = int(match[2]) if match[2] is not None else NEWEST.get(release, 0)
    return Version(text.strip(), release, number)
