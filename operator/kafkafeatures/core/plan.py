"""The plan: which changes, in which order, how each can be undone, and the hash by which it is approved.

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

from kafkafeatures.api.names import DYNAMIC_QUORUM, KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.releases import Undo, undo_of_raise
from kafkafeatures.core.steps import UpdateFeature

SHORTEST_HASH = len("sha256:") + 8
"""Of an approval: the first eight digits are enough for people to tell plans apart."""
HASH_SHOWN = len("sha256:") + 12
"""Of a hash that people are shown: enough to approve by."""
BY_HASH = "PlanHash"
"""`status.plan.approvedBy` of a plan that somebody approved by its hash."""


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
    return (0 if is_downgrade(change) else 2), change.feature


def is_downgrade(change: UpdateFeature) -> bool:
    """Whether the level goes down."""
    return change.after < change.before


def undo_of(change: UpdateFeature) -> Undo:
    """How it can be undone: a downgrade by raising again, a raise as `releases` knows."""
    return Undo.SAFE if is_downgrade(change) else undo_of_raise(change.feature, change.before, change.after)


def consent_for(change: UpdateFeature) -> str:
    """The text that has to stand in `spec.consents` for this change; empty where none is needed."""
    if change.feature == KRAFT_VERSION:
        return DYNAMIC_QUORUM
    return f"{change.feature}:{change.before}->{change.after}" if is_downgrade(change) else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` with those already done among them; `hash` was taken when the plan was made and stays while it stands.

    `change_count`: what `status.changeCount` is now. It rises with a plan that is over, so that no later plan has the
    hash of an earlier one.
    """

    hash: str
    steps: tuple[UpdateFeature, ...]
    done: int
    change_count: int

    @property
    def pending(self) -> tuple[UpdateFeature, ...]:
        """The steps that are still to be done."""
        return self.steps[self.done :]

    @property
    def irreversible(self) -> bool:
        """Whether Kafka would refuse to undo a step that is still to be done."""
        return any(undo_of(step) is Undo.IMPOSSIBLE for step in self.pending)

    def is_approved_by(self, approvals: frozenset[str]) -> bool:
        """Whether one of the hashes is this plan's, whole or from its eighth digit on."""
        return any(len(one) >= SHORTEST_HASH and self.hash.startswith(one) for one in approvals)


def plan_of(
    changes: tuple[UpdateFeature, ...],
    finalized: Mapping[str, int],
    *,
    uid: str,
    cluster_id: str,
    change_count: int,
    standing: Mapping[str, Any] | None,
    approvals: frozenset[str] = frozenset(),
    may_be_unseen: bool = True,
) -> Plan:
    """The plan for these changes: the standing one of the status if they are what is left of it, else a new one.

    A new one has a hash of its own, over everything a person who approves it takes for granted. So an old approval
    never authorises a later plan, while progress does not void one that stands (contract, section 1): each step of
    ours that was read back adds one to the change count. A plan that is over without such a step (withdrawn, done by
    somebody else, its approval taken back) adds one too. `may_be_unseen` False: what approves a plan that was never
    shown approved another one, before the status was lost.
    """

    def hash_of(steps: tuple[UpdateFeature, ...], changed_before: int) -> str:
        stage = {
            "kind": "Levels",
            "from": {step.feature: step.before for step in steps},
            "to": {step.feature: step.after for step in steps},
        }
        content = {"uid": uid, "clusterId": cluster_id, "changeCount": changed_before, "stages": [stage]}
        return "sha256:" + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    if standing is not None:
        steps = tuple(UpdateFeature.parse(step["detail"]) for step in standing.get("steps", ()))
        done = len(steps) - len(changes)
        kept = all(finalized.get(step.feature, 0) == step.after for step in steps[: max(done, 0)])
        if changes and steps[done:] == changes and kept:
            # Computed again, not believed: who may write a status must not be able to give a plan an approved hash.
            stands = Plan(hash_of(steps, change_count - done), steps, done, change_count)
            if stands.hash == standing.get("hash") and not _approval_was_taken_back(standing, stands, approvals):
                return stands
        if hash_of(steps, change_count) == standing.get("hash"):
            change_count += 1
    new = Plan(hash_of(changes, change_count), changes, 0, change_count)
    if new.is_approved_by(approvals) and not may_be_unseen:
        return Plan(hash_of(changes, change_count + 1), changes, 0, change_count + 1)
    return new


def _approval_was_taken_back(standing: Mapping[str, Any], plan: Plan, approvals: frozenset[str]) -> bool:
    return standing.get("approvedBy") == BY_HASH and not plan.is_approved_by(approvals)
