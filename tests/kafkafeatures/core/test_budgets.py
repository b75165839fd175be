"""PodDisruptionBudgets: the evictions that they allow, and the patches for those that hold up a roll."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.workloads import Budget, Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.roll import budgets
from tests.kafkafeatures.core.fleets import NEW, budget, pod, stateful_set
from tests.kafkafeatures.worlds import NOW

PODS = tuple(pod(id_) for id_ in (1, 2, 3))


def workloads_with(*budgets_read: Budget, sets: tuple[StatefulSet, ...] = ()) -> WorkloadsReading:
    return WorkloadsReading(NOW, sets or (stateful_set(*PODS),), budgets_read, namespace="kafka")


ONE_AT_A_TIME = MaxParallel(1)


def notes(workloads: WorkloadsReading, most: MaxParallel = ONE_AT_A_TIME) -> list[str]:
    """Return the notes in a cluster of 30 brokers."""
    return list(budgets.notes(workloads, most, 30))


def eviction_refusal(disruption_budget: Budget, pod_: Pod = PODS[0]) -> str:
    return budgets.refused_now(workloads_with(disruption_budget), pod_)


def test_a_pod_whose_disruption_budget_allows_no_eviction_now_is_named_with_the_budget() -> None:
    spent = budget(*PODS, disruptions_allowed=0)
    assert eviction_refusal(spent).startswith(
        "PodDisruptionBudget broker (maxUnavailable: 1) allows no eviction of pod broker-1 now"
    )
    assert not eviction_refusal(budget(*PODS))
    assert not eviction_refusal(budget(*PODS[1:], disruptions_allowed=0))


def test_each_pod_is_judged_by_its_own_disruption_budget() -> None:
    racks = workloads_with(budget(PODS[0], name="a", disruptions_allowed=0), budget(*PODS[1:], name="b"))
    assert budgets.refused_now(racks, PODS[0])
    assert not budgets.refused_now(racks, PODS[1])


UNREADY = replace(PODS[0], ready=False, waiting="CrashLoopBackOff")


def test_a_used_up_budget_forbids_evicting_a_crashing_pod_only_without_always_allow_and_enough_healthy_pods() -> None:
    spent = budget(*PODS, disruptions_allowed=0, always_allows_unhealthy=False)
    assert eviction_refusal(spent, UNREADY).endswith(
        "of pod broker-1 now, which does not run (CrashLoopBackOff); in Git, or: kubectl -n kafka patch "
        """poddisruptionbudget broker --type merge -p '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'"""
    )
    assert not eviction_refusal(replace(spent, has_enough_healthy=True), UNREADY)
    assert not eviction_refusal(replace(spent, always_allows_unhealthy=True), UNREADY)
    assert eviction_refusal(replace(spent, has_enough_healthy=True), PODS[0])
    assert eviction_refusal(replace(spent, always_allows_unhealthy=True), replace(UNREADY, waiting=""))


@pytest.mark.parametrize("fields", [{"phase": "Pending"}, {"phase": "Failed"}, {"terminating": True}], ids=str)
def test_no_budget_forbids_the_eviction_of_a_pending_or_terminating_pod(fields: dict[str, Any]) -> None:
    assert not eviction_refusal(
        budget(*PODS, disruptions_allowed=0, always_allows_unhealthy=False), replace(UNREADY, **fields)
    )


def test_a_budget_that_never_allows_an_eviction_is_a_blocker_with_the_patch_as_remedy() -> None:
    (blocker,) = budgets.blockers(workloads_with(budget(*PODS, most=0, limit="minAvailable: 3")))
    assert blocker.reason is Reason.ROLLOUT_HALTED
    assert blocker.message == "PodDisruptionBudget broker (minAvailable: 3) never allows an eviction"
    assert blocker.remedy.endswith(
        "kubectl -n kafka patch poddisruptionbudget broker --type merge "
        """-p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'"""
    )


def test_a_budget_that_is_used_up_or_not_processed_yet_is_no_blocker() -> None:
    assert not list(budgets.blockers(workloads_with(budget(*PODS, disruptions_allowed=0))))
    assert not list(budgets.blockers(workloads_with(budget(*PODS, most=-1, disruptions_allowed=0))))


def test_a_pod_covered_by_two_budgets_is_one_blocker_as_kubernetes_never_evicts_it() -> None:
    (blocker,) = budgets.blockers(workloads_with(budget(*PODS), budget(*PODS, name="other")))
    assert blocker.message == (
        "pod broker-1 is covered by 2 PodDisruptionBudgets (broker, other): Kubernetes evicts no such pod"
    )


def test_only_budgets_of_pods_that_need_a_restart_are_blockers() -> None:
    """The controller is of the current revision, until a person requests its restart."""
    controller = pod(9, name="controller-0", stateful_set="controller", revision=NEW)
    sets = (stateful_set(*PODS), stateful_set(controller, name="controller", role="controllers"))
    no_eviction = budget(controller, name="controller", most=0)
    workloads = workloads_with(budget(*PODS), no_eviction, budget(controller, name="other"), sets=sets)
    assert not list(budgets.blockers(workloads))
    restarting = replace(sets[1], pods=(replace(controller, restart_requested=True),))
    first, second = budgets.blockers(replace(workloads, stateful_sets=(sets[0], restarting)))
    assert "controller (maxUnavailable: 0) never allows" in first.message
    assert "pod controller-0 is covered by 2" in second.message


def test_a_stateful_set_without_a_disruption_budget_gets_a_suggested_one() -> None:
    (note,) = notes(workloads_with())
    assert note.startswith("no PodDisruptionBudget covers StatefulSet broker")
    suggested = json.loads(note.partition("in Git: ")[2])
    assert suggested["spec"] == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": {"app": "kafka"}},
    }


def test_a_budget_without_always_allow_gets_the_patch_for_unhealthy_pods() -> None:
    assert not notes(workloads_with(budget(*PODS)))
    (note,) = notes(workloads_with(budget(*PODS, always_allows_unhealthy=False)))
    assert """patch poddisruptionbudget broker --type merge -p '{"spec":{"unhealthyPodEvictionPolicy""" in note


def test_a_budget_below_max_parallel_is_named_with_the_patch_that_raises_it() -> None:
    workloads = workloads_with(budget(*PODS))
    assert budgets.parallelism(workloads) == 1
    (note,) = notes(workloads, MaxParallel(3))
    assert note.startswith("at most 1 broker at a time: rollout.maxParallel is 3, and PodDisruptionBudget broker has")
    assert '"maxUnavailable":3' in note
    (note,) = notes(workloads, MaxParallel(10, percent=True))  # of 30 brokers
    assert "rollout.maxParallel is 10%" in note
    assert '"maxUnavailable":3' in note
    assert not notes(workloads_with(budget(*PODS, most=3)), MaxParallel(3))


def test_budgets_of_racks_add_up_for_max_parallel() -> None:
    racks = workloads_with(budget(PODS[0], name="a"), budget(*PODS[1:], name="b"))
    assert budgets.parallelism(racks) == 2


def test_budgets_of_controllers_do_not_count_for_max_parallel() -> None:
    controller = pod(9, name="controller-0", stateful_set="controller")
    sets = (stateful_set(*PODS), stateful_set(controller, name="controller", role="controllers"))
    workloads = workloads_with(budget(*PODS, most=2), budget(controller, name="controller"), sets=sets)
    assert budgets.parallelism(workloads) == 2


def test_max_parallel_is_not_limited_where_a_pod_has_no_budget_or_a_budget_is_not_processed_yet() -> None:
    assert budgets.parallelism(workloads_with(budget(PODS[0]))) is None
    assert budgets.parallelism(workloads_with(budget(*PODS, most=-1))) is None
