"""Partitions of an image, as columns: who has a replica, who is in sync, what is being moved, who leads.

The values only; `partition_state` writes them. Needs numpy, which is imported with this module: a reader without
`Section.PARTITIONS` does not pay for it. Partitions with the same number of replicas share a table, so a row has no
padding, and a table is a list of chunks of which none is ever written to again: an image costs nothing, and a change
copies one chunk. Rows are in no order.

What is in sync, and what is being moved, is a bit for each replica, in the order of `replicas`. The log says nothing of
what a broker reads from its own file: where `MinInsyncReplicas` is silent, the value is not known here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from kraftlog import partition_records

Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Where = int | slice | NDArray[np.int64]

NO_LEADER = partition_records.NO_LEADER


class Replica(enum.IntFlag):
    """States of a replica: bits of `Columns.flags`. IN_ELR: eligible to lead without being in sync (KIP-966). ADDING,
    REMOVING: by a reassignment (KIP-455).
    """

    IN_SYNC = 1
    IN_ELR = 2
    ADDING = 4
    REMOVING = 8


BITS = tuple(int(bit) for bit in Replica)
RECOVERING = 16
"""A bit of all replicas of a partition: its leader was elected without being in sync (KIP-704)."""


class Columns(NamedTuple):
    """Partitions with the same number R of replicas, a row for each.

    topic: int32[n], key of `Partitions.topics`. partition: int32[n], its number in the topic. leader: int32[n], -1 for
    none. leader_epoch, partition_epoch: int32[n]. replicas: int32[n, R], broker ids, the preferred leader first.
    flags: uint8[n, R], bits of `Replica`, and `RECOVERING`.
    """

    topic: Int32s
    partition: Int32s
    leader: Int32s
    leader_epoch: Int32s
    partition_epoch: Int32s
    replicas: Int32s
    flags: Bytes

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Columns:
        """Applies one change to every column."""
        columns: Iterable[NDArray[Any]] = self
        return Columns._make(change(column) for column in columns)

    def says_the_same(self, other: Columns) -> bool:
        """True for the same rows, in the same order."""
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self, other, strict=True)
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    def fill(self, target: Where, rows: Columns, of: Where) -> None:
        """Write rows of others into it."""
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self, rows, strict=True)
        for column, values in pairs:
            column[target] = values[of]


class Topic(NamedTuple):
    """A topic that exists."""

    id_bytes: bytes
    name: str

    @property
    def id(self) -> UUID:
        """The id of the topic."""
        return UUID(bytes=self.id_bytes)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. The sets are of broker ids."""

    replicas: tuple[int, ...]
    in_sync: frozenset[int]
    eligible: frozenset[int]
    adding: frozenset[int]
    removing: frozenset[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class MinInsyncReplicas:
    """Values of `min.insync.replicas` that requests have set: by topic name, by broker id, and for the cluster (None:
    not set). A broker's own file is not in the log.
    """

    topics: Mapping[str, int]
    brokers: Mapping[int, int]
    cluster: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """All partitions. Two are equal that have the same topics by the same numbers and the same rows, in any order.

    topics: by a number that is the topic's in this log only. chunks: every partition is in one,
    once; none is empty, and each has its own number of replicas.
    """

    topics: Mapping[int, Topic]
    chunks: tuple[Columns, ...]
    min_insync_replicas: MinInsyncReplicas

    def __len__(self) -> int:
        """The number of partitions."""
        return sum(len(chunk.topic) for chunk in self.chunks)

    def is_untouched_in(self, later: Partitions) -> bool:
        """True if nothing was written to them since, but for what changed nothing. Quick, as far as they share rows."""
        if (self.topics, self.min_insync_replicas) != (later.topics, later.min_insync_replicas):
            return False
        if len(self.chunks) != len(later.chunks):
            return False
        return all(
            ours is theirs or ours.says_the_same(theirs) for ours, theirs in zip(self.chunks, later.chunks, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partitions):
            return NotImplemented
        if (self.topics, self.min_insync_replicas) != (other.topics, other.min_insync_replicas):
            return False
        ours, theirs = _sorted(self.chunks), _sorted(other.chunks)
        return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def rows(self) -> Iterator[tuple[str, int, Partition]]:
        """Each partition with the name of its topic and its number. For people and tests: a second for 100,000."""
        for chunk in self.chunks:
            for row in range(len(chunk.topic)):
                yield self.topics[int(chunk.topic[row])].name, int(chunk.partition[row]), partition_at(chunk, row)


def _sorted(chunks: Iterable[Columns]) -> list[NDArray[Any]]:
    """The columns of each number of replicas, by topic and partition."""
    by_width: dict[int, list[Columns]] = {}
    for chunk in chunks:
        by_width.setdefault(chunk.replicas.shape[1], []).append(chunk)
    columns: list[NDArray[Any]] = []
    for _, several in sorted(by_width.items()):
        together = Columns._make(np.concatenate(column) for column in zip(*several, strict=True))
        order = np.lexsort((together.partition, together.topic))
        columns += together.each(partial(np.take, indices=order, axis=0))
    return columns


def partition_at(columns: Columns, row: int) -> Partition:
    """A row as a value."""
    replicas: list[int] = columns.replicas[row].tolist()
    flags: list[int] = columns.flags[row].tolist()
    in_sync, eligible, adding, removing = (
        frozenset([replica for replica, flag in zip(replicas, flags, strict=True) if flag & bit]) for bit in BITS
    )
    return Partition(
        tuple(replicas),
        in_sync,
        eligible,
        adding,
        removing,
        int(columns.leader[row]),
        int(columns.leader_epoch[row]),
        int(columns.partition_epoch[row]),
        any(flag & RECOVERING for flag in flags),
    )
