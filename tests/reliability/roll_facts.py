"""Restarts in the record of a history, each with what was true when it was decided and when it was asked for."""

from __future__ import annotations

from typing import Any

from tests.reliability.facts import RESTART, Facts
from tests.reliability.records import Asked, Nodes, Stopped, Stored


class Restart:
    """The restart of a pod by an operator, with all records about it."""

    def __init__(self, facts: Facts, place: int, asked: Asked) -> None:
        self.place, self.asked = place, asked
        found = ((at, one) for at, one in facts.of_kind(Stopped) if one.by == asked.number)
        self.stopped: Stopped | None = next((one for _, one in found), None)
        self.look = facts.last_look(place, asked.process, asked.uid)
        self.begun = _announcing(facts, place, asked)

    @property
    def nodes(self) -> Nodes | None:
        """The true state of the nodes at the operator's last observation."""
        return self.look.nodes if self.look is not None else None

    @property
    def rollout(self) -> dict[str, Any]:
        """The rollout settings of the document, at the version that announced it."""
        return dict((self.begun.spec.get("rollout") or {}) if self.begun is not None else {})

    def __str__(self) -> str:
        return f"restart {self.asked.number} of node {self.asked.node} ({self.asked.pod})"


def _announcing(facts: Facts, place: int, asked: Asked) -> Stored | None:
    """The version of the status that first announced it, if it was still announced when it was sent."""
    found = None
    for at, version in reversed(facts.versions.get(asked.uid, [])):
        if at > place:
            continue
        if not any(one.get("podUid") == asked.pod_uid for one in restarts_in(version)):
            break
        found = version
    return found


def restarts_in(stored: Stored) -> list[dict[str, Any]]:
    """The restarts that a status says are in flight."""
    return [one for one in stored.status.get("intents") or () if one.get("kind") == RESTART]


def restarts(facts: Facts) -> list[Restart]:
    """The restarts that were asked for, in order."""
    return [Restart(facts, place, asked) for place, asked in facts.of_kind(Asked)]


def gone(facts: Facts, one: Restart) -> bool:
    """Tell whether the pod with that uid was gone already: then nothing was stopped."""
    return any(it.pod_uid == one.asked.pod_uid for place, it in facts.of_kind(Stopped) if place < one.place)
