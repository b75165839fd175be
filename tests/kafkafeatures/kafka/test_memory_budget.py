"""A hostile controller: reading its log and snapshots takes bounded memory and time.

The controllers are scripted, the batches are real. Their bytes are made on request, so that only the memory of the
reader is measured.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Host
from kafkafeatures.kafka.base.errors import ResponseTooLarge, TimedOut
from kafkafeatures.kafka.base.memory_budget import MIB, MemoryBudget, MemoryLimits, Share
from kafkafeatures.kafka.log.follower import MetadataLog
from kafkafeatures.kafka.log.source import MAX_SNAPSHOT, PART
from kafkafeatures.kafka.wire.messages import FetchRequest, FetchSnapshotRequest, FetchSnapshotResponse, OffsetAndEpoch
from kraftlog.schema import table
from tests.kafkafeatures.kafka.scripted_quorum import Quorum
from tests.kraftlog.build import batch, begin, broker, control_batch, level, no_op

HEAD = control_batch(0, (table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": 0})) + batch(1, broker(7, 5), no_op())
FIRST = 3  # the offset after HEAD, which has offsets 0 to 2
PARTITION = bytes((1, 3, 1)) + bytes(4000)
RECORDS = 250  # of a batch
LIMITS = MemoryLimits(8 * MIB, 20 * MIB, raise_one="raise A", raise_all="raise B")
END = OffsetAndEpoch(1 << 40, 5)


class File:
    """A snapshot file whose bytes are made when they are read. `make`: a batch of `each` records at an offset."""

    def __init__(self, make: Callable[[int], bytes], batches: int, each: int) -> None:
        self._make, self._batches, self._each = make, batches, each
        self._size = len(make(FIRST))
        self._foot = control_batch(FIRST + batches * each, (table.SNAPSHOT_FOOTER, {}))

    def __len__(self) -> int:
        return len(HEAD) + self._batches * self._size + len(self._foot)

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        first = min(self._batches, max(0, start - len(HEAD)) // self._size)
        after = min(self._batches, max(0, -(-(stop - len(HEAD)) // self._size)))
        data = b"".join(self._make(FIRST + number * self._each) for number in range(first, after)) + self._foot
        before = len(HEAD) + first * self._size
        if start < len(HEAD):
            data, before = HEAD + data, 0
        return data[start - before : stop - before]


def partitions(size: int) -> File:
    """The snapshot of a large cluster: many records of partitions, which the image does not store."""
    each = batch(0, *[PARTITION] * RECORDS)

    def make(offset: int) -> bytes:
        return offset.to_bytes(8, "big") + each[8:]  # the checksum does not cover the offset

    return File(make, size // len(each), RECORDS)


def registrations(count: int, each: int = 500) -> File:
    """A snapshot of `count` batches, in which every record is a new broker."""
    return File(lambda offset: batch(offset, *(broker(offset + at, 5) for at in range(each))), count, each)


@pytest.fixture
def quorum() -> Quorum:
    made = Quorum()
    made.leader.append(level("metadata.version", 20))
    return made


def sharing(quorum: Quorum, memory: MemoryBudget, **options: Any) -> tuple[MetadataLog, Share]:
    """A follower with a share of the memory."""
    share = Share(memory, lambda: log.discard())  # noqa: PLW0108 - it is made below
    log = quorum.log(share=share, **options)
    return log, share


def serve(quorum: Quorum, file: Any) -> None:
    """Make the leader serve the file as its snapshot; its log begins behind it."""
    quorum.leader.snapshots = [(END, file)]
    quorum.leader.log = [(END.offset, batch(END.offset, no_op(), epoch=5))]
    quorum.leader.high_watermark = END.offset + 1


@contextmanager
def weighed() -> Iterator[Callable[[], int]]:
    """Function that gives the peak of allocated bytes since the begin of the block."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# --- a snapshot ---


async def test_a_large_snapshot_is_read_in_little_memory(quorum: Quorum) -> None:
    """The limit of one cluster is 8 MiB (`LIMITS`), of what is counted; the peak may be half as much more."""
    file = partitions(200 * MIB)
    assert 199 * MIB < len(file) < 201 * MIB
    serve(quorum, file)
    log, share = sharing(quorum, MemoryBudget(LIMITS), part=PART)
    with weighed() as peak:
        reading = await log.catch_up()
        assert peak() < 12 * MIB
    assert reading.image.offset == END.offset + 1
    assert list(reading.image.brokers) == [7]
    # Records of type 3 are those of partitions: all were read and counted.
    assert reading.image.counts[3] == RECORDS * ((len(file) - len(HEAD)) // len(batch(0, *[PARTITION] * RECORDS)))
    assert share.held < MIB


async def test_too_many_registrations_are_refused_with_the_limit_and_a_remedy(quorum: Quorum) -> None:
    serve(quorum, registrations(2000))  # a million brokers, if all were read
    memory = MemoryBudget(replace(LIMITS, per_cluster=4 * MIB))
    log, share = sharing(quorum, memory, part=PART // 4)
    with weighed() as peak:
        with pytest.raises(
            ResponseTooLarge, match="it takes more than 4 MiB of memory, the limit of one cluster"
        ) as caught:
            await log.catch_up()
        assert peak() < 6 * MIB
    assert caught.value.remedy == "a real cluster needs far less: check its addresses; else raise A"
    assert (share.held, memory.held, memory.shares) == (0, 0, set())
    assert quorum.time < 30


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r: replace(r, size=r.size + 1),
        lambda r: replace(r, size=r.position),
        lambda r: replace(r, size=-1),
        lambda r: replace(r, position=r.position + 1),
        lambda r: replace(r, position=-1),
        lambda r: replace(r, data=r.data + bytes(64)),
    ],
    ids=["grows", "shrinks", "negative size", "skips", "negative position", "more than was asked for"],
)
async def test_a_snapshot_part_with_wrong_claims_is_refused(
    quorum: Quorum, wrong: Callable[[FetchSnapshotResponse], FetchSnapshotResponse]
) -> None:
    """The snapshot is then read again from its start, and used if its parts are right."""
    serve(quorum, partitions(PART * 5 // 2))
    quorum.leader.spoil = wrong
    reading = await quorum.log(part=PART).catch_up()
    assert reading.image.offset == END.offset + 1
    parts = [one.position for one in quorum.leader.asked if isinstance(one, FetchSnapshotRequest)]
    assert parts == [0, PART, 0, PART, 2 * PART]


async def test_a_snapshot_above_the_maximum_size_is_refused_by_its_claimed_size(quorum: Quorum) -> None:
    served = partitions(MAX_SNAPSHOT + 2 * MIB)
    serve(quorum, served)
    said = f"a snapshot of {len(served)} bytes; at most {MAX_SNAPSHOT} are read"
    with pytest.raises(ResponseTooLarge, match=said):
        await quorum.log(part=PART).catch_up()
    assert sum(isinstance(one, FetchSnapshotRequest) for one in quorum.leader.asked) == 1


async def test_a_batch_with_a_huge_claimed_size_is_refused_before_it_is_read(quorum: Quorum) -> None:
    huge = bytearray(batch(1, PARTITION))
    huge[8:12] = (1 << 30).to_bytes(4, "big")
    serve(quorum, HEAD + bytes(huge) + bytes(4 * MIB))
    with pytest.raises(ResponseTooLarge, match="a batch of 1073741836 bytes; at most 16777216 are read"):
        await quorum.log(part=PART).catch_up()
    assert sum(isinstance(one, FetchSnapshotRequest) for one in quorum.leader.asked) == 1


async def test_a_snapshot_that_arrives_too_slowly_times_out(quorum: Quorum) -> None:
    serve(quorum, partitions(MIB))
    with pytest.raises(TimedOut, match=r"\d+ of the \d+ bytes of a snapshot came within 54 s") as caught:
        await quorum.log(part=1).catch_up()
    assert "longer request timeout" in caught.value.remedy
    assert quorum.time < 60


# --- the log behind the snapshot ---


def endless(quorum: Quorum, *values: Callable[[int], bytes]) -> None:
    """Make the log of the leader endless: each request gets 300 further numbers, each with these records."""
    leader, numbers = quorum.leader, itertools.count()
    answer = leader.answer

    def more(message: Any) -> Any:
        if isinstance(message, FetchRequest) and message.max_bytes > 1:
            leader.log = leader.log[-1:]
            leader.append(*(make(number) for number in itertools.islice(numbers, 300) for make in values))
            leader.high_watermark = 1 << 40
        return answer(message)

    leader.answer = more  # type: ignore[method-assign]  # the script of this one


@pytest.mark.parametrize(
    "values",
    [
        (lambda number: broker(number, 5),),
        (lambda number: level(f"feature.{number}", 1),),
        (lambda number: begin() if number == 0 else broker(1, number),),
        (lambda number: bytes((1, 0x80 | number & 0x7F, 1 + number // 128 % 100, 1, 0)),),  # each of an unknown type
    ],
    ids=["nodes", "features", "a transaction that stays open", "types"],
)
async def test_a_log_without_an_end_is_refused(quorum: Quorum, values: tuple[Callable[[int], bytes], ...]) -> None:
    endless(quorum, *values)
    memory = MemoryBudget(replace(LIMITS, per_cluster=MIB))
    log, share = sharing(quorum, memory)
    with weighed() as peak:
        with pytest.raises(ResponseTooLarge, match="more than 1 MiB of memory"):
            await asyncio.wait_for(log.catch_up(), 60)
        assert peak() < 4 * MIB
    assert share.held == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([level("x" * 300_000, 1)], "a registration or level of 300"),
        ([level("a", 1)] * 20_001, "more than 20000 registrations and levels in one batch"),
        ([bytes((2, 0))] * 20_001, "more than 20000 registrations and levels in one batch"),
    ],
    ids=["a record", "records", "records that are none"],
)
async def test_an_implausible_batch_is_refused_and_none_of_its_records_kept(
    quorum: Quorum, values: list[bytes], said: str
) -> None:
    log = quorum.log()
    quorum.leader.append(*values)
    with pytest.raises(ResponseTooLarge, match=said) as caught:
        await log.catch_up()
    assert caught.value.remedy == "a real cluster needs far less: check its addresses"
    quorum.leader.log.pop()
    quorum.leader.high_watermark = quorum.leader.end
    assert (await log.catch_up()).image.features == {"metadata.version": 20}


async def test_only_a_bounded_number_of_controllers_named_by_a_reply_is_remembered(quorum: Quorum) -> None:
    """A connection is opened to each remembered controller to find the leader: 100, and the three of the quorum."""
    made_up = tuple(Host(number, f"made.up.{number}", 9093) for number in range(10, 50_000))
    answer = quorum.leader.answer
    quorum.leader.answer = lambda message: replace(  # type: ignore[method-assign]  # the script of this one
        answer(message), nodes=made_up
    )
    log = quorum.log()
    await log.catch_up()
    await log.close()
    quorum.connects = 0
    await log.catch_up()
    assert quorum.connects <= 103
