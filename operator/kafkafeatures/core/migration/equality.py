"""Outcome of a comparison of ZooKeeper with the metadata log, which a migration needs before it closes a way back.

Pure. A comparison is needed because Kafka 3.9 never repeats a write to ZooKeeper that failed: it logs the failure and
moves the offset in `/migration` on (`KRaftMigrationDriver.MetadataChangeEvent`). It writes everything again only when
another controller becomes active. `zookeeper/compare.py` reads both sides; this module has the types of the outcome.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct

from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.migration.copied.entries import IN_SYNC, EntryKey, Kind
from kafkafeatures.core.words import counted, printable

NAMED = 20
"""Most differences that are named in a status."""
DIGITS = 32
"""Hexadecimal digits of a digest."""
MOST_KEPT = 100_000
"""Most differences that are kept in memory; all are counted."""

REMEDY = (
    "restart the active controller: the next one writes all metadata to ZooKeeper again; then compare once more with "
    "`kafkafeatures migration compare`"
)


class EntryDifference(Struct, frozen=True, order=True):
    """Entry that differs between ZooKeeper and the metadata log. The texts are for people, without secrets.

    kind, name: the entry.
    path: its path in ZooKeeper.
    in_zookeeper: its text in ZooKeeper.
    in_log: its text in the metadata log; empty: the entry cannot be compared, and `in_zookeeper` says why.
    """

    kind: Kind
    name: str
    path: str
    in_zookeeper: str
    in_log: str

    @property
    def lasting(self) -> tuple[str, ...]:
        """Text of each side, without the parts that change by themselves: producer ids, and the replicas in sync."""
        if self.kind is Kind.PRODUCER_ID:
            return ()
        sides = (self.in_zookeeper, self.in_log)
        return tuple(side.partition(IN_SYNC)[0] for side in sides) if self.kind is Kind.PARTITION else sides

    def __str__(self) -> str:
        title = printable(str(EntryKey(self.kind, self.name)))
        if not self.in_log:
            return f"{title}: {printable(self.in_zookeeper)}"
        if self.in_zookeeper == self.in_log:
            return f"{title}: not the same, and secret"
        return f"{title}: {printable(self.in_zookeeper)} in ZooKeeper, {printable(self.in_log)} in the metadata log"


class Equal(Struct, frozen=True):
    """Both sides are equal. `offset`: end of the metadata log (exclusive)."""

    offset: int


class Differs(Struct, frozen=True):
    """The two sides differ, and waiting does not change that.

    offset: end of the metadata log (exclusive).
    differences: at least one, in order.
    omitted: number of further differences, which are counted but not kept.
    """

    offset: int
    differences: tuple[EntryDifference, ...]
    omitted: int = 0

    @property
    def counts(self) -> Mapping[Kind, int]:
        """Number of the differences that are kept, by kind; only kinds that differ."""
        by_kind = Counter(difference.kind for difference in self.differences)
        return {kind: by_kind[kind] for kind in Kind if by_kind[kind]}

    @property
    def total(self) -> int:
        """Number of all differences."""
        return len(self.differences) + self.omitted

    @property
    def digest(self) -> str:
        """Digest of what would be lost, without leaders and replicas in sync, which restarts change."""
        things = sorted(
            repr((difference.kind.value, difference.name, difference.path, *difference.lasting))
            for difference in self.differences
        )
        return hashlib.sha256("\n".join((*things, str(self.omitted))).encode()).hexdigest()[:DIGITS]

    @property
    def examples(self) -> tuple[EntryDifference, ...]:
        """First differences, for a status."""
        return self.differences[:NAMED]

    def __str__(self) -> str:
        kinds = ", ".join(counted(number, kind) for kind, number in self.counts.items())
        return f"ZooKeeper and the metadata log differ: {kinds}" + (f" and {self.omitted} more" if self.omitted else "")


Equality: TypeAlias = Equal | Differs | Unknown
"""Outcome. Unknown: no comparison could be made, with the reason; then a step that needs equality is not taken."""
