"""Partitions in ZooKeeper mode: they are read from the broker that is the controller, and in dual write from the log.

Before the copy, the metadata log has no partitions. This must not be taken for a cluster without partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Failure, FailureKind, LogReading, PartitionsReading, Readings, Role
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.metrics import Metrics
from kafkasim.answers.node import NodeAnswers
from kafkasim.wire.server import SimulatorServer
from kraftlog.image import ZkMigrationState
from tests.kafkafeatures.ensembles import claimed, elected
from tests.kafkafeatures.kafka.test_cluster import requests
from tests.kafkafeatures.kafka.test_last_look import fall_behind, in_sync
from tests.kafkafeatures.kafka.test_partitions import TOPICS, addresses, denied, rows
from tests.kafkasim.clusters import plan, served

KAFKA_39 = plan({1: "3.9", 2: "3.9", 3: "3.9"}, {3001: "3.9", 3002: "3.9", 3003: "3.9"})
BEFORE = replace(KAFKA_39, topics=TOPICS, min_insync_replicas=2, zk_migration_state=ZkMigrationState.PRE_MIGRATION)
DURING = replace(BEFORE, zk_migration_state=ZkMigrationState.MIGRATION)


@asynccontextmanager
async def in_zookeeper_mode(controller: int = 1) -> AsyncIterator[SimulatorServer]:
    """Brokers that answer as in ZooKeeper mode, and a quorum that waits for them."""
    async with served(BEFORE) as server:
        server.world.elected = controller
        yield server


async def read(server: SimulatorServer, **options: Any) -> Readings:
    controllers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.CONTROLLER))
    async with Cluster(ClusterSettings(addresses(server), controllers), environment=SYSTEM) as cluster:
        return await cluster.read(partitions=True, **options)


def failure(readings: Readings) -> Failure:
    assert isinstance(readings.partitions, Failure), readings.partitions
    return readings.partitions


async def test_the_log_of_a_pre_migration_is_no_source_of_partitions() -> None:
    async with served(BEFORE) as server:
        readings = await read(server)
    assert isinstance(readings.log, LogReading)
    assert failure(readings).kind is FailureKind.NOT_ASKED
    assert failure(readings).remedy == "name the ensemble in cluster.zookeeper of the document"


async def test_in_zookeeper_mode_partitions_are_read_from_the_controller_broker() -> None:
    async with in_zookeeper_mode(2) as server:
        truth, claim = in_world(server), elected(2)
        readings = await read(server, claim=claim)
    assert rows(readings.partitions) == truth
    assert isinstance(readings.partitions, PartitionsReading)
    assert (readings.partitions.offset, readings.partitions.claim) == (-1, claim)
    assert readings.partitions.default_min_insync_replicas == 2
    assert readings.partitions.partitions.min_insync_replicas.topics == {"orders": 2}


def in_world(server: SimulatorServer) -> dict[tuple[str, int], Any]:
    """The partitions of the simulated cluster; no answer of a broker has their epochs."""
    rows = server.world.image.partitions.rows()
    return {(name, number): replace(partition, partition_epoch=0) for name, number, partition in rows}


async def test_only_the_controller_broker_is_asked_for_topics_again_before_each_restart() -> None:
    metrics = Metrics(environment=SYSTEM)
    async with in_zookeeper_mode() as server:
        settings = ClusterSettings(addresses(server))
        async with Cluster(settings, recorder=metrics, environment=SYSTEM) as cluster:
            first = await cluster.read(partitions=True, claim=elected())
            before = requests(metrics)
            await fall_behind(server)
            again = await cluster.look_again(claim=elected())
        asked = requests(metrics) - before
    assert 2 in in_sync(first)["orders", 0]
    assert 2 not in in_sync(again)["orders", 0]
    # Reassignments are asked for before and after the topics; disks of each of the three brokers.
    assert (asked["Metadata"], asked["ListPartitionReassignments"], asked["DescribeLogDirs"]) == (1, 2, 3)


async def until_closed(host: str, port: int) -> None:
    """Wait until a stopped node has closed its port."""
    async with asyncio.timeout(5):
        while True:
            try:
                (await asyncio.open_connection(host, port))[1].close()
            except ConnectionRefusedError:
                return
            except ConnectionResetError:  # in the moment in which it closes
                continue


async def test_the_reading_before_a_restart_does_not_wait_for_stopped_controllers() -> None:
    async with in_zookeeper_mode() as server:
        controllers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.CONTROLLER))
        for node in server.world.of_role(Role.CONTROLLER):
            server.world.stop(Role.CONTROLLER, node.id)
            await until_closed(node.host, node.port)
        async with Cluster(ClusterSettings(addresses(server), controllers), environment=SYSTEM) as cluster:
            first = await cluster.read(partitions=True, claim=elected())

            async def catch_up() -> LogReading:
                raise AssertionError("the log is read, though no controller runs")

            cluster._log.catch_up = catch_up  # type: ignore[method-assign]
            again = await cluster.look_again(claim=elected())
    assert isinstance(again.log, Failure)
    assert in_sync(first) == in_sync(again)


async def test_partitions_are_not_read_from_a_broker_that_is_not_yet_aware_of_being_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with in_zookeeper_mode(1) as server:
        not_yet = failure(await read(server, claim=elected(2)))
        monkeypatch.setattr(NodeAnswers, "_some_broker", lambda _: 3)  # it has not updated its own metadata
        as_before = failure(await read(server, claim=elected(1)))
    assert not_yet.kind is as_before.kind is FailureKind.STALE
    assert not_yet.message == "broker 2 is controller by /controller, and does not know it yet"
    assert as_before.message == "broker 1 is controller by /controller, and takes broker 3 for the controller"


async def test_an_unlisted_controller_broker_is_named_in_the_failure() -> None:
    async with in_zookeeper_mode(1) as server:
        readings = await read(server, claim=elected(9))
    assert "broker 9, which is controller by /controller, is not listed" in failure(readings).message


async def test_a_hidden_topic_makes_the_answers_of_the_controller_broker_incomplete() -> None:
    async with in_zookeeper_mode() as server:
        server.world.hidden_topics = frozenset({"stock"})
        readings = await read(server, claim=elected())
    assert failure(readings).kind is FailureKind.AUTHORIZATION
    assert "hosts partitions that are not shown to User:ANONYMOUS: of stock" in failure(readings).message


@pytest.mark.parametrize("again", [False, True], ids=["the first reading", "the second reading"])
async def test_in_dual_write_partitions_are_read_from_the_log_of_the_claiming_leader(again: bool) -> None:
    async with served(DURING) as server, Cluster(ClusterSettings(addresses(server)), environment=SYSTEM) as cluster:
        world = server.world
        assert world.active is not None
        of_leader = claimed(world.active, epoch=world.epoch)
        of_another = claimed(world.active, epoch=world.epoch - 1)
        with_claim_of = []
        for claim in (of_leader, of_another):
            first = await cluster.read(partitions=True, claim=claim)
            with_claim_of.append(await cluster.look_again(claim=claim) if again else first)
    leader, another = with_claim_of
    assert isinstance(leader.partitions, PartitionsReading)
    assert leader.partitions.claim == of_leader
    assert leader.partitions.offset >= 0
    assert failure(another).kind is FailureKind.STALE


async def test_brokers_in_zookeeper_mode_are_not_asked_in_place_of_a_log_that_cannot_be_read() -> None:
    async with served(DURING) as server:
        server.world.elected = 1
        controllers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.CONTROLLER))
        async with Cluster(ClusterSettings(addresses(server), controllers), environment=SYSTEM) as cluster:
            cluster._log.catch_up = denied  # type: ignore[method-assign]
            readings = await cluster.read(partitions=True, claim=claimed())
    assert failure(readings).kind is FailureKind.AUTHORIZATION
    assert "while a migration from ZooKeeper is open" in failure(readings).message
