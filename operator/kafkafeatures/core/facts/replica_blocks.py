"""Partitions as numpy arrays: blocks of rows with the same number of replicas, so that a million are judged at once.

Pure. Made and read by `core/facts/replication.py`, which defines the rules. Shapes are given as [n]: one entry for each
row (partition) of the block, and [R, n]: one for each replica of each row.
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

_CHUNKS_PER_BLOCK = 16
"""Most chunks in a block. A chunk has at most 4,096 rows (`kraftlog`), so a block has at most 65,536, which fit into a
processor's cache.
"""

_TABLE_UP_TO = 1 << 20
"""Broker ids below it are found by a table, which has an entry for each of them. Larger ones, which are rare, are found
by a search.
"""

_IN_SYNC, _ADDING, _REMOVING = (int(bit) for bit in (Replica.IN_SYNC, Replica.ADDING, Replica.REMOVING))


class Block(NamedTuple):
    """Partitions (n rows) with the same number R of replicas.

    topic, partition, leader: [n], number of the topic, number of the partition, id of the leading broker.
    at: [R, n], index of each replica's broker in the sorted broker ids (`Replication._ids`).
    flags: [R, n], bits of `kraftlog.partitions.Replica`.
    least: [n], number of replicas that must be in sync: min.insync.replicas, but at most R.
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
        """[R, n]: replicas that are in sync."""
        return np.asarray(self.flags & _IN_SYNC != 0)

    @property
    def lacking(self) -> Bools:
        """[R, n]: replicas that should be in sync and are not. One that is being added need not be in sync yet."""
        return np.asarray(self.flags & (_IN_SYNC | _ADDING) == 0)

    @property
    def moving(self) -> Bools:
        """[n]: rows that are being reassigned."""
        return np.asarray((self.flags & (_ADDING | _REMOVING)).any(axis=0))

    @property
    def staying(self) -> Numbers:
        """[n]: number of replicas that are not being removed."""
        return count(self.flags & _REMOVING == 0)

    @property
    def never(self) -> Bools:
        """[n]: rows that would never allow a restart of one of their brokers, as every replica that stays is needed."""
        return np.asarray(self.least >= self.staying)

    def excusing(self) -> Block:
        """The block in which a row that requires all replicas requires one less: a consent excuses it."""
        return self._replace(least=np.minimum(self.least, self.staying - 1))

    def healed(self, away: Bools) -> Block:
        """The block as if every broker that is away were back and in sync. `away`: by index in `Replication._ids`."""
        return self._replace(flags=self.flags | away[self.at].astype(np.uint8) * np.uint8(_IN_SYNC))

    def without_reassignments(self) -> Block:
        """The block as if no reassignment were under way."""
        return self._replace(flags=self.flags & ~np.uint8(_ADDING | _REMOVING))

    def rows(self, indices: Numbers) -> Block:
        """The block with only these rows."""
        columns: Iterable[Numbers] = self
        return Block._make(column[..., indices] for column in columns)

    def forbidding(self, away: Bools, availability: Availability) -> Bools:
        """[R, n]: True where a row forbids a restart of that replica's broker. `away`: by index in `Replication._ids`,
        brokers that are away.
        """
        is_away = away[self.at]
        # Replicas that count for the minimum: in sync, not being removed, and not away.
        counted = (self.flags & (_IN_SYNC | _REMOVING) == _IN_SYNC) & ~is_away
        # Without a leader, a restart of a broker that is away can only bring the partition back.
        matters = self.in_sync & ~(is_away & (self.leader == NO_LEADER))
        # Without this replica, fewer than `least` would remain: it takes 1 away where it counts, else 0.
        forbids = matters & (count(counted) - self.least < counted)
        if availability is Availability.NO_UNDER_REPLICATED:
            forbids |= (self.in_sync & (is_away | ~self.in_sync).any(axis=0)) | self.moving
        return np.asarray(forbids)


def count(predicate: Bools) -> Numbers:
    """[n]: number of replicas for which the predicate is true."""
    return np.asarray(predicate.sum(axis=0, dtype=np.int16))


def broker_ids(chunks: Iterable[Columns]) -> Numbers:
    """Ids of all brokers that host a replica, sorted."""
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
    table_ids = np.flatnonzero(is_host)  # sorted
    return np.unique(np.concatenate([table_ids, *large_ids])) if large_ids else table_ids


def places_of(ids: Numbers) -> Callable[[Numbers], Numbers]:
    """Function that maps broker ids to their index in `ids`, which is sorted and has all of them."""
    kind = np.uint16 if len(ids) <= 1 << 16 else np.int32
    if not len(ids) or ids[0] < 0 or ids[-1] >= _TABLE_UP_TO:
        return lambda replicas: np.searchsorted(ids, replicas).astype(kind)
    table = np.zeros(int(ids[-1]) + 1, dtype=kind)
    table[ids] = np.arange(len(ids))
    return lambda replicas: np.asarray(table[replicas])


def together(chunks: list[Columns]) -> Iterator[list[Columns]]:
    """The chunks in groups of at most `_CHUNKS_PER_BLOCK` that have the same number of replicas."""
    by_size: dict[int, list[Columns]] = {}
    for chunk in chunks:
        by_size.setdefault(chunk.replicas.shape[1], []).append(chunk)
    for equal_chunks in by_size.values():
        for start in range(0, len(equal_chunks), _CHUNKS_PER_BLOCK):
            yield equal_chunks[start : start + _CHUNKS_PER_BLOCK]


def block_of(chunks: list[Columns], places: Callable[[Numbers], Numbers], least: Numbers) -> Block:
    """The chunks as one block. All of them have the same number of replicas.

    places: function from `places_of`. least: min.insync.replicas, by the number of the topic.
    """
    topic, partition, leader = (
        np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("topic", "partition", "leader")
    )
    replicas = chunks[0].replicas.shape[1]
    at, flags = (
        # Chunks have [n, R]; a block has [R, n], so that all values of one replica are contiguous.
        np.concatenate([np.ascontiguousarray(each.T) for each in columns], axis=1)
        for columns in ([places(chunk.replicas) for chunk in chunks], [chunk.flags for chunk in chunks])
    )
    return Block(topic, partition, leader, at, flags, np.minimum(least[topic], np.int16(replicas)))
