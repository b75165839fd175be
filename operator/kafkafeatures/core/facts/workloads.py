"""Readings of the pods in which a cluster runs, before they are judged.

Made by a driver (`kube/workloads/`) or by the simulator; judged by `core/roll/matching.py`. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.words import counted

MOST_REQUESTS = 8
"""Most requests of people to restart a pod that count at a time: a plan names each, and a status has little room."""

INIT = "Init:"
"""Prefix of `Pod.waiting` where the container that does not run is an init container."""


class Pod(Struct, frozen=True):
    """A pod of a StatefulSet.

    revision: revision of the template from which it was made.
    host_names: names and addresses that belong to this pod alone. A name that ends in ".svc" may have any cluster
        domain after it.
    ports_of_node: (host, port) on its Kubernetes node that belong to this pod alone.
    ready: its condition Ready.
    terminating: it was told to stop (`metadata.deletionTimestamp`).
    waiting: why its container does not run, such as "CrashLoopBackOff"; empty where it runs.
    restarts: how often its container, or the init container that keeps it from starting, was started again in this pod.
    draining: its Kubernetes node is being drained, or Kubernetes is about to evict it.
    started_at: last start of its container; None where it does not run.
    ended_for, ended_at: reason, such as "OOMKilled", and time of the last end of that container; empty and None where
        it never ended, or Kubernetes no longer knows.
    restart_requested: a person has requested a restart of exactly this pod.
    restart_pending: it carries the request on which another operator restarts it, such as an annotation.
    request_is_of_another: somebody else than this operator has made that request, so it is not withdrawn.
    stops_by: time by which it should have stopped; None where it was not told to stop.
    kubernetes_node: name of its Kubernetes node; empty where it is not scheduled yet.
    release: Kafka release that it names, such as "4.3"; empty where it names none, or an unknown one.
    ready_since: since when it is ready; None where it is not.
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
    restart_pending: bool = False
    request_is_of_another: bool = False
    stops_by: datetime | None = None
    kubernetes_node: str = ""
    release: str = ""
    ready_since: datetime | None = None

    def stays_at(self, revision: str) -> bool:
        """Tell whether the pod is of this revision, and no restart of it is requested."""
        return self.revision == revision and not self.restart_requested

    @property
    def restarts_text(self) -> str:
        """Number of restarts of its container, for the end of a sentence: ", restarted 2 times"; empty for none."""
        return f", restarted {counted(self.restarts, 'time')}" if self.restarts else ""


class InferredRelease(Struct, frozen=True):
    """What the pod of a controller shows. ranges: of its release, by feature. process: identity of the process that
    runs in the pod, another one after each start.
    """

    release: str
    ranges: Mapping[str, VersionRange]
    pod: str
    process: str

    def __str__(self) -> str:
        return f"Kafka {self.release}, inferred from pod {self.pod}"


class StatefulSet(Struct, frozen=True):
    """A StatefulSet that the document names, or the set of pods that another operator has in its place.

    kind: what it is, for messages.
    restarts_outdated: its outdated pods are restarted by our operator; False: by another one, and only requested
        restarts are ours.
    role: the list of the document that has it.
    update_revision: revision of its newest template.
    observed: its status is of its present generation, so that `update_revision` is up to date.
    image: image of the container that the document names; empty where it has none.
    release: Kafka release by a label, an annotation or the image's tag of its template; empty where not known.
    conflict: what else restarts its pods, such as another resource; empty for nothing.
    grace_seconds: terminationGracePeriodSeconds, the time for a clean stop.
    labels: labels that select its pods.
    is_ordered: its pods are created one by one (`podManagementPolicy: OrderedReady`), from `first_ordinal` on.
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
    kind: str = "StatefulSet"
    restarts_outdated: bool = True

    def is_to_restart(self, pod: Pod) -> bool:
        """Tell whether our operator has to restart this pod of the set, by its revision or on request."""
        return not pod.stays_at(self.update_revision) if self.restarts_outdated else pod.restart_requested


class Budget(Struct, frozen=True):
    """A PodDisruptionBudget.

    disruptions_allowed: number of evictions that it allows now.
    pods: names of the pods that it covers.
    limit: its limit as written in its spec, such as "maxUnavailable: 1".
    always_allows_unhealthy: its unhealthyPodEvictionPolicy is AlwaysAllow.
    has_enough_healthy: as many pods are healthy now as it requires.
    most: disruptions allowed while all of its pods are healthy; -1 where Kubernetes has not computed it yet.
    """

    name: str
    disruptions_allowed: int
    pods: frozenset[str]
    limit: str = ""
    always_allows_unhealthy: bool = False
    has_enough_healthy: bool = False
    most: int = -1


class ManagingOperator(Struct, frozen=True):
    """State of the resource from which another operator makes pods.

    resource: its kind and name, for messages.
    unprocessed: kind and name of it, or of a resource that belongs to it, of whose present generation no reconciliation
        has ended yet; empty for none.
    to_roll: kind and name of a set of which it was asked to restart all pods; empty for none.
    is_paused: a person has paused its reconciliation.
    failure: reason and message of its last reconciliation, if that failed.
    last_event: time and text of the last Event of the other operator about it, or why it could not be read; empty for
        none, or where nothing waits.
    """

    resource: str
    unprocessed: str = ""
    to_roll: str = ""
    is_paused: bool = False
    failure: str = ""
    last_event: str = ""


class WorkloadsReading(Struct, frozen=True):
    """All StatefulSets of the document with their pods, at one time.

    at: when it was read, by the operator's clock or the API server's, whichever is earlier. Kubernetes dates what
        happens to a pod, and a crash must not look older because the operator's clock is ahead.
    missing: StatefulSets of the document that do not exist.
    managed_by: the resource from which another operator makes the pods; None for none.
    """

    at: datetime
    stateful_sets: tuple[StatefulSet, ...]
    budgets: tuple[Budget, ...] = ()
    missing: tuple[str, ...] = ()
    namespace: str = ""
    managed_by: ManagingOperator | None = None

    def with_requests(self, most: int = MOST_REQUESTS) -> WorkloadsReading:
        """The reading in which only the first `most` requests to restart a pod count. The others count once these are
        done, as a request ends with its pod.
        """
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
        """The pod of that name; None for none."""
        return next((pod for stateful_set in self.stateful_sets for pod in stateful_set.pods if pod.name == name), None)

    def owner(self, pod: str) -> StatefulSet | None:
        """The StatefulSet of the pod of that name; None for none."""
        return next(
            (stateful_set for stateful_set in self.stateful_sets for each in stateful_set.pods if each.name == pod),
            None,
        )
