"""Readings of the pods that a cluster runs in, before it is judged.

Filled by a driver (`kube/workloads/`) or by the simulator; judged by `core/roll/matching.py`. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from kafkafeatures.api.values import replace
from kafkafeatures.core.words import counted

MOST_REQUESTS = 8
"""Requests to restart a pod that count at the same time: a plan names each of them, and a status has room for few."""

INIT = "Init:"
"""Before why a pod waits, where it is a container that runs before the others which does not run."""


class Pod(Struct, frozen=True):
    """A pod of a StatefulSet.

    revision: of the template it was made from. host_names: every name and address that it alone can be reached by; a
    name that ends in ".svc" with any domain of a cluster behind it. ports_of_node: (host, port) of its Kubernetes node
    that are its own. waiting: why its container does not run, such as "CrashLoopBackOff"; empty where it does.
    draining: its Kubernetes node is being drained, or Kubernetes is about to evict it. started_at: its container,
    the last time; None where it does not run. restarts: how often its container, or the one that keeps it from
    starting, was started again in this pod. ended_for, ended_at: why that container ended the last time, such as
    "OOMKilled", and when; empty and None where it never did, or where Kubernetes no longer has it. restart_requested: a
    person asks for the restart of this life of it. stops_by: by when it should have stopped; None where it was not
    asked to. kubernetes_node: the name of the one it runs on; empty where none was found yet.
    """

    name: str
    uid: str
    stateful_set: str
    revision: str
    host_names: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    ports_of_node: tuple[tuple[str, int], ...] = ()
    ready: bool = False
    terminating: bool = False
    phase: str = ""
    waiting: str = ""
    restarts: int = 0
    created_at: datetime | None = None
    draining: bool = False
    started_at: datetime | None = None
    ended_for: str = ""
    ended_at: datetime | None = None
    restart_requested: bool = False
    stops_by: datetime | None = None
    kubernetes_node: str = ""

    def stays_at(self, revision: str) -> bool:
        """Tell whether it is of this revision, and no restart of it is requested."""
        return self.revision == revision and not self.restart_requested

    @property
    def restarts_text(self) -> str:
        """Number of times that kubelet started its container again, for the end of a sentence: ", restarted 2
        times".
        """
        return f", restarted {counted(self.restarts, 'time')}" if self.restarts else ""


class StatefulSet(Struct, frozen=True):
    """`role`: as which the document lists it. `observed`: its status is of its current generation.

    release: of Kafka, as a label, an annotation or the image's tag of its template says; empty where none does.
    conflict: what else restarts its pods; empty for nothing. grace_seconds: for a clean stop. labels: that select its
    pods. image: of the container that the document names; empty where there is none. is_ordered: its pods are created
    one by one (`podManagementPolicy: OrderedReady`), from `first_ordinal` on.
    """

    name: str
    uid: str
    role: str  # "brokers" or "controllers"
    replicas: int
    update_revision: str
    update_strategy: str
    observed: bool = True
    image: str = ""
    release: str = ""
    conflict: str = ""
    grace_seconds: int = 30
    labels: Mapping[str, str] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    is_ordered: bool = False
    first_ordinal: int = 0


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget. `pods`: those it covers. `limit`: as it is written, such as "maxUnavailable: 1".

    disruptions_allowed: now. has_enough_healthy: as many pods are healthy now as it asks for. most: of disruptions,
    while all of its pods are healthy; -1 where Kubernetes has not counted yet.
    """

    name: str
    disruptions_allowed: int
    pods: frozenset[str]
    limit: str = ""
    always_allows_unhealthy: bool = False
    has_enough_healthy: bool = False
    most: int = -1


class WorkloadsReading(Struct, frozen=True):
    """`at`: when it was read, by the operator's clock or the API server's, the earlier of the two. What happened to a
    pod is dated by the clocks of Kubernetes, and a crash must not look older because the operator's clock is ahead.
    `missing`: StatefulSets that the document names and that are not there.
    """

    at: datetime
    stateful_sets: tuple[StatefulSet, ...]
    budgets: tuple[Budget, ...] = ()
    missing: tuple[str, ...] = ()
    namespace: str = ""

    def with_requests(self, most: int = MOST_REQUESTS) -> WorkloadsReading:
        """No more than the first so many requests to restart a pod count: the others do once these are over."""
        requested = [
            pod.uid for stateful_set in self.stateful_sets for pod in stateful_set.pods if pod.restart_requested
        ]
        if len(requested) <= most:
            return self
        sets = tuple(
            replace(
                stateful_set,
                pods=tuple(replace(pod, restart_requested=pod.uid in requested[:most]) for pod in stateful_set.pods),
            )
            for stateful_set in self.stateful_sets
        )
        return replace(self, stateful_sets=sets)

    def pod(self, name: str) -> Pod | None:
        """The pod of that name."""
        return next((pod for stateful_set in self.stateful_sets for pod in stateful_set.pods if pod.name == name), None)

    def owner(self, pod: str) -> StatefulSet | None:
        """The StatefulSet that has a pod of that name."""
        return next(
            (stateful_set for stateful_set in self.stateful_sets for each in stateful_set.pods if each.name == pod),
            None,
        )
