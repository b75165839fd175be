"""The metadata log of a live cluster, read for a report: a simulated cluster that speaks the protocol."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from kafkafeatures.api.values import replace
from kafkafeatures.cli.kube.report_log import _read, read_roll
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security
from kafkasim.plan import TopicPlan
from kafkasim.wire.server import SimulatorServer
from kraftlog.rolls import RollHistory
from tests.kafkasim.clusters import CLUSTER_ID, START_MS, plan, served

CLUSTER = replace(plan(), topics=(TopicPlan("orders", ((1, 2, 3), (2, 3, 1)), 2),), min_insync_replicas=2)
SINCE = datetime.fromtimestamp(START_MS / 1000, UTC) - timedelta(minutes=1)


async def read(server: SimulatorServer, cluster_id: str = CLUSTER_ID, **settings: Security) -> RollHistory | Failure:
    brokers = tuple(Address(one.host, one.port) for one in server.world.of_role(Role.BROKER))
    return await _read(ClusterSettings(brokers, request_timeout=5.0, **settings), cluster_id, SINCE)  # type: ignore[arg-type]  # of both listeners


async def test_a_stopped_broker_is_an_absence_in_the_log_of_its_cluster() -> None:
    async with served(CLUSTER) as server:
        server.world.stop(Role.BROKER, 2)
        async with asyncio.timeout(30):
            while not (found := await history(server)).absences:
                pass
        assert [one.node_id for one in found.absences] == [2]
        assert (found.partitions, found.unreadable, found.minimum_known) == (2, 0, True)


async def history(server: SimulatorServer) -> RollHistory:
    found = await read(server)
    assert isinstance(found, RollHistory), found
    return found


async def test_the_log_of_another_cluster_is_not_reported() -> None:
    async with served(CLUSTER) as server:
        found = await read(server, "another-cluster")
    assert f"connected to cluster {CLUSTER_ID}, expected another-cluster" in str(found)


async def test_a_log_that_may_not_be_read_is_reported_with_the_right_that_is_missing() -> None:
    async with served(CLUSTER) as server:
        server.world.grants_cluster_action = False
        found = await read(server)
    assert isinstance(found, Failure)
    assert "CLUSTER_ACTION" in str(found)
    assert "kafka-acls" in str(found)


async def test_a_secret_that_a_cluster_repeats_is_not_in_the_report() -> None:
    secret = "hunter2-hunter2-hunter2"
    named = replace(CLUSTER, topics=(TopicPlan(f"x-{secret}", ((1, 2, 3),), 2),))
    async with served(named) as server:
        server.world.stop(Role.BROKER, 2)
        ours = Security()
        ours.secrets.add(secret)
        async with asyncio.timeout(30):
            while not isinstance(found := await read(server, controllers=ours), RollHistory) or not found.strips:
                pass
    assert secret not in str(found)


def test_a_cluster_that_does_not_answer_is_reported_as_a_failure() -> None:
    settings = ClusterSettings((Address("127.0.0.1", 1),), request_timeout=1.0)
    assert "connection refused" in str(read_roll(settings, CLUSTER_ID, SINCE))
