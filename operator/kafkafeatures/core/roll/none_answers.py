"""Remedy for a cluster of which no node answers, if its pods show the cause.

Pure. Called by `reconcile/evaluate.py`. If no node answers there is no observation, so no restart is decided. Combined
nodes are in that state as soon as all of them are down. It is then not known which node may go first, so the operator
deletes no pod; a pod of an old revision stays as it is until a person deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import NO_ANSWER, Failure, FailureKind
from kafkafeatures.core.facts.workloads import Pod, WorkloadsReading
from kafkafeatures.core.roll.pods import cannot_run, is_outdated, look_at_end

PODS_SHOWN = 3
"""Most pods that a message names."""

_NO_ANSWER = (*NO_ANSWER, FailureKind.NO_LEADER)
"""Kinds of failures that may be caused by pods that do not run; other kinds are answers of running nodes."""


def with_pods(failure: Failure, workloads: WorkloadsReading | Failure) -> Failure:
    """The failure, with the pods that do not run and a remedy for them. The message has no number that grows, such as
    that of restarts: otherwise the status would be written in every reconciliation.
    """
    if isinstance(workloads, Failure) or failure.kind not in _NO_ANSWER:
        return failure
    down = [(pod, owner) for owner in workloads.stateful_sets for pod in owner.pods if _is_down(pod)]
    if not down:
        return failure
    texts = [f"pod {pod.name} {_why(pod)}" for pod, _ in down[:PODS_SHOWN]]
    remainder = [f"{len(down) - PODS_SHOWN} more do not run"] if len(down) > PODS_SHOWN else []
    stuck = [pod for pod, owner in down if is_outdated(pod, owner) and cannot_run(pod, workloads.at)]
    remedy = _delete(stuck) if stuck else f"{look_at_end(down[0][0])}, and fix what stops the pods"
    return replace(
        failure,
        message=f"{failure.message}; {', '.join((*texts, *remainder))}",
        remedy="; ".join(filter(None, (remedy, failure.remedy))),
    )


def _is_down(pod: Pod) -> bool:
    return not pod.terminating and bool(pod.waiting or (pod.restarts and not pod.ready))


def _why(pod: Pod) -> str:
    return "crashes" if pod.restarts else f"does not run: {pod.waiting}"


def _delete(stuck: Sequence[Pod]) -> str:
    names = " ".join(pod.name for pod in stuck[:PODS_SHOWN])
    remainder = f" (and {len(stuck) - PODS_SHOWN} more that cannot run)" if len(stuck) > PODS_SHOWN else ""
    return (
        f"run `kubectl delete pod {names}`{remainder}, because the operator restarts no node while none answers; the "
        "new pods have the current revision"
    )
