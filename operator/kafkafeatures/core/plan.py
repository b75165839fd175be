"""The plan: which changes, in which order, how each can be undone, and the hash by which it is approved.

Called by `decide.py` and by whoever shows a plan. Pure.

Order: what depends on metadata.version is downgraded before it and upgraded after it, so that every state in between is
one Kafka would accept; kraft.version goes last and alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.status import ApprovedBy, PlanStatus, Stage
from kafkafeatures.core.releases import Undo, undo_of_raise
from kafkafeatures.core.steps import UpdateFeature

SHORTEST_HASH = len("sha256:") + 8
"""Of an approval: the first eight digits are enough for people to tell plans apart."""
HASH_SHOWN = len("sha256:") + 12
"""Of a hash that people are shown: enough to approve by."""
LEVELS = "Levels"
"""The kind of a stage that moves finalized levels."""


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
    return (0 if change.is_downgrade else 2), change.feature


def undo_of(change: UpdateFeature) -> Undo:
    """How it can be undone: a downgrade by raising again, a raise as `releases` knows."""
    return Undo.SAFE if change.is_downgrade else undo_of_raise(change.feature, change.before, change.after)


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps`: all that the plan was made of; `pending`: those that are still to be done, computed anew each time.

    `hash` was taken when the plan was made and stays while it stands. `change_count`: what `status.changeCount` is now;
    it rises with a plan that is over, so that no later plan has the hash of an earlier one.
    """

    hash: str
    stages: tuple[Stage, ...]
    steps: tuple[UpdateFeature, ...]
    pending: tuple[UpdateFeature, ...]
    change_count: int

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
    standing: PlanStatus | None,
    approvals: frozenset[str] = frozenset(),
    may_be_unseen: bool = True,
) -> Plan:
    """The plan for these changes: the standing one of the status if they are what is left of it, else a new one.

    A new one has a hash of its own, over everything a person who approves it takes for granted. So an old approval
    never authorises a later plan, while progress does not void one that stands: each step of ours that was read back
    adds one to the change count. A plan that is over without such a step (withdrawn, done outside KafkaFeatures, or its
    approval removed) adds one too. `may_be_unseen` False: what approves a plan that was never shown approved another
    one, before the status was lost.
    """

    def hash_of(stages: tuple[Stage, ...], changed_before: int) -> str:
        content = {
            "uid": uid,
            "clusterId": cluster_id,
            "changeCount": changed_before,
            "stages": [stage.as_json() for stage in stages],
        }
        return "sha256:" + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    stages = (_stage_of(changes),)
    if standing is not None:
        steps = _steps_of(standing.stages)
        left = tuple(step for step in steps if finalized.get(step.feature, 0) != step.after)
        if changes and left == changes == steps[len(steps) - len(left) :]:  # what is done was done first
            # Computed again, not believed: who may write a status must not be able to give a plan an approved hash.
            begun_at = change_count - (len(steps) - len(left))
            stands = Plan(hash_of(standing.stages, begun_at), standing.stages, steps, left, change_count)
            if stands.hash == standing.hash and not _approval_was_taken_back(standing, stands, approvals):
                return stands
        if hash_of(standing.stages, change_count) == standing.hash:  # it ends here, and nothing of it was done
            change_count += 1
    new = Plan(hash_of(stages, change_count), stages, changes, changes, change_count)
    if new.is_approved_by(approvals) and not may_be_unseen:
        return replace(new, hash=hash_of(stages, change_count + 1), change_count=change_count + 1)
    return new


def _stage_of(changes: tuple[UpdateFeature, ...]) -> Stage:
    return Stage(
        kind=LEVELS,
        start={change.feature: change.before for change in changes},
        target={change.feature: change.after for change in changes},
    )


def _steps_of(stages: tuple[Stage, ...]) -> tuple[UpdateFeature, ...]:
    """All steps of a plan as it was made; none where it has a stage that this release does not know."""
    if [(stage.kind, stage.start.keys() == stage.target.keys(), stage.unknown) for stage in stages] != [
        (LEVELS, True, {})
    ]:
        return ()
    return changes_between(stages[0].target, stages[0].start)


def _approval_was_taken_back(standing: PlanStatus, plan: Plan, approvals: frozenset[str]) -> bool:
    by_hash = standing.approved_by in (ApprovedBy.PLAN_HASH, ApprovedBy.ANNOTATION)
    return by_hash and not plan.is_approved_by(approvals)
