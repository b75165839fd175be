"""Mutable state of partitions, to which records are applied: one by one, or many at once.

The rules are those of Kafka's `TopicsDelta` and `PartitionRegistration.merge`. A record that contradicts the state (of
an unknown topic, or with a broker in the ISR that has no replica) raises ContradictionError and changes nothing.

Rows are in `partition_tables`: a location there names a table and a row. A removed row is replaced by the last row of
its table, so tables have no gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from sys import getsizeof
from typing import Any

import numpy as np

from kraftlog.errors import ContradictionError
from kraftlog.maps import VersionedMap
from kraftlog.partition_records import (
    BROKER_RESOURCE,
    LEADER_UNCHANGED,
    MIN_INSYNC_REPLICAS,
    RECOVERY,
    TOPIC_RESOURCE,
    value_or,
)
from kraftlog.partition_tables import CHUNK, GONE, ROW_BITS, ROW_MASK, Bools, Index, Int64s, Table, key_of, marks
from kraftlog.partitions import BITS, RECOVERING, Columns, Int32s, MinInsyncReplicas, Partitions, Replica
from kraftlog.topics import TopicTable

Data = Mapping[str, Any]

_INT32_MAX = 0x7FFF_FFFF
# Bytes of Python objects without their texts, as measured (CPython 3.11, 64 bits), and a little more.
_ELIGIBLE, _CONFIG = 100, 200


class PartitionState:
    """The state behind `Section.PARTITIONS`. `weight`: bytes of memory, an upper estimate."""

    __slots__ = (
        "_brokers",
        "_cluster",
        "_eligible",
        "_index",
        "_of_topics",
        "_tables",
        "topics",
    )

    def __init__(self) -> None:
        self.topics = TopicTable()
        self._tables: dict[int, Table] = {}  # by the number of replicas
        self._index = Index()
        # Values of min.insync.replicas: by topic name, by broker id, for all brokers.
        self._of_topics: VersionedMap[str, int] = VersionedMap(lambda name, _: _CONFIG + getsizeof(name))
        self._brokers: VersionedMap[int, int] = VersionedMap(lambda *_: _CONFIG)
        self._cluster: int | None = None
        self._eligible: set[int] = set()  # keys of partitions with replicas that are eligible without being in sync

    @property
    def weight(self) -> int:
        maps = self.topics, self._of_topics, self._brokers
        columns = sum(table.weight for table in self._tables.values())
        return sum(each.weight for each in maps) + columns + self._index.weight + _ELIGIBLE * len(self._eligible)

    def view(self) -> Partitions:
        """An immutable view of the current state; later changes have no effect on it."""
        self._sort()
        chunks = (chunk for table in self._tables.values() for chunk in table.view())
        configured = MinInsyncReplicas(self._of_topics.view(), self._brokers.view(), self._cluster)
        return Partitions(self.topics.view(), tuple(chunks), configured)

    # --- topics and configs

    def topic(self, data: Data) -> None:
        self.topics.put(data["topicId"].bytes, data["name"])

    def remove_topic(self, data: Data) -> str:
        """Remove a topic with its partitions and its min.insync.replicas. Returns its name."""
        number = self._topic(data)
        self._sort()
        for key in self._index.keys_of(number):
            self._remove(key)
            self._eligible.discard(key)
        name = self.topics.drop(number).name
        self._of_topics.drop(name)
        return name

    def config(self, data: Data) -> None:
        """Apply a Config record, if it sets or removes a min.insync.replicas."""
        if data["name"] != MIN_INSYNC_REPLICAS:
            return
        kind, name, text = data["resourceType"], data["resourceName"], data["value"]
        try:
            value = None if text is None else int(text)
            broker = int(name) if kind == BROKER_RESOURCE and name else 0
        except ValueError:
            raise ContradictionError("min.insync.replicas: expected a number") from None
        if max(abs(value or 0), abs(broker)) > _INT32_MAX:
            raise ContradictionError("min.insync.replicas: expected 32 bits")
        if kind == TOPIC_RESOURCE:
            _set(self._of_topics, name, value)
        elif kind == BROKER_RESOURCE and name:
            _set(self._brokers, broker, value)
        elif kind == BROKER_RESOURCE:
            self._cluster = value

    # --- partitions

    def partition(self, data: Data) -> None:
        """Apply a Partition record: a new partition, or all fields of an existing one."""
        number = self._topic(data)
        partition = data["partitionId"]
        if partition < 0:
            raise ContradictionError(f"partition {partition}")
        values = (number, partition, data["leader"], data["leaderEpoch"], data["partitionEpoch"])
        flags = flags_of(data["replicas"], *(value_or(data, name, ()) for name in SETS))
        self._sort()
        self._put(values, data["replicas"], _recovering(flags, data.get(RECOVERY) or 0))

    def change(self, data: Data) -> None:
        """Apply a PartitionChange; fields that it does not name stay. The epoch of a partition goes up with each."""
        number = self._topic(data)
        self._sort()
        location = self._index.get(key_of(number, data["partitionId"]))
        if location == GONE:
            raise ContradictionError(f"a change of partition {data['partitionId']}, which is not there")
        table, at = self._table_and_row(location)
        columns, row = table.chunks[at // CHUNK], at % CHUNK
        current, flags = columns.replicas[row].tolist(), columns.flags[row].tolist()
        replicas = value_or(data, "replicas", current)
        sets = [[broker for broker, flag in zip(current, flags, strict=True) if flag & bit] for bit in BITS]
        changed = flags_of(replicas, *(value_or(data, name, former) for name, former in zip(SETS, sets, strict=True)))
        recovers = data.get(RECOVERY, -1)  # -1: as before
        changed = _recovering(changed, any(flag & RECOVERING for flag in flags) if recovers in (-1, None) else recovers)
        leader = data.get("leader", LEADER_UNCHANGED)
        leads = (int(columns.leader[row]), int(columns.leader_epoch[row]))  # the leader and its epoch
        if leader != LEADER_UNCHANGED:
            leads = leader, leads[1] + 1
        self._put((number, data["partitionId"], *leads, int(columns.partition_epoch[row]) + 1), replicas, changed)

    def many_changes(
        self, keys: Int64s, in_sync: Int32s | None, eligible: Int32s | None, leader: Int32s | None
    ) -> tuple[Bools, Callable[[], None]]:
        """(mask of the changes that contradict nothing, function that applies these), for PartitionChange records of
        different partitions. Nothing is applied before the function is called.

        `in_sync` and `eligible` have a row, and `leader` a value, for each key; None if the changes do not have that
        field.
        """
        self._sort()
        locations = self._index.locations(keys)
        accepted = locations != GONE
        updates: list[tuple[Table, Int64s, Columns, Int64s]] = []
        widths = locations >> ROW_BITS
        for width in np.unique(widths[accepted]).tolist():
            indexes = np.flatnonzero(accepted & (widths == width))
            table, rows = self._tables[width], locations[indexes] & ROW_MASK
            current = table.gather(rows)
            is_sound = (current.leader_epoch < _INT32_MAX) & (current.partition_epoch < _INT32_MAX)
            flags = current.flags
            for bit, brokers in ((Replica.IN_SYNC, in_sync), (Replica.IN_ELR, eligible)):
                if brokers is None:
                    continue
                marked, has_all = marks(current.replicas, brokers[indexes])
                flags = flags & np.uint8(0xFF ^ bit) | marked.astype(np.uint8) * np.uint8(bit)
                if bit is Replica.IN_SYNC:  # eligible brokers without a replica are ignored, as in `flags_of`
                    is_sound &= has_all
            if leader is not None:
                moved = leader[indexes] != LEADER_UNCHANGED
                current.leader[moved] = leader[indexes][moved]
                current.leader_epoch[moved & is_sound] += 1
            current.partition_epoch[is_sound] += 1
            accepted[indexes] = is_sound
            changed = current._replace(flags=flags).each(partial(np.compress, is_sound, axis=0))
            updates.append((table, rows[is_sound], changed, keys[indexes][is_sound]))

        def apply() -> None:
            for table, rows, changed, changed_keys in updates:
                table.scatter(rows, changed)
                has_eligible = (changed.flags & int(Replica.IN_ELR)).any(axis=1)
                self._eligible.update(changed_keys[has_eligible].tolist())
                if self._eligible:
                    self._eligible.difference_update(changed_keys[~has_eligible].tolist())

        return accepted, apply

    def move(
        self, topic: int, partition: int, replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int]
    ) -> None:
        """Apply a reassignment in progress, as a live cluster reports it. Raises ContradictionError if the partition
        does not have these replicas, in any order.
        """
        self._sort()
        location = self._index.get(key_of(topic, partition))
        if location == GONE:
            raise ContradictionError(f"a reassignment of partition {partition}, which is not there")
        table, at = self._table_and_row(location)
        columns, row = table.writable(at // CHUNK), at % CHUNK
        current = columns.replicas[row].tolist()
        if sorted(current) != sorted(replicas):
            raise ContradictionError(f"a reassignment of partition {partition}, which has other replicas")
        columns.flags[row] |= np.array(flags_of(current, (), (), adding, removing), dtype=np.uint8)

    def clear_elr(self, data: Data) -> None:
        """Clear the eligible leader replicas of a topic, or of all topics if no name is given."""
        self._sort()
        keys: Iterable[int] = self._eligible
        if name := data["topicName"]:
            number = self.topics.number_named(name)
            if number == GONE:
                raise ContradictionError("the ELR of a topic that is not there")
            keys = self._eligible.intersection(self._index.keys_of(number))
        for key in list(keys):
            table, row = self._table_and_row(self._index.get(key))
            columns = table.writable(row // CHUNK)
            columns.flags[row % CHUNK] &= 0xFF ^ int(Replica.IN_ELR)
            columns.partition_epoch[row % CHUNK] += 1
        self._eligible.difference_update(list(keys))

    def extend(self, columns: Columns) -> None:
        """Add new partitions, or replace existing ones, all with the same number of replicas; the caller has checked
        them. If two rows are of one partition, the later one counts.
        """
        width = columns.replicas.shape[1]
        table = self._tables.setdefault(width, Table(width))
        locations = (width << ROW_BITS) + table.count + np.arange(len(columns.topic), dtype=np.int64)
        keys = columns.topic.astype(np.int64) << 32 | columns.partition
        self._index.extend(keys, locations)
        table.append(columns)
        if self._eligible:
            self._eligible.difference_update(keys.tolist())
        if (eligible := columns.flags & int(Replica.IN_ELR)).any():
            self._eligible.update(keys[eligible.any(axis=1)].tolist())

    def _topic(self, data: Data) -> int:
        """The number of the topic that a record is about."""
        number = self.topics.number_of(data["topicId"].bytes)
        if number == GONE:
            raise ContradictionError("a partition of a topic that is not there")
        return number

    def _table_and_row(self, location: int) -> tuple[Table, int]:
        return self._tables[location >> ROW_BITS], location & ROW_MASK

    def _put(self, values: tuple[int, ...], replicas: Sequence[int], flags: Sequence[int]) -> None:
        """Write a row: in place, or in another table if the number of replicas has changed. values: those of the
        columns before the replicas.
        """
        key, width = key_of(values[0], values[1]), len(replicas)
        try:
            numbers = [np.array([each], dtype=np.int32) for each in values]
            sets = np.array([replicas], dtype=np.int32), np.array([flags], dtype=np.uint8)
            row = Columns._make([*numbers, *(each.reshape(1, width) for each in sets)])
        except OverflowError:
            raise ContradictionError("an epoch beyond 32 bits") from None
        (self._eligible.add if any(flag & Replica.IN_ELR for flag in flags) else self._eligible.discard)(key)
        location = self._index.get(key)
        if location != GONE and location >> ROW_BITS == width:
            self._tables[width].write(location & ROW_MASK, row)
            return
        if location != GONE:
            self._remove(key)
        table = self._tables.setdefault(width, Table(width))
        self._index.put(key, width << ROW_BITS | table.count)
        table.append(row)

    def _remove(self, key: int) -> None:
        table, row = self._table_and_row(self._index.get(key))
        self._index.drop(key)
        self._close(table, row)

    def _close(self, table: Table, row: int) -> None:
        """Replace a removed row by the last row of the table."""
        last = table.row(table.count - 1)
        if row != table.count - 1:
            table.write(row, last)
            self._index.put(key_of(int(last.topic[0]), int(last.partition[0])), table.width << ROW_BITS | row)
        table.shorten()

    def _sort(self) -> None:
        """Sort the index, so that rows can be found. Of two rows of one partition the earlier one is removed."""
        for location in sorted(self._index.sort(), reverse=True):  # from the end: no row that moves is removed later
            self._close(*self._table_and_row(location))


SETS = "isr", "eligibleLeaderReplicas", "addingReplicas", "removingReplicas"
"""Fields of the records that are sets of brokers, in the order of the bits of `Replica`."""


def flags_of(
    replicas: Sequence[int],
    in_sync: Sequence[int],
    eligible: Iterable[int],
    adding: Sequence[int],
    removing: Sequence[int],
) -> list[int]:
    """The bits of each replica. Brokers in `eligible` that have no replica are ignored."""
    indexes = {broker: index for index, broker in enumerate(replicas)}
    if len(indexes) != len(replicas) or not indexes.keys() >= {*in_sync, *adding, *removing}:
        raise ContradictionError("a partition with a replica twice, or in sync or moved where it has none")
    flags = [0] * len(replicas)
    sets = (in_sync, [broker for broker in eligible if broker in indexes], adding, removing)
    for bit, brokers in zip(BITS, sets, strict=True):
        for broker in brokers:
            flags[indexes[broker]] |= bit
    return flags


def _recovering(flags: list[int], state: int) -> list[int]:
    return [flag | RECOVERING for flag in flags] if state else flags


def _set(target: VersionedMap[Any, int], key: Any, value: int | None) -> None:
    if value is None:
        target.drop(key)
    else:
        target.put(key, value)
