"""Partitions in readings of a simulated cluster, from the metadata log or from answers of brokers, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    LogReading,
    PartitionsReading,
    QuorumAnswer,
    Readings,
    Role,
)
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import ErrorCode, NotAuthorized
from kafkafeatures.kafka.base.memory_budget import MIB, MemoryBudget, MemoryLimits, Share
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.log import held
from kafkafeatures.kafka.log.follower import MetadataLog
from kafkafeatures.kafka.partitions import asked as asked_partitions
from kafkafeatures.kafka.partitions import partitions
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kafkafeatures.kafka.wire.secrets import REMOVED
from kafkasim.plan import TopicPlan
from kafkasim.wire.server import SimulatorServer
from kraftlog import Section
from kraftlog.partitions import Partition
from tests.kafkafeatures.kafka.scripted_quorum import Quorum
from tests.kafkasim.clusters import plan, served
from tests.kraftlog.build import batch, begin, broker, end, level, no_op
from tests.kraftlog.build import snapshot as snapshot_of
from tests.kraftlog.partitions import partition, topic

TOPICS = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1)), 2), TopicPlan("stock", ((3, 1), (1,))))
CLUSTER = replace(plan(), topics=TOPICS, min_insync_replicas=2)


def addresses(server: SimulatorServer) -> tuple[Address, ...]:
    return tuple(Address(one.host, one.port) for one in server.world.of_role(Role.BROKER))


async def denied(*_: object) -> LogReading:
    raise NotAuthorized(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "reading it needs CLUSTER_ACTION")


async def read(server: SimulatorServer, *, log: bool = True, **options: Any) -> Readings:
    """A reading with partitions. `log` False: the user may not read the log, so brokers are asked."""
    async with Cluster(ClusterSettings(addresses(server)), **{"environment": SYSTEM, **options}) as cluster:
        if not log:
            cluster._log.catch_up = denied  # type: ignore[method-assign]
        return await cluster.read(partitions=True)


def rows(found: PartitionsReading | Failure) -> dict[tuple[str, int], Partition]:
    """Partitions by topic and number, without their epoch, which answers of brokers do not have."""
    assert isinstance(found, PartitionsReading), found
    return {(name, at): replace(one, partition_epoch=0) for name, at, one in found.partitions.rows()}


async def test_partitions_of_the_log_equal_those_of_answers() -> None:
    async with served(CLUSTER) as server:
        logged, asked = await read(server), await read(server, log=False)
    assert isinstance(logged.log, LogReading)
    assert isinstance(asked.log, Failure)
    assert rows(logged.partitions) == rows(asked.partitions)
    assert len(rows(logged.partitions)) == 4
    for found in (logged.partitions, asked.partitions):
        assert isinstance(found, PartitionsReading)
        assert found.default_min_insync_replicas == 2
        assert found.partitions.min_insync_replicas.topics == {"orders": 2}
    assert isinstance(logged.partitions, PartitionsReading)
    assert logged.partitions.offset == logged.log.image.offset


@pytest.mark.parametrize("name", ["orders", "stock"], ids="the hidden topic is {}".format)
async def test_a_hidden_topic_makes_answers_incomplete_but_not_the_log(name: str) -> None:
    async with served(CLUSTER) as server:
        server.world.hidden_topics = frozenset({name})
        logged, asked = await read(server), await read(server, log=False)
    assert len(rows(logged.partitions)) == 4
    assert isinstance(asked.partitions, Failure)
    assert asked.partitions.kind is FailureKind.AUTHORIZATION
    assert f"hosts partitions that are not shown to User:ANONYMOUS: of {name}" in asked.partitions.message


async def test_brokers_that_may_be_cut_off_are_not_asked_for_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = asked_partitions.ask_for_partitions

    # The brokers last fetched 2001 ms before the latest fetch of a voter; at most two seconds are allowed.
    async def of_old(pool: Any, probe: ClusterProbe, *rest: Any) -> PartitionsReading | Failure:
        assert isinstance(probe.quorum, QuorumAnswer)
        clock = max(one.last_fetch_timestamp for one in probe.quorum.voters)
        late = tuple(replace(one, last_fetch_timestamp=clock - 2001) for one in probe.quorum.observers)
        return await ask(pool, replace(probe, quorum=replace(probe.quorum, observers=late)), *rest)

    monkeypatch.setattr(partitions, "ask_for_partitions", of_old)
    async with served(CLUSTER) as server:
        found = (await read(server, log=False)).partitions
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.STALE
    assert "no broker is known to follow the active controller closely" in found.message


async def test_only_partitions_that_changed_are_copied_for_the_next_reading() -> None:
    """Broker 2 has replicas of `orders` alone, whose partitions have three replicas. Those with two or one are in
    arrays of their own.
    """
    async with served(CLUSTER) as server, Cluster(ClusterSettings(addresses(server)), environment=SYSTEM) as cluster:
        first = again = (await cluster.read(partitions=True)).partitions
        await server.act(lambda world: world.stop(Role.BROKER, 2))
        async with asyncio.timeout(5):
            while rows(again) == rows(first):
                again = (await cluster.read(partitions=True)).partitions
    assert isinstance(first, PartitionsReading)
    assert isinstance(again, PartitionsReading)
    chunks = zip(first.partitions.chunks, again.partitions.chunks, strict=True)
    shared = {earlier.replicas.shape[1]: np.shares_memory(earlier.flags, later.flags) for earlier, later in chunks}
    assert shared == {1: True, 2: True, 3: False}


async def test_a_cluster_counts_as_unchanged_until_one_of_its_brokers_stops() -> None:
    async with served(CLUSTER) as server, Cluster(ClusterSettings(addresses(server)), environment=SYSTEM) as cluster:
        await cluster.read(partitions=True)
        assert await cluster.unchanged()
        await server.act(lambda world: world.stop(Role.BROKER, 1))
        await server.until(lambda world: world.image.brokers[1].in_controlled_shutdown)
        assert not await cluster.unchanged()


async def test_secrets_are_removed_from_names_of_topics() -> None:
    made = replace(CLUSTER, topics=(TopicPlan("of-secret-9f3c-only", ((1, 2),)), *TOPICS))
    security = Security()
    security.secrets.add("secret-9f3c")
    async with served(made) as server:
        settings = ClusterSettings(addresses(server), brokers=security)
        async with Cluster(settings, environment=SYSTEM) as cluster:
            for _ in range(2):
                found = (await cluster.read(partitions=True)).partitions
                assert {name for name, _ in rows(found)} == {"orders", "stock", f"of-{REMOVED}-only"}
                assert await cluster.unchanged()
        async with Cluster(settings, environment=SYSTEM) as cluster:
            cluster._log.catch_up = denied  # type: ignore[method-assign]
            asked = (await cluster.read(partitions=True)).partitions
    assert isinstance(asked, Failure)  # no topic has the redacted name, so the brokers' answers do not fit
    assert f"of-{REMOVED}-only" in asked.message


async def test_partitions_above_the_memory_limit_leave_the_rest_of_the_reading() -> None:
    made = replace(CLUSTER, topics=tuple(TopicPlan(f"topic-{n}", ((1, 2, 3),)) for n in range(4000)))
    # 3.5 MiB for the cluster: enough for its nodes, and too little for 4000 topics.
    memory = MemoryBudget(MemoryLimits(7 * MIB // 2, 4 * MIB, raise_one="raise it"))
    async with served(made) as server:
        found = await read(server, memory=memory)
    assert isinstance(found.log, LogReading)
    assert found.log.image.partitioned is None
    assert len(found.log.image.brokers) == 3
    assert isinstance(found.partitions, Failure)
    assert found.partitions.kind is FailureKind.TOO_LARGE
    assert found.partitions.remedy.endswith("raise it")


async def test_answers_above_the_memory_limit_are_not_asked_of_another_broker() -> None:
    async with served(CLUSTER) as server, Cluster(ClusterSettings(addresses(server)), environment=SYSTEM) as cluster:
        cluster._log.catch_up = denied  # type: ignore[method-assign]
        asked: list[int] = []

        def keep(size: int) -> None:
            if size:
                asked.append(size)
                raise cluster._share.too_large()

        cluster._share.keep = keep  # type: ignore[method-assign]
        found = (await cluster.read(partitions=True)).partitions
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.TOO_LARGE
    assert len(asked) == 1


# --- the follower ---

IDS = range(1, 200)
TOPIC_RECORDS = [value for id_ in IDS for value in (topic(id_), *(partition(id_, at, 1, 2, 3) for at in range(30)))]


@pytest.fixture
def quorum() -> Quorum:
    """A quorum whose log begins with a snapshot."""
    made = Quorum()
    end = OffsetAndEpoch(10_000, 5)
    made.leader.snapshots = [(end, snapshot_of(broker(7, 5), *TOPIC_RECORDS))]
    made.leader.log = [(end.offset, batch(end.offset, no_op(), epoch=5))]
    made.leader.high_watermark = end.offset + 1
    return made


def following(quorum: Quorum) -> tuple[MetadataLog, Share]:
    share = Share(MemoryBudget(), lambda: log.discard())  # noqa: PLW0108 - it is made below
    log = quorum.log(share=share, part=64 * 1024)
    return log, share


async def test_partitions_are_held_only_while_they_are_asked_for(quorum: Quorum) -> None:
    log, share = following(quorum)
    small = (await log.catch_up()).image
    assert small.partitioned is None
    before = share.held
    log.hold_partitions(True)
    assert share.held == 0  # all is read anew
    large = (await log.catch_up()).image
    assert len(large.partitions) == 30 * len(IDS)
    assert share.held > before + 30 * len(IDS) * 35  # at least 35 bytes for a partition
    assert replace(large, partitioned=None) == small
    requests = quorum.requests
    log.hold_partitions(True)
    quorum.leader.append(level("metadata.version", 27), partition(1, 0, 1, 2))
    assert (await log.catch_up()).image.partitions.chunks
    assert quorum.requests < requests + 5  # it continues at its offset
    log.hold_partitions(False)
    assert share.held < before + 1000  # some bytes for the records that were read since
    quorum.leader.append(partition(1, 0, 1, 2, 3))
    without = (await log.catch_up()).image
    assert (without.partitioned, without.unreadable) == (None, 0)
    assert without.features == {"metadata.version": 27}


async def test_releasing_partitions_during_a_metadata_transaction_keeps_its_other_records(quorum: Quorum) -> None:
    log, _ = following(quorum)
    log.hold_partitions(True)
    quorum.leader.append(begin(), topic(900), level("metadata.version", 27))
    assert (await log.catch_up()).image.in_transaction
    log.hold_partitions(False)
    quorum.leader.append(end())
    found = (await log.catch_up()).image
    assert (found.unreadable, found.in_transaction) == (0, False)
    assert found.features == {"metadata.version": 27}


async def test_a_cancelled_reading_of_partitions_starts_over(quorum: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that applies the records cannot be stopped, so its image is discarded and a new one is made."""
    log, share = following(quorum)
    log.hold_partitions(True)
    begun = asyncio.Event()

    async def never(work: Callable[[], object]) -> None:
        work()
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(held, "run_in_thread", never)
        looking = asyncio.create_task(log.catch_up())
        await begun.wait()
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
    assert share.held == 0
    found = (await log.catch_up()).image
    assert len(found.partitions) == 30 * len(IDS)
    assert log._held._sections >= {Section.PARTITIONS}
