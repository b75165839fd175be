"""The stand-in for Strimzi does what Strimzi 1.2.0 was seen to do, on a real API server with real Kafka."""

from __future__ import annotations

from tests.e2e.kubernetes.on_node.cluster_operator import MANUAL, PODS, Moment
from tests.e2e.kubernetes.on_node.strimzi_cluster import LEVEL, StrimziCluster
from tests.e2e.kubernetes.on_node.strimzi_manifests import BOOTSTRAP, NS, pod_name
from tests.e2e.rig.process import wait_until

FIRST, SECOND, LAST = map(pod_name, (0, 1, 2))


def test_the_status_names_the_address_and_the_levels_at_the_end_of_a_reconciliation(strimzi: StrimziCluster) -> None:
    status = strimzi.status()
    assert status["kafkaMetadataVersion"] == LEVEL
    assert status["kafkaVersion"] == "4.4.0"
    assert [each["bootstrapServers"] for each in status["listeners"]] == [f"{BOOTSTRAP}.{NS}.svc:9093"]
    assert strimzi.conditions() == {"Warning": "KafkaMetadataVersion", "Ready": ""}
    assert strimzi.operator.level("group.version") == 0  # of the release that the cluster was formatted with


def test_metadata_version_is_set_back_and_a_refusal_is_a_warning_without_a_reason(strimzi: StrimziCluster) -> None:
    strimzi.change(metadataVersion="4.1-IV0")
    strimzi.operator.reconcile()
    assert strimzi.status()["kafkaMetadataVersion"] == "4.1-IV0"
    strimzi.change(metadataVersion="3.9-IV0")  # Kafka refuses it: 4.0-IV1 added records
    strimzi.operator.reconcile()
    assert strimzi.conditions() == {"Warning": "MetadataUpdateFailed", "Ready": ""}
    assert strimzi.status()["kafkaMetadataVersion"] == "4.1-IV0"
    strimzi.change(metadataVersion=LEVEL)
    strimzi.operator.reconcile()
    assert strimzi.status()["kafkaMetadataVersion"] == LEVEL


def test_a_pod_that_is_deleted_while_paused_comes_back_with_the_new_template(strimzi: StrimziCluster) -> None:
    """Afterwards the other outdated pods are restarted one at a time, and the status says Ready all the time."""
    before, generation = strimzi.uids(), strimzi.status()["observedGeneration"]
    strimzi.annotate_template("paused")
    roll = strimzi.operator.reconciling()
    assert next(roll) == Moment(FIRST, is_gone=False)
    roll.close()  # Strimzi dies right before it restarts the first pod
    with strimzi.paused():
        assert set(strimzi.status()) == {"clusterId", "observedGeneration", "conditions"}
        assert strimzi.status()["observedGeneration"] == generation
        assert strimzi.conditions() == {"ReconciliationPaused": ""}
        strimzi.delete_pod(LAST)
        wait_until("the pod is back", lambda: strimzi.uids().get(LAST, before[LAST]) != before[LAST])
        assert strimzi.annotations(LAST)["example.com/revision"] == "paused"
        assert "example.com/revision" not in strimzi.annotations(FIRST)
        wait_until("the pod is ready", lambda: strimzi.pod_set()["status"]["readyPods"] == 3)
        assert strimzi.pod_set()["status"]["currentPods"] == 1

    moments, last = [], strimzi.status()
    for moment in strimzi.operator.reconciling():
        moments.append(moment)
        assert strimzi.status() == last
    assert moments == [Moment(pod, is_gone) for pod in (FIRST, SECOND) for is_gone in (False, True)]
    assert strimzi.is_ready()
    assert strimzi.pod_set()["status"]["currentPods"] == 3


def test_a_pause_does_not_end_a_reconciliation_that_runs(strimzi: StrimziCluster) -> None:
    strimzi.annotate_template("paused in mid-roll")
    roll = strimzi.operator.reconciling()
    assert next(roll) == Moment(FIRST, is_gone=False)
    with strimzi.paused_without_notice():
        assert [moment.pod for moment in roll if moment.is_gone] == [FIRST, SECOND, LAST]
        assert strimzi.is_ready()
        strimzi.operator.reconcile()
        assert strimzi.conditions() == {"ReconciliationPaused": ""}


def test_an_annotation_is_read_when_a_reconciliation_starts_and_goes_with_the_pod(strimzi: StrimziCluster) -> None:
    """The restart shows in the number of ready pods, and in an Event of the `Kafka`."""
    strimzi.annotate(f"{PODS}/{FIRST}", MANUAL, "true")
    roll = strimzi.operator.reconciling()
    assert next(roll) == Moment(FIRST, is_gone=False)
    strimzi.annotate(f"{PODS}/{FIRST}", MANUAL, None)  # too late
    strimzi.annotate(f"{PODS}/{SECOND}", MANUAL, "true")  # for the next one
    assert next(roll) == Moment(FIRST, is_gone=True)
    wait_until("it is not ready", lambda: strimzi.pod_set()["status"]["readyPods"] == 2)
    assert list(roll) == []
    assert MANUAL not in strimzi.annotations(FIRST)
    assert strimzi.annotations(SECOND)[MANUAL] == "true"
    strimzi.annotate(f"{PODS}/{SECOND}", MANUAL, None)
    events = strimzi.plane.read(f"/apis/events.k8s.io/v1/namespaces/{NS}/events")["items"]
    restarts = [each for each in events if each["reason"] == "ManualRollingUpdate"]
    assert {(each["regarding"]["kind"], each["related"]["name"]) for each in restarts} >= {("Kafka", FIRST)}
