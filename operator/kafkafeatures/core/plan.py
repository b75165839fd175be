"""The plan: which changes, in which order, what of it cannot be undone, and the hash by which it is approved.

Called by `decide.py` and by whoever shows a plan. Pure.

Order: what depends on metadata.version is lowered before it and raised after it, so that every state in between is one
Kafka would accept; kraft.version goes last and alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.releases import is_reversible
from kafkafeatures.core.steps import UpdateFeature

SHORTEST_HASH = len("sha256:") + 8
"""Of an approval: the first eight digits are enough for people to tell plans apart."""


def changes_between(desired: Mapping[str, int], finalized: Mapping[str, int]) -> tuple[UpdateFeature, ...]:
    """What is still to be done, in the order in which it is sent. A level that is there already is never in it."""
    changes = [
        UpdateFeature(feature, finalized.get(feature, 0), level)
        for feature, level in desired.items()
        if finalized.get(feature, 0) != level
    ]
    return tuple(sorted(changes, key=_place))


def _place(change: UpdateFeature) -> tuple[int, str]:
    if change.feature == KRAFT_VERSION:
        return 3, ""
    if change.feature == METADATA_VERSION:
        return 1, ""
    return (0 if is_lowering(change) else 2), change.feature


def is_lowering(change: UpdateFeature) -> bool:
    """Whether the level goes down."""
    return change.after < change.before


def reversible(change: UpdateFeature) -> bool:
    """Whether it can be taken back without loss: a lowering by raising again, a raise as `releases` knows."""
    return is_lowering(change) or is_reversible(change.feature, change.before, change.after)


def consent_for(change: UpdateFeature) -> str:
    """The text that has to stand in `spec.consents` for this change; empty where none is needed."""
    if change.feature == KRAFT_VERSION:
        return "dynamic-quorum"
    return f"{change.feature}:{change.before}->{change.after}" if is_lowering(change) else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` with those already done among them; `hash` was taken when the plan was made and stays while it stands."""

    hash: str
    steps: tuple[UpdateFeature, ...]
    done: int

    @property
    def irreversible(self) -> bool:
        """Whether a step that is still to be done cannot be taken back."""
        return any(not reversible(step) for step in self.steps[self.done :])

    def is_approved_by(self, approvals: frozenset[str]) -> bool:
        """Whether one of the hashes is this plan's, whole or from its eighth digit on."""
        return any(len(one) >= SHORTEST_HASH and self.hash.startswith(one) for one in approvals)


def plan_of(
    changes: tuple[UpdateFeature, ...],
    *,
    uid: str,
    cluster_id: str,
    desired: Mapping[str, int],
    change_count: int,
    standing: Mapping[str, Any] | None,
) -> Plan:
    """The plan for these changes: the standing one of the status if they are what is left of it, else a new one.

    A new one has a hash of its own, over everything a person who approves it takes for granted. So an old approval
    never authorises a later plan, while progress does not void one that stands (contract, section 1): each step of
    ours that was read back adds one to the change count.
    """

    def hash_of(steps: tuple[UpdateFeature, ...], changed_before: int) -> str:
        content = {
            "uid": uid,
            "clusterId": cluster_id,
            "changeCount": changed_before,
            "finalized": {step.feature: step.before for step in steps},
            "desired": dict(sorted(desired.items())),
            "steps": [str(step) for step in steps],
        }
        return "sha256:" + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    if standing is not None and changes:
        steps = tuple(UpdateFeature.parse(step["detail"]) for step in standing.get("steps", ()))
        done = len(steps) - len(changes)
        was_done = sum(step.get("state") == "Done" for step in standing.get("steps", ()))
        if done >= was_done and steps[done:] == changes:
            # Computed again, not believed: who may write a status must not be able to give a plan an approved hash.
            stands = Plan(hash_of(steps, change_count - done), steps, done)
            if stands.hash == standing.get("hash"):
                return stands
    return Plan(hash_of(changes, change_count), changes, 0)
