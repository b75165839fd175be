"""The operator waits while Strimzi rolls pods, asks it for a restart by an annotation alone, and takes that back.

Production's controller and driver, on the simulated API server with its pods, and on a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.core.roll.drivers import STRIMZI
from kafkafeatures.kube.workloads.strimzi import RIGHTS, templates
from kafkafeatures.kube.workloads.templates import Template
from tests.kafkafeatures.reconcile.strimzi_rig import PAUSE, POD_SET, PODS, POOL, READY, RESTART, Json, Strimzi
from tests.kafkafeatures.reconcile.test_strimzi import KAFKA
from tests.simulated.requests import Fault, Request, refusal

SPEC = {"cluster": {"strimzi": {"name": "my-cluster"}}}


async def test_without_a_roll_the_level_is_raised_and_no_pod_is_touched() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    assert (strimzi.level, strimzi.reason[0]) == (1, "InSync")
    assert strimzi.api.condition("NodesRolled")["reason"] == "AllCurrent"
    assert strimzi.requests == []


async def test_a_level_waits_until_the_roll_that_strimzi_makes_is_over() -> None:
    strimzi = Strimzi()
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    strimzi.restart("broker-0")
    await strimzi.work()
    assert strimzi.level != 1
    reason, message = strimzi.reason
    assert reason == "WaitingForStrimzi"
    assert message.startswith("Strimzi has still to restart pod broker-1, which is not of the current revision")
    rolled = strimzi.api.condition("NodesRolled")
    assert (rolled["status"], rolled["message"].split(";")[0]) == ("False", "1 of 3 nodes are current")
    workload = strimzi.api.status["workloads"][0]
    assert (workload["name"], workload["updated"], workload["total"]) == ("broker", 1, 3)
    strimzi.restart("broker-1")
    strimzi.restart("broker-2")
    await strimzi.work()
    assert (strimzi.level, strimzi.reason[0]) == (1, "InSync")
    assert strimzi.requests == []


DUE_TO = "Rolling Pod broker-0 due to Pod has old revision"
LAST_EVENT = f"; last Event of Strimzi about it: 2026-11-30 11:04:20 UTC: PodHasOldRevision: {DUE_TO}"


async def test_a_wait_has_what_strimzi_last_said_in_its_events_and_only_a_wait_reads_them() -> None:
    strimzi = Strimzi()
    strimzi.event("11:04:19", "ClusterCaCertKeyReplaced", "Rolling Pod broker-2 due to a new key")
    strimzi.event("11:04:20", "PodHasOldRevision", f"{DUE_TO}\n")
    strimzi.event("11:04:21", "Other", "of somebody else", by="example.com/other")
    await strimzi.work()
    assert (strimzi.event_lists, strimzi.level) == (0, 1)
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    await strimzi.work(1)
    assert strimzi.event_lists == 1
    assert f"broker-0, which is not of the current revision{LAST_EVENT}" in strimzi.reason[1]


@pytest.mark.parametrize("code", [403, 500])
async def test_events_that_cannot_be_read_are_named_and_change_nothing_else(code: int) -> None:
    strimzi = Strimzi()
    heard = strimzi.api.faults

    def faults(request: Request) -> Fault | None:
        is_event = request.method == "GET" and request.path.endswith("/events")
        return Fault(refusal(code, "no answer")) if is_event else heard(request)

    strimzi.api.faults = faults
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    await strimzi.work()
    reason, message = strimzi.reason
    assert reason == "WaitingForStrimzi"
    assert "which is not of the current revision; last Event of Strimzi about it: could not be read: " in message
    for pod in PODS:
        strimzi.restart(pod)
    await strimzi.work()
    assert strimzi.level == 1


async def test_the_roll_that_strimzi_makes_waits_for_no_approval_of_our_plan() -> None:
    strimzi = Strimzi()
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    strimzi.api.edit(approval={"policy": "Always"})
    await strimzi.work()
    assert strimzi.reason[0] == "ApprovalRequired"
    rolled, text = strimzi.api.condition("NodesRolled"), "Strimzi has still to restart pod broker-0"
    assert (rolled["reason"], text in rolled["message"]) == ("InProgress", True)
    assert strimzi.api.status["rollout"]["waitingFor"].startswith(text)


ROLLED: dict[str, tuple[Callable[[Strimzi], object], str]] = {
    "stopping": (
        lambda strimzi: strimzi.workloads._stop("broker-0", strimzi.workloads.uid("broker-0")),
        "pod broker-0 is stopping",
    ),
    "outdated, and does not run well": (
        lambda strimzi: strimzi.workloads.change_pod("broker-0", _is_not_ready),
        "Strimzi has still to restart pod broker-0, which is not of the current revision",
    ),
}


@pytest.mark.parametrize("state", ROLLED.values(), ids=ROLLED)
async def test_a_wait_for_strimzi_repeats_none_of_its_warnings_and_names_no_log_of_a_pod_that_it_restarts(
    state: tuple[Callable[[Strimzi], object], str],
) -> None:
    change, text = state
    warning = {
        "type": "Warning",
        "status": "True",
        "reason": "KafkaMetadataVersion",
        "message": "An upgrade is incomplete.",
    }
    strimzi = Strimzi()
    strimzi.kafka_is(warning, READY)
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    change(strimzi)
    await strimzi.work(1)
    assert strimzi.reason == ("WaitingForStrimzi", f"{text}; wait; if it stays so, see the log of Strimzi")


def _is_not_ready(pod: Json) -> None:
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


async def test_a_roll_that_is_half_done_while_the_kafka_is_paused_is_named_even_if_no_level_waits() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    strimzi.kafka_is(is_paused=True)
    await strimzi.work()
    assert strimzi.reason[0] == "StrimziPaused"
    assert f"kubectl annotate -n kafka kafka/my-cluster {PAUSE}-" in strimzi.api.status["blockers"][0]["remedy"]


STILL: dict[str, tuple[Callable[[Strimzi], object], str, str]] = {
    "not reconciled": (
        lambda strimzi: strimzi.kafka_is(generation=2),
        "WaitingForStrimzi", "Strimzi has not reconciled Kafka my-cluster as it is now",
    ),
    "a node pool not reconciled": (
        lambda strimzi: strimzi.pool_is(generation=2),
        "WaitingForStrimzi", "Strimzi has not reconciled KafkaNodePool broker as it is now",
    ),
    "a new node pool": (
        lambda strimzi: strimzi.pool_is(observed=0),
        "WaitingForStrimzi", "Strimzi has not reconciled KafkaNodePool broker as it is now",
    ),
    "a node pool whose set is not changed yet": (
        lambda strimzi: strimzi.pool_is(generation=2, observed=2, ago=timedelta(seconds=29)),
        "WaitingForStrimzi", "Strimzi has not reconciled KafkaNodePool broker as it is now",
    ),
    "a set not observed": (
        lambda strimzi: strimzi.pod_set(observed=0),
        "WaitingForStrimzi", "Strimzi has not processed the change of StrimziPodSet broker yet",
    ),
    "asked to restart a set": (
        lambda strimzi: strimzi.pod_set(is_to_roll=True),
        "WaitingForStrimzi", "Strimzi was asked to restart all pods of StrimziPodSet broker, and has not done so yet",
    ),
    "a pod is missing": (
        lambda strimzi: strimzi.api.server.remove("/api/v1/namespaces/kafka/pods/broker-1"),
        "WaitingForStrimzi", "has still to create pods of StrimziPodSet broker: there are 2, and there should be 3; ",
    ),
    "a pod stops": (
        lambda strimzi: strimzi.workloads._stop("broker-1", strimzi.workloads.uid("broker-1")),
        "WaitingForStrimzi", "pod broker-1 is stopping",
    ),
    "asked by another": (
        lambda strimzi: strimzi.annotation("broker-2", RESTART, "true"),
        "WaitingForStrimzi", "Strimzi was asked to restart pod broker-2, and has not done so yet",
    ),
    "failed": (
        lambda strimzi: strimzi.kafka_is(
            {"type": "NotReady", "status": "True", "reason": "TimeoutException", "message": "Exceeded\n 300 s."}
        ),
        "WaitingForStrimzi",
        "the last reconciliation of Kafka my-cluster failed; Kafka my-cluster says: TimeoutException: Exceeded 300 s; ",
    ),
    "paused": (
        lambda strimzi: strimzi.kafka_is(is_paused=True),
        "StrimziPaused", "Kafka my-cluster is paused: Strimzi begins no reconciliation of it",
    ),
    "pause has just ended": (
        lambda strimzi: strimzi.kafka_is({"type": "ReconciliationPaused", "status": "True"}),
        "WaitingForStrimzi", "Strimzi has not reconciled Kafka my-cluster as it is now",
    ),
    "being deleted": (
        lambda strimzi: strimzi.kafka_is(is_deleted=True),
        "Preflight", "Kafka kafka/my-cluster: it is being deleted; delete this resource, or wait",
    ),
    "no sets": (
        lambda strimzi: strimzi.api.server.remove(POD_SET),
        "WaitingForStrimzi", "Kafka my-cluster has no StrimziPodSet",
    ),
    "a set of another Kafka": (
        lambda strimzi: strimzi.pod_set(owner="uid-of-another"),
        "Preflight", "what the pods run is not known: ",
    ),
    "sets of two clusters under one label": (
        lambda strimzi: strimzi.pod_set("other", owner="uid-of-another"),
        "Preflight", "StrimziPodSet kafka/other: it has the labels of Kafka kafka/my-cluster, but no node pool",
    ),
    "its node pool was deleted": (
        lambda strimzi: strimzi.api.server.remove(POOL),
        "Preflight", "but no node pool of it owns this set; wait if its node pool was just deleted; else correct",
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STILL.values(), ids=STILL)
async def test_no_level_is_raised_unless_strimzi_is_at_rest_whatever_the_status_of_its_kafka_says(
    state: tuple[Callable[[Strimzi], object], str, str],
) -> None:
    change, reason, message = state
    strimzi = Strimzi()
    change(strimzi)
    await strimzi.work(1)
    assert strimzi.level != 1
    assert strimzi.reason[0] == reason
    assert message in strimzi.reason[1]
    assert strimzi.requests == []


@pytest.mark.parametrize("code", [403, 404], ids=["no right", "no CRD"])
async def test_without_the_sets_of_strimzi_nothing_is_changed_and_the_message_says_what_to_do(code: int) -> None:
    strimzi = Strimzi()

    def refused(request: Request) -> Fault | None:
        return Fault(refusal(code, "no")) if "strimzipodsets" in request.path else None

    strimzi.api.faults = refused
    await strimzi.work(1)
    assert strimzi.level != 1
    remedy = {403: "drivers.strimzi", 404: "install the CRDs of Strimzi 1.0 or newer"}[code]
    assert remedy in strimzi.reason[1]


async def test_a_requested_restart_is_asked_of_strimzi_once_and_followed_to_its_end() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.request("broker-1")
    await strimzi.work(4)
    assert strimzi.requests == [f"PATCH broker-1 {{{RESTART!r}: 'true'}}"]
    reason, message = strimzi.reason
    assert reason == "WaitingForStrimzi"
    assert message.startswith("Strimzi was asked to restart pod broker-1 (broker 2), and has not begun yet")
    strimzi.restart("broker-1")
    await strimzi.work(4)
    (ended,) = (entry for entry in strimzi.api.status["history"] if entry.get("kind") == "RestartNode")
    assert (ended["target"], ended["result"]) == ("broker-1", "Applied")
    assert len(strimzi.requests) == 1
    assert strimzi.workloads.evictions == []
    assert strimzi.reason[0] == "InSync"
    assert strimzi.used == set(RIGHTS)


async def test_a_request_that_is_no_longer_wanted_is_withdrawn_before_the_operator_stops_waiting() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.request("broker-1")
    await strimzi.work(2)
    strimzi.annotation("broker-1", RESTART_POD_UID, None)
    await strimzi.work(2)
    assert strimzi.requests[1:] == [f"PATCH broker-1 {{{RESTART!r}: None}}"]
    assert [intent["kind"] for intent in strimzi.api.status["intents"]] == ["RestartNode"]  # it may still be under way
    await strimzi.work(12)
    assert not strimzi.api.status.get("intents")
    assert strimzi.api.status["history"][-1]["result"] == "NotApplied"
    assert len(strimzi.requests) == 2


async def test_a_request_is_withdrawn_while_strimzi_is_paused_and_made_again_afterwards() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.request("broker-1")
    await strimzi.work(2)
    strimzi.kafka_is(is_paused=True)
    await strimzi.work(2)
    assert strimzi.reason[0] == "StrimziPaused"
    assert strimzi.requests[1:] == [f"PATCH broker-1 {{{RESTART!r}: None}}"]
    strimzi.kafka_is()
    await strimzi.work(2)
    assert strimzi.requests[2:] == [f"PATCH broker-1 {{{RESTART!r}: 'true'}}"]


async def test_a_node_pool_is_judged_by_the_time_before_its_set_was_read() -> None:
    """To list the pods of a large cluster may take a while."""
    strimzi = Strimzi()
    strimzi.pool_is(generation=2, observed=2, ago=timedelta(seconds=20))

    def slow(request: Request) -> Fault | None:
        strimzi.api.now += timedelta(seconds=15) if request.path.endswith("/pods") else timedelta()
        return strimzi._heard(request)

    strimzi.api.faults = slow
    await strimzi.work(1)
    assert strimzi.reason[1].startswith("Strimzi has not reconciled KafkaNodePool broker as it is now")
    assert strimzi.level != 1


async def test_a_new_process_recognizes_the_request_on_the_pod_without_the_status() -> None:
    strimzi = Strimzi()
    await strimzi.work()
    strimzi.request("broker-1")
    await strimzi.work(2)
    strimzi.api.edit_status(lambda status: status.pop("intents"))
    await strimzi.work(2)
    assert len(strimzi.requests) == 1
    assert strimzi.reason[0] == "WaitingForStrimzi"


async def test_strimzi_restarts_pods_one_after_the_other_so_no_document_may_ask_for_more() -> None:
    strimzi = Strimzi()
    strimzi.api.edit(rollout={"maxParallel": 2})
    await strimzi.work(1)
    assert strimzi.reason[0] == "InvalidSpec"
    assert "spec.rollout.maxParallel: Strimzi restarts pods one after the other" in strimzi.reason[1]


def test_wait_for_rolled_reads_the_revisions_that_strimzi_wants_once_it_has_reconciled_the_kafka() -> None:
    strimzi = Strimzi()
    (first,) = templates(strimzi, STRIMZI, SPEC).values()
    assert first is not None
    assert (bool(first.revision), first.replicas) == (True, 3)
    strimzi.wants(**{**strimzi.revisions, "broker-2": "broker-2-second"})
    (template,) = templates(strimzi, STRIMZI, SPEC).values()
    assert template is not None
    assert template.revision not in ("", first.revision)
    strimzi.kafka_is(generation=2)
    pending = "Strimzi has not reconciled Kafka my-cluster as it is now"
    assert templates(strimzi, STRIMZI, SPEC) == {"broker": template._replace(pending=pending)}
    strimzi.pod_set("other", owner="uid-of-another")
    assert [*templates(strimzi, STRIMZI, SPEC)] == ["broker"]
    strimzi.api.server.remove(KAFKA)
    assert templates(strimzi, STRIMZI, SPEC) == {"my-cluster": Template("", 0, "Kafka my-cluster not found")}


async def test_without_a_driver_the_pods_of_strimzi_are_not_read() -> None:
    strimzi = Strimzi()
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    strimzi.api.edit(workload={"driver": "None"})
    await strimzi.work()
    assert strimzi.level == 1
