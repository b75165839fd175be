"""Rolls that budgets, images, consents or the order of pods hold up: their messages and their evictions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.readings import Role
from tests.kafkafeatures.reconcile.stories import BROKERS, BY_SETS, Scene
from tests.kafkafeatures.reconcile.test_stateful_sets import Rig, scale
from tests.simulated.requests import Fault, Request, no_faults, refusal
from tests.simulated.workloads import NEVER_READY


async def test_a_pod_that_never_registers_is_named_and_the_roll_continues_once_it_was_scaled_back() -> None:
    rig = Rig()
    rig.workloads.images = {"kafka:4.4.0": NEVER_READY}
    scale(4)(rig)
    await rig.work()
    assert rig.workloads.evictions == []
    stalled = rig.api.condition("Stalled")
    assert stalled["reason"] == "RolloutHalted"
    assert "pod broker-3 of StatefulSet broker runs no registered node" in stalled["message"]
    scale(3)(rig)
    await rig.work()
    assert rig.workloads.evictions == ["broker-0"]


async def test_with_ordered_ready_no_pod_is_evicted_above_a_pod_that_does_not_run() -> None:
    """Kubernetes would not create the evicted pod again. OrderedReady is the default, so the field is removed here."""
    rig = Rig()
    rig.workloads.change("broker", lambda manifest: manifest["spec"].pop("podManagementPolicy"))
    rig.pass_time(timedelta(seconds=10))
    rig.workloads.budget("broker", {"app": "broker"}, maxUnavailable=2, unhealthyPodEvictionPolicy="AlwaysAllow")
    not_ready = [{"type": "Ready", "status": "False"}]
    rig.workloads.change_pod("broker-0", lambda pod: pod["status"].update(conditions=not_ready))
    # broker-0 already has the new revision, so only the pods above it are left to restart.
    current = rig.api.server.read("/apis/apps/v1/namespaces/kafka/statefulsets/broker")
    assert current is not None
    revision = current["status"]["updateRevision"]
    rig.workloads.change_pod(
        "broker-0", lambda pod: pod["metadata"]["labels"].update({"controller-revision-hash": revision})
    )
    await rig.work()
    assert rig.workloads.evictions == []
    message = rig.api.condition("NodesRolled")["message"]
    assert "StatefulSet broker has podManagementPolicy OrderedReady" in message
    assert "before pod broker-0 is ready" in message
    ready = [{"type": "Ready", "status": "True"}]
    rig.workloads.change_pod("broker-0", lambda pod: pod["status"].update(conditions=ready))
    await rig.work()
    assert rig.workloads.evictions


async def test_no_broker_is_restarted_while_two_brokers_advertise_one_pod() -> None:
    rig = Rig(advertised=(0, 0, 2))
    await rig.work()
    assert rig.workloads.evictions == []
    assert "broker 1 and broker 2 advertise the same pod broker-0" in rig.api.condition("Stalled")["message"]


async def test_a_disruption_budget_used_up_by_other_evictions_is_waited_for() -> None:
    rig = Rig()
    not_ready = [{"type": "Ready", "status": "False"}]
    rig.workloads.change_pod("broker-2", lambda pod: pod["status"].update(conditions=not_ready))
    await rig.work()
    assert rig.workloads.evictions == []
    assert rig.api.condition("Reconciling")["reason"] == "WaitingForBudget"
    ready = [{"type": "Ready", "status": "True"}]
    rig.workloads.change_pod("broker-2", lambda pod: pod["status"].update(conditions=ready))
    await rig.work(1)
    assert rig.workloads.evictions == ["broker-0"]


async def test_a_pod_that_another_client_drains_counts_against_the_budget_and_pauses_the_roll() -> None:
    rig = Rig()
    draining = [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}]
    rig.workloads.change_pod("broker-2", lambda pod: pod["status"].update(conditions=draining))
    await rig.work()
    assert rig.workloads.evictions == []
    assert "Stalled" not in {condition["type"] for condition in rig.api.status["conditions"]}


async def test_a_consent_is_not_used_up_by_an_eviction_that_the_api_server_rejects() -> None:
    """The controller is the only voter, and a PodDisruptionBudget refuses its eviction at first."""
    rig = Rig(only_controller=True)
    await rig.work(1)
    rig.api.edit(consents=["quorum-of-one"])

    def rejects(request: Request) -> Fault | None:
        return Fault(refusal(429, "the budget needs it")) if request.path.endswith("/eviction") else None

    rig.api.faults = rejects
    await rig.work(1)
    assert rig.api.condition("Reconciling")["reason"] == "WaitingForBudget"
    assert not rig.api.status.get("intents")
    assert not rig.api.status.get("spentConsents")
    rig.api.faults = no_faults
    await rig.work(1)
    assert rig.workloads.evictions == ["controller-0"]
    assert rig.api.status["spentConsents"] == ["quorum-of-one"]


async def test_a_consent_to_restarts_that_may_have_been_used_before_the_status_was_lost_needs_an_approval() -> None:
    rig = Rig(only_controller=True)
    rig.api.edit(consents=["quorum-of-one"])
    await rig.work(3)
    condition = rig.api.condition("ApprovalRequired")
    assert condition["reason"] == "PlanPending"
    assert "it is unknown whether consent 'quorum-of-one' was already used" in rig.api.condition("Ready")["message"]
    assert rig.workloads.evictions == []
    assert rig.api.status["unverifiedConsents"] == ["quorum-of-one"]
    rig.api.edit(approval={"planHash": rig.api.status["plan"]["hash"]})
    await rig.work(1)
    assert rig.workloads.evictions == ["controller-0"]
    assert rig.api.status["spentConsents"] == ["quorum-of-one"]


async def test_a_consent_that_was_removed_and_added_again_counts_as_unused() -> None:
    rig = Rig(only_controller=True)
    for consents in (["quorum-of-one"], [], ["quorum-of-one"]):
        assert rig.workloads.evictions == []
        rig.api.edit(consents=consents)
        await rig.work(1)
    assert rig.workloads.evictions == ["controller-0"]


def cannot_be_pulled(pod: dict[str, Any]) -> None:
    waiting = {"name": "kafka", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    not_ready = [{"type": "Ready", "status": "False"}]
    pod["status"].update(phase="Pending", conditions=not_ready, containerStatuses=[waiting])


async def test_with_every_broker_down_stuck_brokers_are_evicted_also_outside_the_windows() -> None:
    rig = Rig()
    for id_ in (1, 2, 3):
        rig.kafka.world.stop(Role.BROKER, id_, kill=True)
        rig.workloads.change_pod(f"broker-{id_ - 1}", cannot_be_pulled)
    rig.kafka.world.advance(rig.kafka.world.now_ms + 60_000)
    hour = (rig.api.now.hour + 6) % 24
    rig.api.edit(rollout={"windows": [{"schedule": f"0 {hour} * * *", "duration": "10m"}]})
    await rig.work()
    assert rig.workloads.evictions == ["broker-0", "broker-1", "broker-2"]


async def test_if_no_node_answers_the_status_names_the_pods_that_do_not_run() -> None:
    rig = Rig()
    rig.kafka.away = True
    for ordinal in (0, 1, 2):
        rig.workloads.change_pod(f"broker-{ordinal}", cannot_be_pulled)
    await rig.work(1)
    ready = rig.api.condition("Ready")
    assert ready["reason"] == "Unreachable"
    assert "`kubectl delete pod broker-0 broker-1 broker-2`" in ready["message"]
    assert rig.workloads.evictions == []


async def becoming_stable() -> Scene:
    """Set up a roll whose first node is back and has to be stable for 30 s."""
    scene = Scene(DesiredState({}, rollout=replace(BY_SETS, stable_for=timedelta(seconds=30))))
    scene.set_images()
    await scene.until(lambda status: any("stableSince" in intent for intent in status.get("intents", ())))
    return scene


async def test_time_without_a_reconciliation_does_not_make_a_node_stable() -> None:
    scene = await becoming_stable()
    (intent,) = scene.store.status["intents"]
    scene.world.advance(scene.world.now_ms + 3_600_000, sparse=True)
    await scene.once()
    (intent_after,) = scene.store.status["intents"]
    assert intent_after["target"] == intent["target"]
    assert len(scene.restarts.asked) == 1
    await scene.until(lambda _: len(scene.restarts.asked) == 2)


async def test_a_node_that_is_observed_rarely_becomes_stable_slowly_and_not_never() -> None:
    scene = await becoming_stable()
    rounds = 0
    while len(scene.restarts.asked) == 1:
        scene.world.advance(scene.world.now_ms + 100_000, sparse=True)
        await scene.once()
        rounds += 1
    assert 10 <= rounds <= 20  # each reconciliation counts for a few of the 30 s, however long ago the last one was


@pytest.mark.parametrize("is_another_process", [False, True], ids=["same process", "another process"])
async def test_the_next_restart_waits_for_a_restarted_node_also_after_the_status_was_lost(
    *, is_another_process: bool
) -> None:
    scene = await becoming_stable()
    if is_another_process:
        scene.restart_process()
    scene.store.status = {}
    back_ms = max(scene.world.image.returned.values())
    await scene.until(lambda _: len(scene.restarts.asked) == 2)
    assert max(scene.world.image.returned.values()) == back_ms
    assert scene.world.now_ms - back_ms >= 30_000


async def test_no_broker_is_restarted_before_brokers_that_a_person_started_are_stable() -> None:
    scene = Scene(DesiredState({}, rollout=replace(BY_SETS, stable_for=timedelta(seconds=30))))
    _restart_by_hand(scene, *BROKERS)
    scene.set_images()
    done = await scene.once()
    assert isinstance(done.decision, Wait)
    assert done.decision.message.startswith("broker 1, broker 2, broker 3 have been up only since 2027-01-15 08:00:")
    await scene.until(lambda _: len(scene.restarts.asked) == 1)
    assert scene.world.now_ms - max(scene.world.image.returned.values()) >= 30_000


async def test_a_broker_that_restarts_again_and_again_is_reported_with_the_time_since_when_and_a_remedy() -> None:
    scene = Scene(DesiredState({}, rollout=replace(BY_SETS, stable_for=timedelta(seconds=30))))
    scene.set_images()  # all brokers need a restart
    for _ in range(8):
        _restart_by_hand(scene, 2)
        done = await scene.once()
    assert scene.restarts.asked == []
    assert isinstance(done.decision, Wait)
    assert done.decision.subject == "broker 2"
    remedy = "if broker 2 ends or is fenced again and again, see its log, and repair or stop it"
    assert done.decision.message.endswith(f"; since 2027-01-15 08:00 UTC; {remedy}")


def _restart_by_hand(scene: Scene, *ids: int) -> None:
    """Stop and start these brokers, as a person does."""
    for node_id in ids:
        scene.world.stop(Role.BROKER, node_id)
    scene.world.advance(scene.world.now_ms + 12_000)
    for node_id in ids:
        scene.world.start(Role.BROKER, node_id)
    scene.world.advance(scene.world.now_ms + 4_000)
