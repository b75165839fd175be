"""The connection to a cluster that Strimzi manages, on a real API server with real nodes, none of which is a pod."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kafkafeatures.api.names import APPROVE, RECONCILE
from tests.e2e.kubernetes.resources import NS, Resources, delete_all, install
from tests.e2e.kubernetes.strimzi import NAME, Strimzi
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.cluster import ControlPlane
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.kubernetes.tools import Refused
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

KINDS = {"tls": "SSL", "scram-sha-512": "SCRAM-SHA-512"}
"""The rig's kind of a listener, by Strimzi's type of authentication."""
CONNECTED = ("Connected", "PartiallyConnected")
"""The second one without access to the controllers: they have another kind of login, if brokers have SCRAM."""


@pytest.fixture(scope="module", params=KINDS)
def strimzi(
    request: pytest.FixtureRequest, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Strimzi]:
    """A cluster of Kafka 4.4 with the levels of 4.1."""
    install(control_plane)
    folder = tmp_path_factory.mktemp("strimzi")
    with Cluster(folder, NEWEST, kind=KINDS[request.param], release_version="4.1", controllers=1, brokers=1) as cluster:
        yield Strimzi(control_plane, cluster, request.param)


@pytest.fixture
def resources(operator: Operator) -> Iterator[Resources]:
    yield Resources(operator.plane)
    delete_all(operator.plane)


def test_a_document_that_names_a_kafka_raises_all_levels_but_those_that_strimzi_manages(
    strimzi: Strimzi, resources: Resources
) -> None:
    cluster = {"strimzi": {"name": NAME, "user": strimzi.user}}
    resources.apply(NAME, cluster=cluster, workload={"driver": "None"}, features={"releaseVersion": "4.2"})
    resources.until(NAME, "Reachable", "CredentialsInvalid")
    assert "value drivers.strimzi of the chart" in reachable(resources)[1]

    strimzi.install()
    strimzi.allow()
    wait_until("the Kafka is missing", lambda: f"no Kafka {NAME} " in reachable(resources)[1], 60, step=0.3)
    strimzi.create()
    resources.until(NAME, "Ready", "ApprovalRequired")
    resources.annotate(NAME, f"{APPROVE}={resources.status(NAME)['plan']['hash']}")
    resources.wait(NAME, "Ready")
    finalized = {name: level for name, (_, _, level) in strimzi.cluster.features().items()}
    assert finalized["metadata.version"] == "4.1-IV1"  # as before: Strimzi manages it
    assert (finalized["share.version"], finalized["streams.version"]) == ("1", "1")

    # From a shell, with the rights of the kubeconfig.
    described = command(strimzi, "describe", "-o", "json")
    assert described["clusterId"] == resources.status(NAME)["clusterId"]
    assert {feature["name"]: feature.get("finalized") for feature in described["features"]}["share.version"] == 1
    printed = command(strimzi, "init")["spec"]
    assert (printed["mode"], printed["cluster"]["strimzi"]["name"]) == ("Observe", NAME)

    # While Strimzi replaces the certificate authority, or is paused, the connection stays.
    strimzi.trust(strimzi.cluster.certificates.other_ca + strimzi.cluster.certificates.ca)
    strimzi.show(None)
    reconcile(resources)
    assert reachable(resources)[0] in CONNECTED
    strimzi.trust(strimzi.cluster.certificates.other_ca)
    reconcile(resources)
    reason, message = reachable(resources)
    assert reason == "TlsFailed"
    assert "spec.cluster.strimzi.listener" in message
    assert "spec.cluster.tls" not in message  # which a document with `strimzi` may not have
    strimzi.trust(strimzi.cluster.certificates.ca)
    wait_until("the cluster is reached", lambda: reachable(resources)[0] in CONNECTED, 60, step=0.3)

    strimzi.remove()
    reconcile(resources)
    assert reachable(resources)[0] == "CredentialsInvalid"


def command(strimzi: Strimzi, name: str, *words: str) -> dict[str, Any]:
    """The document that a command prints for the cluster."""
    flags = ("--strimzi", NAME, "--strimzi-user", strimzi.user, "-n", NS, "--kubeconfig", strimzi.plane.kubeconfig)
    ended = subprocess.run(
        [sys.executable, "-m", "kafkafeatures", name, *map(str, flags), *words],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = yaml.safe_load(ended.stdout)
    return document


@pytest.mark.parametrize("name", ["metadata.version", "kraft.version"])
def test_a_level_that_strimzi_manages_is_refused_in_a_document(resources: Resources, name: str) -> None:
    document = resources.document(NAME, {name: 1}, cluster={"strimzi": {"name": NAME}}, consents=["dynamic-quorum"])
    with pytest.raises(Refused, match=r"with cluster\.strimzi, features\.levels must not name"):
        resources.plane.apply(document)


def reachable(resources: Resources) -> tuple[str, str]:
    """Reason and message of the condition; empty before the first reconciliation."""
    condition = resources.condition(NAME, "Reachable")
    return condition.get("reason", ""), condition.get("message", "")


def reconcile(resources: Resources) -> None:
    """Ask for a reconciliation, and wait until it has ended."""
    asked = str(time.monotonic())
    resources.annotate(NAME, f"{RECONCILE}={asked}")
    handled = "it is reconciled"
    wait_until(handled, lambda: resources.status(NAME).get("lastHandledReconcileAt") == asked, 60, step=0.2)
