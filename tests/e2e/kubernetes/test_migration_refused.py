"""Wrong or unclear states of a migration, on a real API server: each is named, and no pod is evicted meanwhile.

Kafka and ZooKeeper are real processes. Their pods are bound to a Kubernetes node that does not exist, so no pod ever
runs or ends. All tests share one cluster, in their order.
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


class MigratingResources(Resources):
    """Resources about the cluster. `client`: a client of its ensemble that may write."""

    def __init__(self, operator: Operator, cluster: MigratingCluster, client: KazooClient) -> None:
        super().__init__(operator.plane)
        self.cluster, self.client = cluster, client
        self._audit = operator.plane.audit.mark()

    def znode(self, path: str) -> Any:
        """The content of a znode; None if it does not exist."""
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

    def apply_stateful_set(self, name: str, replicas: int = 1, shape: str = "first") -> None:
        """Apply a StatefulSet whose pods are bound to the Kubernetes node `LOST`. `shape`: a part of the template that
        can change.
        """
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
        """Messages of the blockers, each with its remedy."""
        return {one["message"]: one.get("remedy", "") for one in self.status("orders").get("blockers", ())}

    def until_named(self, *words: str) -> tuple[str, str]:
        """Wait for a blocker that has all of these words in its message. Returns message and remedy."""

        def found() -> list[tuple[str, str]]:
            return [one for one in self.blockers().items() if all(word in one[0] for word in words)]

        wait_until(f"{words} is named", found, step=0.3)
        return found()[0]

    @property
    def evicted(self) -> bool:
        return bool(self.plane.audit.rows(self._audit, resource="pods", subresource="eviction", user=USER))


@pytest.fixture(scope="module")
def resources(operator: Operator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MigratingResources]:
    root = tmp_path_factory.mktemp("refused")
    extra = {"offsets.topic.replication.factor": "1"}
    with (
        ZooKeeper(root / "zookeeper") as zookeeper,
        MigratingCluster(root / "nodes", zookeeper, brokers=(BROKER,), controllers=(CONTROLLER,), extra=extra) as made,
    ):
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            found = MigratingResources(operator, made, client)
            made.run(BROKER, Shape.PLAIN_BROKER)
            wait_until("a broker is controller", lambda: found.znode("/controller") is not None)
            made.format_controllers(found.znode("/cluster/id")["id"])
            made.run(CONTROLLER, Shape.MIGRATING_CONTROLLER)
            allow_restarts(operator.plane, NS)
            operator.plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": LOST}})
            for name in ("brokers", "controllers"):
                found.apply_stateful_set(name)
                wait_until(f"{name} have a pod", partial(found.pod, f"{name}-0"))
            yield found
        finally:
            client.stop()
            client.close()
            operator.plane.kubectl("delete", "kff,statefulsets", "--all", "-n", NS, "--timeout=30s")
            operator.plane.kubectl("delete", "pods", "--all", "-n", NS, "--grace-period=0", "--force", "--timeout=30s")
            operator.plane.kubectl("delete", "node", LOST)


def test_a_template_of_controllers_that_was_changed_too_early_stalls_the_migration(
    resources: MigratingResources,
) -> None:
    resources.wants("DualWrite")
    resources.apply_stateful_set("controllers", shape="changed")
    text, remedy = resources.until_named("the template of StatefulSet controllers was changed before")
    assert "controllers-0 would start with it" in text
    assert remedy == "revert the template of controllers in Git"
    resources.until("orders", "Stalled", "TemplateAhead")
    resources.apply_stateful_set("controllers")
    wait_until("nothing is ahead", lambda: resources.condition("orders", "Ready").get("reason") != "TemplateAhead")
    assert not resources.evicted


def test_a_second_resource_of_the_same_cluster_is_stalled_as_duplicate_owner(resources: MigratingResources) -> None:
    resources.wants("DualWrite", "second")
    condition = resources.until("second", "Stalled", "DuplicateOwner")
    assert "kafka/orders" in condition["message"]
    resources.delete("second")
    assert not resources.evicted


def test_a_status_of_a_migration_that_was_edited_by_hand_is_corrected(resources: MigratingResources) -> None:
    resources.patch_status("orders", {"migration": LIES, "plan": None})
    resources.wants("DualWrite")
    wait_until("the phase is what it is", lambda: resources.status("orders")["migration"]["phase"] == "PreMigration")
    migration = resources.status("orders")["migration"]
    assert (migration["position"], migration["brokers"]) == ("PreMigration", {"zooKeeper": 1})
    assert not resources.evicted


def test_a_rollback_waits_for_a_controller_pod_on_a_lost_kubernetes_node(resources: MigratingResources) -> None:
    """The pod is stopping for ever: only a person can know whether it runs."""
    resources.cluster.run(BROKER, Shape.FLAGGED_BROKER)
    wait_until("all is copied", lambda: (resources.znode("/migration") or {}).get("kraft_metadata_offset", -1) > 0)
    resources.wants("RolledBack")
    wait_until(
        "Git is asked", lambda: PersonAction.NO_CONTROLLERS in resources.condition("orders", "Ready").get("message", "")
    )
    resources.apply_stateful_set("controllers", replicas=0)
    resources.cluster.nodes[CONTROLLER].stop()
    wait_until("the pod is stopping", lambda: resources.pod("controllers-0").get("deletionTimestamp"))
    _, remedy = resources.until_named("controllers-0 of StatefulSet controllers is stopping", "may still write")
    assert "kubectl delete pod controllers-0 --force" in remedy
    assert resources.znode("/controller")["brokerid"] == CONTROLLER
    assert not resources.status("orders").get("intents")

    resources.plane.kubectl("delete", "pod", "controllers-0", "-n", NS, "--grace-period=0", "--force")
    wait_until("a broker is controller", lambda: (resources.znode("/controller") or {}).get("brokerid") == BROKER)
    assert resources.znode("/migration") is None
