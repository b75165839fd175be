"""A whole batch of records at once: where each is, of which type, and partition records as columns.

A snapshot of a million partitions is a million records of nearly one shape. Partition records of one length whose
counts of replicas (in sync, adding, ...) are those of the first are read as one matrix; what has another shape is next,
and what has a shape too many is left for the slow way. Called by `replay` for readers that asked for partitions, with
batches that are large enough. It judges what it reads as `partition_state` does: a row that contradicts itself is left
for the slow way too, which says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from kraftlog.errors import MalformedError
from kraftlog.partition_state import SETS, PartitionState
from kraftlog.partitions import Bytes, Columns, Int32s, Replica
from kraftlog.records import FRAME_VERSION
from kraftlog.schema import Array, Field, Scalar, table
from kraftlog.varints import read_unsigned

Positions = NDArray[np.int64]

_SHAPES = 64  # of one length in one batch, each of which costs a look at all that are left
_UUID = 16
_SIZES: Mapping[object, int] = {Scalar.INT8: 1, Scalar.INT32: 4, Scalar.UUID: _UUID}  # bytes of an item
_MAX_VARINT = 10
_SHORTEST = 3  # bytes of a frame
_SHORTEST_RECORD = 10  # and of a record with one
_MOST = 250_000  # records that are looked at at once: what 8 MiB of topics have, more than a controller writes
_KEYS = 0x80  # in one byte


@dataclass(frozen=True, slots=True)
class Frames:
    """The records of a section. values, ends: of the value of each. api: its key. wanted: who is more than counted."""

    values: Positions
    ends: Positions
    api: Bytes
    wanted: NDArray[np.bool_]

    @property
    def keys(self) -> set[int]:
        """The api keys that are wanted."""
        return set(np.unique(self.api[self.wanted]).tolist())

    @property
    def skipped(self) -> dict[int, int]:
        """How many there are of the keys that are only counted."""
        keys, times = np.unique(self.api[~self.wanted], return_counts=True)
        return dict(zip(keys.tolist(), times.tolist(), strict=True))

    def others(self) -> Iterator[tuple[int, int, int, int]]:
        """What is wanted beside partitions, in order: place, key, and where the value is."""
        at = np.flatnonzero(self.wanted & (self.api != table.PARTITION.key))
        yield from zip(*(each.tolist() for each in (at, self.api[at], self.values[at], self.ends[at])), strict=True)

    def partitions(self, first: int, end: int) -> tuple[Positions, Positions]:
        """Where the values of the partition records between two places are."""
        at = first + np.flatnonzero(self.api[first:end] == table.PARTITION.key)
        return self.values[at], self.ends[at]


def frames(data: bytes, count: int, wanted: bytes) -> Frames | None:
    """Where the `count` records of a section are; None where one is not as Kafka writes all of them (with a record key,
    or a longer frame), or are too many. `wanted`: by api key. MalformedError when they do not end with the section.
    """
    if count > _MOST or count * _SHORTEST_RECORD > len(data):
        return None
    starts, position, limit = [], 0, len(data)
    for _ in range(count):
        starts.append(position)
        length = data[position]
        if length < _KEYS:
            position += 1 + (length >> 1)
        elif (byte := data[position + 1]) < _KEYS:
            position += 2 + ((length & 0x7F | byte << 7) >> 1)
        else:
            length, position = read_unsigned(data, position)
            position += length >> 1
        if position > limit:
            raise MalformedError(f"a record that is longer than its batch at byte {starts[-1]}")
    if position != limit:
        raise MalformedError(f"{limit - position} bytes behind the last record")
    starts.append(limit)
    view = np.frombuffer(data, dtype=np.uint8)
    last = len(view) - 1  # nothing is read behind it; what would be is not as Kafka writes it
    edges = np.array(starts, dtype=np.int64)

    def behind_varint(at: Positions) -> Positions:
        for _ in range(_MAX_VARINT):
            more = view[np.minimum(at, last)] >= _KEYS
            if not more.any():
                break
            at = at + more
        return np.minimum(at + 1, last)

    usual = view[edges[:-1]] & 1 == 0  # the length is not negative
    lengths = behind_varint(behind_varint(behind_varint(edges[:-1]) + 1))  # behind it, attributes and two deltas
    usual &= view[lengths] == 1  # a null key
    values = behind_varint(lengths + 1)
    behind = edges[1:] - 1  # one byte behind the value, the count of headers
    usual &= (view[behind] == 0) & (behind - values >= _SHORTEST)
    usual &= _length(view, np.minimum(lengths + 1, last), values) == behind - values
    frame = [view[np.minimum(values + at, last)] for at in range(_SHORTEST)]
    usual &= (frame[0] == FRAME_VERSION) & (frame[1] < _KEYS) & (frame[2] < _KEYS)
    if not usual.all():
        return None
    return Frames(values, behind, frame[1], np.frombuffer(wanted, dtype=np.bool_)[frame[1]])


def _length(view: Bytes, at: Positions, behind: Positions) -> Positions:
    """The zigzag numbers between two positions; -1 for longer ones than three bytes."""
    found = np.zeros(len(at), dtype=np.int64)
    for byte in range(3):
        there = at + byte < behind
        found += np.where(there, (view[np.minimum(at + byte, len(view) - 1)] & 0x7F).astype(np.int64) << 7 * byte, 0)
    return np.where((behind - at > 3) | (found & 1 == 1), -1, found >> 1)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of a partition record's value. fixed: where the bytes are that make the shape: versions, counts and tags. fields:
    where each field starts, and of how many items it is.
    """

    fixed: list[int]
    fields: Mapping[str, tuple[int, int]]


class _OtherShape(Exception):
    """Not a partition record, or one that must be read by itself."""


def _shape(value: bytes) -> _Shape:
    """Of one value, by the table. Raises _OtherShape, or IndexError for a value that is cut."""
    position = 0
    fixed: list[int] = []
    places: dict[str, tuple[int, int]] = {}

    def count() -> int:  # one byte: arrays of 127 and more go the slow way
        nonlocal position
        fixed.append(position)
        position += 1
        if value[position - 1] > 0x7F:
            raise _OtherShape
        return value[position - 1]

    def place(field: Field) -> None:
        nonlocal position
        items, kind = 1, field.type
        if isinstance(kind, Array):
            items, kind = count() - 1, kind.of
        if items < 0 or kind not in _SIZES:
            raise _OtherShape
        places[field.name] = position, items
        position += _SIZES[kind] * items

    if count() != FRAME_VERSION or count() != table.PARTITION.key:
        raise _OtherShape
    version = count()
    if version > table.PARTITION.last_version:
        raise _OtherShape
    present = [field for field in table.PARTITION.layouts[0].fields.fields if field.since <= version]
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
class Rest:
    """What is not in the state yet. left: where the values are that must be read one by one. early: how many there are
    of topics that come behind them. taken: how many are in.
    """

    left: list[tuple[int, int]]
    early: int
    taken: int


def bring(data: bytes, rows: tuple[Positions, Positions], state: PartitionState, births: Mapping[bytes, int]) -> Rest:
    """Add partition records to the state. `births`: where in the data the records of new topics are, by their ids."""
    values, ends = rows

    def topics(ids: Bytes, at: Positions) -> Int32s:
        return _topics(ids, at, state.number_of, births)

    view = np.frombuffer(data, dtype=np.uint8)
    found: list[Columns] = []
    slow: list[Positions] = []
    sizes = ends - values
    for size in np.unique(sizes).tolist():
        rest = np.flatnonzero(sizes == size)
        content = sliding_window_view(view, size)[values[rest]]
        for _ in range(_SHAPES):
            try:
                shape = _shape(content[0].tobytes())
            except (_OtherShape, IndexError):
                same = np.arange(len(rest)) == 0
                slow.append(rest[same])
            else:
                same = (content[:, shape.fixed] == content[0, shape.fixed]).all(axis=1)
                alike = content if same.all() else content[same]
                of = topics(np.ascontiguousarray(alike[:, 7 : 7 + _UUID]), values[rest[same]])
                columns, judged = _read(alike, shape, of)
                found.append(columns)
                slow.append(rest[same][~judged])
            rest, content = rest[~same], content[~same]
            if not len(rest):
                break
        slow.append(rest)
    left = np.sort(np.concatenate(slow)) if slow else np.empty(0, dtype=np.int64)
    keys = [columns.topic.astype(np.int64) << 32 | columns.partition for columns in found]
    if len(left):
        names = view[np.minimum(values[left, None] + np.arange(3, 7 + _UUID), len(view) - 1)]
        numbers = topics(np.ascontiguousarray(names[:, 4:]), values[left]).astype(np.int64)
        keys.append(numbers << 32 | np.ascontiguousarray(names[:, :4]).view(">i4")[:, 0])
    if _some_twice(keys):
        left = np.arange(len(values))
    else:
        for columns in found:
            state.extend(columns)
    spans = list(zip(values[left].tolist(), ends[left].tolist(), strict=True))
    late = [(start, end) for start, end in spans if births.get(data[start + 7 : start + 7 + _UUID], -1) < start]
    return Rest(late, len(spans) - len(late), len(values) - len(spans))


def _some_twice(keys: list[Positions]) -> bool:
    """Whether two records are of one partition: then their order counts, which groups do not keep."""
    every = np.sort(np.concatenate(keys)) if keys else np.empty(0, dtype=np.int64)
    return bool((every[1:] == every[:-1]).any())


def _read(rows: Bytes, shape: _Shape, topic: Int32s) -> tuple[Columns, NDArray[np.bool_]]:
    """The rows that contradict nothing, and which those are."""

    def numbers(name: str) -> Int32s:
        start, count = shape.fields.get(name, (0, 0))
        if not count:
            return np.empty((len(rows), 0), dtype=np.int32)
        return np.ascontiguousarray(rows[:, start : start + 4 * count]).view(">i4").astype(np.int32)

    partition, replicas = numbers("partitionId")[:, 0], numbers("replicas")
    good: Any = (topic >= 0) & (partition >= 0)
    ordered = np.sort(replicas, axis=1)
    good &= (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
    flags = np.zeros(replicas.shape, dtype=np.uint8)
    for bit, name in zip(Replica, SETS, strict=True):
        brokers = numbers(name)
        for each in range(brokers.shape[1]):
            same = replicas == brokers[:, each : each + 1]
            flags |= same.astype(np.uint8) * np.uint8(bit)
            if bit is not Replica.IN_ELR:
                good &= same.any(axis=1)
    leader, leader_epoch, partition_epoch = (
        numbers(name)[:, 0] for name in ("leader", "leaderEpoch", "partitionEpoch")
    )
    every = Columns(topic, partition, leader, leader_epoch, partition_epoch, replicas, flags)
    return (every if good.all() else every.each(lambda column: column[good])), good


def _topics(ids: Bytes, at: Positions, number_of: Callable[[bytes], int | None], births: Mapping[bytes, int]) -> Int32s:
    """The number of each topic, -1 for one that is not there, or not yet at this position. Partitions of one topic come
    one behind the other.
    """
    wide = ids.view(np.uint64)
    changes = np.flatnonzero((wide[1:] != wide[:-1]).any(axis=1)) + 1
    starts = np.concatenate([[0], changes])
    numbers, born = [], []
    for start in starts.tolist():
        id_ = ids[start].tobytes()
        number = number_of(id_)
        numbers.append(-1 if number is None else number)
        born.append(births.get(id_, -1))
    runs = np.diff(np.append(starts, len(ids)))
    return np.where(at < np.repeat(born, runs), np.int32(-1), np.repeat(np.array(numbers, dtype=np.int32), runs))
