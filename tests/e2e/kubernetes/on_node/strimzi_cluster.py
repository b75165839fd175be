"""A cluster of three dual-role nodes under the stand-in for Strimzi, and what its people do to it with kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafkafeatures.api.names import CREDENTIALS
from tests.e2e.kubernetes.on_node.cluster_operator import (
    KAFKA,
    MANUAL,
    MERGE,
    PAUSE,
    PODS,
    POOLS,
    SETS,
    ClusterOperator,
)
from tests.e2e.kubernetes.on_node.strimzi_manifests import NS, POOL, foreign_broker, node_pool
from tests.e2e.kubernetes.strimzi import GROUP, NAME, USER, install_kinds
from tests.e2e.rig.kubernetes.images import kafka_image
from tests.e2e.rig.kubernetes.node import Node
from tests.e2e.rig.kubernetes.tools import is_true
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, NEWEST

IDS = (0, 1, 2)
CONTROLLERS = "kafka-features-controllers"
"""Secret with a certificate for port 9090."""
BEGINS_AT, LEVEL = "3.9-IV0", "4.1-IV1"
"""metadata.version of a new cluster, in which every other feature is at 0, and of a running one."""


class StrimziCluster:
    """See the prologue. `operator`: its cluster operator, which does nothing unless it is told to."""

    def __init__(self, operator: ClusterOperator) -> None:
        self.operator, self.plane = operator, operator.plane

    def create(self, level: str = LEVEL) -> None:
        """Create the `Kafka`, and the Secrets that the User Operator and the page's commands make; as in
        docs/how-to/with-strimzi.md.
        """
        self.plane.apply(kafka(metadataVersion=level), node_pool(IDS))
        certificates = self.operator.certificates
        certificate, key = certificates.client(USER)
        self.secret(USER, {"user.crt": certificate, "user.key": key})
        self.secret(CONTROLLERS, {"tls.crt": certificate, "tls.key": key})

    def secret(self, name: str, texts: dict[str, str]) -> None:
        metadata = {"name": name, "namespace": NS, "labels": {CREDENTIALS: "true"}}
        self.plane.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": texts})

    def change(self, **fields: Any) -> None:
        """`spec.kafka` of the `Kafka`."""
        self._patch(KAFKA, {"spec": {"kafka": fields}})

    def change_pool(self, **fields: Any) -> None:
        """`spec` of the node pool."""
        self._patch(f"{POOLS}/{POOL}", {"spec": fields})

    def annotate_template(self, text: str) -> None:
        """A change of the pods' template, so that all are outdated once Strimzi has read it."""
        self.change(template={"pod": {"metadata": {"annotations": {"example.com/revision": text}}}})

    def annotate(self, path: str, name: str, value: str | None) -> None:
        self._patch(path, {"metadata": {"annotations": {name: value}}})

    @contextmanager
    def paused_without_notice(self) -> Iterator[None]:
        """The reconciliation is paused; one that runs goes on, as it read the annotation when it started
        (`AbstractOperator.reconcile`).
        """
        self.annotate(KAFKA, PAUSE, "true")
        try:
            yield
        finally:
            self.annotate(KAFKA, PAUSE, None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The reconciliation is paused, and Strimzi has seen it."""
        with self.paused_without_notice():
            self.operator.reconcile()
            yield

    def settle(self) -> None:
        """Nothing is annotated, paused or outdated any more."""
        self.annotate(KAFKA, PAUSE, None)
        for pod in self.operator.pods():
            self.annotate(f"{PODS}/{pod}", MANUAL, None)
        self.operator.reconcile()
        assert self.is_ready(), self.status()

    def status(self) -> dict[str, Any]:
        """The status of the `Kafka`; empty before the first reconciliation."""
        return dict(self.plane.read(KAFKA).get("status", {}))

    def conditions(self) -> dict[str, str]:
        """Conditions of the `Kafka`: its reason, by type."""
        return {each["type"]: each.get("reason", "") for each in self.status().get("conditions", ())}

    def is_ready(self) -> bool:
        """Tell what the `Kafka` says of itself."""
        return is_true("Ready", self.plane.read(KAFKA))

    def pod_set(self) -> dict[str, Any]:
        """The only StrimziPodSet."""
        (found,) = self.plane.read(SETS)["items"]
        return dict(found)

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.operator.pods().items()}

    def annotations(self, pod: str) -> dict[str, str]:
        return dict(self.operator.pods()[pod]["metadata"]["annotations"])

    def delete_pod(self, pod: str) -> None:
        self.plane.send("DELETE", f"{PODS}/{pod}", {})

    def delete(self) -> None:
        """The `Kafka`, with its Secrets, ConfigMaps and Services. Its pods run on: the node pool owns them."""
        self.plane.kubectl("delete", f"kafkas.{GROUP}", NAME, "-n", NS, "--timeout=30s")

    def leave_ghost_broker(self, node_id: int) -> None:
        """A broker of another team, of an older release, registers and dies."""
        operator = self.operator
        operator.node.load_image(kafka_image(MIDDLE))
        made = foreign_broker(node_id, IDS, kafka(version=MIDDLE), operator.node, operator.certificates)
        self.plane.apply(*made)
        wait_until("it is registered", lambda: node_id in operator.registered(), 60, step=0.5)
        self.plane.kubectl("delete", "pod", made[-1]["metadata"]["name"], "-n", NS, "--grace-period=1")

    def _patch(self, path: str, change: dict[str, Any]) -> None:
        assert self.plane.send("PATCH", path, change, MERGE) == 200, change


def kafka(**fields: Any) -> dict[str, Any]:
    """A `Kafka` with one listener, for certificates."""
    listener = {"name": "tls", "port": 9093, "type": "internal", "tls": True, "authentication": {"type": "tls"}}
    spec = {"version": NEWEST, "listeners": [listener], **fields}
    metadata = {"name": NAME, "namespace": NS}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Kafka", "metadata": metadata, "spec": {"kafka": spec}}


@contextmanager
def strimzi_cluster(node: Node, folder: Path) -> Iterator[StrimziCluster]:
    """A cluster after its first reconciliation, and after the one that raised its metadata.version."""
    plane = node.control_plane
    node.load_image(kafka_image(NEWEST))
    install_kinds(plane)
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    with ClusterOperator(node, folder, IDS) as strimzi:
        cluster = StrimziCluster(strimzi)
        cluster.create(BEGINS_AT)
        strimzi.reconcile()
        assert cluster.is_ready(), cluster.status()
        cluster.change(metadataVersion=LEVEL)
        strimzi.reconcile()
        yield cluster
    # Quickly: in good order, a node would wait for controllers that are gone already.
    plane.kubectl("delete", "pods", "--all", "--grace-period=1", "-n", NS)
    plane.kubectl("delete", "namespace", NS)
    node.remove_data(NS)
