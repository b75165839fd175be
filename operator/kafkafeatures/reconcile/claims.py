"""Who owns a Kafka cluster, and a StatefulSet: of several `Apply` resources the oldest, by creation time and uid.

Kept in memory, filled from the API server's list at start, from its events, and by reconciliations. A resource whose
cluster was not read yet may turn out to own any cluster; that keeps younger ones from acting, not from looking. Nor
does any resource act while a step of another one may be on its way, also of one that is gone: who owns a cluster may
change meanwhile. That ends with the answer, and is bounded in time where none comes: a step whose outcome is still
unknown by then no longer arrives, and blocks no other resource. `Observe` resources own nothing. Called by
`reconcile/controller.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Mode
from kafkafeatures.core.engine.gates import Owner
from kafkafeatures.core.engine.settling import BROKER_KEEPS, ON_ITS_WAY
from kafkafeatures.core.kinds import KINDS
from kafkafeatures.core.roll.drivers import driver_named
from kafkafeatures.kube.api import ResourceKey

K = TypeVar("K")
_Life = tuple[ResourceKey, str]
"""A life of a resource: its name, and the uid."""

SENT_FOR = BROKER_KEEPS.total_seconds()
"""Seconds for which a step may be on its way; an eviction is not longer than a change of a level."""
STRAIGHT_FOR = ON_ITS_WAY.total_seconds()
"""Seconds for which a step may be on its way that goes straight to where it is carried out."""
_STRAIGHT = (Via.CONTROLLER, Via.ZOOKEEPER)


class _Acting(Struct, frozen=True):
    """An open step: where, and until when it may be on its way. `noted`: it was read in a status, and not sent here.
    `via`: as it was sent. `passed_on`: until when a broker may pass on one of before; no later answer ends that.
    """

    cluster_id: str
    until: float
    seconds: float = 0.0
    noted: bool = False
    via: Via | None = None
    passed_on: float = 0.0


class Claim(Struct, frozen=True):
    """The cluster and the StatefulSets that one resource has a say in.

    `cluster_id` empty: none was ever read. `passed`: it had a reconciliation since the operator started.
    `stateful_sets`: those that its driver restarts, in its own namespace.
    """

    created: str
    uid: str
    applies: bool
    cluster_id: str
    passed: bool = False
    stateful_sets: frozenset[str] = frozenset()

    @property
    def age(self) -> tuple[str, str]:
        """The older, the smaller. RFC 3339 in UTC sorts as text."""
        return self.created, self.uid


class Claims:
    """The claims of all resources that this operator knows. `monotonic`: in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._claims: dict[ResourceKey, Claim] = {}
        self._of_cluster: dict[str, set[ResourceKey]] = {}
        """Resources in mode Apply by cluster id; under "" those whose cluster was never read, until they were
        reconciled.
        """
        self._of_set: dict[tuple[str, str], set[ResourceKey]] = {}
        """Resources in mode Apply that restart the pods of a StatefulSet, by namespace and name."""
        self._acting: dict[_Life, _Acting] = {}

    @property
    def clusters(self) -> int:
        """The number of clusters that any resource claims; those that were never read count as one."""
        return len(self._of_cluster)

    def note(self, resource: Mapping[str, Any], *, was_read: bool = False) -> None:
        """A resource as a watch showed it, which may be behind. was_read: it was read or written here just now."""
        metadata, spec = resource["metadata"], resource.get("spec") or {}
        key = ResourceKey.of(resource)
        previous_claim = self._claims.get(key)
        if previous_claim is not None and previous_claim.uid != metadata["uid"]:
            previous_claim = None  # another life of the name
        claim = Claim(
            created=metadata["creationTimestamp"],
            uid=metadata["uid"],
            applies=spec.get("mode", Mode.APPLY) == Mode.APPLY,
            # A status may be older than what was read, and one that was wiped gives up nothing.
            cluster_id=_cluster_of(resource) or (previous_claim.cluster_id if previous_claim else ""),
            passed=previous_claim is not None and previous_claim.passed,
            stateful_sets=_stateful_sets_of(spec),
        )
        if claim != previous_claim:
            self._put(key, claim)
        intents = (resource.get("status") or {}).get("intents")
        if intents or _was_passed_on(resource):
            seconds = _on_its_way_for(intents) if intents else SENT_FOR
            self._note_step((key, claim.uid), claim.cluster_id, seconds)
        elif was_read:
            self._acting.pop((key, claim.uid), None)

    def passed(self, key: ResourceKey) -> None:
        """A reconciliation of it is over, whatever came of it."""
        claim = self._claims.get(key)
        if claim is not None and not claim.passed:
            self._put(key, replace(claim, passed=True))

    def acts(self, key: ResourceKey, via: Via = Via.API_SERVER) -> None:
        """Note that the resource sends a step this way, until it is known what became of it."""
        monotonic_time, claim = self._monotonic(), self._claims.get(key)
        if claim is None:
            return
        # What is over is kept for a resource that is there and may still say that it is open: else it began anew.
        self._acting = {
            life: step for life, step in self._acting.items() if step.until > monotonic_time or self._is_there(life)
        }
        previous_step, passed_on = self._acting.get((key, claim.uid)), 0.0
        if previous_step is not None and previous_step.cluster_id == claim.cluster_id:
            passed_on = max(previous_step.passed_on, previous_step.until if previous_step.via is Via.BROKER else 0.0)
        until = max(monotonic_time + (STRAIGHT_FOR if via in _STRAIGHT else SENT_FOR), passed_on)
        self._acting[key, claim.uid] = _Acting(claim.cluster_id, until, via=via, passed_on=passed_on)

    def acted(self, key: ResourceKey) -> None:
        """Note that what it sent last is no longer on its way, whether or not its status can say so: it may be gone."""
        claim = self._claims.get(key)
        if claim is not None:  # kept as over, not dropped: a watch may show the intent only now
            previous_step = self._acting.get((key, claim.uid))
            passed_on = (
                previous_step.passed_on
                if previous_step is not None and previous_step.cluster_id == claim.cluster_id
                else 0.0
            )
            until = max(self._monotonic(), passed_on)
            self._acting[key, claim.uid] = _Acting(claim.cluster_id, until, passed_on=passed_on)

    def forget(self, key: ResourceKey) -> None:
        """Note that the resource is gone."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return
        _discard(self._of_cluster, claim.cluster_id, key)
        for name in claim.stateful_sets:
            _discard(self._of_set, (key.namespace, name), key)

    def competing_owner(self, key: ResourceKey, cluster_id: str) -> Owner | None:
        """The older resource that owns the cluster; else one whose step there is open; else one that may turn out to.

        The caller has read that the cluster is its own, so its claim counts from now on: a reconciliation that fails
        after its act would otherwise leave the cluster to a younger one.
        """
        ours = self._claims.get(key)
        if ours is None:
            return None
        if not ours.cluster_id:
            self._put(key, replace(ours, cluster_id=cluster_id))
        owner = self._oldest(self._of_cluster.get(cluster_id, ()), ours)
        if owner is not None:
            return Owner(_name_for(owner, key), is_same_cluster=True)
        monotonic_time, us = self._monotonic(), (key, ours.uid)
        acting = [
            life
            for life, step in self._acting.items()
            if step.cluster_id == cluster_id and step.until > monotonic_time and life != us
        ]
        if acting:
            return Owner(_name_for(min(acting)[0], key), is_same_cluster=False, is_acting=True)
        unread = self._oldest(self._of_cluster.get("", ()), ours)
        return Owner(_name_for(unread, key), is_same_cluster=False) if unread is not None else None

    def competing_driver(self, key: ResourceKey, stateful_set: str) -> str:
        """The older resource of the namespace that restarts the pods of this StatefulSet; empty where there is none."""
        ours = self._claims.get(key)
        older = self._oldest(self._of_set.get((key.namespace, stateful_set), ()), ours) if ours else None
        return f"KafkaFeatures {older.name}" if older else ""

    def _note_step(self, life: _Life, cluster_id: str, seconds: float) -> None:
        """Counted from when it was seen first; anew where a step that takes longer is seen in place of it."""
        step = self._acting.get(life)
        if step is None or (step.noted and step.seconds < seconds):
            self._acting[life] = _Acting(cluster_id, self._monotonic() + seconds, seconds, noted=True)

    def _oldest(self, keys: Iterable[ResourceKey], than: Claim) -> ResourceKey | None:
        claims = ((self._claims[key].age, key) for key in keys)
        older = [(age, key) for age, key in claims if age < than.age]
        return min(older)[1] if older else None

    def _is_there(self, life: _Life) -> bool:
        claim = self._claims.get(life[0])
        return claim is not None and claim.uid == life[1]

    def _put(self, key: ResourceKey, claim: Claim) -> None:
        self.forget(key)
        self._claims[key] = claim
        if claim.applies and (claim.cluster_id or not claim.passed):
            self._of_cluster.setdefault(claim.cluster_id, set()).add(key)
        if claim.applies:
            for name in claim.stateful_sets:
                self._of_set.setdefault((key.namespace, name), set()).add(key)


def _discard(keys: dict[K, set[ResourceKey]], of: K, key: ResourceKey) -> None:
    members = keys.get(of, set())
    members.discard(key)
    if not members:
        keys.pop(of, None)


def _stateful_sets_of(spec: Mapping[str, Any]) -> frozenset[str]:
    """The StatefulSets that the document names. The schema has refused other forms, unless the CRD is an older one."""
    workload = spec.get("workload")
    if not isinstance(workload, Mapping):
        return frozenset()
    driver = driver_named(workload.get("driver"))
    if driver is None or not driver.reads_pods:
        return frozenset()
    stateful_set = workload.get("statefulSet")
    if not isinstance(stateful_set, Mapping):
        return frozenset()
    return frozenset(str(name) for kind in ("brokers", "controllers") for name in stateful_set.get(kind) or ())


def _on_its_way_for(intents: Any) -> float:
    """The seconds for which the open intents of a status, which may have any form, may be on their way."""
    if not isinstance(intents, list):
        return SENT_FOR
    straight = (
        # compared one by one: a list in a damaged status has no hash
        isinstance(intent, Mapping) and intent.get("kind") in tuple(KINDS) and intent.get("via") in tuple(_STRAIGHT)
        for intent in intents
    )
    return STRAIGHT_FOR if all(straight) else SENT_FOR


def _was_passed_on(resource: Mapping[str, Any]) -> bool:
    """Tell whether a broker carried a change of it, and may do so again: nothing but time ends that."""
    history = (resource.get("status") or {}).get("history")
    entries = history if isinstance(history, list) else []
    return any(isinstance(entry, Mapping) and entry.get("via") == Via.BROKER for entry in entries)


def _cluster_of(resource: Mapping[str, Any]) -> str:
    """The cluster id in the resource's status, which a person may have written."""
    cluster_id = (resource.get("status") or {}).get("clusterId")
    return cluster_id if isinstance(cluster_id, str) else ""


def _name_for(owner: ResourceKey, to: ResourceKey) -> str:
    """The name of an owner, for the status of `to`. A user of one namespace need not know what is in another."""
    return str(owner) if owner.namespace == to.namespace else "a resource in another namespace"
