"""Pods that another operator restarts: which of them it has still to restart, or is restarting.

Pure. Called by the conditions of drivers that restart no outdated pod themselves (`Driver.restarts_outdated`). Our
operator restarts nothing meanwhile, and changes no level: it waits, and names the first of these pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.facts.workloads import Pod, StatefulSet, WorkloadsReading
from kafkafeatures.core.roll.pods import PodObstacle, is_outdated, look_at
from kafkafeatures.core.words import format_span

CLOCKS_DIFFER = timedelta(minutes=1)
"""Difference of two clocks that nobody has to correct."""


def pods_to_follow(reading: WorkloadsReading, operator: str, reason: Reason) -> Iterator[PodObstacle]:
    """Pods of sets that the other operator rolls: outdated, asked to be restarted, missing, stopping, or not ready."""
    remedy = f"wait; if it stays so, see the log of {operator}"
    for owner in reading.stateful_sets:
        if owner.restarts_outdated:
            continue
        if not owner.observed or not owner.update_revision:
            text = f"{operator} has not processed the change of {owner.kind} {owner.name} yet"
            yield PodObstacle(text, remedy, reason=reason, subject=operator)
        if len(owner.pods) != owner.replicas:
            change = "create" if len(owner.pods) < owner.replicas else "remove"
            count = f"there are {len(owner.pods)}, and there should be {owner.replicas}"
            text = f"{operator} has still to {change} pods of {owner.kind} {owner.name}: {count}"
            yield PodObstacle(text, remedy, reason=reason, subject=operator)
        for pod in owner.pods:
            subject = f"pod {pod.name}"
            if text := _why_awaited(pod, owner, operator):
                yield PodObstacle(text, remedy, pod=pod.name, reason=reason, subject=subject)
            elif not pod.ready:
                look = f"wait; if it stays so, {look_at(pod.name)}"
                yield PodObstacle(f"{subject} is not ready", look, pod=pod.name, reason=reason, subject=subject)


def pods_just_restarted(
    reading: WorkloadsReading, stable_for: timedelta, operator: str, reason: Reason
) -> Iterator[PodObstacle]:
    """Pods that have not been ready for `stable_for` yet, or do not say since when. Between two pods of a roll all may
    be ready, and not every roll shows in revisions, such as one for a larger volume.
    """
    sets = (owner for owner in reading.stateful_sets if stable_for and not owner.restarts_outdated)
    for pod in (pod for owner in sets for pod in owner.pods if pod.ready):
        since, remedy = pod.ready_since, f"wait; if it is restarted again and again, {look_at(pod.name)}"
        if since is None:
            text = f"pod {pod.name} is ready, but its condition Ready does not say since when"
        elif since > reading.at + CLOCKS_DIFFER:
            text = f"pod {pod.name} is ready since {since:%Y-%m-%d %H:%M:%S} UTC, which is in the future"
            remedy = f"compare the clocks of the Kubernetes node {pod.kubernetes_node} and of the operator's"
        elif reading.at - since < stable_for:
            text = (
                f"pod {pod.name} is ready only since {since:%H:%M:%S} UTC; {operator} may restart another one before "
                f"it has been for {format_span(stable_for)} (spec.rollout.stableFor)"
            )
        else:
            continue
        yield PodObstacle(text, remedy, pod=pod.name, reason=reason, subject=f"pod {pod.name}")


def followed_in(reading: WorkloadsReading) -> frozenset[str]:
    """Names of the outdated pods that another operator restarts."""
    sets = (owner for owner in reading.stateful_sets if not owner.restarts_outdated)
    return frozenset(pod.name for owner in sets for pod in owner.pods if is_outdated(pod, owner))


def _why_awaited(pod: Pod, owner: StatefulSet, operator: str) -> str:
    """Text on what the other operator does, or has to do, with the pod; empty for nothing."""
    if pod.terminating:
        return f"pod {pod.name} is stopping"
    if is_outdated(pod, owner):
        return f"{operator} has still to restart pod {pod.name}, which is not of the current revision"
    return f"{operator} was asked to restart pod {pod.name}, and has not done so yet" if pod.restart_pending else ""
