"""A document for a cluster of Strimzi, as its users have it: real Kafka in pods, and a stand-in for Strimzi that restarts
them, unregisters brokers and sets metadata.version back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.api.names import APPROVE, RECONCILE
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.kubernetes.on_node.cluster_operator import KAFKA, MANUAL, PODS, Moment
from tests.e2e.kubernetes.on_node.strimzi_cluster import CONTROLLERS, LEVEL, StrimziCluster
from tests.e2e.kubernetes.on_node.strimzi_manifests import NS, pod_name
from tests.e2e.kubernetes.resources import Resources, grant_to_operator, install
from tests.e2e.kubernetes.strimzi import NAME, RIGHTS
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until

FIRST, SECOND, LAST = map(pod_name, (0, 1, 2))


@pytest.fixture(scope="module")
def operator(strimzi: StrimziCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """With the rights that the chart grants, and names as pods resolve them."""
    install(strimzi.plane)
    grant_to_operator(strimzi.plane, NS, "strimzi", RIGHTS)
    names = tuple(strimzi.operator.node.with_names(search="search cluster.local\n"))
    with Operator(strimzi.plane, tmp_path_factory.mktemp("operator"), before=names) as running:
        yield running


class Document(Resources):
    """The one resource of this cluster."""

    def __init__(self, strimzi: StrimziCluster) -> None:
        super().__init__(strimzi.plane, namespace=NS)
        self.strimzi = strimzi

    def document(self, name: str, levels: Any = None, **spec: Any) -> dict[str, Any]:
        """With access to the controllers, and the shortest interval of reconciliations."""
        controllers = {"clientSecretRef": {"name": CONTROLLERS}}
        cluster = {"strimzi": {"name": NAME, "controllers": controllers}}
        return super().document(name, levels or {}, **{"cluster": cluster, **spec})

    def reconcile(self) -> None:
        """Ask for a reconciliation, and wait until it has ended."""
        moment = str(time.monotonic())
        self.annotate(NAME, f"{RECONCILE}={moment}")
        wait_until("it is reconciled", lambda: self.status(NAME).get("lastHandledReconcileAt") == moment, 60, step=0.2)

    def says(self, kind: str, reason: str) -> str:
        """The message of a condition, as soon as it has the reason."""
        return str(self.until(NAME, kind, reason, 60)["message"])


@pytest.fixture
def document(strimzi: StrimziCluster, operator: Operator) -> Iterator[Document]:
    assert operator.alive
    yield Document(strimzi)
    strimzi.plane.kubectl("delete", "kff", "--all", "-n", NS, "--timeout=30s")


def test_four_lines_raise_all_levels_of_a_release_but_those_that_strimzi_manages(
    document: Document, strimzi: StrimziCluster
) -> None:
    document.plane.apply(
        {
            "apiVersion": "kafkafeatures.dev/v1alpha1",
            "kind": "KafkaFeatures",
            "metadata": {"name": NAME, "namespace": NS},
            "spec": {"cluster": {"strimzi": {"name": NAME}}, "features": {"releaseVersion": "4.0"}},
        }
    )
    document.says("Ready", "ApprovalRequired")
    document.annotate(NAME, f"{APPROVE}={document.status(NAME)['plan']['hash']}")
    document.wait(NAME, "Ready")
    level = strimzi.operator.level
    assert (level("group.version"), level("transaction.version")) == (1, 2)
    assert strimzi.status()["kafkaMetadataVersion"] == LEVEL


def test_a_level_is_raised_while_strimzi_replaces_its_certificate_authority(
    document: Document, strimzi: StrimziCluster
) -> None:
    document.apply(NAME, {"share.version": 1}, mode="Observe")
    document.says("Reachable", "Connected")
    strimzi.operator.renew_authority()
    roll = strimzi.operator.reconciling()
    assert next(roll) == Moment(FIRST, is_gone=False)
    document.reconcile()
    assert document.condition(NAME, "Reachable")["reason"] == "Connected"
    assert list(roll)[-1] == Moment(LAST, is_gone=True)
    document.apply(NAME, {"share.version": 1})
    document.wait(NAME, "Ready")
    assert strimzi.operator.level("share.version") == 1
