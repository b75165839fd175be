"""Values of inter.broker.protocol.version, and their order.

Pure. Called by the modules of `core/ibp/`, and by `core/resolve.py` for the value in a document. A name such as
"3.9-IV0" is one version; a release such as "3.9" or "3.9.2" stands for the newest version of that release
(`MetadataVersion.fromVersionString`). Source of the table: `MetadataVersion.java` of Kafka 3.9.2, the last release that
has the setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import total_ordering

from msgspec import Struct

Release = tuple[int, ...]
"""Numbers of a release, such as (3, 9), or (0, 10, 2)."""

_TEXT = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})(?:-IV([0-9]{1,4}))?")

_NEWEST = (
    "0.8.0/0 0.8.1/0 0.8.2/0 0.9.0/0 0.10.0/1 0.10.1/2 0.10.2/0 0.11.0/2 1.0/0 1.1/0 2.0/1 2.1/2 2.2/1 2.3/1 2.4/1 "
    "2.5/0 2.6/0 2.7/2 2.8/1 3.0/1 3.1/0 3.2/0 3.3/3 3.4/0 3.5/2 3.6/2 3.7/4 3.8/0 3.9/0"
)
"""Each release with the IV number of its newest version: "3.3/3" is 3.3-IV3."""


def _numbers(text: str) -> Release:
    return tuple(map(int, text.split(".")))


NEWEST: Mapping[Release, int] = {
    _numbers(release): int(number) for release, _, number in (entry.partition("/") for entry in _NEWEST.split())
}


@total_ordering
class Version(Struct, frozen=True, eq=False):
    """A version.

    text: the version as it was written; equal versions may have different texts, such as 3.9 and 3.9-IV0.
    release: release that brought the version. number: its IV number.
    """

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
        """Name of the release that brought the version, such as "3.9"."""
        return ".".join(map(str, self.release))


def version_of(text: str) -> Version | None:
    """The version with this name; None if the text is no such name. An unknown release stands for its version IV0."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    numbers = _numbers(match[1])
    release = numbers[: 3 if numbers[0] == 0 else 2]
    number = int(match[2]) if match[2] is not None else NEWEST.get(release, 0)
    return Version(text.strip(), release, number)
