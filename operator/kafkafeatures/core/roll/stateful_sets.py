"""Conditions of StatefulSets before one of their pods is evicted: OnDelete, one owner, budgets, ordinals.

Pure. These are the `Conditions` of the driver StatefulSet in `core/roll/drivers.py`. Budgets are judged in
`core/roll/budgets.py`, and the order in which Kubernetes creates pods in `core/roll/ordinals.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.facts.workloads import StatefulSet, WorkloadsReading
from kafkafeatures.core.roll import budgets
from kafkafeatures.core.roll.budgets import blockers, refused_now
from kafkafeatures.core.roll.ordinals import awaited_below, out_of_order
from kafkafeatures.core.roll.pods import PodObstacle

__all__ = ("blockers", "notes", "out_of_order", "refused_now", "remedy_of_missing", "unsafe", "waits")

CLEAN_STOP_SECONDS = 300
"""Time in which a broker with thousands of partitions hands over its leaders and flushes its logs."""


def unsafe(owner: StatefulSet, namespace: str) -> Iterator[Blocker]:
    """Blocker for an update strategy other than OnDelete: only with OnDelete do pods stay until they are evicted."""
    if owner.update_strategy != "OnDelete":
        patch = '{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}'
        yield Blocker(
            BlockerKind.WORKLOAD,
            f"StatefulSet {owner.name} has updateStrategy {owner.update_strategy}: Kubernetes restarts its pods by "
            "itself, whatever their partitions",
            f"in Git, or: kubectl -n {namespace} patch statefulset {owner.name} --type merge -p '{patch}'",
            reason=Reason.UPDATE_STRATEGY_UNSAFE,
        )


def waits(reading: WorkloadsReading, stable_for: timedelta, *, is_due: bool) -> Iterator[PodObstacle]:
    """No waits: no other operator restarts these pods."""
    yield from ()


def notes(reading: WorkloadsReading, rollout: Rollout, brokers: int) -> Iterator[str]:
    """Notes on what could be better about the templates, and about the budgets."""
    for stateful_set in reading.stateful_sets:
        if stateful_set.is_ordered and stateful_set.role == "brokers" and stateful_set.replicas > 1:
            yield (
                f"StatefulSet {stateful_set.name} has podManagementPolicy OrderedReady: its pods come back one by one, "
                "and none is evicted above one that is not ready; with Parallel several come back at once"
            )
        # Controllers have no partitions to hand over.
        if stateful_set.role == "brokers" and stateful_set.grace_seconds < CLEAN_STOP_SECONDS:
            yield (
                f"StatefulSet {stateful_set.name} has terminationGracePeriodSeconds {stateful_set.grace_seconds}: a "
                "broker that takes longer to stop is killed, and recovers its logs at its start; set it to "
                f"{CLEAN_STOP_SECONDS} or more"
            )
    yield from budgets.notes(reading, rollout.max_parallel, brokers)


def remedy_of_missing(reading: WorkloadsReading, pod: str, title: str) -> str:
    """Remedy for a pod that is not created again. Kubernetes always does, unless the pod has to wait for another one,
    or the StatefulSet was scaled down.
    """
    owner = pod.rpartition("-")[0]
    sets = (stateful_set for stateful_set in reading.stateful_sets if stateful_set.name == owner)
    awaited = next((order for stateful_set in sets if (order := awaited_below(stateful_set, pod))), "")
    if awaited:
        policy = f"StatefulSet {owner} has podManagementPolicy OrderedReady"
        return f"{policy}, and Kubernetes does not create the pod before {awaited}"
    return (
        f"see `kubectl describe statefulset {owner}`; if it was scaled down, scale it up again, or unregister "
        f"{title} once it has no partitions"
    )
