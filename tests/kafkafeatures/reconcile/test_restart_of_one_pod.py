"""A person requests the restart of one pod of a cluster in sync: from the request to the status after it."""

from __future__ import annotations

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from tests.kafkafeatures.reconcile.stories import BY_SETS, Json, Scene, is_in_sync

WANTED = DesiredState({"metadata.version": 27}, rollout=BY_SETS)


def waits_for_approval(status: Json) -> bool:
    return any(
        condition["type"] == "ApprovalRequired" and condition["status"] == "True" for condition in status["conditions"]
    )


def uids(scene: Scene) -> dict[str, str]:
    return {name: scene.pods.uid(name) for name in scene.pods.names()}


async def at_rest(wanted: DesiredState = WANTED) -> Scene:
    scene = Scene(wanted)
    await scene.until(is_in_sync)
    return scene


async def test_each_request_replaces_only_its_pod_and_the_status_has_the_cause() -> None:
    scene = await at_rest()
    for pod in ("broker-1", "broker-1", "controller-2"):
        before, written = uids(scene), len(scene.store.written)
        scene.pods.request_restart(pod)
        await scene.once()
        assert scene.store.status["plan"]["summary"] == f"restart pod {pod}, as requested"
        await scene.until(is_in_sync)
        assert {name for name, uid in uids(scene).items() if uid != before[name]} == {pod}
        assert scene.restarts.asked.pop() == pod
        assert scene.restarts.asked == []
        steps = [
            status["plan"]["steps"] for status in scene.store.written[written:] if status.get("plan", {}).get("steps")
        ]
        assert steps[0][0]["detail"] == f"restart pod {pod}, as requested"
        assert scene.store.status["rollout"]["restarted"] == 1


async def test_an_approval_of_a_requested_restart_does_not_cover_a_pod_requested_later() -> None:
    scene = await at_rest(replace(WANTED, policy=ApprovalPolicy.ALWAYS))
    scene.pods.request_restart("broker-1")
    await scene.until(waits_for_approval)
    first = scene.store.status["plan"]["hash"]
    scene.pods.request_restart("broker-2")
    scene.store.wanted = replace(scene.store.wanted, approvals=frozenset({first}))
    for _ in range(5):
        await scene.once()
    assert waits_for_approval(scene.store.status)
    assert scene.restarts.asked == []
    both = scene.store.status["plan"]["hash"]
    scene.store.wanted = replace(scene.store.wanted, approvals=frozenset({both}))
    await scene.until(is_in_sync)
    assert sorted(scene.restarts.asked) == ["broker-1", "broker-2"]


async def test_a_roll_that_a_request_joins_ends_with_every_pod_current_and_restarts_no_pod_twice() -> None:
    scene = await at_rest()
    scene.set_images()
    await scene.once()
    for name in scene.pods.names():
        scene.pods.request_restart(name)
    await scene.until(is_in_sync)
    assert sorted(scene.restarts.asked) == scene.pods.names()
