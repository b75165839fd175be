"""PodDisruptionBudgets: what they allow now, and which of them must be repaired before a roll.

Pure. Called by `core/roll/stateful_sets.py`. The API server decides at each eviction (429 if it refuses); this module
predicts its answer, and never allows an eviction by itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.workloads import Budget, Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.roll.pods import why_restarted
from kafkafeatures.core.words import counted

EVICTED_ANYWAY = ("Pending", "Succeeded", "Failed")  # as in `canIgnorePDB` of the API server's `eviction.go`
"""Phases of pods that are evicted whatever a budget says."""


def refused_now(reading: WorkloadsReading, pod: Pod) -> str:
    """Message about the budget that forbids the eviction of this pod now, by the rules of the API server
    (`eviction.go`); empty if none does.

    The API server may allow the eviction of a pod that is not ready, whatever the budget. That is used only for a pod
    whose container does not run: otherwise its node may serve clients.
    """
    if pod.terminating or pod.phase in EVICTED_ANYWAY:
        return ""
    for budget in reading.budgets:
        is_stuck = bool(pod.waiting) and not pod.ready
        is_exempt = is_stuck and (budget.always_allows_unhealthy or budget.has_enough_healthy)
        if pod.name in budget.pods and budget.disruptions_allowed <= 0 and not is_exempt:
            message = f"PodDisruptionBudget {budget.name} ({budget.limit}) allows no eviction of pod {pod.name} now"
            if not is_stuck:
                return f"{message}; it allows one once enough other pods are ready"
            return f"{message}, which does not run ({pod.waiting}); {_always_allow(reading, budget)}"
    return ""


def parallelism(reading: WorkloadsReading) -> int | None:
    """Largest number of brokers that the budgets allow to be evicted at once; None if they do not limit it."""
    pods = _pods_of_brokers(reading)
    limits = [budget for budget in reading.budgets if budget.pods & pods]
    # Below 0: not known. A pod that no budget covers may always be evicted.
    if not pods or any(limit.most < 0 for limit in limits) or pods - {name for limit in limits for name in limit.pods}:
        return None
    return sum(limit.most for limit in limits)


def blockers(reading: WorkloadsReading) -> Iterator[Blocker]:
    """Blockers for budgets with which no eviction of an outdated pod can ever succeed."""
    needing = {
        pod.name
        for stateful_set in reading.stateful_sets
        for pod in stateful_set.pods
        if why_restarted(pod, stateful_set)
    }
    limits = [budget for budget in reading.budgets if budget.pods & needing]
    for limit in limits:
        if limit.most == 0:
            yield _blocker(
                f"PodDisruptionBudget {limit.name} ({limit.limit}) never allows an eviction",
                f"in Git, or: {_patch(reading, limit, 1)}",
            )
    covering: dict[str, list[str]] = defaultdict(list)
    for limit in limits:
        for name in limit.pods & needing:
            covering[name].append(limit.name)
    # By the names of the budgets, so that each combination is reported once: with its first pod by name.
    clashes = {tuple(sorted(names)): pod for pod, names in sorted(covering.items(), reverse=True) if len(names) > 1}
    for names, pod in clashes.items():
        yield _blocker(
            f"pod {pod} is covered by {len(names)} PodDisruptionBudgets ({', '.join(names)}): Kubernetes evicts no "
            "such pod",
            "delete all but one of them, or narrow their selectors",
        )


def notes(reading: WorkloadsReading, max_parallel: MaxParallel, brokers: int) -> Iterator[str]:
    """Notes on what makes a roll slower, or a drain less safe, than it has to be. `brokers`: how many there are."""
    for stateful_set in reading.stateful_sets:
        if stateful_set.pods and not any(
            pod.name in budget.pods for budget in reading.budgets for pod in stateful_set.pods
        ):
            yield (
                f"no PodDisruptionBudget covers StatefulSet {stateful_set.name}, so a drain may stop several of its "
                f"pods at once; in Git: {_suggested(stateful_set)}"
            )
    for budget in reading.budgets:
        if budget.pods and not budget.always_allows_unhealthy:
            yield (
                f"PodDisruptionBudget {budget.name} may keep a pod that is not ready from being evicted; "
                f"{_always_allow(reading, budget)}"
            )
    most, number = (
        parallelism(reading),
        max_parallel.number * brokers // 100 if max_parallel.percent else max_parallel.number,
    )
    if most is not None and 0 < most < number:
        limiting = [budget for budget in reading.budgets if budget.pods & _pods_of_brokers(reading)]
        yield (
            f"at most {counted(most, 'broker')} at a time: rollout.maxParallel is {max_parallel}, and "
            f"PodDisruptionBudget {limiting[0].name} has {limiting[0].limit}; to use it, in Git, or: "
            f"{_patch(reading, limiting[0], number)}"
        )


def _pods_of_brokers(reading: WorkloadsReading) -> set[str]:
    return {
        pod.name
        for stateful_set in reading.stateful_sets
        if stateful_set.role == "brokers"
        for pod in stateful_set.pods
    }


def _patch(reading: WorkloadsReading, budget: Budget, most: int) -> str:
    return f"""{_kubectl(reading, budget)} '{{"spec":{{"minAvailable":null,"maxUnavailable":{most}}}}}'"""


def _always_allow(reading: WorkloadsReading, budget: Budget) -> str:
    policy = '{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}'
    return f"in Git, or: {_kubectl(reading, budget)} '{policy}'"


def _kubectl(reading: WorkloadsReading, budget: Budget) -> str:
    return f"kubectl -n {reading.namespace} patch poddisruptionbudget {budget.name} --type merge -p"


def _suggested(stateful_set: StatefulSet) -> str:
    """PodDisruptionBudget for these pods, as JSON on one line, which is valid YAML too."""
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": dict(stateful_set.labels)},
    }
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": stateful_set.name},
        "spec": spec,
    }
    return json.dumps(document)


def _blocker(message: str, remedy: str) -> Blocker:
    return Blocker(BlockerKind.WORKLOAD, message, remedy, reason=Reason.ROLLOUT_HALTED)
