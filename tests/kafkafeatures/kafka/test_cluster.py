"""Readings of a simulated cluster over TCP: their number of requests, their waits, and a cluster that is away."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.api.status import Status
from kafkafeatures.core.facts.observe import ClusterUnreachable, observe
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, LogReading, Role
from kafkafeatures.core.levels.accounted import FIRST_OFFSET
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka import cluster as module
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.log.batch_heads import end_of
from kafkafeatures.kafka.recorder.recorder import LogRecorder
from kafkafeatures.kafka.recorder.recordings import RecorderSettings
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kafkafeatures.kafka.wire.secrets import REMOVED
from kafkafeatures.metrics import Metrics
from tests.kafkasim.clusters import CLUSTER_ID, plan, served

NOBODY = Address("127.0.0.1", 1)


async def test_a_reading_does_not_wait_for_the_log_if_no_node_answers() -> None:
    """The log is not read then: its reader would wait for an election, for as long as a request may take (300 s)."""
    settings = ClusterSettings((NOBODY,), (NOBODY,), request_timeout=300)
    async with asyncio.timeout(60), Cluster(settings, environment=SYSTEM) as cluster:
        readings = await cluster.read()
    assert isinstance(readings.log, Failure)
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1: connection refused"):
        observe(readings.probe, readings.log)


async def test_a_reading_of_an_unchanged_cluster_costs_two_requests_and_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator does such a reading continuously, for each of its resources."""
    work_in_threads: list[Callable[[], Any]] = []

    async def counted(work: Callable[[], Any]) -> Any:
        work_in_threads.append(work)
        return work()

    monkeypatch.setattr(module, "run_in_thread", counted)
    async with served(plan()) as server:
        brokers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.BROKER))
        metrics = Metrics(environment=SYSTEM)
        async with Cluster(ClusterSettings(brokers), recorder=metrics, environment=SYSTEM) as cluster:
            await cluster.read()
            before = requests(metrics)
            assert await cluster.unchanged()
            assert requests(metrics) - before == {"Fetch": 1, "DescribeQuorum": 1}
        assert work_in_threads == []


async def test_each_leader_is_asked_once_whether_its_log_has_a_position() -> None:
    async with served(plan()) as server:
        brokers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.BROKER))
        metrics = Metrics(environment=SYSTEM)
        async with Cluster(ClusterSettings(brokers), recorder=metrics, environment=SYSTEM) as cluster:
            log = (await cluster.read()).log
            assert isinstance(log, LogReading)
            # The log was never in epoch 77: a position in it is of another log, so this one was restored.
            for offset, epoch, restored in ((log.image.offset, log.leader_epoch, False), (log.image.offset, 77, True)):
                for fetched in (1, 0):  # the second question is answered from memory
                    before = requests(metrics)
                    assert await cluster.moves_since(offset, epoch) == EarlierMoves(restored=restored)
                    assert (requests(metrics) - before)["Fetch"] == fetched
            await server.act(lambda world: world.stop(Role.CONTROLLER, world.active or 0))
            await cluster.read()
            before = requests(metrics)
            assert await cluster.moves_since(log.image.offset, 77) == EarlierMoves(restored=True)
            assert (requests(metrics) - before)["Fetch"] == 1


async def test_level_changes_are_read_from_the_first_record_if_a_reading_begins_with_a_snapshot() -> None:
    async with served(plan()) as server:
        await server.act(lambda world: world.take_snapshot())
        brokers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.BROKER))
        async with Cluster(ClusterSettings(brokers), environment=SYSTEM) as cluster:
            log = (await cluster.read()).log
            assert isinstance(log, LogReading)
            assert log.image.former_levels.since_offset > FIRST_OFFSET
            assert "metadata.version" not in log.image.former_levels.moves
            earlier = await cluster.moves_since(FIRST_OFFSET, log.leader_epoch)
    assert isinstance(earlier, EarlierMoves)
    assert not earlier.restored
    assert [level for _, level in earlier.moves["metadata.version"]] == [21]


async def test_level_changes_are_not_taken_for_none_while_the_id_of_the_cluster_is_not_known() -> None:
    """Controllers tell the id only from metadata.version 15 on, and no broker is asked here."""
    async with served(plan(metadata_version=14)) as server:
        await server.act(lambda world: world.take_snapshot())
        controllers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.CONTROLLER))
        async with Cluster(ClusterSettings((), controllers), environment=SYSTEM) as cluster:
            readings = await cluster.read()
            assert isinstance(readings.probe.cluster_id, Failure)
            assert isinstance(readings.log, LogReading)
            assert isinstance(await cluster.moves_since(FIRST_OFFSET, readings.log.leader_epoch), Failure)


async def test_a_log_is_followed_only_of_its_own_cluster_and_only_over_an_open_connection() -> None:
    async with served(plan()) as server:
        brokers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.BROKER))
        async with Cluster(ClusterSettings(brokers), environment=SYSTEM) as cluster:
            await cluster.read()
            assert cluster.followed(CLUSTER_ID) is not None
            assert cluster.followed("of-another-cluster") is None
        assert cluster.followed(CLUSTER_ID) is None


async def test_a_followed_log_is_recorded_byte_for_byte_over_the_open_connection(
    tmp_path: Path,
) -> None:
    async with served(plan()) as server:
        brokers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.BROKER))
        metrics = Metrics(environment=SYSTEM)
        recorder = LogRecorder(RecorderSettings(str(tmp_path)), metrics.of_recorder(), environment=SYSTEM)
        async with Cluster(ClusterSettings(brokers), recorder=metrics, environment=SYSTEM) as cluster:
            readings = await cluster.read()
            before = requests(metrics)
            recorder.saw(("kafka", "orders"), cluster, Status(cluster_id=CLUSTER_ID))
            await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name().startswith("record ")))
            assert (requests(metrics) - before).keys() == {"Fetch"}
        await recorder.close()
        assert isinstance(readings.log, LogReading)
        (path,) = await asyncio.to_thread(lambda: list(tmp_path.rglob("*.log.open-*")))
        recorded = path.read_bytes()
        assert recorded == server.world.log.read(0, max_bytes=10**7)[: len(recorded)]
        assert end_of(recorded) == OffsetAndEpoch(readings.log.image.offset, readings.log.image.epoch)


def requests(metrics: Metrics) -> Counter[str]:
    """How many requests were sent so far, by API."""
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    total = "kafkafeatures_kafka_requests_total"
    return Counter({sample.labels["api"]: int(sample.value) for sample in samples if sample.name == total})


async def test_secrets_are_removed_from_readings_and_their_changes_are_still_detected() -> None:
    """Answers are compared as they came; secrets are removed from the readings that are made of them."""
    async with served(plan()) as server:
        brokers = tuple(Address(node.host, node.port) for node in server.world.of_role(Role.BROKER))
        security = Security()
        security.secrets.add("PLAINTEXT")  # as if it were a password
        async with Cluster(ClusterSettings(brokers, controllers=security), environment=SYSTEM) as cluster:
            log = (await cluster.read()).log
            assert "PLAINTEXT" not in str(log)
            assert REMOVED in str(log)
            assert await cluster.unchanged()
            await server.act(lambda world: world.stop(Role.BROKER, 1))
            await server.until(lambda world: world.image.brokers[1].in_controlled_shutdown)
            assert not await cluster.unchanged()
