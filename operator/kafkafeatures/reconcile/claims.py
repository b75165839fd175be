"""Ownership of Kafka clusters and StatefulSets: of several resources in mode Apply the oldest is the owner, by creation
time and uid.

Called by `reconcile/controller.py`. Kept in memory; filled from the API server's list at start, from its watch, and by
reconciliations. Three rules:

- Until its first reconciliation has ended, a resource whose cluster is not known may own any cluster. That keeps
younger ones from acting, not from reading.
- No resource acts while a step of another one may be under way on its cluster, even if that one was deleted: the owner
  may have changed since. This ends when the outcome is known, and at the latest after `SENT_FOR`, as a step no longer
  arrives then.
- Resources in mode Observe own nothing.
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
from kafkafeatures.core.roll.drivers import driver_in_document, request_lifetime_of
from kafkafeatures.kube.api import ResourceKey

K = TypeVar("K")
_Life = tuple[ResourceKey, str]
"""Key and uid of a resource, which distinguish it from a later one of the same name."""

SENT_FOR = BROKER_KEEPS.total_seconds()
"""Seconds for which a step may be under way at most: a broker may forward a change as late as that, and an eviction
takes no longer. A request that waits for another operator may take longer (`Driver.request_lifetime`).
"""
SENT_DIRECTLY_FOR = ON_ITS_WAY.total_seconds()
"""Seconds for which a step may be under way that is sent directly to where it is carried out (`_DIRECT`)."""
_DIRECT = (Via.CONTROLLER, Via.ZOOKEEPER)
"""Routes of steps that nobody forwards."""


class _StepUnderWay(Struct, frozen=True):
    """The last step of a resource, which may be under way.

    until: monotonic time in seconds from which on the step can no longer be under way.
    noted: the step was read in a status, not sent by this process.
    seconds: longest time for which a noted step may be under way; else 0.
    via: route of a step that this process sent; else None.
    forwarded_until: monotonic time until which a broker may forward an earlier step; no answer ends that sooner.
    """

    cluster_id: str
    until: float
    seconds: float = 0.0
    noted: bool = False
    via: Via | None = None
    forwarded_until: float = 0.0


class Claim(Struct, frozen=True):
    """The cluster and the StatefulSets that one resource may change.

    created: creation time of the resource, as in its metadata.
    applies: the mode is Apply.
    cluster_id: its cluster; empty: none was read yet.
    was_reconciled: a reconciliation of it has ended since the operator started.
    stateful_sets: StatefulSets whose pods its driver restarts, or the like, in its own namespace.
    """

    created: str
    uid: str
    applies: bool
    cluster_id: str
    was_reconciled: bool = False
    stateful_sets: frozenset[str] = frozenset()

    @property
    def age(self) -> tuple[str, str]:
        """Key by which older resources sort first. RFC 3339 in UTC sorts as text."""
        return self.created, self.uid


class Claims:
    """Claims of all resources that this operator knows. `monotonic`: clock in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._claims: dict[ResourceKey, Claim] = {}
        self._of_cluster: dict[str, set[ResourceKey]] = {}
        """Resources in mode Apply by cluster id; under "" those whose cluster was never read, until they were
        reconciled.
        """
        self._of_set: dict[tuple[str, str], set[ResourceKey]] = {}
        """Resources in mode Apply that restart the pods of a StatefulSet, by namespace and name."""
        self._steps: dict[_Life, _StepUnderWay] = {}

    @property
    def clusters(self) -> int:
        """Number of clusters that resources claim; all that were not read yet together count as one."""
        return len(self._of_cluster)

    def note(self, resource: Mapping[str, Any], *, was_read: bool = False) -> None:
        """Note the claim of a resource, and the steps in flight in its status. `was_read`: it was read or written just
        now; False: a watch showed it, and it may be outdated.
        """
        metadata, spec = resource["metadata"], resource.get("spec") or {}
        key = ResourceKey.of(resource)
        previous_claim = self._claims.get(key)
        if previous_claim is not None and previous_claim.uid != metadata["uid"]:
            previous_claim = None  # another resource of the same name
        claim = Claim(
            created=metadata["creationTimestamp"],
            uid=metadata["uid"],
            applies=spec.get("mode", Mode.APPLY) == Mode.APPLY,
            # A watch may show an outdated status, and a person may wipe it: neither ends the claim.
            cluster_id=_cluster_of(resource) or (previous_claim.cluster_id if previous_claim else ""),
            was_reconciled=previous_claim is not None and previous_claim.was_reconciled,
            stateful_sets=_stateful_sets_of(spec),
        )
        if claim != previous_claim:
            self._put(key, claim)
        intents = (resource.get("status") or {}).get("intents")
        if intents or _was_forwarded(resource):
            seconds = _on_its_way_for(intents) if intents else SENT_FOR
            self._note_step((key, claim.uid), claim.cluster_id, seconds)
        elif was_read:
            self._steps.pop((key, claim.uid), None)

    def reconciled(self, key: ResourceKey) -> None:
        """Note that a reconciliation of the resource has ended, with any result."""
        claim = self._claims.get(key)
        if claim is not None and not claim.was_reconciled:
            self._put(key, replace(claim, was_reconciled=True))

    def acts(self, key: ResourceKey, via: Via = Via.API_SERVER, by: str = "") -> None:
        """Note that the resource sends a step by this route; it may be under way until its outcome is known. `by`: what
        restarts the pod, if the step is a restart.
        """
        monotonic_time, claim = self._monotonic(), self._claims.get(key)
        if claim is None:
            return
        # Ended steps of existing resources stay listed: otherwise an outdated status that still has their intents would
        # make them count once more.
        self._steps = {
            life: step for life, step in self._steps.items() if step.until > monotonic_time or self._is_there(life)
        }
        previous_step, forwarded_until = self._steps.get((key, claim.uid)), 0.0
        if previous_step is not None and previous_step.cluster_id == claim.cluster_id:
            forwarded_until = max(
                previous_step.forwarded_until, previous_step.until if previous_step.via is Via.BROKER else 0.0
            )
        until = max(monotonic_time + (SENT_DIRECTLY_FOR if via in _DIRECT else _sent_for(by)), forwarded_until)
        self._steps[key, claim.uid] = _StepUnderWay(claim.cluster_id, until, via=via, forwarded_until=forwarded_until)

    def acted(self, key: ResourceKey) -> None:
        """Note that the resource's last step is no longer under way. Its status alone need not show that, as the
        resource may have been deleted.
        """
        claim = self._claims.get(key)
        if claim is not None:  # the step is kept as ended, not removed, as a watch may show its intent later
            previous_step = self._steps.get((key, claim.uid))
            forwarded_until = (
                previous_step.forwarded_until
                if previous_step is not None and previous_step.cluster_id == claim.cluster_id
                else 0.0
            )
            until = max(self._monotonic(), forwarded_until)
            self._steps[key, claim.uid] = _StepUnderWay(claim.cluster_id, until, forwarded_until=forwarded_until)

    def forget(self, key: ResourceKey) -> None:
        """Note that the resource was deleted."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return
        _discard(self._of_cluster, claim.cluster_id, key)
        for name in claim.stateful_sets:
            _discard(self._of_set, (key.namespace, name), key)
        # Its step stays in `_steps`: it may be under way although the resource is gone.

    def competing_owner(self, key: ResourceKey, cluster_id: str) -> Owner | None:
        """The older resource that owns this cluster; else a resource that may have a step under way there; else an
        older one whose cluster is not known yet; None for none.

        The caller has read that this is the cluster of `key`, so its claim counts from now on: otherwise a younger
        resource would get the cluster if this reconciliation failed after its step.
        """
        ours = self._claims.get(key)
        if ours is None:
            return None
        if not ours.cluster_id:
            self._put(key, replace(ours, cluster_id=cluster_id))
        owner = self._oldest(self._of_cluster.get(cluster_id, ()), ours)
        if owner is not None:
            return Owner(_name_for(owner, key), owns_cluster=True)
        monotonic_time, us = self._monotonic(), (key, ours.uid)
        acting = [
            life
            for life, step in self._steps.items()
            if step.cluster_id == cluster_id and step.until > monotonic_time and life != us
        ]
        if acting:
            return Owner(_name_for(min(acting)[0], key), owns_cluster=False, is_acting=True)
        unread = self._oldest(self._of_cluster.get("", ()), ours)
        return Owner(_name_for(unread, key), owns_cluster=False) if unread is not None else None

    def competing_driver(self, key: ResourceKey, stateful_set: str) -> str:
        """The older resource of the namespace that restarts the pods of this StatefulSet; empty for none."""
        ours = self._claims.get(key)
        older = self._oldest(self._of_set.get((key.namespace, stateful_set), ()), ours) if ours else None
        return f"KafkaFeatures {older.name}" if older else ""

    def _note_step(self, life: _Life, cluster_id: str, seconds: float) -> None:
        """Note a step from a status. Its time begins when it is first read, and anew if a step that may take longer
        replaces it.
        """
        step = self._steps.get(life)
        if step is None or (step.noted and step.seconds < seconds):
            self._steps[life] = _StepUnderWay(cluster_id, self._monotonic() + seconds, seconds, noted=True)

    def _oldest(self, keys: Iterable[ResourceKey], than: Claim) -> ResourceKey | None:
        """The oldest of these resources that is older than `than`; None for none."""
        claims = ((self._claims[key].age, key) for key in keys)
        older = [(age, key) for age, key in claims if age < than.age]
        return min(older)[1] if older else None

    def _is_there(self, life: _Life) -> bool:
        claim = self._claims.get(life[0])
        return claim is not None and claim.uid == life[1]

    def _put(self, key: ResourceKey, claim: Claim) -> None:
        self.forget(key)
        self._claims[key] = claim
        if claim.applies and (claim.cluster_id or not claim.was_reconciled):
            self._of_cluster.setdefault(claim.cluster_id, set()).add(key)
        if claim.applies:
            for name in claim.stateful_sets:
                self._of_set.setdefault((key.namespace, name), set()).add(key)


def _discard(index: dict[K, set[ResourceKey]], entry: K, key: ResourceKey) -> None:
    """Remove the key from this entry of an index, and the entry if it is empty then."""
    members = index.get(entry, set())
    members.discard(key)
    if not members:
        index.pop(entry, None)


def _stateful_sets_of(spec: Mapping[str, Any]) -> frozenset[str]:
    """StatefulSets that the document names, or what its driver has in their place. The schema rejects other forms, but
    the CRD may be an older one.
    """
    driver = driver_in_document(spec)
    return frozenset(driver.names_in(spec)) if driver is not None else frozenset()


def _sent_for(by: str) -> float:
    return max(SENT_FOR, request_lifetime_of(by).total_seconds())


def _on_its_way_for(intents: Any) -> float:
    """Seconds for which steps with these intents may be under way. A status may have been edited to any form."""
    return max(map(_on_its_way, intents)) if isinstance(intents, list) else SENT_FOR


def _on_its_way(intent: Any) -> float:
    if not isinstance(intent, Mapping):
        return SENT_FOR
    # `in tuple`, not `in set`: a list in a damaged status has no hash
    is_direct = intent.get("kind") in tuple(KINDS) and intent.get("via") in _DIRECT
    return SENT_DIRECTLY_FOR if is_direct else _sent_for(intent.get("by", ""))


def _was_forwarded(resource: Mapping[str, Any]) -> bool:
    """Tell whether the history has a change that was sent to a broker, which may forward it once more (`SENT_FOR`)."""
    history = (resource.get("status") or {}).get("history")
    entries = history if isinstance(history, list) else []
    return any(isinstance(entry, Mapping) and entry.get("via") == Via.BROKER for entry in entries)


def _cluster_of(resource: Mapping[str, Any]) -> str:
    """The cluster id in the resource's status, which a person may have written."""
    cluster_id = (resource.get("status") or {}).get("clusterId")
    return cluster_id if isinstance(cluster_id, str) else ""


def _name_for(owner: ResourceKey, to: ResourceKey) -> str:
    """Name of an owner for the status of `to`. Users of one namespace need not know what is in another."""
    return str(owner) if owner.namespace == to.namespace else "a resource in another namespace"
