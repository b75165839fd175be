"""Partitions are read last, and once more by a second reading right before an eviction, so that they are current."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Failure, NodeAnswer, PartitionsReading, QuorumAnswer, Readings, Role
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.cluster import AT_ONCE, Cluster
from kafkafeatures.kafka.probe import prober
from kafkafeatures.metrics import Metrics
from kafkasim.wire.server import SimulatorServer
from tests.kafkafeatures.kafka.test_cluster import requests
from tests.kafkafeatures.kafka.test_partitions import CLUSTER, addresses
from tests.kafkasim.clusters import served


class LateClock:
    """A clock that is ahead by `seconds`, which a test sets as if it had waited for a slow node."""

    seconds = 0.0

    def environment(self) -> Environment:
        return Environment(monotonic=lambda: time.monotonic() + self.seconds)


def in_sync(readings: Readings) -> dict[tuple[str, int], frozenset[int]]:
    assert isinstance(readings.partitions, PartitionsReading), readings.partitions
    rows = readings.partitions.partitions.rows()
    return {(name, number): frozenset(partition.in_sync) for name, number, partition in rows}


async def fall_behind(server: SimulatorServer) -> None:
    """Make broker 2 fall out of sync, and wait until the record of it is committed."""
    offset = server.world.image.offset
    await server.act(lambda world: world.fall_behind(2, for_ms=10**6))
    await server.until(lambda world: world.image.offset > offset)


@contextmanager
def with_slow_node(
    cluster: Cluster, clock: LateClock, server: SimulatorServer, patch: pytest.MonkeyPatch
) -> Iterator[list[int]]:
    """Delay the first answer of a node to half a minute after the log was read; meanwhile broker 2 falls out of sync.
    Yields the offsets up to which the log was read.
    """
    catch_up, ask, ends = cluster._log.catch_up, prober.probe_node, list[int]()
    was_read = asyncio.Event()

    async def noted() -> object:
        reading = await catch_up()
        ends.append(reading.image.offset)
        was_read.set()
        return reading

    async def probed(pool: Pool, address: Address, role: Role) -> NodeAnswer | Failure:
        answer = await ask(pool, address, role)
        await was_read.wait()
        if not clock.seconds:
            clock.seconds = 30.0
            await fall_behind(server)
        return answer

    patch.setattr(cluster._log, "catch_up", noted)
    patch.setattr(prober, "probe_node", probed)
    yield ends


async def test_partitions_are_from_the_end_of_a_reading_however_long_it_waits_for_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = LateClock()
    async with (
        served(CLUSTER) as server,
        Cluster(ClusterSettings(addresses(server)), environment=clock.environment()) as cluster,
    ):
        before = in_sync(await cluster.read(partitions=True))
        assert 2 in before["orders", 0]
        with with_slow_node(cluster, clock, server, monkeypatch) as ends:
            readings = await cluster.read(partitions=True)
        assert 2 not in in_sync(readings)["orders", 0]
        assert readings.log.image.offset == ends[-1]  # type: ignore[union-attr]
        assert len(ends) == 2


async def test_the_log_is_read_once_if_every_node_answers_at_once() -> None:
    async with served(CLUSTER) as server, Cluster(ClusterSettings(addresses(server)), environment=SYSTEM) as cluster:
        await cluster.read(partitions=True)
        read, catch_up = list[object](), cluster._log.catch_up

        async def counted() -> object:
            read.append(None)
            return await catch_up()

        cluster._log.catch_up = counted  # type: ignore[method-assign, assignment]
        began = time.monotonic()
        await cluster.read(partitions=True)
        assert len(read) == 1 or time.monotonic() - began > AT_ONCE  # a busy machine may be too slow for this test


async def test_a_second_reading_asks_only_the_leader_and_is_up_to_date() -> None:
    metrics = Metrics(environment=SYSTEM)
    async with (
        served(CLUSTER) as server,
        Cluster(ClusterSettings(addresses(server)), recorder=metrics, environment=SYSTEM) as cluster,
    ):
        first = await cluster.read(partitions=True)
        before = requests(metrics)
        await fall_behind(server)
        again = await cluster.look_again()
        assert set(requests(metrics) - before) == {"Fetch", "DescribeQuorum"}
    assert 2 in in_sync(first)["orders", 0]
    assert 2 not in in_sync(again)["orders", 0]
    assert isinstance(first.probe.quorum, QuorumAnswer)
    assert isinstance(again.probe.quorum, QuorumAnswer)
    assert again.probe.quorum.high_watermark >= first.probe.quorum.high_watermark
    assert again.probe.nodes == first.probe.nodes


async def test_a_second_reading_of_an_unread_cluster_reads_everything() -> None:
    async with served(CLUSTER) as server, Cluster(ClusterSettings(addresses(server)), environment=SYSTEM) as cluster:
        readings = await cluster.look_again()
    assert len(readings.probe.nodes) == 6
    assert in_sync(readings)


async def test_a_second_reading_without_a_leader_shows_no_quorum() -> None:
    async with (
        served(CLUSTER) as server,
        Cluster(replace(ClusterSettings(addresses(server)), request_timeout=1.0), environment=SYSTEM) as cluster,
    ):
        await cluster.read(partitions=True)
        for voter in (3001, 3002, 3003):
            server.world.stop(Role.CONTROLLER, voter, kill=True)
        again = await cluster.look_again()
    assert isinstance(again.probe.quorum, Failure)
    assert isinstance(again.log, Failure)
    assert isinstance(again.partitions, Failure)
