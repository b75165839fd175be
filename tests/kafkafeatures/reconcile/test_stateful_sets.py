"""Pods that do not match the document, the cluster or the operator's rights: reported with the remedy, and nothing is
evicted.

Production's controller and driver, on the simulated API server with its pods, and on a simulated cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.ports import EvidenceAnswer
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.metrics import Metrics
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.controller import Controller
from kafkafeatures.reconcile.operator_context import OperatorContext
from kafkafeatures.reconcile.pauses import SLOWEST_WAIT
from kafkafeatures.reconcile.settle import SETTLE_SECONDS
from kafkasim.plan import TopicPlan
from tests.kafkafeatures.reconcile.rig import Evidence, Kafka
from tests.kafkasim.clusters import plan
from tests.simulated.orders import KEY, Orders
from tests.simulated.requests import Fault, Request, refusal
from tests.simulated.workloads import Workloads

WORKLOAD = {"driver": "StatefulSet", "statefulSet": {"brokers": ["broker"]}}
LEVELS = {"levels": [{"name": "metadata.version", "level": 21}]}
TOPICS = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1)), 2),)
OLDER = ResourceKey("kafka", "older")


def host(ordinal: int) -> str:
    return f"broker-{ordinal}.broker.kafka.svc.cluster.local"


class Rig:
    """Brokers 1, 2 and 3 in pods 0, 1 and 2, whose StatefulSet has just got another image.

    advertised: the pod that each broker advertises.
    only_controller: there is one controller, in a pod of such a StatefulSet; else there are three, which do not run in
        pods of a StatefulSet of the document.
    """

    def __init__(self, advertised: tuple[int, ...] = (0, 1, 2), *, only_controller: bool = False) -> None:
        self.api = Orders()
        self.api.edit(workload=WORKLOAD, features=LEVELS)
        self.workloads = Workloads(self.api.server)
        self.workloads.create("broker", 3, "kafka:4.2.0")
        self.workloads.budget("broker", {"app": "broker"}, maxUnavailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
        addresses = {(Role.BROKER, 1 + at): (host(ordinal), 9092) for at, ordinal in enumerate(advertised)}
        controllers = {3001: "4.2"} if only_controller else None
        if only_controller:
            addresses[Role.CONTROLLER, 3001] = ("controller-0.controller.kafka.svc.cluster.local", 9093)
        made = plan(controllers=controllers)
        self.kafka = Kafka({"metadata.version": 21}, replace(made, topics=TOPICS, addresses=addresses))
        for id_ in (1, 2, 3):
            pod = self.api.server.read(f"/api/v1/namespaces/kafka/pods/broker-{id_ - 1}")
            assert pod is not None
            self.kafka.world.ips[Role.BROKER, id_] = pod["status"]["podIP"]
        if only_controller:
            self.workloads.create("controller", 1, "kafka:4.2.0")
            pod = self.api.server.read("/api/v1/namespaces/kafka/pods/controller-0")
            assert pod is not None
            self.kafka.world.ips[Role.CONTROLLER, 3001] = pod["status"]["podIP"]
            both = {**WORKLOAD, "statefulSet": {"brokers": ["broker"], "controllers": ["controller"]}}
            self.api.edit(workload=both)
        self.pass_time(timedelta(hours=1))
        self.workloads.set_image("broker", "kafka:4.4.0")
        if only_controller:
            self.workloads.set_image("controller", "kafka:4.4.0")
        self.pass_time(timedelta(seconds=10))
        self.claims = Claims(self._monotonic)
        environment = Environment(lambda: self.api.now, self._monotonic, sleep=self.kafka.sleep)
        self.evidence: Callable[[EvidenceWindow], EvidenceAnswer] = lambda _: EvidenceAnswer(())
        context = OperatorContext(
            environment, OperatorIdentity("ours", "operator", "test"), AddressPolicy(),
            open_evidence=lambda _: Evidence(self.evidence),
        )  # fmt: skip
        self.controller = Controller(self.api.client(), self.claims, self._open, context, Metrics(environment=SYSTEM))

    def pass_time(self, time: timedelta) -> None:
        self.api.wait(time)
        self.workloads.run()

    async def work(self, times: int = 3) -> None:
        """Reconcile so many times, once a minute."""
        for _ in range(times):
            assert await self.controller.reconcile(KEY) is not None
            self.pass_time(timedelta(seconds=60))

    @property
    def level(self) -> object:
        """Level of group.version in the status; None for none."""
        features = {feature["name"]: feature.get("finalized") for feature in self.api.status.get("features", ())}
        return features.get("group.version")

    @property
    def reason(self) -> tuple[str, str]:
        """Reason and message of Ready."""
        ready = self.api.condition("Ready")
        return ready["reason"], ready["message"]

    def _monotonic(self) -> float:
        return self.api.now.timestamp()

    def _open(self, settings: ClusterSettings) -> Kafka:
        return self.kafka


async def test_with_matching_pods_one_broker_is_restarted_and_waited_for() -> None:
    rig = Rig()
    await rig.work()
    assert rig.workloads.evictions == ["broker-0"]
    (intent,) = rig.api.status["intents"]
    assert (intent["kind"], intent["nodeId"], intent["target"]) == ("RestartNode", 1, "broker-0")


@pytest.mark.parametrize("is_replaced", [True, False], ids=["pod replaced", "pod changed"])
async def test_an_eviction_answered_with_a_conflict_is_settled_by_the_uid_of_the_pod(
    is_replaced: bool,
) -> None:
    """Between the decision and the eviction the pod was replaced, or only its resourceVersion has changed."""
    rig, answers = Rig(), [Fault(refusal(409, "Operation cannot be fulfilled"))]

    def conflicts(request: Request) -> Fault | None:
        if not request.path.endswith("/eviction") or not answers:
            return None
        if is_replaced:
            rig.workloads.change_pod("broker-0", lambda pod: pod["metadata"].update(uid="another"))
        return answers.pop()

    rig.api.faults = conflicts
    await rig.work()
    assert not answers
    assert rig.workloads.evictions == ([] if is_replaced else ["broker-0"])
    (intent,) = rig.api.status["intents"]
    assert (intent["nodeId"], intent["target"]) == (1, "broker-0")
    assert intent["podUid"] != rig.workloads.uid("broker-0")


async def test_a_repeated_error_of_an_eviction_is_in_the_status_and_written_once() -> None:
    rig, text, ports = Rig(), 'failed calling webhook "evict.example"', count(40_000)

    def failed(request: Request) -> Fault | None:
        is_eviction = request.path.endswith("/eviction")
        return Fault(refusal(500, f"{text}: read tcp 10.0.0.7:{next(ports)}: i/o timeout")) if is_eviction else None

    rig.api.faults = failed
    assert await rig.controller.reconcile(KEY) == SETTLE_SECONDS
    (intent,) = rig.api.status["intents"]
    rig.pass_time(timedelta(seconds=SETTLE_SECONDS))
    pause = await rig.controller.reconcile(KEY) or 0.0
    writes, since = rig.api.writes, rig.api.status["rollout"]["waitingSince"]
    for _ in range(10):
        pause = await rig.controller.reconcile(KEY) or 0.0
        assert text in rig.api.condition("Ready")["message"]
        assert "kubectl get validatingwebhookconfigurations" in rig.api.condition("Ready")["message"]
        rig.pass_time(timedelta(seconds=pause))
    assert pause == SLOWEST_WAIT
    assert rig.api.writes == writes + 1  # one write after two minutes, when the start of the wait is added
    assert "; since 2026-01-02 04:05 UTC; " in rig.api.condition("Ready")["message"]
    assert (rig.api.status["intents"], rig.api.status["rollout"]["waitingSince"]) == ([intent], since)
    rig.api.faults = lambda _: None
    await rig.controller.reconcile(KEY)
    assert rig.workloads.evictions == ["broker-0"]
    assert rig.api.condition("Ready")["message"] == "restarting broker 1 (broker-0)"


def lost(request: Request) -> Fault | None:
    """Lose evictions on their way: their outcome is unknown."""
    return Fault() if request.path.endswith("/eviction") else None


def create_older(rig: Rig, bootstrap_servers: str, **fields: Any) -> dict[str, Any]:
    spec = {"cluster": {"bootstrapServers": bootstrap_servers}, **fields}
    return rig.api.server.create(*OLDER, spec, creationTimestamp="2025-01-01T00:00:00Z")


def of_the_same_cluster(rig: Rig) -> dict[str, Any]:
    return create_older(rig, "kafka:9092", features={"levels": [{"name": "metadata.version", "level": 22}]})


@pytest.mark.parametrize(
    "meanwhile",
    [
        {},
        {"mode": "Observe"},
        {"cluster": {"bootstrapServers": "kafka"}},
        {"cluster": {"bootstrapServers": "kafka:9092", "tls": {"caSecretRef": {"name": "gone"}}}},
    ],
    ids=["unchanged", "mode Observe", "invalid document", "missing Secret"],
)
async def test_an_eviction_of_unknown_outcome_blocks_an_older_resource_for_a_limited_time(
    meanwhile: dict[str, Any],
) -> None:
    rig = Rig()
    rig.api.faults = lost
    await rig.work()
    assert rig.api.status["intents"]
    rig.api.faults = lambda _: None
    rig.api.edit(**meanwhile)
    rig.claims.note(of_the_same_cluster(rig))
    sent = []  # changes that the older resource has sent, after every 15 s
    for _ in range(40):
        for key in (KEY, OLDER):
            await rig.controller.reconcile(key)
        sent.append(len(rig.kafka.sent))
        rig.pass_time(timedelta(seconds=15))
    assert sent[3] == 0  # the eviction may be on its way for a minute
    assert sent[-1] == 1  # the older resource has raised its level
    assert rig.workloads.evictions == []


async def test_an_eviction_may_be_on_its_way_for_a_minute_after_its_last_request() -> None:
    rig, evictions = Rig(), []

    def lost_on_the_way(request: Request) -> Fault | None:
        evictions.extend([rig.api.now] if request.path.endswith("/eviction") else [])
        return lost(request)

    rig.api.faults = lost_on_the_way
    for _ in range(20):
        await rig.controller.reconcile(KEY)
        rig.pass_time(timedelta(seconds=15))
    last = evictions[-1]
    rig.workloads.set_image("broker", "kafka:4.2.0")  # its pod runs this image: the eviction is no longer wanted
    is_open = [bool(rig.api.status.get("intents"))]  # after every 15 s
    for _ in range(12):
        rig.pass_time(timedelta(seconds=15))
        await rig.controller.reconcile(KEY)
        is_open.append(bool(rig.api.status.get("intents")))
    assert last - evictions[0] > timedelta(minutes=1)
    assert evictions[-1] == last
    assert is_open[:5] == [True] * 5  # 0 to 60 s
    assert not is_open[-1]


async def test_an_eviction_that_is_forbidden_before_it_is_sent_again_does_not_hold_the_next_node() -> None:
    """The first eviction of broker-0 had no answer. Then a PodDisruptionBudget allows no eviction of this pod."""
    rig = Rig()
    rig.api.faults = lost
    await rig.work(1)
    assert [intent["target"] for intent in rig.api.status["intents"]] == ["broker-0"]
    rig.api.faults = lambda _: None
    rig.workloads.budget("broker", {"statefulset.kubernetes.io/pod-name": "broker-0"}, maxUnavailable=1)
    rig.workloads.change_pod("broker-0", lambda pod: pod["status"].update(conditions=[]))
    await rig.work(6)
    assert rig.workloads.evictions[:1] == ["broker-1"]
    assert [(entry["target"], entry["result"]) for entry in rig.api.status["history"]][:1] == [
        ("broker-0", "NotApplied")
    ]


async def test_an_eviction_that_may_be_on_its_way_is_not_forgotten_when_an_older_resource_turns_up() -> None:
    rig = Rig()
    rig.api.faults = lost
    await rig.work()
    older = of_the_same_cluster(rig)
    older, reads = {**older, "status": {"clusterId": rig.api.status["clusterId"]}}, itertools.count()

    def turns_up(request: Request) -> Fault | None:
        if request.path.endswith("/statefulsets/broker") and next(reads) == 1:  # right before it is sent
            rig.claims.note(older)
        return None

    rig.api.faults = turns_up
    await rig.work()
    assert rig.workloads.evictions == []
    assert rig.api.condition("Ready")["reason"] == "DuplicateOwner"
    (intent,) = rig.api.status["intents"]
    assert intent["target"] == "broker-0"
    assert not rig.api.status.get("history")


def forbid_reading(kind: str) -> Callable[[Rig], object]:
    return lambda rig: rig.api.server.forbidden.add(kind)


def an_older_resource(rig: Rig) -> None:
    rig.claims.note(create_older(rig, "other:9092", workload=WORKLOAD))
    rig.claims.reconciled(OLDER)


def scale(replicas: int) -> Callable[[Rig], None]:
    def do(rig: Rig) -> None:
        rig.workloads.change("broker", lambda manifest: manifest["spec"].update(replicas=replicas))
        for _ in range(20):
            rig.pass_time(timedelta(minutes=1))

    return do


def managed_by_another_operator(rig: Rig) -> None:
    owner = {"apiVersion": "kafka.strimzi.io/v1", "kind": "Kafka", "name": "orders", "controller": True, "uid": "u"}
    rig.workloads.change("broker", lambda manifest: manifest["metadata"].update(ownerReferences=[owner]))
    rig.pass_time(timedelta(seconds=10))


def rolled_by_kubernetes(rig: Rig) -> None:
    rig.workloads.change("broker", lambda manifest: manifest["spec"].update(updateStrategy={"type": "RollingUpdate"}))
    rig.pass_time(timedelta(seconds=10))


def never_allowed(rig: Rig) -> None:
    rig.workloads.budget("broker", {"app": "broker"}, maxUnavailable=0)


def two_budgets(rig: Rig) -> None:
    rig.workloads.budget("all", {"app": "broker"}, maxUnavailable=1)


def answers_elsewhere(rig: Rig) -> None:
    rig.kafka.world.ips[Role.BROKER, 2] = "10.9.9.9"


def misspelt(rig: Rig) -> None:
    rig.api.edit(workload={"driver": "StatefulSet", "statefulSet": {"brokers": ["brokre"]}})


def another_container(rig: Rig) -> None:
    rig.api.edit(workload={"driver": "StatefulSet", "statefulSet": {"brokers": ["broker"], "container": "main"}})


@pytest.mark.parametrize(
    ("break_rig", "reason", "words"),
    [
        (forbid_reading("pods"), "NotAuthorized", "drivers.statefulSet"),
        (forbid_reading("statefulsets"), "NotAuthorized", "drivers.statefulSet"),
        (forbid_reading("poddisruptionbudgets"), "NotAuthorized", "drivers.statefulSet"),
        (misspelt, "InvalidSpec", "StatefulSet kafka/brokre not found"),
        (another_container, "InvalidSpec", "has no container 'main'"),
        (lambda rig: rig.workloads.delete_set("broker"), "InvalidSpec", "StatefulSet kafka/broker not found"),
        (rolled_by_kubernetes, "UpdateStrategyUnsafe", "kubectl -n kafka patch statefulset broker"),
        (managed_by_another_operator, "DriverConflict", "Kafka orders (kafka.strimzi.io)"),
        (an_older_resource, "DriverConflict", "KafkaFeatures older"),
        (never_allowed, "RolloutHalted", "PodDisruptionBudget broker (maxUnavailable: 0) never allows an eviction"),
        (two_budgets, "RolloutHalted", "covered by 2 PodDisruptionBudgets"),
        (answers_elsewhere, "InvalidSpec", "broker 2 answers at 10.9.9.9, but pod broker-1 has other addresses"),
        (scale(4), "InvalidSpec", "pod broker-3 of broker is ready, and no node of the cluster advertises it"),
        (scale(2), "InvalidSpec", "broker 3 (broker-2.broker.kafka.svc.cluster.local:9092) is in no pod"),
    ],
    ids=[
        "no right to read pods", "no right to read StatefulSets", "no right to read budgets", "misspelt StatefulSet",
        "another container", "StatefulSet deleted", "RollingUpdate", "owned by Strimzi", "older resource",
        "budget allows no eviction", "two budgets", "answers elsewhere", "one pod too many", "one pod too few",
    ],
)  # fmt: skip
async def test_a_mismatch_of_pods_document_or_rights_is_a_blocker_with_a_remedy_and_no_pod_is_evicted(
    break_rig: Callable[[Rig], object], reason: str, words: str
) -> None:
    rig = Rig()
    break_rig(rig)
    await rig.work()
    assert rig.workloads.evictions == []
    stalled = rig.api.condition("Stalled")
    assert stalled["reason"] == reason
    assert words in stalled["message"]
    assert "intents" not in rig.api.status
