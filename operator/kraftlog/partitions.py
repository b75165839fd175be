"""Partitions of an image, as numpy columns: replicas, ISR, reassignments and leaders.

This module has the values only; `partition_state` makes them. Readers without `Section.PARTITIONS` do not import it,
nor numpy. Partitions with the same number of replicas share a table, so that rows need no padding. A table is a list of
immutable chunks: an image shares them, and a change copies one chunk. Rows are in no order.

The state of a replica is a set of bits, in the order of `replicas`. The log does not have settings in brokers'
properties files: a min.insync.replicas that `MinInsyncReplicas` does not have is unknown here.
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
RowSelection = int | slice | NDArray[np.int64]

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
        """The columns with one function applied to each."""
        columns: Iterable[NDArray[Any]] = self
        return Columns._make(change(column) for column in columns)

    def has_same_rows(self, other: Columns) -> bool:
        """True for the same rows, in the same order."""
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self, other, strict=True)
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    def fill(self, target: RowSelection, rows: Columns, source: RowSelection) -> None:
        """Write the rows `source` of `rows` to the rows `target` of these columns."""
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self, rows, strict=True)
        for column, values in pairs:
            column[target] = values[source]


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
    """Values of `min.insync.replicas` in dynamic configs: by topic name, by broker id, and for all brokers (None: not
    set). Values in a broker's properties file are not in the log.
    """

    topics: Mapping[str, int]
    brokers: Mapping[int, int]
    cluster: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """All partitions. Two objects are equal if their topics have the same numbers, and their rows are the same, in any
    order.

    topics: by a number that this reader has given to the topic. chunks: each partition is in one of them, once; none is
    empty; all rows of a chunk have the same number of replicas.
    """

    topics: Mapping[int, Topic]
    chunks: tuple[Columns, ...]
    min_insync_replicas: MinInsyncReplicas

    def __len__(self) -> int:
        """The number of partitions."""
        return sum(len(chunk.topic) for chunk in self.chunks)

    def is_untouched_in(self, later: Partitions) -> bool:
        """True if `later`, which the same reader made, has the same content. Chunks that both share are not compared,
        so this is fast if little has changed.
        """
        if (self.topics, self.min_insync_replicas) != (later.topics, later.min_insync_replicas):
            return False
        if len(self.chunks) != len(later.chunks):
            return False
        return all(
            ours is theirs or ours.has_same_rows(theirs) for ours, theirs in zip(self.chunks, later.chunks, strict=True)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partitions):
            return NotImplemented
        if (self.topics, self.min_insync_replicas) != (other.topics, other.min_insync_replicas):
            return False
        ours, theirs = _sorted(self.chunks), _sorted(other.chunks)
        return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))

    __hash__ = None  # type: ignore[assignment]  # arrays are not hashable

    def rows(self) -> Iterator[tuple[str, int, Partition]]:
        """Each partition with the name of its topic and its number. Slow: a second for 100,000 partitions."""
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
