"""Order in which Kubernetes creates the pods of a StatefulSet with `podManagementPolicy: OrderedReady`: by ordinal.

Pure. Called by `core/roll/stateful_sets.py`. Kubernetes creates a pod of such a StatefulSet only while all pods of
lower ordinals are ready (`stateful_set_control.go`, `monotonic`). So a pod that is evicted stays away for as long as a
pod below it does not run.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkafeatures.core.facts.workloads import Pod, StatefulSet


def out_of_order(owner: StatefulSet, pod: Pod, flying: Collection[str]) -> str:
    """Reason why this pod would not be created again soon after an eviction, or its absence would keep a pod in flight
    from being created; else empty.

    `flying`: names of the pods of nodes in flight.
    """
    if not owner.is_ordered:
        return ""
    policy = f"pod {pod.name} is not evicted: StatefulSet {owner.name} has podManagementPolicy OrderedReady, and"
    awaited = awaited_below(owner, pod.name)
    if awaited:
        return f"{policy} Kubernetes would not create it again before {awaited}"
    pods_by_ordinal, own_ordinal = {_ordinal(pod.name): pod for pod in owner.pods}, _ordinal(pod.name)
    for name in sorted(flying):
        flying_pod = pods_by_ordinal.get(_ordinal(name))
        is_away = flying_pod is None or flying_pod.terminating
        if pod.ready and name.rpartition("-")[0] == owner.name and _ordinal(name) > own_ordinal and is_away:
            return f"{policy} pod {name}, which is being restarted, would not be created while this one is not ready"
    return ""


def awaited_below(owner: StatefulSet, pod: str) -> str:
    """Clause about the pod that must be ready before Kubernetes creates this one, with the remedy, for messages that
    end with "before ..."; empty if none must.
    """
    pods_by_ordinal = {_ordinal(pod.name): pod for pod in owner.pods}
    for ordinal in range(owner.first_ordinal, _ordinal(pod)) if owner.is_ordered else ():
        lower, name = pods_by_ordinal.get(ordinal), f"{owner.name}-{ordinal}"
        if lower is None or lower.terminating or not lower.ready:
            reason = "it does not exist" if lower is None else "it is stopping" if lower.terminating else lower.waiting
            return (
                f"pod {name} is ready{f' ({reason})' if reason else ''}; repair pod {name}, or create the StatefulSet "
                f"anew with podManagementPolicy Parallel (`kubectl delete statefulset {owner.name} --cascade=orphan`, "
                "then apply)"
            )
    return ""


def _ordinal(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
