"""Nodes that crash on the revision that is rolled out.

Pure. Called by `core/roll/check_input.py` in every reconciliation whose pods were read. Such a node halts the roll and
every raise of a level, even long after its own restart was over: an image that runs for two minutes and then crashes,
again and again, comes back for long enough each time.

A crash shows in the pod: kubelet counts how often it started the container again in this life of the pod. Restarts by
the operator and by a drain make new pods, which begin at 0. So nothing has to be remembered.

A crash counts until the container has run for STEADY_AFTER. Rarer crashes are left to the soak (`core/levels/soak.py`):
otherwise a node that ran out of memory once would keep the cluster from its levels for ever. A person who knows better
deletes the pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kafkafeatures.core.facts.workloads import INIT, Pod, StatefulSet, WorkloadsReading

STEADY_AFTER = timedelta(hours=1)
"""Time after which a container that was started again no longer counts as crashing."""


class Crash(NamedTuple):
    """A pod of the update revision of its StatefulSet whose container ended by itself."""

    pod: Pod
    owner: StatefulSet

    def __str__(self) -> str:
        pod = self.pod
        times = pod.restarts_text
        if pod.waiting:
            return f"pod {pod.name} crashes on its current revision: {pod.waiting}{times}"
        at = pod.started_at
        since = f" and was started again at {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at is not None else ""
        reason = f" ({pod.ended_for})" if pod.ended_for else ""
        return f"the container of pod {pod.name} ended by itself on its current revision{reason}{since}{times}"


def crashes(reading: WorkloadsReading) -> Iterator[Crash]:
    """Pods that crash on the update revision of their StatefulSet, as it was read."""
    for owner in reading.stateful_sets:
        for pod in owner.pods:
            if owner.observed and pod.revision == owner.update_revision and _crashed(pod, reading.at):
                yield Crash(pod, owner)


def _crashed(pod: Pod, current_time: datetime) -> bool:
    """Tell whether the container of this pod ended by itself, and has not run for STEADY_AFTER since."""
    if pod.terminating or pod.phase not in ("Running", "Pending"):
        return False  # it was asked to end, or is replaced
    if pod.waiting.removeprefix(INIT) == "CrashLoopBackOff":
        return True
    if not pod.restarts and not pod.ended_for:
        return False
    return pod.started_at is None or current_time - pod.started_at < STEADY_AFTER
