"""What a hostile controller may take: bounded for one cluster and for all, in memory and in time; and no other pays.

The controllers are scripted, the batches are real; what they send is made as it is asked for, so that only the reader's
memory is seen.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import NotSent, Outcome, OutcomeUnknown
from kafkafeatures.core.facts.readings import Host
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import Disconnected, KafkaError, TimedOut, TooLarge
from kafkafeatures.kafka.base.memory_budget import MIB, Limits, MemoryBudget, Share
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import ClusterSettings, Security
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.log.follower import MetadataLog
from kafkafeatures.kafka.log.source import MAX_SNAPSHOT, PART
from kafkafeatures.kafka.requests.features import AddressRoute, prepared
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.frame import MAX_SHORT_FRAME
from kafkafeatures.kafka.wire.messages import FetchRequest, FetchSnapshotRequest, FetchSnapshotResponse, OffsetAndEpoch
from kraftlog.schema import table
from tests.kafkafeatures.kafka.scripted_quorum import Quorum
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, framed, serving
from tests.kraftlog.build import batch, begin, broker, control_batch, level, no_op

HEAD = control_batch(0, (table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": 0})) + batch(1, broker(7, 5), no_op())
FIRST = 3  # the offset behind it
PARTITION = bytes((1, 3, 1)) + bytes(4000)
RECORDS = 250  # of a batch
LIMITS = Limits(8 * MIB, 20 * MIB, raise_one="raise A", raise_all="raise B")
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
    """The log of a large cluster: many records that the image does not keep."""
    each = batch(0, *[PARTITION] * RECORDS)

    def make(offset: int) -> bytes:
        return offset.to_bytes(8, "big") + each[8:]  # the checksum does not cover the offset

    return File(make, size // len(each), RECORDS)


def registrations(count: int, each: int = 500) -> File:
    """An endless log: every record is a new broker."""
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
    """Serves the file as the leader's snapshot; the log continues behind it."""
    quorum.leader.snapshots = [(END, file)]
    quorum.leader.log = [(END.offset, batch(END.offset, no_op(), epoch=5))]
    quorum.leader.high_watermark = END.offset + 1


@contextmanager
def weighed() -> Iterator[Callable[[], int]]:
    """Bytes that Python took at most since it began."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# --- a snapshot ---


async def test_a_large_snapshot_is_read_in_little_memory(quorum: Quorum) -> None:
    file = partitions(200 * MIB)
    assert 199 * MIB < len(file) < 201 * MIB
    serve(quorum, file)
    log, share = sharing(quorum, MemoryBudget(LIMITS), part=PART)
    with weighed() as peak:
        reading = await log.catch_up()
        assert peak() < 12 * MIB
    assert reading.image.offset == END.offset + 1
    assert list(reading.image.brokers) == [7]
    assert reading.image.counts[3] == RECORDS * ((len(file) - len(HEAD)) // len(batch(0, *[PARTITION] * RECORDS)))
    assert share.held < MIB


async def test_registrations_without_an_end_are_refused_with_the_limit_and_what_to_do(quorum: Quorum) -> None:
    serve(quorum, registrations(2000))  # a million brokers, if all were read
    memory = MemoryBudget(replace(LIMITS, per_cluster=4 * MIB))
    log, share = sharing(quorum, memory, part=PART // 4)
    with weighed() as peak:
        with pytest.raises(TooLarge, match="it takes more than 4 MiB of memory, the limit of one cluster") as caught:
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
async def test_what_a_part_claims_is_held_against_what_was_asked(
    quorum: Quorum, wrong: Callable[[FetchSnapshotResponse], FetchSnapshotResponse]
) -> None:
    """A server that keeps to it is believed again, from the start of the snapshot."""
    serve(quorum, partitions(PART * 5 // 2))
    quorum.leader.spoil = wrong
    reading = await quorum.log(part=PART).catch_up()
    assert reading.image.offset == END.offset + 1
    parts = [one.position for one in quorum.leader.asked if isinstance(one, FetchSnapshotRequest)]
    assert parts == [0, PART, 0, PART, 2 * PART]


async def test_a_snapshot_larger_than_any_is_refused_by_its_claim(quorum: Quorum) -> None:
    serve(quorum, partitions(MAX_SNAPSHOT + 2 * MIB))
    with pytest.raises(TooLarge, match=f"a snapshot of {MAX_SNAPSHOT // 10**9}"):
        await quorum.log(part=PART).catch_up()
    assert sum(isinstance(one, FetchSnapshotRequest) for one in quorum.leader.asked) == 1


async def test_a_batch_that_claims_to_be_huge_is_refused_before_it_comes(quorum: Quorum) -> None:
    huge = bytearray(batch(1, PARTITION))
    huge[8:12] = (1 << 30).to_bytes(4, "big")
    serve(quorum, HEAD + bytes(huge) + bytes(4 * MIB))
    with pytest.raises(TooLarge, match="a batch of 1073741836 bytes; at most 16777216 are read"):
        await quorum.log(part=PART).catch_up()
    assert sum(isinstance(one, FetchSnapshotRequest) for one in quorum.leader.asked) == 1


async def test_a_snapshot_that_drips_ends_in_time(quorum: Quorum) -> None:
    serve(quorum, partitions(MIB))
    with pytest.raises(TimedOut, match=r"\d+ of the \d+ bytes of a snapshot came within 54 s") as caught:
        await quorum.log(part=1).catch_up()
    assert "longer request timeout" in caught.value.remedy
    assert quorum.time < 60


# --- the log behind it ---


def endless(quorum: Quorum, *values: Callable[[int], bytes]) -> None:
    """The leader has so much more than it sent, whatever it sent; nothing is kept of what it sent."""
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
        (lambda number: bytes((1, 0x80 | number & 0x7F, 1 + number // 128 % 100, 1, 0)),),
    ],
    ids=["nodes", "features", "a transaction that stays open", "types"],
)
async def test_a_log_without_an_end_is_refused(quorum: Quorum, values: tuple[Callable[[int], bytes], ...]) -> None:
    endless(quorum, *values)
    memory = MemoryBudget(replace(LIMITS, per_cluster=MIB))
    log, share = sharing(quorum, memory)
    with weighed() as peak:
        with pytest.raises(TooLarge, match="more than 1 MiB of memory"):
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
async def test_what_no_cluster_writes_is_refused_and_nothing_of_it_is_kept(
    quorum: Quorum, values: list[bytes], said: str
) -> None:
    log = quorum.log()
    quorum.leader.append(*values)
    with pytest.raises(TooLarge, match=said) as caught:
        await log.catch_up()
    assert caught.value.remedy == "a real cluster needs far less: check its addresses"
    quorum.leader.log.pop()
    quorum.leader.high_watermark = quorum.leader.end
    assert (await log.catch_up()).image.features == {"metadata.version": 20}


async def test_of_controllers_that_a_reply_names_without_an_end_the_latest_are_remembered(quorum: Quorum) -> None:
    """Every controller is asked who leads, and each takes a connection."""
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


# --- all clusters together ---


def populated(nodes: int) -> Quorum:
    """A quorum with so many registered brokers."""
    made = Quorum()
    for first in range(0, nodes, 100):
        made.leader.append(*(broker(number, 5) for number in range(first, min(nodes, first + 100))))
    return made


async def test_where_all_have_too_much_the_one_with_the_most_pays(quorum: Quorum) -> None:
    """The cluster with the most need not be the one that asked last; what it lost is read again, when there is room."""
    memory = MemoryBudget(replace(LIMITS, all_clusters=9 * MIB))
    small, small_share = sharing(quorum, memory)
    large, large_share = sharing(populated(3000), memory)
    middle, middle_share = sharing(populated(2500), memory)
    await small.catch_up()
    await large.catch_up()
    assert large_share.held > 4 * MIB
    assert len((await middle.catch_up()).image.brokers) == 2500
    assert (large_share.held, small_share.held > 0) == (0, True)
    with pytest.raises(TooLarge, match="all clusters together take more than 9 MiB of memory, and this one") as caught:
        await large.catch_up()
    assert caught.value.remedy.endswith("else raise B")
    middle.discard()
    assert len((await large.catch_up()).image.brokers) == 3000
    assert (await small.catch_up()).image.features == {"metadata.version": 20}
    assert middle_share.held == 0


async def test_a_cluster_that_loses_its_memory_while_it_is_read_says_so_and_begins_anew(quorum: Quorum) -> None:
    memory = MemoryBudget(LIMITS)
    log, share = sharing(quorum, memory)
    await log.catch_up()
    quorum.leader.append(level("group.version", 1))
    quorum.on_request(quorum.requests + 1, share._lose)
    with pytest.raises(TooLarge, match="and this one the most"):
        await log.catch_up()
    assert (await log.catch_up()).image.features == {"metadata.version": 20, "group.version": 1}


async def test_a_snapshot_that_loses_its_memory_is_not_read_further(quorum: Quorum) -> None:
    serve(quorum, partitions(3 * MIB))
    log, share = sharing(quorum, MemoryBudget(LIMITS), part=MIB)
    quorum.on_request(6, share._lose)
    with pytest.raises(TooLarge, match="and this one the most"):
        await log.catch_up()
    assert share.held == 0
    assert (await log.catch_up()).image.offset == END.offset + 1


async def test_a_reply_that_comes_slowly_does_not_keep_others_waiting(quorum: Quorum) -> None:
    """All the memory is claimed by replies that never come; the next one who needs some takes it from them."""
    memory = MemoryBudget(replace(LIMITS, all_clusters=19 * MIB))
    dropped: list[int] = []
    hostile = [Share(memory, lambda: None) for _ in range(3)]
    with ExitStack() as replies:
        for number, one in enumerate(hostile):
            replies.enter_context(one.reply(2 * MIB, partial(dropped.append, number)))
        log, share = sharing(populated(1500), memory)
        assert len((await asyncio.wait_for(log.catch_up(), 30)).image.brokers) == 1500
        assert len(dropped) == 1
        assert MIB < share.held < memory.held < 19 * MIB


async def test_between_two_slices_of_a_large_piece_everything_else_runs(quorum: Quorum) -> None:
    memory = MemoryBudget(Limits())
    logs = []
    for _ in range(3):
        made = Quorum()
        serve(made, partitions(8 * MIB))
        logs.append(sharing(made, memory, part=8 * MIB)[0])
    turns, done = 0, False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.gather(*(log.catch_up() for log in logs))
    done = True
    await counting
    assert turns >= 3 * 8 * MIB // (128 * 1024)


async def test_a_reply_is_counted_by_what_it_claims_before_it_is_read() -> None:
    server = Server({18: api_versions((1, 17, 17)), 1: lambda request: struct.pack(">i", 12 * MIB) + bytes(8)})
    memory = MemoryBudget(Limits(32 * MIB, 64 * MIB))
    share = Share(memory, lambda: None)
    async with serving(server):
        link = await connect(server.address, Security(), timeout=10, client_id="c", meter=share, environment=SYSTEM)
        assert memory.held == 0
        with pytest.raises(TooLarge, match="32 MiB of memory, the limit of one cluster"):
            await link.request(FetchRequest())
    assert link.closed
    assert memory.held == 0


async def test_a_reply_of_the_cluster_with_the_most_is_given_up_where_another_needs_the_memory() -> None:
    server = Server({18: api_versions((1, 17, 17)), 1: lambda request: struct.pack(">i", 8 * MIB) + bytes(8)})
    memory = MemoryBudget(Limits(32 * MIB, 40 * MIB))
    hostile, other = Share(memory, lambda: None), Share(memory, lambda: None)
    async with serving(server):
        link = await connect(server.address, Security(), timeout=10, client_id="c", meter=hostile, environment=SYSTEM)
        waiting = asyncio.create_task(link.request(FetchRequest()))
        while not hostile.held:  # noqa: ASYNC110 - the server sets no event
            await asyncio.sleep(0)
        assert hostile.held == 24 * MIB
        other.keep(20 * MIB)
        with pytest.raises(Disconnected):
            await waiting
    assert (hostile.held, other.held) == (0, 20 * MIB)


OFFERED = api_versions((57, 1, 2))
RAISE = UpdateFeature("metadata.version", 25, 27)
REPLY = 3 * MAX_SHORT_FRAME


async def changed(server: Server, share: Share) -> Outcome:
    """What a change comes to, over a connection that is metered by this share."""
    meter = partial(connect, meter=share, environment=SYSTEM)
    async with (
        serving(server),
        Pool(ClusterSettings(request_timeout=10), connect=meter, environment=SYSTEM) as pool,
        prepared(pool, AddressRoute(server.address), RAISE) as request,
    ):
        assert not isinstance(request, NotSent)
        return await request.send(lambda: None)


async def test_the_memory_for_the_answer_to_a_change_is_there_before_it_is_sent() -> None:
    server = Server({18: OFFERED, 57: lambda request: b""})
    share = Share(MemoryBudget(Limits(32 * MIB, 32 * MIB)), lambda: None)
    share.keep(32 * MIB - REPLY + 1)
    outcome = await changed(server, share)
    assert isinstance(outcome, NotSent)
    assert "32 MiB of memory, the limit of one cluster" in outcome.why
    assert [request[1] for request in server.requests] == [18, 18]
    assert share.held == 32 * MIB - REPLY + 1


async def test_a_change_whose_answer_meets_no_memory_may_have_been_applied() -> None:
    """A change that was written is not called unsent, whatever its answer is, and no consent comes back for it."""
    memory = MemoryBudget(Limits(32 * MIB, 32 * MIB))
    share, other = Share(memory, lambda: None), Share(memory, lambda: None)

    def takes(request: bytes) -> None:
        other.keep(32 * MIB - 1)

    outcome = await changed(Server({18: OFFERED, 57: takes}), share)
    assert isinstance(outcome, OutcomeUnknown)
    assert share.held == 0


@pytest.mark.parametrize(
    "answer",
    [lambda request: struct.pack(">i", 12 * MIB) + bytes(8), lambda request: framed(b"\0\0\0\7")],
    ids=["too long", "of another request"],
)
async def test_a_change_whose_answer_is_none_may_have_been_applied(answer: Callable[[bytes], bytes]) -> None:
    share = Share(MemoryBudget(Limits(32 * MIB, 32 * MIB)), lambda: None)
    assert isinstance(await changed(Server({18: OFFERED, 57: answer}), share), OutcomeUnknown)
    assert share.held == 0


def test_a_share_that_cannot_grow_stays_what_it_was() -> None:
    share = Share(MemoryBudget(LIMITS), lambda: None)
    share.keep(MIB)
    with pytest.raises(TooLarge), share.reply(3 * MIB, lambda: None):
        pytest.fail("it was let in")
    with pytest.raises(TooLarge):
        share.keep(9 * MIB)
    assert share.held == share.memory.held == MIB


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.sampled_from(["keep", "reply", "end"]))))
def test_no_share_has_more_than_it_may_and_only_the_largest_loses(steps: list[tuple[int, int, str]]) -> None:
    memory = MemoryBudget(Limits(10, 25))
    lost: list[int] = []
    shares = [Share(memory, partial(lost.append, number)) for number in range(4)]
    replies = [ExitStack() for _ in shares]
    for who, size, what in steps:
        before = [share.held for share in shares]
        lost.clear()
        try:
            if what == "keep":
                shares[who].keep(size)
            elif what == "reply":
                replies[who].enter_context(shares[who].reply(size // 3, lambda: None))
            else:
                replies[who].close()
        except TooLarge:
            assert shares[who].held == before[who]
        assert memory.held == sum(share.held for share in shares) <= 25
        assert memory.shares == {share for share in shares if share.held}
        assert max(share.held for share in shares) <= 10
        for loser in lost:
            assert loser != who
            assert before[loser] >= max(before[who], *(share.held for share in shares if share is not shares[who]))
    for stack, share in zip(replies, shares, strict=True):
        stack.close()
        share.keep(0)
    assert memory.held == 0


async def test_a_cluster_that_is_closed_takes_no_memory() -> None:
    memory = MemoryBudget(LIMITS)
    cluster = Cluster(ClusterSettings(), memory=memory, environment=SYSTEM)
    cluster._share.keep(MIB)
    assert memory.held == MIB
    await cluster.close()
    assert memory.held == 0


def test_the_command_line_has_a_limit_as_well_and_names_no_setting_of_an_operator() -> None:
    share = Cluster(ClusterSettings(), environment=SYSTEM)._share
    with pytest.raises(KafkaError, match="256 MiB") as caught:
        share.keep(257 * MIB)
    assert caught.value.remedy == "a real cluster needs far less: check its addresses"
