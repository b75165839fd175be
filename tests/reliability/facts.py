"""The record of a history by resource and by effect, and what can be read from a version of a resource.

For the rules of `checker.py`. Imports nothing of the operator.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Any

from tests.reliability.records import History, Kept, Looked, Moved, Record, Sent, Stored

OPERATOR = "kafkafeatures.dev/"
UPDATE, RESTART = "UpdateFeature", "RestartNode"
PAUSE, APPROVE = "kafkafeatures.dev/pause", "kafkafeatures.dev/approve"
RESTORE = "restore"
"""The writer of objects after etcd was restored."""
KEPT_FOR = 290.0
"""Seconds for which a broker may keep a request, at most."""

CHANGED = frozenset((1, 3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33))
"""Levels of metadata.version at which records were added: Kafka does not go back below them (MetadataVersion.java)."""
BUNDLES: Mapping[str, Mapping[str, int]] = {
    "4.0": {"metadata.version": 25, "group.version": 1, "transaction.version": 2},
    "4.1": {
        "metadata.version": 27,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    },
    "4.2": {
        "metadata.version": 29,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
        "streams.version": 1,
    },
}


@dataclass(frozen=True, slots=True)
class Act:
    """An effect with the version of the resource that announced it, and the one before that. None: nothing did."""

    sent: Sent
    place: int
    begun: Stored | None
    before: Stored | None


Intent = tuple[str, int, int, str]


def intents(stored: Stored) -> tuple[Intent, ...]:
    """(feature, before, after, when) of each."""
    status = stored.status
    found = status.get("intents") or ([status["intent"]] if status.get("intent") else [])
    found = [one for one in found if one.get("kind", UPDATE) == UPDATE]
    return tuple((one["target"], int(one["before"]), int(one["after"]), one["at"]) for one in found)


def not_known(stored: Stored) -> list[Mapping[str, Any]]:
    """Intents of kinds that only another release knows."""
    return [one for one in stored.status.get("intents") or () if one.get("kind", UPDATE) not in (UPDATE, RESTART)]


def desired(stored: Stored) -> dict[str, int]:
    """Levels that are named, and those of a release, which are lower bounds."""
    features = stored.spec.get("features") or {}
    return {one["name"]: int(one["level"]) for one in features.get("levels") or ()}


def bundle(stored: Stored) -> Mapping[str, int]:
    """The levels of the document's releaseVersion."""
    return BUNDLES.get((stored.spec.get("features") or {}).get("releaseVersion", ""), {})


def seconds(text: object, otherwise: float) -> float:
    """The seconds of a duration in a document, such as "30s"."""
    if not isinstance(text, str):
        return otherwise
    return float(text[:-1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[text[-1]]


def wants(stored: Stored, feature: str) -> int | None:
    """The level in either way."""
    return desired(stored).get(feature, bundle(stored).get(feature))


def applies(stored: Stored) -> bool:
    """Tell whether the document lets the operator act: not suspended, and not in mode observe."""
    held = stored.spec.get("suspend") or stored.annotations.get(PAUSE) == "true"
    return stored.spec.get("mode", "Apply") == "Apply" and not held


def writer(stored: Stored) -> str:
    """The process that wrote its status; empty where it handed over, and where none did."""
    return str((stored.status.get("operator") or {}).get("instance", ""))


def level_in(stored: Stored, feature: str) -> Mapping[str, Any]:
    """The entry of a feature in the status; empty if there is none."""
    return next((one for one in stored.status.get("features") or () if one["name"] == feature), {})


def irreversible(feature: str, before: int, after: int) -> bool:
    """Tell whether Kafka would refuse to undo the change."""
    if feature == "kraft.version":
        return after > before
    return feature == "metadata.version" and any(level in CHANGED for level in range(before + 1, after + 1))


def lossless(feature: str, before: int, after: int) -> bool:
    """True if the change can be undone without loss: a downgrade, or an upgrade of metadata.version that changes no
    record.
    """
    return after < before or (feature == "metadata.version" and not irreversible(feature, before, after))


def condition(stored: Stored, kind: str) -> Mapping[str, Any]:
    """A condition of the status; empty where it is absent."""
    return next((one for one in stored.status.get("conditions", ()) if one["type"] == kind), {})


class Facts:
    """The record, by resource and by effect."""

    def __init__(self, history: History) -> None:
        self.records: list[Record] = history.records
        self.versions: dict[str, list[tuple[int, Stored]]] = self._grouped(Stored, "uid")

    def of_kind(self, kind: type[Any]) -> Iterator[tuple[int, Any]]:
        """The records of a kind, each with its index in the history."""
        return iter(self._by_kind.get(kind, ()))

    @cached_property
    def _by_kind(self) -> dict[type[Any], list[tuple[int, Any]]]:
        found: dict[type[Any], list[tuple[int, Any]]] = {}
        for place, record in enumerate(self.records):
            found.setdefault(type(record), []).append((place, record))
        return found

    def _grouped(self, kind: type[Any], by: str) -> dict[Any, list[tuple[int, Any]]]:
        """The records of a kind, grouped by one of their fields."""
        found: dict[Any, list[tuple[int, Any]]] = {}
        for place, record in self.of_kind(kind):
            found.setdefault(getattr(record, by), []).append((place, record))
        return found

    @cached_property
    def moved_by(self) -> dict[int | None, list[tuple[int, Moved]]]:
        """The records by the number of their effect."""
        return self._grouped(Moved, "by")

    @cached_property
    def acts(self) -> list[Act]:
        """All effects, each with the intent that was written for it; an intent belongs to at most one effect."""
        used: set[int] = set()
        found = []
        for place, sent in self.of_kind(Sent):
            begun = before = None
            for (_, earlier), (at, version) in zip(
                [(-1, None), *self.versions.get(sent.uid, [])], self.versions.get(sent.uid, []), strict=False
            ):
                if at > place:
                    break
                new = set(intents(version)) - (set(intents(earlier)) if earlier else set())
                wrote = (version.status.get("operator") or {}).get("instance", sent.process)
                fits = any(one[:3] == (sent.feature, sent.before, sent.after) for one in new)
                if fits and at not in used and version.by.startswith(OPERATOR) and wrote == sent.process:
                    begun, before, begun_at = version, earlier, at
            if begun is not None:
                used.add(begun_at)
            found.append(Act(sent, place, begun, before))
        return found

    @cached_property
    def began(self) -> dict[str, float]:
        """When each process first looked at a cluster: by then it had heard of the API server."""
        found: dict[str, float] = {}
        for _, one in self.of_kind(Looked):
            found.setdefault(one.process, one.at)
        return found

    def versions_before(self, act: Act) -> list[tuple[int, Stored]]:
        """The versions of the resource before the one that announced the act, with their places; none where nothing
        did.
        """
        if act.begun is None:
            return []
        return list(takewhile(lambda each: each[1] is not act.begun, self.versions[act.sent.uid]))

    def is_kept(self, number: int, place: int) -> bool:
        """Tell whether a broker still holds this request at that index of the history."""
        found = [one for at, one in self.kept.get(number, ()) if at < place]
        return bool(found) and not found[-1].over and self.records[place].at - found[-1].at < KEPT_FOR

    @cached_property
    def kept(self) -> dict[int, list[tuple[int, Kept]]]:
        """The records by the number of their effect."""
        return self._grouped(Kept, "number")

    @cached_property
    def restores(self) -> frozenset[int]:
        """Effects that restore a level which their resource had reached, and that only another client changed since."""
        return frozenset(act.sent.number for act in self.acts if self._restores(act))

    def _restores(self, act: Act) -> bool:
        sent, reached = act.sent, -1
        for place, version in self.versions_before(act):
            there = level_in(version, sent.feature)
            in_sync = there.get("state") == "InSync" and there.get("desired") == sent.after
            if place == self.lost(sent.uid, act.place):
                reached = -1
            if wants(version, sent.feature) != sent.after:
                reached = -1
            elif in_sync and version.by.startswith(OPERATOR):
                reached = place
        moved = [
            one
            for at, one in self.of_kind(Moved)
            if reached < at < act.place and (one.cluster_id, one.feature) == (sent.cluster_id, sent.feature)
        ]
        return reached >= 0 and bool(moved) and all(one.by is None for one in moved)

    def last_look(self, place: int, process: str | None, uid: str) -> Looked | None:
        """The last time before that place that this process, or any where it is None, looked for this resource."""
        at = self.place_of_look(place, process, uid)
        found: Looked | None = self.records[at] if at >= 0 else None  # type: ignore[assignment]
        return found

    def place_of_look(self, place: int, process: str | None, uid: str) -> int:
        """The index of that observation in the history; -1 if there is none."""
        looks = self._looks.get(uid, [])
        earlier = bisect_left(looks, place, key=lambda one: one[0])
        return next((at for at, one in looks[:earlier][::-1] if process in (None, one.process)), -1)

    @cached_property
    def _looks(self) -> dict[str, list[tuple[int, Looked]]]:
        """The readings of each resource."""
        return self._grouped(Looked, "uid")

    def pinned(self, uid: str, place: int) -> str:
        """The cluster id that an operator wrote down first, before that place; empty where none did, or it was lost.
        Where only the id was taken out of the status, it stays until the document names one.
        """
        since, found = self.lost(uid, place), ""
        for at, one in self.versions.get(uid, ()):
            if since <= at < place:
                said = one.status.get("clusterId") or ""
                named = "" if said or not found else one.spec["cluster"].get("clusterId")
                found = named or found or said
        return found

    def lost(self, uid: str, place: int) -> int:
        """The place before this one at which the status was last lost or restored to an earlier one; -1 if never."""
        return max((at for at in self._losses.get(uid, ()) if at < place), default=-1)

    @cached_property
    def _losses(self) -> dict[str, list[int]]:
        """The losses of the status of each resource."""
        return {
            uid: [
                at
                for (_, earlier), (at, one) in pairwise(versions)
                if one.by == RESTORE or (earlier.status and not one.status)
            ]
            for uid, versions in self.versions.items()
        }

    def is_forgotten(self, act: Act, other: Act) -> bool:
        """Whether the intent of `act` was taken out of the status before the other one, by a writer that is no
        operator: a person, or a schema. What an older schema took out of an operator's own write, its process knows,
        and no later one can.
        """
        versions = self.between(act.sent.uid, act.sent.at, other.sent.at)
        if act.sent.process != other.sent.process and any(
            condition(one, "Stalled").get("reason") == "SchemaOutdated" and not intents(one) for one in versions
        ):
            return True
        return any(intents(a) and not intents(b) and not b.by.startswith(OPERATOR) for a, b in pairwise(versions))

    def between(self, uid: str, since: float, until: float) -> list[Stored]:
        """Versions that were there at some time in between."""
        versions = [one for _, one in self.versions.get(uid, ())]
        first = max((at for at, one in enumerate(versions) if one.at <= since), default=0)
        return [one for one in versions[first:] if one.at <= until]
