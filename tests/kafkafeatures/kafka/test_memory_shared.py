"""Memory that several clusters share: the largest share is given up, and changes need memory for their answers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import NotSent, Outcome, OutcomeUnknown
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import Disconnected, KafkaError, ResponseTooLarge
from kafkafeatures.kafka.base.memory_budget import MIB, MemoryBudget, MemoryLimits, Share
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import ClusterSettings, Security
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.requests.features import AddressRoute, prepared
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.frame import MAX_SHORT_FRAME
from kafkafeatures.kafka.wire.messages import FetchRequest
from tests.kafkafeatures.kafka.scripted_quorum import Quorum
from tests.kafkafeatures.kafka.test_memory_budget import END, LIMITS, partitions, quorum, serve, sharing
from tests.kafkafeatures.kafka.wire.servers import Server, api_versions, framed, serving
from tests.kraftlog.build import broker, level

__all__ = ["quorum"]


# --- all clusters together ---


def populated(nodes: int) -> Quorum:
    """A quorum with so many registered brokers."""
    made = Quorum()
    for first in range(0, nodes, 100):
        made.leader.append(*(broker(number, 5) for number in range(first, min(nodes, first + 100))))
    return made


async def test_the_cluster_with_the_largest_share_loses_its_memory_if_the_common_limit_is_reached(
    quorum: Quorum,
) -> None:
    """The largest cluster loses its image to the one that asks, and reads it again once there is memory."""
    memory = MemoryBudget(replace(LIMITS, all_clusters=9 * MIB))
    small, small_share = sharing(quorum, memory)
    large, large_share = sharing(populated(3000), memory)
    middle, middle_share = sharing(populated(2500), memory)
    await small.catch_up()
    await large.catch_up()
    assert large_share.held > 4 * MIB
    assert len((await middle.catch_up()).image.brokers) == 2500
    assert (large_share.held, small_share.held > 0) == (0, True)
    with pytest.raises(
        ResponseTooLarge, match="all clusters together take more than 9 MiB of memory, and this one"
    ) as caught:
        await large.catch_up()
    assert caught.value.remedy.endswith("else raise B")
    middle.discard()
    assert len((await large.catch_up()).image.brokers) == 3000
    assert (await small.catch_up()).image.features == {"metadata.version": 20}
    assert middle_share.held == 0


async def test_a_reading_that_loses_its_memory_fails_and_the_next_one_starts_over(quorum: Quorum) -> None:
    memory = MemoryBudget(LIMITS)
    log, share = sharing(quorum, memory)
    await log.catch_up()
    quorum.leader.append(level("group.version", 1))
    quorum.on_request(quorum.requests + 1, share._lose)
    with pytest.raises(ResponseTooLarge, match="and this one the most"):
        await log.catch_up()
    assert (await log.catch_up()).image.features == {"metadata.version": 20, "group.version": 1}


async def test_a_snapshot_is_not_read_further_after_its_cluster_lost_its_memory(quorum: Quorum) -> None:
    serve(quorum, partitions(3 * MIB))
    log, share = sharing(quorum, MemoryBudget(LIMITS), part=MIB)
    quorum.on_request(6, share._lose)  # while parts of the snapshot are requested
    with pytest.raises(ResponseTooLarge, match="and this one the most"):
        await log.catch_up()
    assert share.held == 0
    assert (await log.catch_up()).image.offset == END.offset + 1


async def test_a_slow_reply_loses_its_memory_to_a_cluster_that_needs_it(quorum: Quorum) -> None:
    """Replies that never come claim all memory; a cluster that needs some takes it from one of them."""
    memory = MemoryBudget(replace(LIMITS, all_clusters=19 * MIB))  # 3 replies of 2 MiB count 3 times each: 18 MiB
    dropped: list[int] = []
    hostile = [Share(memory, lambda: None) for _ in range(3)]
    with ExitStack() as replies:
        for number, one in enumerate(hostile):
            replies.enter_context(one.reply(2 * MIB, partial(dropped.append, number)))
        log, share = sharing(populated(1500), memory)
        assert len((await asyncio.wait_for(log.catch_up(), 30)).image.brokers) == 1500
        assert len(dropped) == 1
        assert MIB < share.held < memory.held < 19 * MIB


async def test_decoding_large_snapshots_yields_to_other_tasks() -> None:
    memory = MemoryBudget(MemoryLimits())
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
    assert turns >= 3 * 8 * MIB // (128 * 1024)  # three snapshots of 8 MiB, and a turn for others after each 128 KiB


async def test_memory_for_a_reply_is_counted_by_its_claimed_length_before_it_is_read() -> None:
    server = Server({18: api_versions((1, 17, 17)), 1: lambda request: struct.pack(">i", 12 * MIB) + bytes(8)})
    memory = MemoryBudget(MemoryLimits(32 * MIB, 64 * MIB))  # a reply counts `COPIES` = 3 times: 36 MiB
    share = Share(memory, lambda: None)
    async with serving(server):
        link = await connect(server.address, Security(), timeout=10, client_id="c", meter=share, environment=SYSTEM)
        assert memory.held == 0
        with pytest.raises(ResponseTooLarge, match="32 MiB of memory, the limit of one cluster"):
            await link.request(FetchRequest())
    assert link.closed
    assert memory.held == 0


async def test_a_reply_of_the_largest_share_is_dropped_if_another_cluster_needs_the_memory() -> None:
    server = Server({18: api_versions((1, 17, 17)), 1: lambda request: struct.pack(">i", 8 * MIB) + bytes(8)})
    memory = MemoryBudget(MemoryLimits(32 * MIB, 40 * MIB))
    hostile, other = Share(memory, lambda: None), Share(memory, lambda: None)
    async with serving(server):
        link = await connect(server.address, Security(), timeout=10, client_id="c", meter=hostile, environment=SYSTEM)
        waiting = asyncio.create_task(link.request(FetchRequest()))
        while not hostile.held:  # noqa: ASYNC110 - the server sets no event
            await asyncio.sleep(0)
        assert hostile.held == 24 * MIB  # the reply of 8 MiB counts `COPIES` = 3 times
        other.keep(20 * MIB)
        with pytest.raises(Disconnected):
            await waiting
    assert (hostile.held, other.held) == (0, 20 * MIB)


OFFERED = api_versions((57, 1, 2))
RAISE = UpdateFeature("metadata.version", 25, 27)
REPLY = 3 * MAX_SHORT_FRAME
"""Bytes that are claimed before a change is sent: for its answer, and for decoding it."""


async def changed(server: Server, share: Share) -> Outcome:
    """The outcome of a change over a connection whose memory counts for this share."""
    meter = partial(connect, meter=share, environment=SYSTEM)
    async with (
        serving(server),
        Pool(ClusterSettings(request_timeout=10), connect=meter, environment=SYSTEM) as pool,
        prepared(pool, AddressRoute(server.address), RAISE) as request,
    ):
        assert not isinstance(request, NotSent)
        return await request.send(lambda: None)


async def test_a_change_is_not_sent_without_memory_for_its_answer() -> None:
    """One byte less is free than the answer needs. A change is UpdateFeatures, API key 57."""
    server = Server({18: OFFERED, 57: lambda request: b""})
    share = Share(MemoryBudget(MemoryLimits(32 * MIB, 32 * MIB)), lambda: None)
    share.keep(32 * MIB - REPLY + 1)
    outcome = await changed(server, share)
    assert isinstance(outcome, NotSent)
    assert "32 MiB of memory, the limit of one cluster" in outcome.reason
    assert 57 not in [request[1] for request in server.requests]
    assert share.held == 32 * MIB - REPLY + 1


async def test_the_outcome_of_a_change_is_unknown_if_there_is_no_memory_for_its_answer() -> None:
    """A change that was written is never reported as unsent, as its consent would then be valid again."""
    memory = MemoryBudget(MemoryLimits(32 * MIB, 32 * MIB))
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
async def test_the_outcome_of_a_change_is_unknown_if_its_answer_is_invalid(answer: Callable[[bytes], bytes]) -> None:
    share = Share(MemoryBudget(MemoryLimits(32 * MIB, 32 * MIB)), lambda: None)
    assert isinstance(await changed(Server({18: OFFERED, 57: answer}), share), OutcomeUnknown)
    assert share.held == 0


def test_a_share_that_cannot_grow_keeps_its_size() -> None:
    share = Share(MemoryBudget(LIMITS), lambda: None)
    share.keep(MIB)
    # The limit of one cluster is 8 MiB; the reply counts three times, beside the MiB that is kept.
    with pytest.raises(ResponseTooLarge), share.reply(3 * MIB, lambda: None):
        pytest.fail("it was let in")
    with pytest.raises(ResponseTooLarge):
        share.keep(9 * MIB)
    assert share.held == share.memory.held == MIB


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.sampled_from(["keep", "reply", "end"]))))
def test_no_share_exceeds_its_limit_and_only_the_largest_share_loses_memory(steps: list[tuple[int, int, str]]) -> None:
    memory = MemoryBudget(MemoryLimits(10, 25))
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
                replies[who].enter_context(shares[who].reply(size // 3, lambda: None))  # counts three times
            else:
                replies[who].close()
        except ResponseTooLarge:
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


async def test_a_closed_cluster_releases_its_memory() -> None:
    memory = MemoryBudget(LIMITS)
    cluster = Cluster(ClusterSettings(), memory=memory, environment=SYSTEM)
    cluster._share.keep(MIB)
    assert memory.held == MIB
    await cluster.close()
    assert memory.held == 0


def test_the_memory_limit_of_the_command_line_names_no_setting_of_the_operator() -> None:
    share = Cluster(ClusterSettings(), environment=SYSTEM)._share
    with pytest.raises(KafkaError, match="256 MiB") as caught:
        share.keep(257 * MIB)
    assert caught.value.remedy == "a real cluster needs far less: check its addresses"
