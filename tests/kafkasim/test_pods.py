"""Simulated pods: a kubelet with its delays, budgets, drains, images that cannot start, and the nodes inside."""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import Applied, Rejected
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.workloads import Pod, WorkloadsReading
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkasim.brokers import SESSION_MS
from kafkasim.plan import TopicPlan
from kafkasim.pods import Pods
from kafkasim.ports import SimulatedWorkloads
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.statefulsets import BudgetPlan, PodTiming, SetPlan, addresses, host_of
from kafkasim.world import World
from tests.kafkasim.clusters import outdated, plan, settle, world

OLD, NEW, BROKEN = "kafka:4.1.2", "kafka:4.4.0", "kafka:typo"
SETS = (SetPlan("brokers", "brokers", (3, 1, 2), OLD), SetPlan("controllers", "controllers", (3001, 3002, 3003), OLD))
TIMING = PodTiming()
A_RESTART = 30_000
"""Milliseconds within which an evicted pod is ready successor."""


def pods(metadata_version: int = 27) -> Pods:
    old = plan({1: "4.1", 2: "4.1", 3: "4.1"}, dict.fromkeys((3001, 3002, 3003), "4.1"))
    topics = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1)), 2),)
    made = replace(
        old, topics=topics, levels={"metadata.version": metadata_version}, addresses=addresses(SETS, (Role.BROKER,))
    )
    return Pods(world(made), SETS)


def pod(of: Pods, name: str) -> Pod:
    found = of.reading().pod(name)
    assert found is not None
    return found


def release(made: World, node: int) -> str:
    return made.nodes[Role.BROKER if node < 3000 else Role.CONTROLLER, node].release.name


def test_every_simulated_pod_runs_at_first_and_its_node_advertises_the_name_of_the_pod() -> None:
    made = pods()
    reading = made.reading()
    assert [(one.name, one.role, len(one.pods)) for one in reading.stateful_sets] == [
        ("brokers", "brokers", 3),
        ("controllers", "controllers", 3),
    ]
    assert all(each.ready and each.phase == "Running" for one in reading.stateful_sets for each in one.pods)
    host = made.world.image.brokers[3].endpoints[0].host
    assert host == host_of("brokers-0", "brokers") in pod(made, "brokers-0").host_names


def test_a_requested_restart_stays_on_the_pod_until_the_pod_is_replaced() -> None:
    made = pods()
    made.request_restart("brokers-1")
    assert [one.name for one in made.reading().stateful_sets[0].pods if one.restart_requested] == ["brokers-1"]
    assert made.evict("brokers-1")
    settle(made.world, A_RESTART)
    assert not pod(made, "brokers-1").restart_requested


def test_a_changed_image_is_a_new_revision_and_touches_no_pod_and_the_old_image_is_the_old_revision_again() -> None:
    made = pods()
    before = made.reading().stateful_sets[0]
    made.set_image("brokers", NEW)
    changed = made.reading().stateful_sets[0]
    assert not changed.observed
    assert changed.update_revision == before.update_revision
    settle(made.world, 1_000)
    processed = made.reading().stateful_sets[0]
    assert processed.observed
    assert processed.update_revision != before.update_revision
    assert {each.revision for each in processed.pods} == {before.update_revision}
    assert outdated(made) == ["brokers-0", "brokers-1", "brokers-2"]
    made.set_image("brokers", OLD)
    settle(made.world, 1_000)
    assert made.reading().stateful_sets[0].update_revision == before.update_revision
    assert outdated(made) == []


def test_an_evicted_pod_hands_over_its_partitions_and_starts_with_the_release_of_the_template() -> None:
    made = pods()
    uid = made.uid("brokers-1")
    made.set_image("brokers", NEW)
    settle(made.world, 1_000)
    assert made.evict("brokers-1", uid)
    settle(made.world, 100)
    assert pod(made, "brokers-1").terminating
    assert all(1 not in state.in_sync for _, _, state in made.world.image.partitions.rows())
    settle(made.world, A_RESTART)
    back = pod(made, "brokers-1")
    assert back.ready
    assert back.uid != uid
    assert release(made.world, 1) == "4.4"
    assert all(1 in state.in_sync for _, _, state in made.world.image.partitions.rows())
    assert (release(made.world, 2), release(made.world, 3)) == ("4.1", "4.1")


def test_a_pod_of_another_uid_is_not_evicted() -> None:
    made = pods()
    uid = made.uid("brokers-1")
    assert made.evict("brokers-1", "another")  # granted, as in Kubernetes: a pod of that uid does not exist
    settle(made.world, A_RESTART)
    assert made.uid("brokers-1") == uid


def test_a_pod_with_an_image_that_cannot_run_crashes_until_the_image_is_reverted_and_the_pod_evicted() -> None:
    made = pods()
    made.set_image("brokers", BROKEN)
    made.evict("brokers-1")
    settle(made.world, A_RESTART)
    crashing = pod(made, "brokers-1")
    assert crashing.waiting == "CrashLoopBackOff"
    settle(made.world, 60_000)
    assert pod(made, "brokers-1").restarts > crashing.restarts
    made.set_image("brokers", OLD)
    settle(made.world, 60_000)
    assert not pod(made, "brokers-1").ready
    made.evict("brokers-1")
    settle(made.world, A_RESTART)
    assert pod(made, "brokers-1").ready
    assert release(made.world, 1) == "4.1"


def test_a_binary_that_does_not_support_a_finalized_level_runs_and_does_not_register() -> None:
    made = pods()
    made.set_image("brokers", "kafka:4.0.1")
    before = made.world.image.brokers[1].incarnation
    made.evict("brokers-1")
    settle(made.world, A_RESTART)
    assert made.world.nodes[Role.BROKER, 1].refused
    assert made.world.image.brokers[1].incarnation == before
    assert made.world.image.brokers[1].fenced
    assert not pod(made, "brokers-1").ready
    settle(made.world, TIMING.registration - 15_000)  # it began its work within the 30 s before
    assert pod(made, "brokers-1").waiting == "CrashLoopBackOff"


def test_a_budget_refuses_further_evictions_until_evicted_pods_are_ready() -> None:
    made = pods()
    made.budgets.append(BudgetPlan("kafka", ("brokers",), max_unavailable=1))
    assert made.reading().budgets[0].disruptions_allowed == 1
    assert made.evict("brokers-0")
    assert made.reading().budgets[0].disruptions_allowed == 0
    assert not made.evict("brokers-1")
    assert not pod(made, "brokers-1").terminating
    settle(made.world, A_RESTART)
    assert made.evict("brokers-1")


@pytest.mark.parametrize("always", [True, False], ids=["AlwaysAllow", "IfHealthyBudget"])
def test_a_budget_allows_the_eviction_of_an_unhealthy_pod_only_with_always_allow(always: bool) -> None:
    made = pods()
    made.budgets.append(BudgetPlan("kafka", ("brokers",), max_unavailable=1, always_allows_unhealthy=always))
    for name in ("brokers-0", "brokers-1"):
        made.kill(name)
    assert made.evict("brokers-0") is always


def test_a_drained_pod_stays_pending_until_its_kubernetes_node_is_uncordoned() -> None:
    made = pods()
    made.drain("brokers-2")
    assert pod(made, "brokers-2").draining
    made.evict("brokers-2")
    settle(made.world, 10 * A_RESTART)
    assert pod(made, "brokers-2").phase == "Pending"
    made.uncordon("brokers-2")
    settle(made.world, A_RESTART)
    assert pod(made, "brokers-2").ready


def test_a_killed_container_restarts_in_the_same_pod_with_the_same_release() -> None:
    made = pods()
    made.set_image("brokers", NEW)
    uid = made.uid("brokers-1")
    made.kill("brokers-1")
    assert not made.world.image.brokers[1].fenced
    settle(made.world, SESSION_MS + A_RESTART)
    assert made.uid("brokers-1") == uid
    assert pod(made, "brokers-1").restarts == 1
    assert pod(made, "brokers-1").ready
    assert release(made.world, 1) == "4.1"


def test_a_node_that_does_not_stop_in_time_is_killed() -> None:
    made = Pods(pods().world, SETS, replace(TIMING, grace=1_000))
    for pod_of_a_voter in made.world.voters:
        made.world.stop(Role.CONTROLLER, pod_of_a_voter)
    made.evict("brokers-1")
    settle(made.world, 2_000)
    assert not made.world.nodes[Role.BROKER, 1].running
    assert made.world.nodes[Role.BROKER, 1].unclean


def test_an_evicted_controller_is_another_process_of_the_new_release() -> None:
    made = pods()
    made.set_image("controllers", NEW)
    before = made.world.image.controllers[3002].incarnation
    made.evict("controllers-1")
    settle(made.world, A_RESTART)
    assert made.world.image.controllers[3002].incarnation != before
    assert release(made.world, 3002) == "4.4"
    assert made.world.active is not None


async def test_the_simulated_port_evicts_a_pod_only_by_its_current_uid() -> None:
    made = pods()
    made.budgets.append(BudgetPlan("kafka", ("brokers",)))
    port = SimulatedWorkloads(made)
    assert isinstance(await port.read(), WorkloadsReading)

    def restart(name: str) -> RestartNode:
        return RestartNode(made.node_of(name), "broker", name, made.uid(name))

    first, second = restart("brokers-0"), restart("brokers-1")
    assert isinstance(await port.restart(first, lambda: None), Applied)
    assert isinstance(await port.restart(first, lambda: None), Applied)
    assert isinstance(await port.restart(second, lambda: None), Rejected)
    settle(made.world, A_RESTART)
    successor = made.uid("brokers-0")
    assert isinstance(await port.restart(first, lambda: None), Applied)  # the pod of that uid is gone: nothing is done
    settle(made.world, A_RESTART)
    assert made.uid("brokers-0") == successor


def upgrade_and_downgrade(made: Pods) -> int:
    """Give all pods the new image, raise a level and lower it successor, and set the old image. Returns the leader."""
    sets = {one.name for one in made.reading().stateful_sets}
    for name in sets:
        made.set_image(name, NEW)
    for name in made.names():
        made.delete(name)
        settle(made.world, A_RESTART)
    active = made.world.active_node
    assert active is not None
    for level in (29, 27):
        update = FeatureUpdate(
            "metadata.version", level, UpgradeType.UPGRADE if level == 29 else UpgradeType.SAFE_DOWNGRADE
        )
        assert made.world.update_features(active, [update], validate_only=False).verdict.levels
        settle(made.world)
    for name in sets:
        made.set_image(name, OLD)
    settle(made.world, 1_000)
    return active.id


def pod_of_a_voter(made: Pods, *but: int | None) -> str:
    """The name of the pod of a pod_of_a_voter other than these."""
    return next(name for name in made.names() if made.node_of(name) in {*made.world.voters} - {*but})


def test_a_downgraded_controller_crashes_at_a_level_of_its_log_until_it_has_a_newer_snapshot() -> None:
    """The old release cannot read the higher level, which is still in the log after the last snapshot. Brokers can."""
    made = pods()
    every = made.world.timing.snapshot
    active = upgrade_and_downgrade(made)
    standby = pod_of_a_voter(made, active)
    for name in (standby, "brokers-0"):
        made.delete(name)
        settle(made.world, A_RESTART)
    assert pod(made, standby).waiting == "CrashLoopBackOff"
    assert pod(made, "brokers-0").ready
    other = pod_of_a_voter(made, active, made.node_of(standby))
    settle(made.world, every)
    made.delete(other)
    settle(made.world, A_RESTART)
    assert pod(made, other).ready


def test_a_combined_node_whose_controller_crashes_is_no_live_broker() -> None:
    ids = (1, 2, 3)
    sets = (SetPlan("nodes", "brokers", ids, OLD),)
    of_all = dict.fromkeys(ids, "4.1")
    topics = (TopicPlan("orders", (ids,), 2),)
    planned = replace(
        plan(of_all, of_all), topics=topics, levels={"metadata.version": 27}, addresses=addresses(sets, tuple(Role))
    )
    made = Pods(world(planned), sets)
    crashing = pod_of_a_voter(made, upgrade_and_downgrade(made))
    made.delete(crashing)
    settle(made.world, A_RESTART)
    assert pod(made, crashing).waiting == "CrashLoopBackOff"
    assert not any(made.world.nodes[role, made.node_of(crashing)].running for role in Role)
