"""States of a migration that others make, on a real API server: each is refused by name, and nothing is done.

Kafka and ZooKeeper are real, as processes; pods of theirs are on a Kubernetes node that is lost, so none ever runs or
ends. One cluster lives through all of them, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafkafeatures.core.migration.edges import PersonAction
from kafkafeatures.core.migration.settings import Shape
from tests.e2e.kubernetes.resources import NS, Resources, allow_restarts
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper, read_znode

BROKER, CONTROLLER, LOST = 1, 3001, "lost"
PODS = {"driver": "StatefulSet", "statefulSet": {"brokers": ["brokers"], "controllers": ["controllers"]}}
LIES = {
    "phase": "Finalized", "position": "Finalized", "since": "2020-01-01T00:00:00Z", "restartsLeft": 0,
    "zkMigrationState": "POST_MIGRATION", "brokers": {"kraft": 1},
}  # fmt: skip


class Refused(Resources):
    """Documents about the cluster; a client of its ensemble that may write."""

    def __init__(self, operator: Operator, cluster: MigratingCluster, client: KazooClient) -> None:
        super().__init__(operator.plane)
        self.cluster, self.client = cluster, client
        self._audit = operator.plane.audit.mark()

    def at(self, path: str) -> Any:
        return read_znode(self.client, f"/kafka{path}")

    def wants(self, desired: str, name: str = "orders") -> None:
        cluster = {
            "bootstrapServers": self.cluster.bootstrap_servers,
            "bootstrapControllers": self.cluster.bootstrap_controllers,
            "zookeeper": {"connect": self.cluster.ensemble},
            "requestTimeout": "5s",
        }
        migration = {"desired": desired, "holdDualWriteFor": "0m"}
        self.apply(name, {}, cluster=cluster, workload=PODS, migration=migration)

    def has(self, name: str, replicas: int = 1, shape: str = "first") -> None:
        """A StatefulSet, whose pods are bound to the Kubernetes node that is lost."""
        labels = {"app": name}
        container = {"name": "kafka", "image": "kafka:3.9.2", "env": [{"name": "SHAPE", "value": shape}]}
        template = {"metadata": {"labels": labels}, "spec": {"nodeName": LOST, "containers": [container]}}
        spec = {
            "serviceName": name, "replicas": replicas, "selector": {"matchLabels": labels}, "template": template,
            "updateStrategy": {"type": "OnDelete"}, "podManagementPolicy": "Parallel",
        }  # fmt: skip
        metadata = {"name": name, "namespace": NS}
        self.plane.apply({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})

    def pod(self, name: str) -> dict[str, Any]:
        """Metadata of a pod; empty while it is not there."""
        found: dict[str, Any] = self.plane.read(f"/api/v1/namespaces/{NS}/pods/{name}").get("metadata", {})
        return found

    def blockers(self) -> dict[str, str]:
        """What is named, with its remedy."""
        return {one["message"]: one.get("remedy", "") for one in self.status("orders").get("blockers", ())}

    def until_named(self, *words: str) -> tuple[str, str]:
        """The first blocker that has all of these in its message."""

        def found() -> list[tuple[str, str]]:
            return [one for one in self.blockers().items() if all(word in one[0] for word in words)]

        wait_until(f"{words} is named", found, step=0.3)
        return found()[0]

    @property
    def evicted(self) -> bool:
        return bool(self.plane.audit.rows(self._audit, resource="pods", subresource="eviction", user=USER))


@pytest.fixture(scope="module")
def refused(operator: Operator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refused]:
    root = tmp_path_factory.mktemp("refused")
    extra = {"offsets.topic.replication.factor": "1"}
    with (
        ZooKeeper(root / "zookeeper") as zookeeper,
        MigratingCluster(root / "nodes", zookeeper, brokers=(BROKER,), controllers=(CONTROLLER,), extra=extra) as made,
    ):
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            found = Refused(operator, made, client)
            made.run(BROKER, Shape.PLAIN_BROKER)
            wait_until("a broker is controller", lambda: found.at("/controller") is not None)
            made.format_controllers(found.at("/cluster/id")["id"])
            made.run(CONTROLLER, Shape.MIGRATING_CONTROLLER)
            allow_restarts(operator.plane, NS)
            operator.plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": LOST}})
            for name in ("brokers", "controllers"):
                found.has(name)
                wait_until(f"{name} have a pod", partial(found.pod, f"{name}-0"))
            yield found
        finally:
            client.stop()
            client.close()
            operator.plane.kubectl("delete", "kff,statefulsets", "--all", "-n", NS, "--timeout=30s")
            operator.plane.kubectl("delete", "pods", "--all", "-n", NS, "--grace-period=0", "--force", "--timeout=30s")
            operator.plane.kubectl("delete", "node", LOST)


def test_a_template_of_controllers_that_was_changed_too_early_stalls_the_migration(refused: Refused) -> None:
    refused.wants("DualWrite")
    refused.has("controllers", shape="changed")
    text, remedy = refused.until_named("the template of StatefulSet controllers was changed before")
    assert "controllers-0 would start with it" in text
    assert remedy == "revert the template of controllers in Git"
    refused.until("orders", "Stalled", "TemplateAhead")
    refused.has("controllers")
    wait_until("nothing is ahead", lambda: refused.condition("orders", "Ready").get("reason") != "TemplateAhead")
    assert not refused.evicted


def test_a_second_resource_of_the_same_cluster_is_stalled_as_duplicate_owner(refused: Refused) -> None:
    refused.wants("DualWrite", "second")
    told = refused.until("second", "Stalled", "DuplicateOwner")
    assert "kafka/orders" in told["message"]
    refused.delete("second")
    assert not refused.evicted


def test_a_status_of_a_migration_that_was_edited_by_hand_is_corrected(refused: Refused) -> None:
    refused.patch_status("orders", {"migration": LIES, "plan": None})
    refused.wants("DualWrite")
    wait_until("the phase is what it is", lambda: refused.status("orders")["migration"]["phase"] == "PreMigration")
    migration = refused.status("orders")["migration"]
    assert (migration["position"], migration["brokers"]) == ("PreMigration", {"zooKeeper": 1})
    assert not refused.evicted


def test_a_rollback_waits_for_a_controller_pod_on_a_lost_kubernetes_node(refused: Refused) -> None:
    """The pod is stopping for ever: only a person can know whether it runs."""
    refused.cluster.run(BROKER, Shape.FLAGGED_BROKER)
    wait_until("all is copied", lambda: (refused.at("/migration") or {}).get("kraft_metadata_offset", -1) > 0)
    refused.wants("RolledBack")
    wait_until(
        "Git is asked", lambda: PersonAction.NO_CONTROLLERS in refused.condition("orders", "Ready").get("message", "")
    )
    refused.has("controllers", replicas=0)
    refused.cluster.nodes[CONTROLLER].stop()
    wait_until("the pod is stopping", lambda: refused.pod("controllers-0").get("deletionTimestamp"))
    _, remedy = refused.until_named("controllers-0 of StatefulSet controllers is stopping", "may still write")
    assert "kubectl delete pod controllers-0 --force" in remedy
    assert refused.at("/controller")["brokerid"] == CONTROLLER
    assert not refused.status("orders").get("intents")

    refused.plane.kubectl("delete", "pod", "controllers-0", "-n", NS, "--grace-period=0", "--force")
    wait_until("a broker is controller", lambda: (refused.at("/controller") or {}).get("brokerid") == BROKER)
    assert refused.at("/migration") is None
