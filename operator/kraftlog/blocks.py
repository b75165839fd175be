"""A block of records that all are as usual: what each of them does, and in which order.

Records of partitions wait for one another until a record comes for which it matters that they are in. Topics go in at
once. Called by `replay` for readers that asked for partitions; what it does not bring itself it gives back, one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kraftlog.columns import Births, Brought
from kraftlog.frames import Frames
from kraftlog.partition_records import MIN_INSYNC_REPLICAS
from kraftlog.partition_state import PartitionState
from kraftlog.schema import table

_TOPIC, _PARTITION, _CONFIG = table.TOPIC.key, table.PARTITION.key, table.CONFIG.key
_IN_ORDER = frozenset(kind.key for kind in (table.TOPIC, table.REMOVE_TOPIC, table.CLEAR_ELR))
"""Records that change what records of partitions bring, or may bring."""

_MINIMUM = MIN_INSYNC_REPLICAS.encode()
_FEW = 8  # records of partitions, that are read one by one
_TOPICS = 64  # that go in until they are weighed
_UUID = 16
_ONE_BYTE = 0x7F  # the largest length that is written in one


@dataclass(frozen=True, slots=True)
class Sink:
    """Of the replay. value: a record that is read by itself, and counted. count: so many of a key. judge_weight: may
    raise ImageTooLargeError. unreadable: so many contradict what is there.
    """

    value: Callable[[bytes], None]
    count: Callable[[int, int], None]
    judge_weight: Callable[[], None]
    unreadable: Callable[[int], None]


def take_block(data: memoryview, found: Frames, partitions: PartitionState, sink: Sink) -> None:
    """All records of a block."""
    topics = _topics(data, found)
    waiting = named = 0

    def bring(until: int) -> None:
        nonlocal waiting, named
        first, born = partitions.next_number, list[int]()
        last = bisect_left(topics.places, until)
        sink.count(_TOPIC, last - named)
        while named < last:
            some = slice(named, min(named + _TOPICS, last))
            if partitions.add_topics(topics.ids[some], topics.names[some]):
                born += topics.starts[some]
            else:
                for start, id_, name in zip(topics.starts[some], topics.ids[some], topics.names[some], strict=True):
                    if partitions.add_topic(id_, name) == first + len(born):
                        born.append(start)
            named = some.stop
            sink.judge_weight()
        births = Births(first, np.array(born, dtype=np.int64))
        for key, values, ends in found.waiting(waiting, until):
            brought = Brought(data, values, ends, partitions, births)
            if len(values) < _FEW:
                rest = brought.nothing()
            else:
                rest = brought.partitions() if key == _PARTITION else brought.changes()
            sink.count(key, rest.taken + rest.early)
            sink.unreadable(rest.early)
            for start, end in rest.left:
                sink.value(bytes(data[start:end]))
        waiting = until
        sink.judge_weight()

    for at, key, start, end in found.others(np.array(topics.places, dtype=np.int64)):
        value = bytes(data[start:end])
        if key == _CONFIG and _MINIMUM not in value:
            sink.count(key, 1)
            continue
        if key in _IN_ORDER:
            bring(at)
        sink.value(value)
    bring(len(found.api))
    for key, times in found.skipped.items():
        sink.count(key, times)


@dataclass(frozen=True, slots=True)
class _Topics:
    """Of each topic that is written as usual: the place of its record, where its value is, its id and its name."""

    places: list[int]
    starts: list[int]
    ids: list[bytes]
    names: list[str]


def _topics(data: memoryview, found: Frames) -> _Topics:
    """What is usual: the frame, a length of one byte, the name, the id, no tags."""
    view, at = np.frombuffer(data, dtype=np.uint8), found.places(_TOPIC)
    values, last = found.values[at], found.ends[at] - 1
    length, ids = view[values + 3], last - _UUID
    usual = (length >= 1) & (length <= _ONE_BYTE) & (values + 3 + length == ids)
    usual &= (view[values + 2] == 0) & (view[last] == 0)
    at, values, ids = (each[usual] for each in (at, values, ids))
    names, texts = list[str](), list[bool]()
    for start, end in zip((values + 4).tolist(), ids.tolist(), strict=True):
        try:
            names.append(str(data[start:end], "utf-8"))
        except UnicodeDecodeError:
            texts.append(False)
        else:
            texts.append(True)
    at, values, ids = (each[texts] for each in (at, values, ids))
    by_id = view[ids[:, None] + np.arange(_UUID)].view(f"V{_UUID}")[:, 0]
    return _Topics(at.tolist(), values.tolist(), by_id.tolist(), names)
