"""The operator on a real API server and real Kafka: levels in the cluster, and the status, after what people do with
resources.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.kafka.cli import run
from tests.e2e.kafka.wire import feature_records, meddle
from tests.e2e.kubernetes.one_kafka.conftest import SHARE, STREAMS
from tests.e2e.kubernetes.resources import FEW, NS, Resources, levels, requests_of_a_while
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.operator import USER, Operator
from tests.e2e.rig.process import wait_until


def updates(operator: Operator) -> float:
    """UpdateFeatures requests so far, also those that only validate."""
    return operator.metric("kafkafeatures_kafka_requests_total", api="UpdateFeatures")


def process_ids(kafka: Cluster) -> list[int]:
    return [node.pid for node in kafka.nodes.values()]


def test_an_applied_upgrade_becomes_ready_and_no_node_restarts(resources: Resources, kafka: Cluster) -> None:
    before, processes = feature_records(kafka), process_ids(kafka)
    resources.apply("up", {SHARE: 1, STREAMS: 1})
    resources.wait("up", "Ready")
    features = kafka.features()  # by Kafka's own tool
    assert features[SHARE][2] == features[STREAMS][2] == "1"
    assert feature_records(kafka) == before + 2
    assert process_ids(kafka) == processes
    status = resources.status("up")
    assert status["progress"] == "2/2 levels"
    assert "intents" not in status
    reasons = [reason for _, reason, _ in resources.events("up")]
    assert reasons.count("FeatureUpdated") == 2
    assert reasons.count("PlanComputed") == 1


def test_kubectl_wait_for_ready_ends_only_with_the_new_generation(resources: Resources, kafka: Cluster) -> None:
    resources.apply("wait", {SHARE: 1})
    resources.wait("wait", "Ready")
    for level in (1, 0, 1):
        meddle(kafka, STREAMS, 0)
        resources.apply("wait", {SHARE: 1, STREAMS: level})
        resources.wait("wait", "Ready")
        assert levels(kafka).get(STREAMS, 0) == level


def test_the_reason_of_ready_is_pending_then_updating_features_then_in_sync(resources: Resources) -> None:
    with resources.watching("steps") as seen:
        resources.apply("steps", {SHARE: 1})
        resources.wait("steps", "Ready")
        wait_until("the watch saw the end", lambda: "InSync" in seen())
    assert seen() == ["Pending", "UpdatingFeatures", "InSync"]


def test_the_command_reconcile_requests_a_reconciliation_and_ends_with_its_result(
    resources: Resources, kafka: Cluster
) -> None:
    resources.apply("asked", {SHARE: 1}, drift={"checkEvery": "1h"})
    resources.wait("asked", "Ready")
    meddle(kafka, SHARE, 0)
    environment = {**os.environ, "KUBECONFIG": str(resources.plane.kubeconfig)}
    done = run("reconcile", "asked", "-n", NS, environment=environment)
    assert done.returncode == 0, done.stderr
    assert "Drifted: " in done.stdout
    assert resources.status("asked")["lastHandledReconcileAt"]


def test_the_operator_writes_only_statuses_and_events(resources: Resources) -> None:
    mark = resources.plane.audit.mark()
    resources.apply("writes", {SHARE: 1})
    resources.wait("writes", "Ready")
    resources.delete("writes")
    rows = resources.plane.audit.rows(mark, user=USER)
    written = {(row.verb, row.resource, row.subresource) for row in rows if row.verb not in ("get", "list", "watch")}
    assert written == {("update", "kafkafeatures", "status"), ("create", "events", "")}
    assert {row.code for row in rows} <= {200, 201, 404}


def test_a_settled_resource_has_no_finalizer_no_annotation_and_causes_no_write(
    resources: Resources, operator: Operator, kafka: Cluster
) -> None:
    resources.apply("quiet", {SHARE: 0})
    resources.wait("quiet", "Ready")
    metadata = resources.get("quiet")["metadata"]
    assert "finalizers" not in metadata
    assert set(metadata["annotations"]) == {"kubectl.kubernetes.io/last-applied-configuration"}
    before = operator.metric("kafkafeatures_reconciliations_total")
    mark = resources.plane.audit.mark()
    wait_until("two more reconciliations", lambda: operator.metric("kafkafeatures_reconciliations_total") >= before + 2)
    assert resources.get("quiet")["metadata"]["resourceVersion"] == metadata["resourceVersion"]
    assert [row for row in resources.plane.audit.rows(mark, user=USER) if row.verb in ("update", "create")] == []
    assert operator.connections([node.port for node in kafka.brokers]) == 0
    assert operator.connections([node.port for node in kafka.controllers]) == 1  # the active one's, for its log


@pytest.mark.parametrize("how", ["Observe", "suspend", "annotation"])
def test_no_update_is_sent_for_a_resource_that_only_observes_or_is_suspended(
    resources: Resources, kafka: Cluster, operator: Operator, how: str
) -> None:
    """Not even a request that only validates the update is sent."""
    before, sent = feature_records(kafka), updates(operator)
    document = resources.document("held", {SHARE: 1})
    if how == "Observe":
        document["spec"]["mode"] = "Observe"
    elif how == "suspend":
        document["spec"]["suspend"] = True
    else:
        document["metadata"]["annotations"] = {"kafkafeatures.dev/pause": "true"}
    resources.plane.apply(document)
    resources.until("held", "Ready", "Observed" if how == "Observe" else "Suspended")
    assert (feature_records(kafka), updates(operator)) == (before, sent)
    assert resources.status("held")["plan"]["steps"][0]["state"] == "Pending"
    if how == "annotation":
        resources.annotate("held", "kafkafeatures.dev/pause-")
        resources.wait("held", "Ready")
        assert [reason for _, reason, _ in resources.events("held")].count("Resumed") == 1


def test_a_plan_waits_for_exactly_its_hash(resources: Resources, operator: Operator) -> None:
    resources.apply("approve", {SHARE: 1}, approval={"policy": "Always"})
    resources.until("approve", "ApprovalRequired", "PlanPending")
    assert resources.condition("approve", "Ready")["reason"] == "ApprovalRequired"
    resources.annotate("approve", "kafkafeatures.dev/approve=sha256:" + "0" * 64)
    resources.until("approve", "ApprovalRequired", "PlanChanged")
    assert requests_of_a_while(operator) <= FEW
    hash_ = resources.status("approve")["plan"]["hash"]
    resources.annotate("approve", f"kafkafeatures.dev/approve={hash_}")
    resources.wait("approve", "Ready")


def test_an_approval_is_not_valid_for_a_repetition_of_a_withdrawn_plan(
    resources: Resources, kafka: Cluster, operator: Operator
) -> None:
    always = {"approval": {"policy": "Always"}}
    before = feature_records(kafka)
    resources.apply("used", {SHARE: 1}, **always)
    resources.until("used", "ApprovalRequired", "PlanPending")
    hash_ = resources.status("used")["plan"]["hash"]
    resources.apply("used", {}, **always)
    resources.wait("used", "Ready")
    resources.annotate("used", f"kafkafeatures.dev/approve={hash_}")
    resources.apply("used", {SHARE: 1}, **always)
    resources.until("used", "ApprovalRequired", "PlanChanged")
    assert resources.status("used")["plan"]["hash"] != hash_
    assert feature_records(kafka) == before


def test_a_downgrade_needs_a_consent_and_the_consent_is_used_once(
    resources: Resources, kafka: Cluster, operator: Operator
) -> None:
    meddle(kafka, SHARE, 1)
    resources.apply("down", {SHARE: 0})
    resources.until("down", "Stalled", "ConsentRequired")
    assert requests_of_a_while(operator) <= FEW
    consents = {"consents": [f"{SHARE}:1->0"]}
    resources.apply("down", {SHARE: 0}, **consents)
    resources.wait("down", "Ready")
    meddle(kafka, SHARE, 1)
    resources.apply("down", {SHARE: 0, STREAMS: 0}, **consents)
    resources.until("down", "Ready", "Drifted")
    assert requests_of_a_while(operator) <= FEW
    assert levels(kafka)[SHARE] == 1
    assert resources.status("down")["spentConsents"] == consents["consents"]


def test_the_younger_of_two_resources_of_a_cluster_is_stalled_until_the_older_only_observes(
    resources: Resources, kafka: Cluster, operator: Operator
) -> None:
    resources.apply("elder", {SHARE: 1})
    resources.wait("elder", "Ready")
    wait_until("another second begins", lambda: resources.age("elder") > 1)  # creation times are whole seconds
    resources.apply("younger", {STREAMS: 1})
    condition = resources.until("younger", "Stalled", "DuplicateOwner")
    assert f"{NS}/elder" in condition["message"]
    assert requests_of_a_while(operator) <= FEW
    assert STREAMS not in levels(kafka)
    resources.apply("elder", {SHARE: 1}, mode="Observe")
    resources.wait("younger", "Ready")
    assert levels(kafka)[STREAMS] == 1


def test_a_deleted_resource_is_removed_at_once_and_kafka_stays_unchanged(resources: Resources, kafka: Cluster) -> None:
    resources.apply("gone", {SHARE: 1})
    resources.wait("gone", "Ready")
    records = feature_records(kafka)
    resources.plane.kubectl("delete", "kff", "gone", "-n", NS, "--timeout=10s")
    assert feature_records(kafka) == records
    assert levels(kafka)[SHARE] == 1


def test_a_new_resource_ignores_the_approval_of_a_deleted_resource_of_the_same_name(
    resources: Resources, kafka: Cluster
) -> None:
    """Approvals and the history belong to the uid of a resource, not to its name."""
    resources.apply("again", {SHARE: 1}, approval={"policy": "Always"})
    resources.until("again", "ApprovalRequired", "PlanPending")
    old = resources.status("again")["plan"]["hash"]
    resources.delete("again")
    document = resources.document("again", {SHARE: 1}, approval={"policy": "Always"})
    document["metadata"]["annotations"] = {"kafkafeatures.dev/approve": old}
    resources.plane.apply(document)
    resources.until("again", "ApprovalRequired", "PlanChanged")
    assert resources.status("again")["plan"]["hash"] != old
    assert "history" not in resources.status("again")


def test_a_level_changed_outside_the_operator_is_reported_as_drift(resources: Resources, kafka: Cluster) -> None:
    resources.apply("drift", {SHARE: 1})
    resources.wait("drift", "Ready")
    meddle(kafka, SHARE, 0)
    resources.until("drift", "DriftDetected", "LevelBehind")
    assert ("Warning", "DriftDetected") in {event[:2] for event in resources.events("drift")}


def was_corrected(resources: Resources, name: str, times: int) -> bool:
    """True if the history has exactly so many corrections."""
    return [one["result"] for one in resources.status(name)["history"]].count("Corrected") == times


def test_corrections_end_where_another_client_changes_the_level_back_again_and_again(
    resources: Resources, kafka: Cluster
) -> None:
    drift = {"drift": {"onDrift": "Correct", "checkEvery": "10s"}, "approval": {"policy": "Never"}}
    resources.apply("fight", {SHARE: 1}, **drift)
    resources.wait("fight", "Ready")
    for times in (1, 2):
        meddle(kafka, SHARE, 0)
        resources.annotate("fight", f"somebody=looks-{times}")  # so that it is reconciled now, not in ten seconds
        wait_until("corrected", partial(was_corrected, resources, "fight", times))
        resources.wait("fight", "Ready")
    meddle(kafka, SHARE, 0)
    resources.until("fight", "Stalled", "ConflictDetected")
    assert SHARE not in levels(kafka)


def test_a_status_written_by_hand_is_corrected(resources: Resources) -> None:
    resources.apply("hand", {SHARE: 1})
    resources.wait("hand", "Ready")
    true = resources.status("hand")
    lie = {"conditions": [], "metadataVersion": "9.9", "features": [], "progress": "all is well"}
    resources.patch_status("hand", lie)
    wait_until("put right", lambda: resources.status("hand").get("metadataVersion") == true["metadataVersion"])
    resources.wait("hand", "Ready")
    found, dated = resources.status("hand"), {"conditions": 0, "readyReason": 0, "logPosition": 0}
    assert {**found, **dated} == {**true, **dated}  # these three fields have times or positions, which are new
    assert found["readyReason"]["reason"] == true["readyReason"]["reason"]
    resources.patch_status("hand", {"intents": [{"target": "nonsense"}], "plan": {"hash": "sha256:0"}})
    resources.until("hand", "Stalled", "UnknownIntent")
    resources.patch_status("hand", {"intents": None, "plan": {"hash": "sha256:0"}})
    wait_until("put right", lambda: not {"intents", "plan"} & set(resources.status("hand")))
    resources.wait("hand", "Ready")


def test_a_mistake_that_the_schema_cannot_refuse_is_reported_in_the_status(resources: Resources) -> None:
    resources.apply("release", None, features={"releaseVersion": "9.9"})
    condition = resources.until("release", "Stalled", "UnknownRelease")
    assert "unknown Kafka release '9.9'" in condition["message"]
    resources.apply("release", {SHARE: 1})
    resources.wait("release", "Ready")


def test_the_operator_stops_within_its_grace_period_and_continues_after_a_start(
    resources: Resources, operator: Operator, tmp_path: Path
) -> None:
    resources.apply("stop", {SHARE: 1})
    assert operator.stop() == 0
    assert "Traceback" not in operator.log
    operator.start()
    resources.wait("stop", "Ready")
