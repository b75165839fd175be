"""Partitions as columns: rows with the same number of replicas, judged together.

Pure. Made and read by `core/facts/replication.py`, which says what the judgement promises. Needs numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkafeatures.api.spec import Availability
from kraftlog.partitions import NO_LEADER, Columns, Replica

Bools = NDArray[np.bool_]
Numbers = NDArray[Any]

_BLOCK = 16
"""Chunks that are judged together: 65,536 rows, which fit into a processor's cache."""

_TABLE_UP_TO = 1 << 20
"""Broker ids below it are looked up in a table; larger ones, which are rare, are searched."""

_IN_SYNC, _ADDING, _REMOVING = (int(bit) for bit in (Replica.IN_SYNC, Replica.ADDING, Replica.REMOVING))


class Block(NamedTuple):
    """Rows with the same number R of replicas. at: [R, n], the place of each replica's broker in `Replication._ids`.
    flags: [R, n], bits of `Replica`. least: how many must be in sync.
    """

    topic: Numbers
    partition: Numbers
    leader: Numbers
    at: Numbers
    flags: NDArray[np.uint8]
    least: Numbers

    @property
    def partitions(self) -> Numbers:
        """[n, 2]: topic number and partition."""
        return np.stack([self.topic, self.partition], axis=1)

    @property
    def in_sync(self) -> Bools:
        return np.asarray(self.flags & _IN_SYNC != 0)

    @property
    def lacking(self) -> Bools:
        """Replicas that should be in sync and are not; one that is being added should not be yet."""
        return np.asarray(self.flags & (_IN_SYNC | _ADDING) == 0)

    @property
    def moving(self) -> Bools:
        """Rows that are being reassigned."""
        return np.asarray((self.flags & (_ADDING | _REMOVING)).any(axis=0))

    @property
    def staying(self) -> Numbers:
        """Number of replicas of each row that are not being removed."""
        return count(self.flags & _REMOVING == 0)

    @property
    def never(self) -> Bools:
        """Rows from which no replica can ever be taken: all that stay have to be in sync."""
        return np.asarray(self.least >= self.staying)

    def excusing(self) -> Block:
        """The block with one replica less required where all replicas are required."""
        return self._replace(least=np.minimum(self.least, self.staying - 1))

    def healed(self, away: Bools) -> Block:
        """The block as it would be with every broker that is away back and in sync."""
        return self._replace(flags=self.flags | away[self.at].astype(np.uint8) * np.uint8(_IN_SYNC))

    def without_reassignments(self) -> Block:
        """The block as it would be with no reassignment under way."""
        return self._replace(flags=self.flags & ~np.uint8(_ADDING | _REMOVING))

    def rows(self, indices: Numbers) -> Block:
        """Some of them."""
        columns: Iterable[Numbers] = self
        return Block._make(column[..., indices] for column in columns)

    def forbidding(self, away: Bools, availability: Availability) -> Bools:
        """[R, n]: which row forbids which of its replicas' brokers to go."""
        gone = away[self.at]
        counted = (self.flags & (_IN_SYNC | _REMOVING) == _IN_SYNC) & ~gone
        holds = self.in_sync & ~(
            gone & (self.leader == NO_LEADER)
        )  # a leaderless partition needs a broker that is away back
        forbids = holds & (count(counted) - self.least < counted)
        if availability is Availability.NO_UNDER_REPLICATED:
            forbids |= (self.in_sync & (gone | ~self.in_sync).any(axis=0)) | self.moving
        return np.asarray(forbids)


def count(predicate: Bools) -> Numbers:
    """Number of replicas of each row for which it holds."""
    return np.asarray(predicate.sum(axis=0, dtype=np.int16))


def broker_ids(chunks: Iterable[Columns]) -> Numbers:
    """Every broker that hosts something, sorted."""
    is_host = np.zeros(0, dtype=np.bool_)
    large_ids: list[Numbers] = []
    for chunk in chunks:
        top = int(chunk.replicas.max())
        if top >= _TABLE_UP_TO or int(chunk.replicas.min()) < 0:
            large_ids.append(np.unique(chunk.replicas))
            continue
        if top >= len(is_host):
            is_host = np.concatenate([is_host, np.zeros(top + 1 - len(is_host), dtype=np.bool_)])
        is_host[chunk.replicas] = True
    table_ids = np.flatnonzero(is_host)
    return np.unique(np.concatenate([table_ids, *large_ids])) if large_ids else table_ids


def places_of(ids: Numbers) -> Callable[[Numbers], Numbers]:
    """Function that finds the index of each broker among the ids."""
    kind = np.uint16 if len(ids) <= 1 << 16 else np.int32
    if not len(ids) or ids[0] < 0 or ids[-1] >= _TABLE_UP_TO:
        return lambda replicas: np.searchsorted(ids, replicas).astype(kind)
    table = np.zeros(int(ids[-1]) + 1, dtype=kind)
    table[ids] = np.arange(len(ids))
    return lambda replicas: np.asarray(table[replicas])


def together(chunks: list[Columns]) -> Iterator[list[Columns]]:
    """Chunks of the same number of replicas, several at a time."""
    by_size: dict[int, list[Columns]] = {}
    for chunk in chunks:
        by_size.setdefault(chunk.replicas.shape[1], []).append(chunk)
    for equal_chunks in by_size.values():
        for start in range(0, len(equal_chunks), _BLOCK):
            yield equal_chunks[start : start + _BLOCK]


def block_of(chunks: list[Columns], places: Callable[[Numbers], Numbers], least: Numbers) -> Block:
    """These chunks as one block. least: min.insync.replicas by the number of the topic."""
    topic, partition, leader = (
        np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("topic", "partition", "leader")
    )
    replicas = chunks[0].replicas.shape[1]
    at, flags = (
        np.concatenate([np.ascontiguousarray(each.T) for each in columns], axis=1)
        for columns in ([places(chunk.replicas) for chunk in chunks], [chunk.flags for chunk in chunks])
    )
    return Block(topic, partition, leader, at, flags, np.minimum(least[topic], np.int16(replicas)))
