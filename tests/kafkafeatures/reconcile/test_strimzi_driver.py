"""The operator waits while Strimzi rolls pods, asks it for a restart by an annotation alone, and takes that back.

Production's controller and driver, on the simulated API server with its pods, and on a simulated cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.names import RESTART_POD_UID
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kube.workloads.rights import KubernetesRight
from kafkafeatures.kube.workloads.strimzi import RIGHTS, templates
from tests.kafkafeatures.kube.test_evictions import right_of
from tests.kafkafeatures.reconcile.test_stateful_sets import Rig
from tests.kafkafeatures.reconcile.test_strimzi import (
    BUNDLE,
    CERTIFICATE,
    CERTIFICATES,
    KAFKA,
    LABELS,
    PRIVATE_KEY,
    TLS,
    UID,
    Scene,
    listener,
)
from tests.simulated.requests import Fault, Request, refusal

POD_SET = "/apis/core.strimzi.io/v1/namespaces/kafka/strimzipodsets/broker"
RESTART, PAUSE = "strimzi.io/manual-rolling-update", "strimzi.io/pause-reconciliation"
OF_KAFKA = {"strimzi.io/cluster": "my-cluster", "strimzi.io/kind": "Kafka"}
READY = {"type": "Ready", "status": "True"}
PODS = ("broker-0", "broker-1", "broker-2")
Json = dict[str, Any]


class Strimzi(Rig):
    """A Kafka of Strimzi: brokers 1, 2 and 3 in the pods of one StrimziPodSet, current and ready, and a document that
    wants a level. requests: changes of pods by the operator. used: rights that it used. revisions: those that Strimzi
    wants.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.used: set[KubernetesRight] = set()
        self.uids: dict[int, str] = {}
        self.revisions = {pod: f"{pod}-first" for pod in PODS}
        super().__init__()
        self.workloads.made = self._made
        for pod in PODS:
            self.workloads.change_pod(pod, self._made)
        self.api.server.edit("kafka", "orders", lambda resource: resource["spec"].pop("workload"))
        self.api.edit(
            cluster={"strimzi": {"name": "my-cluster"}}, features={"levels": [{"name": "group.version", "level": 1}]}
        )
        self.wants(**self.revisions)
        self.kafka_is()
        Scene.secret(self, "kafka-features", {"user.crt": CERTIFICATE, "user.key": PRIVATE_KEY}, labels=LABELS)  # type: ignore[arg-type]
        Scene.secret(self, BUNDLE, {"cluster-ca.crt": CERTIFICATES.ca}, owner=UID)  # type: ignore[arg-type]
        self.api.faults = self._heard
        self.uids = {id_: self.workloads.uid(f"broker-{id_ - 1}") for id_ in (1, 2, 3)}

    def path(self, secret: str) -> str:
        return f"/api/v1/namespaces/kafka/secrets/{secret}"

    # --- what Strimzi and people do ---

    def kafka_is(self, *conditions: Json, generation: int = 1, observed: int = 1, is_paused: bool = False) -> None:
        """The `Kafka`, as Strimzi shows it."""
        metadata = {"namespace": "kafka", "name": "my-cluster", "uid": UID, "generation": generation}
        shown = [{"name": "tls", "bootstrapServers": "tls.example:9094", "certificates": []}]
        status = {"listeners": shown, "observedGeneration": observed, "conditions": [*(conditions or (READY,))]}
        spec = {"kafka": {"listeners": [listener("tls", authentication=TLS)]}}
        annotations = {PAUSE: "true"} if is_paused else {}
        kafka = {"metadata": {**metadata, "annotations": annotations}, "spec": spec, "status": status}
        self.api.server.store(KAFKA, kafka)

    def wants(self, owner: str = UID, **revisions: str) -> None:
        """The StrimziPodSet, with these revisions of pods; the pods stay as they are."""
        self.revisions = revisions
        templates = [
            {
                "metadata": {"name": pod, "labels": OF_KAFKA, "annotations": {"strimzi.io/revision": revision}},
                "spec": {"containers": [{"name": "kafka", "image": "strimzi/kafka:1.2.0-kafka-4.2.0"}]},
            }
            for pod, revision in revisions.items()
        ]
        metadata = {"namespace": "kafka", "name": "broker", "uid": "uid-of-set", "generation": 1, "labels": OF_KAFKA}
        owners = [{"kind": "Kafka", "name": "my-cluster", "uid": owner}]
        pod_set = {"metadata": {**metadata, "ownerReferences": owners}, "spec": {"pods": templates}}
        self.api.server.store(POD_SET, {**pod_set, "status": {"observedGeneration": 1}})

    def restart(self, pod: str) -> None:
        """Strimzi restarts a pod, whose next one is of the revision that it wants."""
        self.workloads._stop(pod, self.workloads.uid(pod))
        for _ in range(4):  # it stops, is created, starts, and is ready
            self.pass_time(timedelta(seconds=10))

    def annotation(self, pod: str, name: str, value: str | None) -> None:
        self.workloads.change_pod(pod, lambda raw: _annotate(raw, name, value))

    def request(self, pod: str) -> None:
        """What `kafkafeatures restart --pod` does."""
        self.annotation(pod, RESTART_POD_UID, self.workloads.uid(pod))

    # --- as `ObjectReader` ---

    def object_of(self, plural: tuple[str, str], version: str, name: str) -> Json | None:
        return self.api.server.read(f"/apis/{version}/namespaces/kafka/{plural[0]}/{name}")

    def objects_of(self, plural: tuple[str, str], version: str, selector: str) -> list[Json]:
        assert selector == ",".join(f"{key}={value}" for key, value in OF_KAFKA.items())
        pod_set = self.object_of(plural, version, "broker")
        return [pod_set] if pod_set is not None else []

    # --- inside ---

    def _made(self, pod: Json) -> None:
        metadata = pod["metadata"]
        metadata["labels"] = {**metadata["labels"], **OF_KAFKA}
        metadata["annotations"] = {"strimzi.io/revision": self.revisions[metadata["name"]]}
        metadata["ownerReferences"] = [{"kind": "StrimziPodSet", "name": "broker", "uid": "uid-of-set"}]

    def pass_time(self, time: timedelta) -> None:
        super().pass_time(time)
        world = self.kafka.world if self.uids else None
        for id_ in self.uids:
            pod = self.api.server.read(f"/api/v1/namespaces/kafka/pods/broker-{id_ - 1}")
            if pod is None or "deletionTimestamp" in pod["metadata"]:
                self.kafka.world.stop(Role.BROKER, id_)
            elif pod["metadata"]["uid"] != self.uids[id_] and pod["status"].get("podIP"):
                self.uids[id_] = pod["metadata"]["uid"]
                self.kafka.world.ips[Role.BROKER, id_] = pod["status"]["podIP"]
                self.kafka.world.start(Role.BROKER, id_)
        if world is not None:
            world.advance(world.now_ms + int(time.total_seconds() * 1000))

    def _heard(self, request: Request) -> Fault | None:
        if "strimzi.io" in request.path or "/pods" in request.path:
            self.used.add(right_of(request))
        if request.writes and "/pods/" in request.path:
            annotations = request.body["metadata"]["annotations"]
            self.requests.append(f"{request.method} {request.path.rpartition('/')[2]} {annotations}")
        return None

    @property
    def level(self) -> object:
        features = {feature["name"]: feature.get("finalized") for feature in self.api.status.get("features", ())}
        return features.get("group.version")

    @property
    def reason(self) -> tuple[str, str]:
        """Reason and message of Ready."""
        ready = self.api.condition("Ready")
        return ready["reason"], ready["message"]


def _annotate(raw: Json, name: str, value: str | None) -> None:
    annotations = raw["metadata"].setdefault("annotations", {})
    annotations.pop(name, None)
    if value is not None:
        annotations[name] = value


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
        "StrimziPaused", "Kafka my-cluster is paused: Strimzi restarts no pod of it",
    ),
    "pause has just ended": (
        lambda strimzi: strimzi.kafka_is({"type": "ReconciliationPaused", "status": "True"}),
        "WaitingForStrimzi", "Strimzi has not reconciled Kafka my-cluster as it is now",
    ),
    "no sets": (
        lambda strimzi: strimzi.api.server.remove(POD_SET),
        "WaitingForStrimzi", "Kafka my-cluster has no StrimziPodSet",
    ),
    "a set of another Kafka": (
        lambda strimzi: strimzi.wants(owner="uid-of-another", **strimzi.revisions),
        "Preflight", "the pods could not be read",
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
    (first,) = templates(strimzi, ("Kafka my-cluster",)).values()
    assert first is not None
    assert (bool(first.revision), first.replicas) == (True, 3)
    strimzi.wants(**{**strimzi.revisions, "broker-2": "broker-2-second"})
    (template,) = templates(strimzi, ("Kafka my-cluster",)).values()
    assert template is not None
    assert template.revision not in ("", first.revision)
    strimzi.kafka_is(generation=2)
    pending = "Strimzi has not reconciled Kafka my-cluster as it is now"
    assert templates(strimzi, ("Kafka my-cluster",)) == {"broker": template._replace(pending=pending)}
    strimzi.wants(owner="uid-of-another", **strimzi.revisions)
    assert templates(strimzi, ("Kafka my-cluster",)) == {}
    strimzi.api.server.remove(KAFKA)
    assert templates(strimzi, ("Kafka my-cluster",)) == {"my-cluster": None}


async def test_without_a_driver_the_pods_of_strimzi_are_not_read() -> None:
    strimzi = Strimzi()
    strimzi.wants(**{pod: f"{pod}-second" for pod in PODS})
    strimzi.api.edit(workload={"driver": "None"})
    await strimzi.work()
    assert strimzi.level == 1
