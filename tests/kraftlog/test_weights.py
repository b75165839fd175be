"""The weight of a replay: it is at least the memory that the replay takes, whatever records it was made to store."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
import uuid
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import ImageTooLargeError, Replay, SnapshotIncomplete, SnapshotReader, TooLargeError
from kraftlog.batches import MAX_HEADERS, Header, Record
from kraftlog.encoding import encode_batch
from kraftlog.image_builder import MAX_DECODED
from kraftlog.records import MAX_RECORD, frame
from kraftlog.schema import table
from tests.kraftlog.build import batch, begin, broker, change, control_batch, controller, end, level, snapshot

ALL = 1 << 62
MANY = 300


def endpoints(count: int) -> tuple[dict[str, object], ...]:
    return tuple({"name": "", "host": str(n), "port": 60_000, "securityProtocol": 30_000} for n in range(count))


def ranges(count: int) -> tuple[dict[str, object], ...]:
    return tuple(
        {"name": str(n), "minSupportedVersion": 1000 + n, "maxSupportedVersion": 2000 + n} for n in range(count)
    )


def voters(count: int) -> bytes:
    one = {"minSupportedVersion": 1000, "maxSupportedVersion": 2000}
    listed = tuple(
        {
            "voterId": 1000 + n,
            "voterDirectoryId": uuid.UUID(int=n),
            "endpoints": ({"name": "", "host": str(n), "port": 60_000},),
            "kRaftVersionFeature": one,
        }
        for n in range(count)
    )
    return control_batch(0, (table.KRAFT_VOTERS, {"voters": listed}))


# Records of one kind that take much memory, each in another way.
HOARDS = {
    "nodes as they are": [broker(n, 5, fenced=False) for n in range(MANY)],
    "nodes with nothing": [broker(n, 1 << 40, endPoints=(), features=(), rack="é" * 5) for n in range(MANY)],
    "controllers": [controller(n, n) for n in range(MANY)],
    "endpoints": [broker(n, 5, endPoints=endpoints(500)) for n in range(5)],
    "features of nodes": [broker(n, 5, features=ranges(500)) for n in range(5)],
    "long words": [broker(n, 5, rack="\N{GRINNING FACE}" + "x" * 5000) for n in range(50)],
    "levels": [level(f"feature {n}", 1000 + n) for n in range(MANY)],
    "an open transaction": [begin(), *(broker(n, 5, endPoints=endpoints(20)) for n in range(100))],
    "an open transaction of little": [begin(), *(change(n, 5) for n in range(MANY))],
    "nodes that are gone": [frame(table.UNREGISTER_CONTROLLER, {"controllerId": 1000 + n}) for n in range(MANY)],
    "types": [bytes((1, 0x80 | n & 0x7F, 1 + n // 128, 1, 0)) for n in range(MANY)],
}


def taken(data: bytes) -> tuple[int, int]:
    """The weight of a replay of the data, and the bytes of memory that it took."""
    Replay().append(data, below=ALL)  # fills caches of the process, which do not count
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        replay = Replay()
        replay.append(data, below=ALL)
        gc.collect()
        return replay.weight, tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data", [*(batch(0, *values) for values in HOARDS.values()), voters(MANY)], ids=[*HOARDS, "voters"]
)
def test_the_weight_of_a_replay_is_at_least_its_memory_and_at_most_30_times_it(data: bytes) -> None:
    weight, took = taken(data)
    assert took <= weight + 2000  # bytes of an empty replay
    assert weight <= 30 * took


def test_replaced_records_have_no_weight() -> None:
    """Only former levels of replaced records are stored: a release that does not support one may not read the log."""
    replay = Replay()
    replay.append(batch(0, level("a", 1), begin(), broker(1, 5)), below=ALL)
    weight = replay.weight
    replay.append(batch(3, end(), broker(1, 6), broker(1, 7), level("a", 2), level("a", 0)), below=ALL)
    replay.append(batch(8, level("b", 1), level("b", 1)), below=ALL)
    fresh = Replay()
    fresh.append(
        batch(0, level("a", 1), level("a", 2), level("a", 0), broker(1, 7), level("b", 1), begin(), end()), below=ALL
    )
    assert replay.weight == fresh.weight < weight


def test_a_replay_beyond_its_limit_reads_no_more_records() -> None:
    replay = Replay(limit=100_000)
    with pytest.raises(ImageTooLargeError, match="more than 100000 bytes of memory"):
        replay.append(batch(0, *(broker(n, 5) for n in range(1000))), below=ALL)
    assert 100_000 < replay.weight < 110_000


@pytest.mark.parametrize(
    "values", [[level("x" * MAX_RECORD, 1)], [level("a", 1)] * (MAX_DECODED + 1)], ids=["size", "count"]
)
def test_records_that_no_cluster_writes_are_not_decoded(values: list[bytes]) -> None:
    with pytest.raises(TooLargeError):
        Replay().append(batch(0, *values), below=ALL)


def test_a_record_with_too_many_headers_is_unreadable_and_takes_no_memory_for_them() -> None:
    """A controller writes no headers."""
    count = 200 * MAX_HEADERS
    data = encode_batch([Record(0, 0, level("a", 1), headers=(Header("", None),) * count)], leader_epoch=1)
    replay = Replay()
    tracemalloc.start()
    try:
        replay.append(data, below=ALL)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(data)  # 8 bytes a header: too little for an object each
    finally:
        tracemalloc.stop()
    assert replay.image().unreadable == 1


def test_an_api_key_in_a_longer_form_does_not_hide_a_record() -> None:
    value = level("x" * MAX_RECORD, 1)
    hidden = value[:1] + bytes((0x80 | value[1], 0)) + value[2:]
    with pytest.raises(TooLargeError):
        Replay().append(batch(0, hidden), below=ALL)


WHOLE = snapshot(level("a", 5), broker(1, 5), *[bytes((1, 3, 1)) + bytes(100)] * 5)


def parts_of(data: bytes, cuts: Iterable[int]) -> Iterable[bytes]:
    places = [0, *sorted(cuts), len(data)]
    return (data[a:b] for a, b in itertools.pairwise(places))


@settings(deadline=None)
@given(st.lists(st.integers(0, len(WHOLE)), max_size=30))
def test_a_snapshot_in_any_parts_gives_the_image_of_the_whole(cuts: list[int]) -> None:
    complete = Replay()
    complete.load_snapshot(WHOLE, end_offset=900, epoch=3)
    reader = SnapshotReader(end_offset=900, epoch=3)
    for part in parts_of(WHOLE, cuts):
        reader.feed(part)
    assert reader.finish().image() == complete.image()


@given(st.integers(0, len(WHOLE) - 1), st.lists(st.integers(0, len(WHOLE)), max_size=5))
def test_a_truncated_snapshot_is_incomplete_in_any_parts(stop: int, cuts: list[int]) -> None:
    reader = SnapshotReader(end_offset=900, epoch=3)
    with pytest.raises(SnapshotIncomplete):  # noqa: PT012 - feed or finish may raise
        for part in parts_of(WHOLE[:stop], [cut for cut in cuts if cut <= stop]):
            reader.feed(part)
        reader.finish()


def test_a_snapshot_reader_keeps_at_most_one_batch() -> None:
    partitions = [bytes((1, 3, 1)) + bytes(1000)] * 50
    reader = SnapshotReader(end_offset=900, epoch=3)
    data = control_batch(0, (table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": 1}))
    data += b"".join(batch(1 + n * 50, *partitions) for n in range(100))
    most = 0
    for start in range(0, len(data), 10_000):
        reader.feed(data[start : start + 10_000])
        most = max(most, reader.weight)
    # It holds a batch and the bytes that were fed last, and copies of both while they are joined.
    assert most < 2 * (len(batch(0, *partitions)) + 10_000) + 1000 < len(data) / 10
