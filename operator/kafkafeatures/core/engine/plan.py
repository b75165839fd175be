"""The plan: which changes, in which order, how each can be undone, and the hash by which it is approved.

Called by `decide.py` and by whoever shows a plan. Pure.

Order: what depends on metadata.version is downgraded before it and upgraded after it, so that every state in between is
one Kafka would accept; kraft.version goes last and alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.status import ApprovedBy, ExcusedTopics, PlanStatus, Stage
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.stages import (
    Pods,
    PodsOfSet,
    are_readable,
    excused_in,
    levels_of,
    rolled_by,
    stages_of,
    still_rolls,
)
from kafkafeatures.core.facts.releases import Undo, undo_of_raise
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.excuses import as_planned, told

SHORTEST_HASH = len("sha256:") + 8
"""Of an approval: the first eight digits are enough for people to tell plans apart."""
HASH_SHOWN = len("sha256:") + 12
"""Of a hash that people are shown: enough to approve by."""

_canonical = json.JSONEncoder(sort_keys=True).encode  # json.dumps makes an encoder for each call


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


def may_lose_metadata(change: UpdateFeature) -> bool:
    """Whether it is a downgrade that Kafka makes without looking at what it drops: no raise brings that back."""
    return change.is_downgrade and undo_of_raise(change.feature, change.after, change.before) is Undo.LOSSY


def is_named(plan_hash: str, text: str) -> bool:
    """Whether the text names the plan of this hash: all of it, or its beginning up to the eighth digit or further."""
    return len(text) >= SHORTEST_HASH and plan_hash.startswith(text)


class Plan(Struct, frozen=True):
    """`steps`: all levels that the plan was made of; `pending`: those that are still to be changed, computed anew each
    time. `pods`: all that it restarts, with how many are left.

    `hash` was taken when the plan was made and stays while it stands. `change_count`: what `status.changeCount` is now;
    it rises with a plan that is over, so that no later plan has the hash of an earlier one.
    """

    hash: str
    stages: tuple[Stage, ...]
    steps: tuple[UpdateFeature, ...]
    pending: tuple[UpdateFeature, ...]
    change_count: int
    pods: tuple[PodsOfSet, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left to do."""
        return not self.pending and not any(one.left for one in self.pods)

    def __str__(self) -> str:
        """What is left of it."""
        return ", ".join((*(str(one) for one in self.pods if one.left), *map(str, self.pending))) + self.costs

    @property
    def costs(self) -> str:
        """What its restarts make unavailable, by a consent; empty where nothing is."""
        excused = excused_in(self.stages)
        return f"; {told(excused)} unavailable while a broker restarts" if excused is not None else ""

    @property
    def irreversible(self) -> bool:
        """Whether Kafka would refuse to undo a step that is still to be done."""
        return any(undo_of(step) is Undo.IMPOSSIBLE for step in self.pending)

    def is_approved_by(self, approvals: frozenset[str]) -> bool:
        """Whether one of the hashes is this plan's, whole or from its eighth digit on."""
        return any(is_named(self.hash, one) for one in approvals)


def plan_of(
    changes: tuple[UpdateFeature, ...],
    finalized: Mapping[str, int],
    *,
    uid: str,
    cluster_id: str,
    change_count: int,
    standing: PlanStatus | None,
    pods: Pods | None = MappingProxyType({}),
    approvals: frozenset[str] = frozenset(),
    may_be_unseen: bool = True,
    excused: ExcusedTopics | None = None,
    excused_is_known: bool = True,
) -> Plan:
    """The plan for these changes: the standing one of the status if they are what is left of it, else a new one.

    A new one has a hash of its own, over everything a person who approves it takes for granted. So an old approval
    never authorises a later plan, while progress does not void one that stands: each step of ours that was read back
    adds one to the change count. A plan that is over without such a step (withdrawn, done outside KafkaFeatures, or its
    approval removed) adds one too. `may_be_unseen` False: what approves a plan that was never shown approved another
    one, before the status was lost. `pods`: of the StatefulSets that are rolled; None where they could not be read.
    `excused`: what the consent to unavailable topics is for now; where that is not known, it is as it was.
    """
    if not excused_is_known:
        excused = excused_in(standing.stages) if standing is not None else None
    excused = as_planned(excused)

    def hash_of(stages: tuple[Stage, ...], changed_before: int) -> str:
        content = {
            "uid": uid,
            "clusterId": cluster_id,
            "changeCount": changed_before,
            "stages": [stage.as_json() for stage in stages],
        }
        return "sha256:" + hashlib.sha256(_canonical(content).encode()).hexdigest()

    stages = stages_of(changes, pods or {}, excused)
    if standing is not None:
        steps = _steps_of(standing.stages)
        left = tuple(step for step in steps if finalized.get(step.feature, 0) != step.after)
        rolled = rolled_by(standing.stages, pods)
        if _is_left(standing.stages, changes, steps, left, pods) and excused_in(standing.stages) == excused:
            # Computed again, not believed: who may write a status must not be able to give a plan an approved hash.
            begun_at = change_count - (len(steps) - len(left))
            stands = Plan(hash_of(standing.stages, begun_at), standing.stages, steps, left, change_count, rolled)
            if stands.hash == standing.hash and not _approval_was_taken_back(standing, stands, approvals):
                return stands
        if hash_of(standing.stages, change_count) == standing.hash:  # it ends here, and nothing of it was counted
            change_count += 1
    new = Plan(hash_of(stages, change_count), stages, changes, changes, change_count, rolled_by(stages, pods))
    if new.is_approved_by(approvals) and not may_be_unseen:
        return replace(new, hash=hash_of(stages, change_count + 1), change_count=change_count + 1)
    return new


def _is_left(
    stages: tuple[Stage, ...],
    changes: tuple[UpdateFeature, ...],
    steps: tuple[UpdateFeature, ...],
    left: tuple[UpdateFeature, ...],
    pods: Pods | None,
) -> bool:
    """Whether what is to be done is what is left of a plan; what is done of its levels was done first."""
    if not are_readable(stages) or left != changes or changes != steps[len(steps) - len(left) :]:
        return False
    rolls = pods is None or any(one.left for one in pods.values())
    return (bool(changes) or rolls) and still_rolls(stages, pods)


def _steps_of(stages: tuple[Stage, ...]) -> tuple[UpdateFeature, ...]:
    """All changes of levels of a plan as it was made; none where it has a stage that this release does not know."""
    if not are_readable(stages):
        return ()
    start, target = levels_of(stages)
    return changes_between(target, start)


def _approval_was_taken_back(standing: PlanStatus, plan: Plan, approvals: frozenset[str]) -> bool:
    by_hash = standing.approved_by in (ApprovedBy.PLAN_HASH, ApprovedBy.ANNOTATION)
    return by_hash and not plan.is_approved_by(approvals)
