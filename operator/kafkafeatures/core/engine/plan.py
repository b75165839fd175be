"""The plan: a tuple of stages, the same kind as often as needed, and the hash by which it is approved.

Pure. What a stage is made of, and what is left of it, its kind says (`core/engine/stage.py`). The stages are what a
person approves, and never single nodes or requests: a node more, or one that is done, leaves a plan standing; another
image, or another level, is another plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from kafkafeatures.api.status import ApprovedBy, PlannedStage, PlanStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.costs import costs_of
from kafkafeatures.core.engine.stage import StageProposal, Work

SHORTEST_HASH = len("sha256:") + 8
"""The shortest hash that an approval may give: eight digits distinguish the plans of a resource."""
HASH_SHOWN = len("sha256:") + 12
"""Part of a hash that is shown to people: enough to approve by."""

_canonical = json.JSONEncoder(sort_keys=True).encode  # json.dumps makes an encoder for each call


def is_named(plan_hash: str, text: str) -> bool:
    """Tell whether the text names the plan of this hash: whole, or its beginning up to the eighth digit or further."""
    return len(text) >= SHORTEST_HASH and plan_hash.startswith(text)


def is_another_named(plan_hash: str, approvals: Iterable[str]) -> bool:
    """Tell whether one of the approvals names another plan than that of this hash: it holds this plan too, under every
    policy.
    """
    return any(not is_named(plan_hash, approval) for approval in approvals)


class Plan(Struct, frozen=True):
    """`work`: what each of its stages comes to, in their order, with what is left of it: computed anew each time.

    `hash` was taken when the plan was made and stays while it stands. `change_count`: what `status.changeCount` is now;
    it rises with a plan that is over, so that no later plan has the hash of an earlier one.
    """

    hash: str
    stages: tuple[PlannedStage, ...]
    work: tuple[Work, ...]
    change_count: int

    @property
    def is_over(self) -> bool:
        """Tell whether nothing of it is left to do."""
        return all(stage_work.is_over for stage_work in self.work)

    def __str__(self) -> str:
        """Summary of what is left of it."""
        return ", ".join(chain.from_iterable(stage_work.remaining for stage_work in self.work)) + self.costs

    @property
    def costs(self) -> str:
        """Topics that its restarts make unavailable, by a consent, in words; empty where there are none."""
        return costs_of(self.stages)

    @property
    def irreversible(self) -> bool:
        """Tell whether a step that is still to be done cannot be undone."""
        return any(stage_work.is_irreversible for stage_work in self.work)

    @property
    def is_safe_to_undo(self) -> bool:
        """Tell whether all that is still to be done can be undone without a loss."""
        return all(stage_work.is_safe_to_undo for stage_work in self.work)

    def is_approved_by(self, approvals: frozenset[str]) -> bool:
        """Tell whether one of the hashes is this plan's, whole or from its eighth digit on."""
        return any(is_named(self.hash, approval) for approval in approvals)


class Proposal(Struct, frozen=True):
    """Work to do from here: what each kind of stage proposes, and the plan of all of them."""

    plan: Plan
    parts: tuple[StageProposal, ...]


def plan_of(
    parts: tuple[StageProposal, ...],
    *,
    uid: str,
    cluster_id: str,
    change_count: int,
    standing: PlanStatus | None,
    approvals: frozenset[str] = frozenset(),
    may_be_unseen: bool = True,
) -> Plan:
    """The plan for these parts: the standing one of the status if they are what is left of it, else a new one.

    A new one has a hash of its own, over everything a person who approves it takes for granted. So an old approval
    never authorises a later plan, while progress does not void one that stands: each step of ours that counts and was
    read back adds one to the change count. A plan that is over without such a step (withdrawn, done outside
    KafkaFeatures, or its approval removed) adds one too. `may_be_unseen` False: what approves a plan that was never
    shown approved another one, before the status was lost.
    """

    def hash_of(stages: tuple[PlannedStage, ...], changed_before: int) -> str:
        content = {
            "uid": uid,
            "clusterId": cluster_id,
            "changeCount": changed_before,
            "stages": [stage.as_json() for stage in stages],
        }
        return "sha256:" + hashlib.sha256(_canonical(content).encode()).hexdigest()

    if standing is not None:
        work = _left_of(standing.stages, parts)
        if work is not None and not (
            all(stage_work.is_over for stage_work in work) and all(part.is_known for part in parts)
        ):
            # Computed again, not believed: who may write a status must not be able to give a plan an approved hash.
            begun_at = change_count - sum(stage_work.counted for stage_work in work)
            stands = Plan(hash_of(standing.stages, begun_at), standing.stages, work, change_count)
            if stands.hash == standing.hash and not _approval_was_taken_back(standing, stands, approvals):
                return stands
        if hash_of(standing.stages, change_count) == standing.hash:  # it ends here, and nothing of it was counted
            change_count += 1
    stages = stages_of(parts)
    new = Plan(hash_of(stages, change_count), stages, _left_of(stages, parts) or (), change_count)
    if new.is_approved_by(approvals) and not may_be_unseen:
        return replace(new, hash=hash_of(stages, change_count + 1), change_count=change_count + 1)
    return new


def stages_of(parts: tuple[StageProposal, ...]) -> tuple[PlannedStage, ...]:
    """The stages in the order in which they are carried out. Where a person restarts the nodes there is no stage for
    it; what those restarts make unavailable stands in the first of the other stages.
    """
    stages = tuple(chain.from_iterable(part.stages for part in sorted(parts, key=lambda part: not part.goes_first)))
    costs = next((part.costs for part in parts if part.costs is not None), None)
    if costs is None or not stages or any(stage.excused is not None for stage in stages):
        return stages
    return (replace(stages[0], excused=costs), *stages[1:])


def _left_of(stages: tuple[PlannedStage, ...], parts: tuple[StageProposal, ...]) -> tuple[Work, ...] | None:
    """Work that is left of each stage; None where the stages are not what is to be done, or unknown to this release."""
    if not {stage.kind for stage in stages} <= {part.kind for part in parts}:
        return None
    work: dict[int, Work] = {}
    for part in parts:
        part_work = part.work_of(stages)
        if part_work is None:
            return None
        numbers = (number for number, stage in enumerate(stages) if stage.kind == part.kind)
        work.update(zip(numbers, part_work, strict=True))
    return tuple(work[number] for number in range(len(stages)))


def _approval_was_taken_back(standing: PlanStatus, plan: Plan, approvals: frozenset[str]) -> bool:
    by_hash = standing.approved_by in (ApprovedBy.PLAN_HASH, ApprovedBy.ANNOTATION)
    return by_hash and not plan.is_approved_by(approvals)
