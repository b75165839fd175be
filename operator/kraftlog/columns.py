"""Applies Partition and PartitionChange records of a block to the state, many at a time, as numpy columns.

The million partitions of a snapshot are a million records with few different layouts, and a broker that fails causes
thousands of changes with a single one. So records of equal length are grouped by layout (`_Shape`: the counts of
replicas, of those in sync, of those being added, ...), and each group is read as one matrix. At most `_SHAPES` layouts
of a length are tried; the remaining records must be read one by one. So must records that contradict the state or
themselves, by the rules of `partition_state`, which then reports them. Called by `blocks` with the frames of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kraftlog.edges import Positions
from kraftlog.partition_records import RECOVERY
from kraftlog.partition_state import SETS, PartitionState
from kraftlog.partition_tables import Bools, distinct, marks
from kraftlog.partitions import Bytes, Columns, Int32s, Replica
from kraftlog.records import FRAME_VERSION
from kraftlog.schema import Array, Field, RecordType, Scalar, table

Ids = NDArray[np.void]

_SHAPES = 64  # layouts of one length in one block at most: each costs a comparison with all remaining records
_LONGEST = 8192  # bytes: longer values are read one by one; those with arrays of up to 126 items are shorter
_UUID = 16
_ID = f"V{_UUID}"
_FRAME = 3  # bytes in front of the fields: versions of frame and record, and the api key
_ID_AT = 7  # position of the topic id in both types, behind the frame and the number of the partition (4 bytes)
_SIZES: Mapping[object, int] = {Scalar.INT8: 1, Scalar.INT32: 4, Scalar.UUID: _UUID}  # bytes of an item
_CHANGED = frozenset(("leader", "isr", "eligibleLeaderReplicas"))
_UNREAD = frozenset(("partitionId", "topicId", "lastKnownElr", "directories"))
"""Fields that a change may have besides `_CHANGED` to be read as columns. Changes with other fields (replicas,
reassignments, recovery of a leader) are rare.
"""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The layout of a record's value. fixed: positions of the bytes that determine it (versions, counts and tags).
    fields: position of each field, and its number of items.
    """

    fixed: list[int]
    fields: Mapping[str, tuple[int, int]]


class _OtherShape(Exception):
    """The record cannot be read as columns, and must be read by itself."""


def _shape(kind: RecordType, value: bytes) -> _Shape:
    """The layout of one value, by the schema table. Raises _OtherShape for one that cannot be read as columns,
    IndexError for one that is cut.
    """
    position = 0
    fixed: list[int] = []
    places: dict[str, tuple[int, int]] = {}

    def count() -> int:
        """Read a number of one byte. Records with larger ones are rare, and are read one by one."""
        nonlocal position
        fixed.append(position)
        position += 1
        if value[position - 1] > 0x7F:
            raise _OtherShape
        return value[position - 1]

    def place(field: Field) -> None:
        """Skip a field, and note its position."""
        nonlocal position
        items, each = 1, field.type
        if isinstance(each, Array):
            items, each = count() - 1, each.of  # a compact array: its count is one more; 0 is null
        if items < 0 or each not in _SIZES:
            raise _OtherShape
        places[field.name] = position, items
        position += _SIZES[each] * items

    if count() != FRAME_VERSION or count() != kind.key:
        raise _OtherShape
    version = count()
    if version > kind.last_version:
        raise _OtherShape
    present = [field for field in kind.layouts[0].fields.fields if field.since <= version]
    for field in present:
        if field.tag is None:
            place(field)
    tagged, former = {field.tag: field for field in present if field.tag is not None}, -1
    for _ in range(count()):
        tag, size, start = count(), count(), position
        if tag <= former or tag not in tagged:
            raise _OtherShape
        former = tag
        place(tagged[tag])
        if position != start + size:
            raise _OtherShape
    if position != len(value):
        raise _OtherShape
    return _Shape(fixed, places)


@dataclass(frozen=True, slots=True)
class Applied:
    """Result of applying the records of a block to the state.

    unread: begin and end of each value that must still be read one by one.
    early: number of records that name a topic whose own record comes only later: they contradict the state, and are
    not applied.
    count: number of records that were applied.
    """

    unread: list[tuple[int, int]]
    early: int
    count: int


@dataclass(frozen=True, slots=True)
class NewTopics:
    """Topics that the same block creates. first: number of the first one; the others follow. at: positions of their
    records in the block. A record before that position must not find the topic.
    """

    first: int
    at: Positions

    def of(self, numbers: Int32s) -> Positions:
        """Positions at which the topics with these numbers are created; -1: not in this block."""
        if not len(self.at):
            return np.full(len(numbers), -1, dtype=np.int64)
        return np.where(numbers >= self.first, self.at[np.maximum(numbers - self.first, 0)], -1)


class SameTypeRecords:
    """Successive records of one type in a block, to be applied to the state. values, ends: positions of their values.
    new_topics: topics that the block creates.
    """

    def __init__(
        self, data: memoryview, values: Positions, ends: Positions, state: PartitionState, new_topics: NewTopics
    ) -> None:
        self._data, self._values, self._ends = data, values, ends
        self._state, self._new_topics = state, new_topics
        self._view = np.frombuffer(data, dtype=np.uint8)

    def apply_none(self) -> Applied:
        """Apply no record: all must be read one by one."""
        return self._applied(np.arange(len(self._values)))

    def apply_partitions(self) -> Applied:
        """Apply Partition records. If two are of one partition, none is applied: their order counts."""
        groups: list[Columns] = []

        def read(rows: _Rows) -> Bools:
            if RECOVERY in rows.shape.fields:  # rare: a leader that was not in sync
                return np.zeros(len(rows), dtype=bool)
            columns, accepted = _read(rows, self._topics(rows.ids, rows.values))
            groups.append(columns)
            return accepted

        unread = self._by_shape(table.PARTITION, read)
        if self._has_duplicates([_keys(each.topic, each.partition) for each in groups], unread):
            return self.apply_none()
        for columns in groups:
            self._state.extend(columns)
        return self._applied(unread)

    def apply_changes(self) -> Applied:
        """Apply PartitionChange records, once all of them are read. If two are of one partition, none is applied: their
        order counts.
        """
        groups: list[tuple[Positions, Bools, Callable[[], None]]] = []
        unread = self._by_shape(table.PARTITION_CHANGE, lambda rows: self._change(rows, groups))
        if self._has_duplicates([keys[accepted] for keys, accepted, _ in groups], unread):
            return self.apply_none()
        for _, _, apply in groups:
            apply()
        return self._applied(unread)

    def _change(self, rows: _Rows, groups: list[tuple[Positions, Bools, Callable[[], None]]]) -> Bools:
        """Read changes of one layout. Returns a mask of those that contradict nothing, and adds to `groups`: (keys of
        the partitions, this mask, function that applies the changes).
        """
        fields = rows.shape.fields.keys()
        if not fields <= _CHANGED | _UNREAD:
            return np.zeros(len(rows), dtype=bool)
        keys = _keys(self._topics(rows.ids, rows.values), rows.number("partitionId"))
        in_sync, eligible = (rows.numbers(name) if name in fields else None for name in SETS[:2])
        leader = rows.number("leader") if "leader" in fields else None
        accepted, apply = self._state.many_changes(keys, in_sync, eligible, leader)
        groups.append((keys, accepted, apply))
        return accepted

    def _by_shape(self, kind: RecordType, read_rows: Callable[[_Rows], Bools]) -> Positions:
        """Read all records, one layout after the other. Returns the indexes of the records that must be read one by
        one.

        read_rows: reads records of one layout, and returns a mask of those that contradict nothing.
        """
        sizes = np.minimum(self._ends - self._values, _LONGEST)
        slow = [np.flatnonzero(sizes == _LONGEST)]
        for size in np.flatnonzero(np.bincount(sizes)[:_LONGEST]).tolist():
            remaining = np.flatnonzero(sizes == size)
            content = self._content(size, self._values[remaining])
            for _ in range(_SHAPES):  # read all records with the layout of the first remaining one
                try:
                    shape = _shape(kind, content[0].tobytes())
                except (_OtherShape, IndexError):
                    matches = np.arange(len(remaining)) == 0  # leave out only this one
                    slow.append(remaining[matches])
                else:
                    matches = np.ones(len(remaining), dtype=bool)
                    fixed = content.take(shape.fixed, axis=1)
                    if fixed.tobytes() != fixed[0].tobytes() * len(fixed):  # a quick check for the usual case
                        for column in fixed.T:
                            matches &= column == column[0]
                    alike = slice(None) if matches.all() else matches  # a slice copies nothing
                    accepted = read_rows(_Rows(content[alike], shape, self._values[remaining[alike]]))
                    slow.append(remaining[alike][np.flatnonzero(~accepted)])
                if matches.all():
                    remaining = remaining[:0]
                    break
                remaining, content = remaining[~matches], content[~matches]
            slow.append(remaining)
        return np.sort(np.concatenate(slow))

    def _content(self, size: int, at: Positions) -> Bytes:
        """Values of one size as rows of bytes; each is copied as a single item."""
        items = np.ndarray((len(self._view) - size + 1,), dtype=f"V{size}", buffer=self._view, strides=(1,))
        return items[at].view(np.uint8).reshape(len(at), size)

    def _has_duplicates(self, keys: list[Positions], unread: Positions) -> bool:
        """True if two records are of one partition: then their order counts, which groups do not keep. keys: of the
        records that were read. unread: indexes of the others.
        """
        if len(unread):  # even these have the number of the partition (4 bytes) and the topic id behind the frame
            last = len(self._view) - 1
            names = self._view[np.minimum(self._values[unread, None] + np.arange(_FRAME, _ID_AT + _UUID), last)]
            numbers = self._topics(np.ascontiguousarray(names[:, 4:]).view(_ID)[:, 0], self._values[unread])
            keys = [*keys, _keys(numbers, np.ascontiguousarray(names[:, :4]).view(">i4")[:, 0].astype(np.int32))]
        all_keys = np.concatenate(keys) if keys else np.empty(0, dtype=np.int64)
        if (all_keys[1:] > all_keys[:-1]).all():  # as in a snapshot
            return False
        all_keys = np.sort(all_keys)
        return bool((all_keys[1:] == all_keys[:-1]).any())

    def _applied(self, unread: Positions) -> Applied:
        """The result, if all records but these were applied."""
        spans = list(zip(self._values[unread].tolist(), self._ends[unread].tolist(), strict=True))
        ids = (bytes(self._data[start + _ID_AT : start + _ID_AT + _UUID]) for start, _ in spans)
        created_at = self._new_topics.of(self._state.topics.numbers_of(ids)).tolist()
        readable = [span for span, at in zip(spans, created_at, strict=True) if at < span[0]]
        return Applied(readable, len(spans) - len(readable), len(self._values) - len(spans))

    def _topics(self, ids: Ids, at: Positions) -> Int32s:
        """The number of each topic; -1: it does not exist, or not yet at this position. Each run of equal ids is looked
        up once, as partitions of a topic follow each other.
        """
        words = ids.view(np.uint64).reshape(-1, 2)
        differs = words[1:] != words[:-1]
        starts = np.concatenate([[0], np.flatnonzero(differs[:, 0] | differs[:, 1]) + 1])
        numbers, lengths = self._state.topics.numbers_of(ids[starts].tolist()), np.diff(np.append(starts, len(ids)))
        each, created_at = np.repeat(numbers, lengths), self._new_topics.of(numbers)
        if (created_at <= at[starts]).all():
            return each
        return np.where(at < np.repeat(created_at, lengths), np.int32(-1), each)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Values of one layout. content: a row of bytes for each. shape: the layout. values: their positions."""

    content: Bytes
    shape: _Shape
    values: Positions

    def __len__(self) -> int:
        return len(self.content)

    @property
    def ids(self) -> Ids:
        """The topic ids, one per record, contiguous, as `_topics` needs them."""
        return self._at(_ID_AT, _ID).copy()

    def numbers(self, name: str) -> Int32s:
        """The numbers of an array field, a row for each record; rows are empty if the layout lacks the field."""
        start, count = self.shape.fields.get(name, (0, 0))
        numbers = np.empty((len(self), count), dtype=np.int32)
        for each in range(count):
            numbers[:, each] = self._at(start + 4 * each, ">i4")
        return numbers

    def number(self, name: str) -> Int32s:
        """The number in a field, for each record."""
        return self._at(self.shape.fields[name][0], ">i4").astype(np.int32)

    def _at(self, start: int, kind: str) -> NDArray[Any]:
        """A view of the numbers at one position of all rows."""
        return np.ndarray((len(self),), dtype=kind, buffer=self.content, offset=start, strides=self.content.strides[:1])


def _keys(topic: Int32s, partition: Int32s) -> Positions:
    return topic.astype(np.int64) << 32 | partition


def _read(rows: _Rows, topic: Int32s) -> tuple[Columns, Bools]:
    """Columns of the rows that contradict nothing, and a mask of these rows."""
    partition, replicas = rows.number("partitionId"), rows.numbers("replicas")
    is_sound: Any = (topic >= 0) & (partition >= 0) & distinct(replicas)
    flags = np.zeros(replicas.shape, dtype=np.uint8)
    for bit, name in zip(Replica, SETS, strict=True):
        if not rows.shape.fields.get(name, (0, 0))[1]:
            continue
        marked, has_all = marks(replicas, rows.numbers(name))
        flags |= marked.astype(np.uint8) * np.uint8(bit)
        if bit is not Replica.IN_ELR:  # eligible brokers without a replica are ignored, as in `flags_of`
            is_sound &= has_all
    leader, leader_epoch, partition_epoch = map(rows.number, ("leader", "leaderEpoch", "partitionEpoch"))
    columns = Columns(topic, partition, leader, leader_epoch, partition_epoch, replicas, flags)
    return (columns if is_sound.all() else columns.each(lambda column: column[is_sound])), is_sound
