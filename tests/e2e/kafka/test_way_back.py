"""The transaction of a rollback, with real nodes of Kafka: a broker is elected at once, and partitions keep leaders.

The quorum had a higher epoch than any controller in ZooKeeper (KAFKA-20488).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka.admin import KafkaAdminClient
from kazoo.client import KazooClient

from kafkafeatures.core.engine.steps import Applied, NotSent
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.release import release
from kafkafeatures.environment import SYSTEM
from kafkafeatures.zookeeper.client import ZooKeeper as Port
from kafkafeatures.zookeeper.copied import dry_run
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.migration import Migration
from tests.e2e.rig.process import free_port, wait_until
from tests.e2e.rig.zookeeper import ZooKeeper, read_znode

BROKERS = (1, 2)
ELECTIONS = 50
"""How often the controller is elected while it waits. This raises the epoch of the quorum, but not that in ZooKeeper.
"""


@contextmanager
def admin(port: int) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    try:
        yield client
    finally:
        client.close()


def knows(port: int, controller: int) -> bool:
    """True if this broker knows which controller was elected. Until then it names a random broker each time."""
    with admin(port) as client:
        return all(client.describe_cluster()["controller_id"] == controller for _ in range(10))


def lists(ports: tuple[int, ...], brokers: set[int]) -> bool:
    """True if the brokers at all of these ports answer, and list these brokers as live."""
    try:
        return all(listed_brokers(port) == brokers for port in ports)
    except (OSError, struct.error):
        return False


class Znodes:
    """Reads the state of the cluster from ZooKeeper."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def at(self, path: str) -> Any:
        return read_znode(self._client, f"/kafka{path}")

    @property
    def has_broker_as_controller(self) -> bool:
        claim = self.at("/controller")
        return claim is not None and claim["brokerid"] in BROKERS and claim["kraftControllerEpoch"] == -1

    @property
    def is_copied(self) -> bool:
        progress = self.at("/migration")
        return progress is not None and progress["kraft_metadata_offset"] > 0

    @property
    def brokers(self) -> set[int]:
        """The brokers that are registered."""
        return {int(name) for name in self._client.get_children("/kafka/brokers/ids")}

    @property
    def partition(self) -> dict[str, Any] | None:
        """The state of the partition that was created in dual write."""
        state: dict[str, Any] | None = self.at("/brokers/topics/orders/partitions/0/state")
        return state


def of_second(cluster: Migration, properties: dict[str, str]) -> dict[str, str]:
    """The settings of broker 2, made from those of broker 1."""
    listener, folder = f"PLAINTEXT://127.0.0.1:{SECOND}", str(cluster.root / "broker-2-data")
    return {**properties, "broker.id": "2", "listeners": listener, "log.dirs": folder}


SECOND = free_port()


async def test_a_broker_is_elected_controller_after_a_rollback_and_continues_at_a_higher_epoch(tmp_path: Path) -> None:
    with ZooKeeper(tmp_path) as zookeeper, Migration(tmp_path, zookeeper) as cluster:
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            await go_there_and_back(cluster, Znodes(client))
        finally:
            client.stop()
            client.close()


async def go_there_and_back(cluster: Migration, znodes: Znodes) -> None:
    cluster.run("broker", cluster.plain)
    cluster.run("second", of_second(cluster, cluster.plain))
    wait_until("a broker is elected", lambda: znodes.has_broker_as_controller)
    wait_until("both brokers are registered", lambda: znodes.brokers == {1, 2})
    cluster.format_controller(znodes.at("/cluster/id")["id"])
    cluster.run("controller", cluster.migrating_controller)
    wait_until("the controller is elected", lambda: cluster.quorum_epoch > 0)
    cluster.stop("controller")
    cluster.raise_quorum_epoch(ELECTIONS)
    cluster.run("controller", cluster.migrating_controller)
    wait_until("the controller is elected once more", lambda: cluster.quorum_epoch > ELECTIONS)
    wait_until("the controller waits for brokers", lambda: znodes.at("/migration") is not None)
    cluster.run("broker", cluster.flagged)
    cluster.run("second", of_second(cluster, cluster.flagged))
    wait_until("ZooKeeper is copied", lambda: znodes.is_copied)
    both = cluster.port, SECOND
    wait_until("both answer", lambda: lists(both, {1, 2}))
    with admin(cluster.port) as client:
        client.create_topics({"orders": {"assignments": {0: [2, 1]}}})
    wait_until(
        "both brokers have the topic", lambda: znodes.partition is not None and set(znodes.partition["isr"]) == {1, 2}
    )
    cluster.stop("controller")

    ensemble = Ensemble(*parse_connect(cluster.ensemble, "test"))
    port, survey = Port(ensemble, SYSTEM), await dry_run(ensemble)
    read = await port.read()
    assert isinstance(survey, Survey), survey
    assert isinstance(read, ZooKeeperReading), read
    assert (
        survey.controller_epoch > ELECTIONS > znodes.at("/controller_epoch")
    )  # otherwise this test would prove nothing
    step = release(read, partition_epoch=survey.controller_epoch)
    assert isinstance(step, DeleteZnodes), step
    assert step.raise_to == survey.controller_epoch + 1
    async with port.prepared(step) as transaction:
        assert not isinstance(transaction, NotSent)
        assert await transaction.send(lambda: None) == Applied()

    raised = step.raise_to
    wait_until("a broker is elected again", lambda: znodes.has_broker_as_controller, 15)
    assert znodes.at("/controller_epoch") == raised + 1
    assert znodes.at("/migration") is None
    elected = znodes.at("/controller")["brokerid"]
    wait_until("both brokers know the new controller", lambda: all(knows(port, elected) for port in both))
    cluster.stop("second")  # broker 1 must become leader of its partition

    def is_led_by_broker_1() -> bool:
        state = znodes.partition
        return state is not None and state["leader"] == 1 and state["controller_epoch"] > raised

    wait_until("broker 1 leads the partition of broker 2", is_led_by_broker_1, 30)
    wait_until("broker 1 is alone", lambda: lists((cluster.port,), {1}))
    wait_until("broker 1 is the controller", lambda: knows(cluster.port, 1))
    with admin(cluster.port) as client:
        client.create_topics({"later": {"num_partitions": 1, "replication_factor": 1}})
    wait_until("the new topic has a leader", lambda: znodes.at("/brokers/topics/later/partitions/0/state") is not None)
