"""The page about a migration on Kubernetes, followed with its own manifests: half of the way, back to ZooKeeper, and
then to KRaft.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest

from kafkafeatures.core.migration.edges import PersonAction
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kubernetes.migrations.migrating import NAME, TOPIC, TOPICS, MigratingResource, of
from tests.e2e.kubernetes.migrations.paged import PagedPods, manifests
from tests.e2e.kubernetes.migrations.secured import SecuredPods
from tests.e2e.kubernetes.resources import delete_all
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.observer import Observer
from tests.e2e.rig.kubernetes.operator import Operator


class OnThePage(MigratingResource):
    """The document of the page; for a test, its times are short."""

    pods: PagedPods

    def wants(self, desired: str, *consents: str, **spec: object) -> None:
        document = deepcopy(self.pods.objects["KafkaFeatures", NAME])
        document["spec"] |= {"consents": list(consents), **spec}
        document["spec"]["migration"] |= {"desired": desired, "holdDualWriteFor": "0m"}
        document["spec"]["rollout"] = {"stableFor": "3s"}
        self.plane.apply(document)


@contextmanager
def running(pods: PagedPods) -> Iterator[PagedPods]:
    """Three brokers in ZooKeeper mode, and a topic."""
    try:
        pods.begin()
        many = ("--partitions", "6", "--replication-factor", "3")
        pods.tool(TOPICS, *pods.servers_of_tools, "--create", "--topic", TOPIC, *many)
        yield pods
    finally:
        pods.remove()


@pytest.fixture
def kafka(node: Node) -> Iterator[PagedPods]:
    """A cluster that asks neither nodes nor clients for a password."""
    with running(PagedPods(node)) as pods:
        yield pods


@contextmanager
def document(kafka: PagedPods, observer: Observer | None, operator: Operator) -> Iterator[OnThePage]:
    """A resource that does not exist yet; it is deleted afterwards."""
    yield OnThePage(kafka, observer, operator)
    delete_all(kafka.plane, kafka.namespace)


def test_a_migration_with_the_manifests_of_the_page_is_rolled_back_and_then_finalized(
    kafka: PagedPods, observer: Observer, operator: Operator
) -> None:
    brokers = kafka.pods_of("brokers")
    with document(kafka, observer, operator) as migrating:
        to_the_copy(migrating)
        migrating.wants("RolledBack")
        migrating.until_asked(PersonAction.NO_CONTROLLERS.value)
        kafka.scales(0)
        migrating.until_asked(of(Shape.PLAIN_BROKER), PersonAction.WIPE.value)
        kafka.deletes_volumes("controllers")
        kafka.names("brokers", "brokers-zookeeper")
        migrating.until_in_sync("RolledBack")
        assert Counter(migrating.evicted) == Counter([*brokers, *brokers])

        kafka.makes_volumes("controllers")
        to_the_copy(migrating)
        to_the_end(migrating)
        # after the six evictions until the rollback, and before the three of controllers at the end
        assert Counter(migrating.evicted[6:-3]) == Counter([*brokers, *brokers])
        migrating.no_client_was_harmed()


def test_a_migration_of_a_secured_cluster_is_finalized_with_the_lines_of_the_page(node: Node, tmp_path: Path) -> None:
    with running(SecuredPods(node)) as kafka:
        names = tuple(kafka.with_names())
        with (
            Operator(kafka.plane, tmp_path, before=names) as operator,
            document(kafka, None, operator) as migrating,
        ):
            to_the_copy(migrating)
            to_the_end(migrating)
            assert Counter(migrating.evicted[:-3]) == Counter(2 * [*kafka.pods_of("brokers")])


def to_the_copy(migrating: OnThePage) -> None:
    """Go from ZooKeeper mode, also after a rollback, to the state in which all metadata is copied."""
    kafka = migrating.pods
    migrating.wants("PreMigration")
    migrating.until_asked("start the controllers of the quorum")
    formats(kafka, cluster_id(kafka))
    kafka.scales(3)
    migrating.until_in_sync("PreMigration")
    formats(kafka, "")
    migrating.wants("DualWrite")
    migrating.until_asked(of(Shape.FLAGGED_BROKER))
    kafka.names("brokers", "brokers-flag")
    migrating.until_asked(of(Shape.KRAFT_BROKER))


def to_the_end(migrating: OnThePage) -> None:
    """Go from the copied metadata to the end of the migration; the leader of the controllers is restarted last."""
    kafka = migrating.pods
    kafka.names("brokers", "brokers-kraft")
    migrating.until_in_sync("DualWrite")
    migrating.wants("Finalized", "zk-finalize")
    migrating.approve("Finalized", "zk-finalize")
    migrating.until_asked(of(Shape.CONTROLLER))
    leader = kafka.node_ids[kafka.leader()]
    without_zookeeper(kafka)
    kafka.names("controllers", "controllers-kraft")
    migrating.until_in_sync("Finalized")
    assert Counter(migrating.evicted[-3:]) == Counter(kafka.pods_of("controllers"))
    assert migrating.evicted[-1] == leader


def cluster_id(kafka: PagedPods) -> str:
    """The id that `describe` shows."""
    words = ("describe", "--bootstrap-server", kafka.addresses("brokers"), "--config", kafka.client_file, "-o", "json")
    done = subprocess.run(
        kafka.with_names(sys.executable, "-m", "kafkafeatures", *words), capture_output=True, text=True, check=True
    )
    return str(json.loads(done.stdout)["clusterId"])


def formats(kafka: PagedPods, id_: str) -> None:
    """Have the init container format empty disks for the cluster with this id, or do nothing if it is empty."""
    shown = manifests()["ConfigMap", "controllers-flag"]["data"]["format.sh"]
    assert "CLUSTER_ID" in shown
    kafka.data_of("controllers-flag")["format.sh"] = shown.replace("CLUSTER_ID", id_) if id_ else "true"
    kafka.applies((kafka.kind, "controllers-flag"), *(one for one in kafka.objects if one[1] == "controllers"))


def without_zookeeper(kafka: PagedPods) -> None:
    """Make the ConfigMap `controllers-kraft` as the page describes it: without the two lines about ZooKeeper."""
    made = deepcopy(kafka.objects[kafka.kind, "controllers-flag"])
    made["metadata"]["name"] = "controllers-kraft"
    kafka.objects[kafka.kind, "controllers-kraft"] = made
    data = kafka.data_of("controllers-kraft")
    lines = data["server.properties"].splitlines(keepends=True)
    left = [line for line in lines if not line.startswith("zookeeper.")]
    assert len(left) == len(lines) - 2
    data["server.properties"] = "".join(left)
