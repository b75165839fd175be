"""A document for a cluster of Strimzi, as its users have it: real Kafka in pods, and a stand-in for Strimzi, which
restarts them, unregisters brokers and sets metadata.version back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafeatures.api.names import APPROVE, RECONCILE
from kafkafeatures.cli.shell.exit_codes import Exit
from tests.e2e.kubernetes.command_line.person import Person
from tests.e2e.kubernetes.on_node.cluster_operator import MANUAL, PAUSE, PODS, Moment
from tests.e2e.kubernetes.on_node.strimzi_cluster import CONTROLLERS, LEVEL, StrimziCluster
from tests.e2e.kubernetes.on_node.strimzi_manifests import NS, pod_name
from tests.e2e.kubernetes.resources import Resources, delete_all, grant_to_operator, install
from tests.e2e.kubernetes.strimzi import NAME, RIGHTS
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until

VERSION = "example.com/version"
FIRST, SECOND, LAST = map(pod_name, (0, 1, 2))


@pytest.fixture(scope="module")
def operator(strimzi: StrimziCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """With the rights that the chart grants, and names as pods resolve them."""
    install(strimzi.plane)
    grant_to_operator(strimzi.plane, NS, "strimzi", RIGHTS)
    names = tuple(strimzi.operator.node.with_names(search="search cluster.local\n"))
    flags = ("--request-namespace", NS)  # as the chart sets it
    with Operator(strimzi.plane, tmp_path_factory.mktemp("operator"), before=names, flags=flags) as running:
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
        return super().document(name, levels or {}, **{"cluster": cluster, "rollout": {"stableFor": "3s"}, **spec})

    def reconcile(self) -> None:
        """Ask for a reconciliation, and wait until it has ended."""
        moment = str(time.monotonic())
        self.annotate(NAME, f"{RECONCILE}={moment}")
        wait_until("it is reconciled", lambda: self.status(NAME).get("lastHandledReconcileAt") == moment, 60, step=0.2)

    def finalized(self, feature: str) -> int | None:
        """The level in the status."""
        features = {entry["name"]: entry.get("finalized") for entry in self.status(NAME).get("features", ())}
        return features.get(feature)

    def sent(self) -> list[tuple[str, str]]:
        """What the operator changed, and what came of it."""
        return [(entry["action"], entry["result"]) for entry in self.status(NAME).get("history", ())]

    def restarted(self) -> list[str]:
        """Pods whose restart is over, by the history of the status."""
        history = self.status(NAME).get("history", ())
        return [entry["target"] for entry in history if entry["kind"] == "RestartNode" and entry["result"] == "Applied"]

    def says(self, kind: str, reason: str) -> str:
        """The message of a condition, as soon as it has the reason."""
        return str(self.until(NAME, kind, reason, 60)["message"])


@pytest.fixture
def document(strimzi: StrimziCluster, operator: Operator) -> Iterator[Document]:
    """The cluster is reconciled before and after it, and nothing is in its way."""
    assert operator.alive
    yield Document(strimzi)
    delete_all(strimzi.plane, NS)
    strimzi.settle()


@pytest.fixture
def person(strimzi: StrimziCluster, tmp_path: Path) -> Person:
    return Person(tmp_path / "home", strimzi.plane.kubeconfig)


def test_a_level_waits_for_a_roll_that_the_driver_pods_sees_by_an_annotation(
    document: Document, strimzi: StrimziCluster, person: Person
) -> None:
    """Strimzi stands for any operator: it restarts a pod, and a person writes the annotation of its resource."""
    followed = {"selector": f"strimzi.io/cluster={NAME},strimzi.io/kind=Kafka", "versionAnnotation": VERSION}
    workload = {"driver": "Pods", "pods": followed}
    for pod in (FIRST, SECOND):
        strimzi.annotate(f"{PODS}/{pod}", VERSION, "1")
    strimzi.annotate(f"{PODS}/{LAST}", MANUAL, "true")
    strimzi.operator.reconcile()
    document.apply(NAME, {"group.version": 1}, workload=workload)
    assert f"pod {LAST}, the newest of its owner, has no annotation {VERSION}" in document.says("Ready", "Preflight")
    strimzi.annotate(f"{PODS}/{LAST}", VERSION, "2")
    document.reconcile()
    assert f"the other operator has still to restart pod {FIRST}" in document.says("Ready", "RollingNodes")
    assert strimzi.operator.level("group.version") == 0
    done = person.run("restart", NAME, "-n", NS, "--pod", FIRST)
    assert (done.returncode, "has no driver that restarts pods" in done.stderr) == (Exit.BLOCKED, True)
    with person.running("wait", NAME, "-n", NS, "--for", "rolled") as wait:
        wait.until_it_says("1 of 3 pods")
        for pod in (FIRST, SECOND):
            strimzi.annotate(f"{PODS}/{pod}", VERSION, "2")
        document.reconcile()
        assert wait.ends() == 0
    document.wait(NAME, "Ready", 60)
    assert strimzi.operator.level("group.version") == 1


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
    document.wait(NAME, "Ready", 60)
    level = strimzi.operator.level
    assert (level("group.version"), level("transaction.version")) == (1, 2)
    assert strimzi.status()["kafkaMetadataVersion"] == LEVEL


def test_a_level_waits_for_the_end_of_a_roll_that_strimzi_makes(
    document: Document, strimzi: StrimziCluster, person: Person
) -> None:
    """Strimzi reads that the node pool has other resources, dies after the first pod, and is paused for a while after
    that. All the time, its `Kafka` says that it is ready.
    """
    feature = "eligible.leader.replicas.version"
    strimzi.change_pool(resources={"requests": {"cpu": "10m"}})
    document.apply(NAME, {feature: 1})
    message = document.says("Ready", "WaitingForStrimzi")
    assert "Strimzi has not reconciled KafkaNodePool dual as it is now" in message
    roll = strimzi.operator.reconciling()
    assert next(roll) == Moment(FIRST, is_gone=False)
    document.reconcile()
    assert f"Strimzi has still to restart pod {FIRST}" in document.says("Ready", "WaitingForStrimzi")
    assert strimzi.is_ready()
    assert [next(roll), next(roll)] == [Moment(FIRST, is_gone=True), Moment(SECOND, is_gone=False)]
    roll.close()  # Strimzi dies before it restarts the second one: a pause alone would not end the roll
    with strimzi.paused():
        assert PAUSE in document.says("Stalled", "StrimziPaused")
    assert strimzi.operator.level(feature) == 0
    document.reconcile()
    assert f"PodHasOldResourceRevision: Rolling Pod {FIRST} due to " in document.says("Ready", "WaitingForStrimzi")
    with person.running("wait", NAME, "-n", NS, "--for", "rolled") as wait:
        wait.until_it_says("1 of 3 pods")
        strimzi.operator.reconcile()
        assert strimzi.operator.level(feature) == 0
        document.reconcile()
        assert wait.ends() == 0
    document.wait(NAME, "Ready", 60)
    assert strimzi.operator.level(feature) == 1


def test_a_restart_is_asked_of_strimzi_and_withdrawn_while_strimzi_is_paused(
    document: Document, strimzi: StrimziCluster, person: Person
) -> None:
    document.apply(NAME)
    document.wait(NAME, "Ready", 60)
    before, mark = strimzi.uids(), strimzi.plane.audit.mark()
    done = person.run("restart", NAME, "-n", NS, "--pod", LAST)
    assert (done.returncode, done.stderr) == (0, "")
    document.reconcile()
    assert strimzi.annotations(LAST)[MANUAL] == "true"

    with strimzi.paused():
        document.reconcile()
        document.says("Stalled", "StrimziPaused")
        wait_until("it is withdrawn", lambda: MANUAL not in strimzi.annotations(LAST), 60, step=0.2)
    strimzi.operator.reconcile()
    assert strimzi.uids() == before

    document.reconcile()
    wait_until("Strimzi is asked again", lambda: MANUAL in strimzi.annotations(LAST), 60, step=0.2)
    assert list(strimzi.operator.reconciling()) == [Moment(LAST, is_gone=False), Moment(LAST, is_gone=True)]
    wait_until("it is over", lambda: document.restarted() == [LAST], 60, step=0.2)
    document.wait(NAME, "Ready", 60)
    after = strimzi.uids()
    assert {name for name in after if after[name] != before[name]} == {LAST}
    rows = strimzi.plane.audit.rows(mark, user=USER, resource="pods")
    assert [(row.verb, row.name) for row in rows if row.verb != "list"] == [("patch", LAST)] * 3


def test_the_request_of_a_document_that_is_deleted_while_no_operator_runs_is_withdrawn_by_the_next_one(
    document: Document, strimzi: StrimziCluster, person: Person, operator: Operator
) -> None:
    """A person has asked Strimzi to restart the first pod; that request is not the operator's."""
    document.apply(NAME)
    document.wait(NAME, "Ready", 60)
    assert person.run("restart", NAME, "-n", NS, "--pod", LAST).returncode == 0
    document.reconcile()
    assert strimzi.annotations(LAST)[MANUAL] == "true"
    operator.kill()
    strimzi.plane.kubectl("annotate", "pod", FIRST, "-n", NS, f"{MANUAL}=true")
    delete_all(strimzi.plane, NS)
    assert strimzi.annotations(LAST)[MANUAL] == "true"
    operator.start()
    wait_until("it is withdrawn", lambda: MANUAL not in strimzi.annotations(LAST), 60, step=0.2)
    assert strimzi.annotations(FIRST)[MANUAL] == "true"
    strimzi.plane.kubectl("annotate", "pod", FIRST, "-n", NS, f"{MANUAL}-")


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
    document.wait(NAME, "Ready", 60)
    assert strimzi.operator.level("share.version") == 1


def test_a_metadata_version_that_strimzi_sets_back_is_shown_and_not_fought_over(
    document: Document, strimzi: StrimziCluster
) -> None:
    document.apply(NAME, {"share.version": 1})
    document.wait(NAME, "Ready", 60)
    requests = document.sent()
    assert strimzi.operator.set_metadata_version(28)  # as `kafka-features.sh upgrade` does
    document.reconcile()
    assert document.finalized("metadata.version") == 28
    strimzi.operator.reconcile()
    assert strimzi.status()["kafkaMetadataVersion"] == LEVEL
    document.reconcile()
    assert document.finalized("metadata.version") == 27
    document.wait(NAME, "Ready", 60)
    assert document.sent() == requests


def test_a_ghost_broker_blocks_a_level_until_strimzi_unregisters_it(
    document: Document, strimzi: StrimziCluster
) -> None:
    strimzi.leave_ghost_broker(77)
    document.apply(NAME, {"streams.version": 1})
    assert "broker 77" in document.says("Stalled", "GhostRegistration")
    assert strimzi.operator.level("streams.version") == 0
    strimzi.operator.reconcile()
    assert strimzi.operator.registered() == {0, 1, 2}
    document.reconcile()
    document.wait(NAME, "Ready", 60)
    assert strimzi.operator.level("streams.version") == 1


def test_nothing_is_sent_while_the_kafka_of_a_running_cluster_is_deleted(
    document: Document, strimzi: StrimziCluster
) -> None:
    document.apply(NAME, {"share.version": 2}, mode="Observe")
    document.says("Reachable", "Connected")
    strimzi.delete()
    document.apply(NAME, {"share.version": 2})
    assert f"no Kafka {NAME} " in document.says("Reachable", "CredentialsInvalid")
    assert strimzi.operator.level("share.version") == 1
    strimzi.create()
    strimzi.operator.reconcile()
    document.reconcile()
    document.wait(NAME, "Ready", 60)
    assert strimzi.operator.level("share.version") == 2
