"""Facts about the pods that nodes run in: which need a restart, which are away, which cannot run as they are.

Pure. `Fleet` is made by a driver (`core/roll/drivers.py`) in every reconciliation of a resource that has one, and read
by everything else that decides on restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar, NamedTuple

from msgspec import Struct, field

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.facts.workloads import INIT, Pod, StatefulSet


class PodWithoutNode(NamedTuple):
    """A pod that no node is known to run in, and its StatefulSet."""

    pod: Pod
    owner: StatefulSet

    @property
    def is_outdated(self) -> bool:
        """Tell whether its next pod would have another revision."""
        return is_outdated(self.pod, self.owner)


class PodObstacle(NamedTuple):
    """Obstacle to one more restart, which the roll waits for.

    text, remedy: message, and what a person can do.
    node: node whose pod is not certain.
    is_alone: only `node`, and brokers that share a partition with it, have to wait; else all nodes.
    pod: the pod that it is about; empty for none. While a restart of it is in flight, it is no obstacle.
    reason: reason of the wait.
    subject: what is waited for, if it is no node.
    """

    text: str
    remedy: str
    node: Node | None = None
    is_alone: bool = False
    pod: str = ""
    reason: Reason = Reason.ROLLING_NODES
    subject: str = "pods"


class Fleet(Struct, frozen=True):
    """Nodes in their pods. Mappings are by node id, and have only nodes whose pod is certain.

    pods: pod of each node.
    sets: StatefulSet of each node.
    needing: nodes that need a restart, and why.
    unavailable: nodes whose pod stops, does not run, does not exist, or is being drained, for whatever reason.
    blockers: reasons why no node at all may be restarted.
    waits: obstacles to one more restart. These and `without_node` are filled only if a pod needs a restart, or may need
        one; and while another operator restarts pods.
    without_node: pods that run no registered node, which are waited for as well.
    notes: what could be better.
    withheld: nodes of `needing` whose restart would be refused now, such as by a PodDisruptionBudget, and why.
    out_of_order: nodes of `needing` whose pod would not be created again soon, or would keep another one away, and why.
    followed: outdated pods that another operator restarts. followed_in: number of pods that their sets should have.
    missing: number of these that do not exist.
    """

    EMPTY: ClassVar[Fleet]

    pods: Mapping[int, Pod] = field(default_factory=dict)
    sets: Mapping[int, StatefulSet] = field(default_factory=dict)
    needing: Mapping[int, str] = field(default_factory=dict)
    unavailable: frozenset[int] = frozenset()
    blockers: tuple[Blocker, ...] = ()
    waits: tuple[PodObstacle, ...] = ()
    without_node: tuple[PodWithoutNode, ...] = ()
    notes: tuple[str, ...] = ()
    withheld: Mapping[int, str] = field(default_factory=dict)
    out_of_order: Mapping[int, str] = field(default_factory=dict)
    followed: frozenset[str] = frozenset()
    followed_in: int = 0
    missing: int = 0


Fleet.EMPTY = Fleet()


def is_outdated(pod: Pod, owner: StatefulSet) -> bool:
    """Tell whether the pod is not of the update revision, by a status of the StatefulSet's current generation."""
    return owner.observed and bool(owner.update_revision) and pod.revision != owner.update_revision


def why_restarted(pod: Pod, owner: StatefulSet) -> str:
    """Reason to restart a pod: its revision and the update revision, or a request; empty if it needs no restart, or
    another operator restarts it.
    """
    if is_outdated(pod, owner):
        if not owner.restarts_outdated:
            return ""
        return f"pod {pod.name} is of revision {pod.revision}, the template of {owner.name} is {owner.update_revision}"
    # Without an update revision, the revision of the next pod is not known, so that no plan could name it.
    is_requested = pod.restart_requested and owner.observed and owner.update_revision
    return f"the restart of pod {pod.name} was requested" if is_requested else ""


def is_away(pod: Pod) -> bool:
    """Tell whether the pod is stopping, does not run, or is about to be evicted by another client."""
    return pod.terminating or pod.draining or not is_running(pod)


def is_running(pod: Pod) -> bool:
    """Tell whether a process may run in the pod, even if its Kubernetes node does not report."""
    return pod.phase in ("Running", "Unknown") and not pod.waiting


_NEVER_STARTS = frozenset({
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed", "CreateContainerConfigError", "CreateContainerError",
    "RunContainerError",
})  # fmt: skip
"""Reasons of kubelet why a container waits that only another image or template can end."""
_NOT_SCHEDULED = ("Unschedulable", "SchedulingGated")
_CRASH_LOOP, _OUT_OF_MEMORY, _CANNOT_START = "CrashLoopBackOff", "OOMKilled", ("StartError", "ContainerCannotRun")
_CRASHES, _BACK_OFF = 3, timedelta(seconds=30)
"""Restarts of a container, and time since it ended, that together prove three crashes in a row: kubelet waits 10 s,
then 20 s, and longer only before the third restart. The number of restarts alone does not prove it, as kubelet begins
with 10 s anew once a container has run for ten minutes.
"""


def cannot_run(pod: Pod, current_time: datetime) -> bool:
    """Tell whether the pod cannot run as it is, however long one waits. A container that ran out of memory may run
    again by itself.
    """
    reason = pod.waiting.removeprefix(INIT)
    if reason in _NEVER_STARTS or reason in _NOT_SCHEDULED:
        return True
    if reason != _CRASH_LOOP or pod.ended_for == _OUT_OF_MEMORY:
        return False
    waits = current_time - pod.ended_at if pod.ended_at is not None else timedelta(0)
    return pod.ended_for in _CANNOT_START or (pod.restarts >= _CRASHES and waits >= _BACK_OFF)


def look_at(pod: str) -> str:
    """Commands that show why a pod does not run, or not as it should."""
    return f"see `kubectl logs {pod}` and `kubectl describe pod {pod}`"


def look_at_end(pod: Pod) -> str:
    """The command that shows why the container ended; for one that has never run the cause is only in its events."""
    if pod.waiting.startswith(INIT) or not (pod.restarts or pod.ended_for):
        return f"see `kubectl describe pod {pod.name}`"
    return f"see `kubectl logs {pod.name}{' --previous' * bool(pod.restarts)}`"


def hangs(pod: Pod, current_time: datetime, timeout: timedelta) -> bool:
    """Tell whether the pod is still stopping, long after it should have stopped."""
    return pod.stops_by is not None and current_time - pod.stops_by > timeout


def remedy_while_stopping(pod: Pod, namespace: str, current_time: datetime, timeout: timedelta) -> str:
    """Remedy for a pod that is stopping. If it were deleted by force within its grace period, its node could run
    twice.
    """
    if hangs(pod, current_time, timeout):
        return remedy_if_lost(pod, namespace)
    until = f"to stop by {pod.stops_by.astimezone(UTC):%H:%M:%S} UTC" if pod.stops_by is not None else "stopping"
    return f"wait: pod {pod.name} is {until}"


def remedy_if_lost(pod: Pod, namespace: str) -> str:
    """Remedy for a pod that does not finish stopping, such as on a lost Kubernetes node, whose kubelet cannot confirm
    it.
    """
    node = pod.kubernetes_node or "NODE"
    return (
        f"see `kubectl -n {namespace} describe pod {pod.name}`, such as for a finalizer or a volume; if the Kubernetes "
        f"node of pod {pod.name} is lost and shut down, "
        f"`kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, or "
        f"`kubectl -n {namespace} delete pod {pod.name} --force`"
    )
