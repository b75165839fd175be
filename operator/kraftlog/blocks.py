"""Applies a block of many records at once, in the order in which they depend on each other.

Called by `image_builder` for readers that asked for partitions. Records of partitions are collected, and applied as
columns (`columns`) before a record that depends on them; so are topic records of the usual layout, as runs. All other
records are passed on, one by one (`Sink.value`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kraftlog.columns import NewTopics, SameTypeRecords
from kraftlog.edges import Positions
from kraftlog.frames import Frames
from kraftlog.partition_records import MIN_INSYNC_REPLICAS
from kraftlog.partition_state import PartitionState
from kraftlog.partitions import Bytes
from kraftlog.schema import table

_TOPIC, _PARTITION, _CONFIG = table.TOPIC.key, table.PARTITION.key, table.CONFIG.key
_IN_ORDER = frozenset(kind.key for kind in (table.TOPIC, table.REMOVE_TOPIC, table.CLEAR_ELR))
"""Records whose order relative to records of partitions matters."""

_MINIMUM = MIN_INSYNC_REPLICAS.encode()
_FEW = 8  # fewer records than this, of partitions or topics, are applied one by one
_TOPICS = 128  # topics that are added between two checks of the weight
_UUID = 16
_ONE_BYTE = 0x7F  # the largest length that is written in one byte; and the last character of ASCII


@dataclass(frozen=True, slots=True)
class Sink:
    """Functions of the caller. value: applies and counts one record. count: counts records of an api key, (key,
    number). judge_weight: raises ImageTooLargeError if the image is too large now. unreadable: counts records that
    contradict the state.
    """

    value: Callable[[bytes], None]
    count: Callable[[int, int], None]
    judge_weight: Callable[[], None]
    unreadable: Callable[[int], None]


def take_block(
    data: memoryview, records: Frames, partitions: PartitionState, sink: Sink, *, all_configs: bool = False
) -> None:
    """Apply all records of a block. `all_configs`: apply every config, not only min.insync.replicas."""
    topics = _topics(data, records)
    next_record = next_topic = 0  # indexes of the first record of the block, and of the first topic, not applied yet

    def apply_collected(until: int) -> None:
        """Apply the topics, and then the records of partitions, before the record with the index `until`."""
        nonlocal next_record, next_topic
        first, created_at = partitions.topics.next_number, list[int]()
        last = bisect_left(topics.indexes, until)
        sink.count(_TOPIC, last - next_topic)
        as_run = last - next_topic >= _FEW
        for start in range(next_topic, last, _TOPICS):
            part = range(start, min(start + _TOPICS, last))
            if as_run and partitions.topics.put_run(*topics.run(part)):
                created_at += topics.starts[part.start : part.stop]
            else:
                for at in part:  # a new topic gets the next number, a renamed one keeps its own
                    if partitions.topics.put(topics.ids[at], topics.name(at)) == first + len(created_at):
                        created_at.append(topics.starts[at])
            sink.judge_weight()
        next_topic = last
        new_topics = NewTopics(first, np.array(created_at, dtype=np.int64))
        for key, values, ends in records.collected_runs(next_record, until):
            same_type = SameTypeRecords(data, values, ends, partitions, new_topics)
            if len(values) < _FEW:
                applied = same_type.apply_none()
            else:
                applied = same_type.apply_partitions() if key == _PARTITION else same_type.apply_changes()
            sink.count(key, applied.count + applied.early)
            sink.unreadable(applied.early)
            for start, end in applied.unread:
                sink.value(bytes(data[start:end]))
        next_record = until
        sink.judge_weight()

    for at, key, start, end in records.single_records(np.array(topics.indexes, dtype=np.int64)):
        value = bytes(data[start:end])
        if key == _CONFIG and not all_configs and _MINIMUM not in value:  # no other config is needed, so none is read
            sink.count(key, 1)
            continue
        if key in _IN_ORDER:
            apply_collected(at)
        sink.value(value)
    apply_collected(len(records.api))
    for key, times in records.skipped.items():
        sink.count(key, times)


@dataclass(frozen=True, slots=True)
class _Topics:
    """Topic records of the usual layout. For each: indexes, the index of its record in the block; starts, the position
    of its value; ids, its topic id. names: all names as one text, which is divided at `edges`.
    """

    indexes: list[int]
    starts: list[int]
    ids: list[bytes]
    names: str
    edges: list[int]

    def name(self, at: int) -> str:
        return self.names[self.edges[at] : self.edges[at + 1]]

    def run(self, part: range) -> tuple[list[bytes], str, list[int]]:
        """(ids, joined names, edges from 0 on) of these topics."""
        edges = self.edges[part.start : part.stop + 1]
        ids, names = self.ids[part.start : part.stop], self.names[edges[0] : edges[-1]]
        return ids, names, [edge - edges[0] for edge in edges]


def _topics(data: memoryview, records: Frames) -> _Topics:
    """Read the usual topic records: a frame of three bytes with version 0, a length of one byte (one more than that of
    the name), a name of ASCII, the id, and 0 for no tags.
    """
    view, at = np.frombuffer(data, dtype=np.uint8), records.indexes(_TOPIC)
    values, last = records.values[at], records.ends[at] - 1
    length, ids = view[values + 3], last - _UUID  # ids: positions, which are the ends of the names
    usual = (length >= 1) & (length <= _ONE_BYTE) & (values + 3 + length == ids)
    usual &= (view[values + 2] == 0) & (view[last] == 0)
    at, values, ids = (each[usual] for each in (at, values, ids))
    edges, text = _texts(view, values + 4, ids)
    if (foreign := text > _ONE_BYTE).any():
        usual = np.ones(len(at), dtype=np.bool_)
        usual[np.searchsorted(edges, np.flatnonzero(foreign), side="right") - 1] = False
        at, values, ids = (each[usual] for each in (at, values, ids))
        edges, text = _texts(view, values + 4, ids)
    by_id = view[ids[:, None] + np.arange(_UUID)].view(f"V{_UUID}")[:, 0]
    return _Topics(at.tolist(), values.tolist(), by_id.tolist(), str(text.tobytes(), "ascii"), edges.tolist())


def _texts(view: Bytes, starts: Positions, ends: Positions) -> tuple[Positions, Bytes]:
    """(positions of the texts in the joined bytes, joined bytes) of the texts between `starts` and `ends`."""
    edges = np.concatenate([[0], np.cumsum(ends - starts)])
    return edges, view[np.repeat(starts - edges[:-1], ends - starts) + np.arange(edges[-1])]
