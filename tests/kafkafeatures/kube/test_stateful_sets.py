"""The StatefulSet driver on the simulated API server: it reads pods, and its only write is the eviction of a pod."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.engine.steps import Applied, Outcome
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.workloads import Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.roll.crashes import crashes
from kafkafeatures.core.roll.drivers import STATEFUL_SET
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kube import client
from kafkafeatures.kube.workloads import budgets, stateful_sets
from kafkafeatures.kube.workloads.stateful_sets import StatefulSets
from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Fault, Faults, Request, no_faults, refusal
from tests.simulated.workloads import CANNOT_BE_PULLED, CRASHES, Workloads

NEW_IMAGE = "kafka:4.4.0"
ROLLOUT = Rollout(STATEFUL_SET.name, brokers=("broker",), controllers=("controller",))


class World:
    """Three brokers and one controller, with a budget; and the requests that the driver made."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.ahead = timedelta()  # the operator's clock, of the API server's
        self.server = ApiServer(lambda: self.now)
        self.workloads = Workloads(self.server)
        self.workloads.create("controller", 1)
        self.workloads.create("broker", 3)
        self.workloads.budget("brokers", {"app": "broker"}, maxUnavailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
        self.faults: Faults = no_faults
        self.requests: list[Request] = []

    def driver(self, rollout: Rollout = ROLLOUT, **more: Any) -> StatefulSets:
        return StatefulSets(self.server.client(self._fault), "kafka", rollout, lambda: self.now + self.ahead, **more)

    async def read(self, rollout: Rollout = ROLLOUT, **more: Any) -> WorkloadsReading:
        found = await self.driver(rollout, **more).read()
        assert isinstance(found, WorkloadsReading), found
        return found

    async def broker(self, **more: Any) -> StatefulSet:
        return next(one for one in (await self.read(**more)).stateful_sets if one.name == "broker")

    async def pod(self, name: str) -> Pod:
        found = (await self.read()).pod(name)
        assert found is not None
        return found

    async def failure(self) -> Failure:
        found = await self.driver().read()
        assert isinstance(found, Failure)
        return found

    async def restart(self, name: str, uid: str = "", withheld: str | None = None) -> Outcome:
        uid = uid or self.workloads.uid(name)
        return await self.driver().restart(RestartNode(1, "broker 1", name, uid), lambda: withheld)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now += timedelta(seconds=1)
            self.workloads.run()

    def _fault(self, request: Request) -> Fault | None:
        self.requests.append(request)
        return self.faults(request)


@pytest.fixture
def world() -> World:
    return World()


# --- what is read ---


async def test_the_driver_reads_the_stateful_sets_of_the_document_with_pods_and_budgets(world: World) -> None:
    found = await world.read()
    assert [(one.name, one.role, one.replicas) for one in found.stateful_sets] == [
        ("controller", "controllers", 1),
        ("broker", "brokers", 3),
    ]
    broker = found.stateful_sets[1]
    assert (broker.update_strategy, broker.observed, broker.image, broker.release) == (
        "OnDelete", True, "kafka:4.1.2", "4.1",
    )  # fmt: skip
    assert (broker.grace_seconds, broker.labels, broker.conflict) == (600, {"app": "broker"}, "")
    assert [one.name for one in broker.pods] == ["broker-0", "broker-1", "broker-2"]
    pod = broker.pods[0]
    assert pod.host_names == (
        "broker-0",
        "broker-0.broker",
        "broker-0.broker.kafka",
        "broker-0.broker.kafka.svc",
        *pod.ips,
    )
    assert (pod.uid, pod.revision) == (world.workloads.uid("broker-0"), broker.update_revision)
    assert (pod.ready, pod.terminating, pod.draining, pod.phase, pod.waiting) == (True, False, False, "Running", "")
    assert pod.created_at == world.now
    assert pod.started_at is not None
    assert pod.created_at <= pod.started_at <= world.now
    (budget,) = found.budgets
    assert budget.pods == {"broker-0", "broker-1", "broker-2"}
    assert (budget.limit, budget.disruptions_allowed, budget.most) == ("maxUnavailable: 1", 1, 1)
    assert budget.always_allows_unhealthy
    assert budget.has_enough_healthy
    assert (found.missing, found.namespace, found.at) == ((), "kafka", world.now)


async def test_the_driver_lists_pods_only_by_selector_and_in_the_namespace_of_the_resource(world: World) -> None:
    await world.read()
    assert all("/namespaces/kafka/" in one.path for one in world.requests)
    listed = [one.query["labelSelector"] for one in world.requests if one.path.endswith("/pods")]
    assert listed == ["app=controller", "app=broker"]
    assert {one.method for one in world.requests} == {"GET"}
    assert all("limit" in one.query for one in world.requests if one.path.endswith(("/pods", "budgets")))


@pytest.mark.parametrize(
    "ahead", [timedelta(hours=2), timedelta(), -timedelta(hours=2)], ids=["2 hours ahead", "correct", "2 hours behind"]
)
async def test_a_crash_of_a_pod_is_dated_correctly_if_the_clock_of_the_operator_is_wrong(
    world: World, ahead: timedelta
) -> None:
    def crash(pod: dict[str, Any]) -> None:
        ended = {"reason": "Error", "exitCode": 1, "finishedAt": "2026-01-02T03:04:05Z"}
        pod["status"]["containerStatuses"][0].update(restartCount=1, lastState={"terminated": ended})

    world.workloads.change_pod("broker-1", crash)
    world.wait(1800)
    world.ahead = ahead
    reading = await world.read()
    assert reading.at == world.now + min(ahead, timedelta())
    assert [one.pod.name for one in crashes(reading)] == ["broker-1"]


async def test_a_list_of_pods_in_several_pages_is_read_completely(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    assert len((await world.broker()).pods) == 3


async def test_a_pod_that_only_matches_the_labels_does_not_belong_to_the_stateful_set(world: World) -> None:
    world.workloads.change_pod("broker-1", lambda pod: pod["metadata"]["ownerReferences"][0].update(uid="another"))
    assert [one.name for one in (await world.broker()).pods] == ["broker-0", "broker-2"]
    world.workloads.change_pod("broker-2", lambda pod: pod["metadata"].pop("ownerReferences"))
    assert [one.name for one in (await world.broker()).pods] == ["broker-0"]


def _with_metadata(more: Mapping[str, Any], pod: dict[str, Any]) -> None:
    pod["metadata"].update(more)


async def test_a_restart_request_counts_only_with_the_uid_of_its_own_pod(world: World) -> None:
    uids = {"broker-0": world.workloads.uid("broker-0"), "broker-1": world.workloads.uid("broker-0"), "broker-2": ""}
    for name, uid in uids.items():
        asking = {"annotations": {"kafkafeatures.dev/restart-pod-uid": uid}}
        world.workloads.change_pod(name, partial(_with_metadata, asking))
    broker = (await world.read()).stateful_sets[1]
    assert [one.name for one in broker.pods if one.restart_requested] == ["broker-0"]


async def test_a_changed_template_is_not_observed_until_it_has_a_revision(world: World) -> None:
    before = await world.broker()
    world.workloads.set_image("broker", NEW_IMAGE)
    changed = await world.broker()
    assert (changed.observed, changed.update_revision, changed.release) == (False, before.update_revision, "4.4")
    world.wait(1)
    after = await world.broker()
    assert after.observed
    assert after.update_revision != before.update_revision
    assert {one.revision for one in after.pods} == {before.update_revision}


async def test_the_pod_management_policy_and_the_first_ordinal_are_read_with_their_defaults(world: World) -> None:
    assert not (await world.broker()).is_ordered  # the simulated StatefulSet has Parallel
    world.workloads.change("broker", lambda one: one["spec"].update(podManagementPolicy="OrderedReady"))
    assert (await world.broker()).is_ordered
    world.workloads.change("broker", lambda one: one["spec"].pop("podManagementPolicy"))
    found = await world.broker()
    assert (found.is_ordered, found.first_ordinal) == (True, 0)
    world.workloads.change("broker", lambda one: one["spec"].update(ordinals={"start": 3}))
    assert (await world.broker()).first_ordinal == 3


async def test_an_absent_stateful_set_or_one_being_deleted_is_missing(world: World) -> None:
    assert (await world.read(replace(ROLLOUT, brokers=("broker", "brokre")))).missing == ("brokre",)
    world.workloads.change("broker", lambda one: one["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert (await world.read()).missing == ("broker",)


async def test_another_owner_of_a_stateful_set_is_reported_as_a_conflict(world: World) -> None:
    assert (await world.broker(rival=lambda name: f"KafkaFeatures {name}-old")).conflict == "KafkaFeatures broker-old"
    owner = {"apiVersion": "platform.confluent.io/v1beta1", "kind": "Kafka", "name": "orders", "controller": True}
    world.workloads.change("broker", lambda one: one["metadata"].update(ownerReferences=[owner]))
    assert (await world.broker()).conflict == "Kafka orders (platform.confluent.io)"


async def test_a_stateful_set_without_the_named_container_has_no_image(world: World) -> None:
    found = await world.read(replace(ROLLOUT, container="broker"))
    assert {one.image for one in found.stateful_sets} == {""}


@pytest.mark.parametrize(
    ("image", "fate", "phase"),
    [("bad:1", CRASHES, "Running"), ("none:1", CANNOT_BE_PULLED, "Pending")],
    ids=["process crashes", "image cannot be pulled"],
)
async def test_a_pod_that_does_not_run_has_the_waiting_reason_of_its_container(
    world: World, image: str, fate: str, phase: str
) -> None:
    world.workloads.images = {image: fate}
    world.workloads.set_image("broker", image)
    world.wait(1)
    assert await world.restart("broker-2") == Applied()
    world.wait(20)
    pod = await world.pod("broker-2")
    assert (pod.phase, pod.waiting, pod.ready) == (phase, fate, False)


ENDED = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-01-02T03:00:00Z"}}
INIT_CRASHES = {
    "restartCount": 4,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-02T03:00:00Z"}},
}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"containerStatuses": [{"name": "kafka", "restartCount": 2, "lastState": ENDED, "state": {"running": {}}}]},
         (2, "OOMKilled", True)),
        ({"containerStatuses": [{"name": "kafka", "restartCount": 0, "state": ENDED}]}, (0, "OOMKilled", True)),
        ({"containerStatuses": [{"name": "kafka", "restartCount": 2, "state": {"running": {}}}]}, (2, "", False)),
        ({"initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}, INIT_CRASHES], "containerStatuses": []},
         (4, "Error", True)),
        ({}, (0, "", False)),
    ],
    ids=["restarted", "ended", "no last state", "init container crashes", "no container"],
)  # fmt: skip
async def test_a_pod_has_the_restart_count_and_the_termination_reason_of_its_container(
    world: World, status: dict[str, Any], expected: tuple[int, str, bool]
) -> None:
    """The exit of an init container that keeps the others from starting, where there is one."""
    world.workloads.change_pod("broker-1", lambda pod: pod.update(status={"phase": "Pending", **status}))
    pod = await world.pod("broker-1")
    restarts, reason, has_ended = expected
    ended_at = datetime(2026, 1, 2, 3, tzinfo=UTC) if has_ended else None
    assert (pod.restarts, pod.ended_for, pod.ended_at) == (restarts, reason, ended_at)


async def test_a_stopping_pod_is_terminating_and_a_pod_in_creation_has_a_waiting_reason(world: World) -> None:
    await world.restart("broker-2")
    stopping = await world.pod("broker-2")
    assert (stopping.terminating, stopping.draining, stopping.stops_by) == (True, True, world.now)
    world.wait(6)
    made = await world.pod("broker-2")
    assert (made.uid != stopping.uid, made.phase, made.waiting, made.ips) == (True, "Pending", "Pending", ())


@pytest.mark.parametrize(
    ("status", "waiting"),
    [
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
         "Unschedulable"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Running",
          "containerStatuses": [{"name": "kafka", "state": {"terminated": {"reason": "OOMKilled"}}}]}, "OOMKilled"),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
          "containerStatuses": [{"name": "kafka", "state": {"waiting": {"reason": "PodInitializing"}}}]},
         "Init:CrashLoopBackOff"),
        ({"phase": "Running", "containerStatuses": [{"name": "renamed", "state": {"running": {}}}]}, ""),
        ({"phase": "Running", "containerStatuses": [{"name": "renamed", "state": {"waiting": {}}}]}, ""),
        ({"phase": "Running", "containerStatuses": [{"name": "kafka", "state": {}}]}, ""),
        ({"phase": "Running"}, ""),
        ({"phase": "Unknown"}, ""),
        ({"phase": "Running", "initContainerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
          "containerStatuses": [{"name": "kafka", "state": {"running": {}}}]}, ""),
        ({"phase": "Running", "initContainerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}],
          "containerStatuses": [{"name": "kafka", "state": {"running": {}}}]}, ""),
        ({}, "Pending"),
    ],
    ids=[
        "not scheduled", "evicted", "process ended", "init container crashes", "renamed runs", "renamed waits",
        "no state", "no container", "unknown phase", "init container waits", "init container completed", "no status",
    ],
)  # fmt: skip
async def test_a_pod_that_waits_has_the_reason_given_by_kubernetes_and_one_that_may_run_has_none(
    world: World, status: dict[str, Any], waiting: str
) -> None:
    world.workloads.change_pod("broker-0", lambda pod: pod.update(status=status))
    assert (await world.pod("broker-0")).waiting == waiting


async def test_a_pod_on_the_host_network_has_the_ports_but_not_the_address_of_its_node(world: World) -> None:
    def on_host(pod: dict[str, Any]) -> None:
        ports = [{"containerPort": 9092}, {"containerPort": 9093}]
        pod["spec"].update(
            hostNetwork=True, nodeName="node-a", containers=[{"name": "kafka", "image": "k", "ports": ports}]
        )

    world.workloads.change_pod("broker-0", on_host)
    pod = await world.pod("broker-0")
    assert set(pod.host_names).isdisjoint(pod.ips)
    assert pod.ports_of_node == (
        ("192.0.2.1", 9092), ("node-a", 9092), ("192.0.2.1", 9093), ("node-a", 9093)
    )  # fmt: skip
    assert pod.kubernetes_node == "node-a"


async def test_a_host_port_of_a_node_belongs_to_its_pod(world: World) -> None:
    ports = [{"containerPort": 9092, "hostPort": 31092}, {"containerPort": 9999}]
    world.workloads.change_pod("broker-0", lambda pod: pod["spec"]["containers"][0].update(ports=ports))
    assert (await world.pod("broker-0")).ports_of_node == (("192.0.2.1", 31092),)


# --- what cannot be read ---


@pytest.mark.parametrize("kind", ["pods", "statefulsets", "poddisruptionbudgets"])
async def test_a_forbidden_namespace_is_reported_with_the_chart_value_that_grants_access(
    world: World, kind: str
) -> None:
    world.server.forbidden.add(kind)
    failure = await world.failure()
    assert failure.kind is FailureKind.AUTHORIZATION
    assert failure.location == "namespace kafka"
    assert f"403 {kind}" in failure.message
    assert "drivers.statefulSet" in failure.remedy


async def test_an_api_server_that_fails_or_does_not_answer_is_unreachable(world: World) -> None:
    world.faults = lambda request: Fault()
    assert (await world.failure()).kind is FailureKind.UNREACHABLE
    world.faults = lambda request: Fault(refusal(500, "etcd is sad"))
    failure = await world.failure()
    assert failure.kind is FailureKind.UNREACHABLE
    assert "etcd is sad" in failure.message


async def test_an_invalid_pod_makes_the_reading_fail(world: World) -> None:
    world.workloads.change_pod("broker-0", lambda pod: pod["metadata"].pop("creationTimestamp"))
    failure = await world.failure()
    assert failure.kind is FailureKind.REJECTED
    assert "creationTimestamp" in failure.message


async def test_a_reading_with_too_many_pods_or_budgets_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateful_sets, "MOST_PODS", 2)
    assert (await world.failure()).kind is FailureKind.TOO_LARGE
    monkeypatch.undo()
    monkeypatch.setattr(budgets, "MOST_BUDGETS", 0)
    assert (await world.failure()).kind is FailureKind.TOO_LARGE


async def test_several_stateful_sets_are_read_in_the_time_of_two_requests(world: World) -> None:
    """A restart is decided on what was read at most two seconds before, and an API server may be slow."""
    names = ("controller", "broker", "r1", "r2", "r3", "r4")
    for name in names[2:]:
        world.workloads.create(name, 1)
    waits: list[asyncio.Future[None]] = []

    async def until_answered() -> None:
        waits.append(asyncio.get_running_loop().create_future())
        await waits[-1]

    several = replace(ROLLOUT, brokers=names[1:])
    driver = StatefulSets(world.server.client(latency=until_answered), "kafka", several, lambda: world.now)
    reading, answers = asyncio.ensure_future(driver.read()), 0
    while not reading.done():
        for _ in range(20):  # all that can be asked before the next answer
            await asyncio.sleep(0)
        asked, waits = waits, []
        answers += bool(asked)
        for one in asked:
            one.set_result(None)
    found = reading.result()
    assert isinstance(found, WorkloadsReading)
    assert [one.name for one in found.stateful_sets] == list(names)
    assert answers == 2


async def test_the_failure_of_the_first_unreadable_stateful_set_of_the_document_is_reported(world: World) -> None:
    world.faults = lambda request: Fault(refusal(500, f"no {request.path.rsplit('/', 1)[-1]}"))
    assert "no controller" in (await world.failure()).message
    assert len(asyncio.all_tasks()) == 1
