"""A block of records that all are as usual: what each of them does, and in which order.

Records of partitions wait for one another until a record comes for which it matters that they are in. Topics go in at
once. Called by `replay` for readers that asked for partitions; what it does not bring itself it gives back, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraftlog.columns import Brought
from kraftlog.frames import Frames
from kraftlog.partition_state import PartitionState
from kraftlog.schema import table

_TOPIC, _PARTITION, _CONFIG = table.TOPIC.key, table.PARTITION.key, table.CONFIG.key
_IN_ORDER = frozenset(kind.key for kind in (table.TOPIC, table.REMOVE_TOPIC, table.CLEAR_ELR))
"""Records that change what records of partitions bring, or may bring."""

_MIN_INSYNC_REPLICAS = b"min.insync.replicas"
_TOPIC_ID = 17  # bytes at the end of a topic's record, with one of no tags
_FEW = 8  # records of partitions, that are read one by one
_TOPICS = 32  # new ones, until they are weighed


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
    waiting, births = 0, dict[bytes, int]()

    def bring(until: int) -> None:
        nonlocal waiting
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

    for at, key, start, end in found.others():
        value = bytes(data[start:end])
        if key == _CONFIG and _MIN_INSYNC_REPLICAS not in value:
            sink.count(key, 1)
            continue
        is_new = key == _TOPIC and partitions.number_of(value[-_TOPIC_ID:-1]) is None
        if key == _TOPIC and partitions.add_topic_record(value):
            sink.count(key, 1)
            if is_new:
                births[value[-_TOPIC_ID:-1]] = start
                if not len(births) % _TOPICS:
                    sink.judge_weight()
            continue
        if key in _IN_ORDER:
            bring(at)
        sink.value(value)
    bring(len(found.api))
    for key, times in found.skipped.items():
        sink.count(key, times)
