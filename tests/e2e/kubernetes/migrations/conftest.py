"""A Kafka 3.9 in ZooKeeper mode on a real node, an observer of it, and an operator beside them, for each file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.e2e.kubernetes.migrations.migrating import TOPIC, MigratingResource, held
from tests.e2e.kubernetes.resources import delete_all, install
from tests.e2e.kubernetes.rolls.rolling import allow_rolls
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.groups import outside_of_pods
from tests.e2e.rig.kubernetes.kind import KIND
from tests.e2e.rig.kubernetes.migrating import IBP, MigratingPods
from tests.e2e.rig.kubernetes.network import HOST, network
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

collect_ignore_glob = ["test_*.py"] if KIND else []  # this machine reaches no pods there


@pytest.fixture(scope="package")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("migrations")
    with (
        network(),
        outside_of_pods(),
        ControlPlane(folder / "plane", HOST) as plane,
        Node(plane, folder / "node") as running,
    ):
        install(plane)
        yield running


@pytest.fixture
def kafka(
    request: pytest.FixtureRequest, node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MigratingPods]:
    """Three brokers in ZooKeeper mode, with all that Kafka copies; of the version that a file names as BEGINS_WITH."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper"), address=HOST) as ensemble:
        running = MigratingPods(node, ensemble.connect, ibp=getattr(request.module, "BEGINS_WITH", IBP))
        running.begin()
        held(running)
        allow_rolls(running)
        yield running
        running.remove()


@pytest.fixture
def observer(kafka: MigratingPods, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observer]:
    """A producer with acks=all and a consumer, from here to the end."""
    with Observer(kafka, tmp_path_factory.mktemp("observer"), TOPIC) as running:
        wait_until("all replicas are in sync", running.in_sync, step=0.5)
        yield running


@pytest.fixture
def operator(kafka: MigratingPods, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """With the rights of its account, and no others; it resolves names as a pod does."""
    names = tuple(kafka.with_names())
    with Operator(kafka.plane, tmp_path_factory.mktemp("operator"), before=names) as running:
        yield running


@pytest.fixture
def migrating(kafka: MigratingPods, observer: Observer, operator: Operator) -> Iterator[MigratingResource]:
    """No document yet."""
    yield MigratingResource(kafka, observer, operator)
    delete_all(kafka.plane, kafka.namespace)


@pytest.fixture
def zookeeper(migrating: MigratingResource) -> Iterator[KazooClient]:
    """A client of the ensemble."""
    client = KazooClient(migrating.pods.servers)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()
