"""The plan: a tuple of stages, and the hash by which it is approved.

Pure. `core/kinds.py` makes a plan of the proposals of all kinds of stages. Each kind defines what its stages consist of
and what remains of them (`core/engine/stage.py`); a kind may have several stages. A person approves stages, not single
nodes or requests: the plan stays the same when a node is added or done. Another image or level makes it another plan.
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
from kafkafeatures.core.engine.stage import StageProposal, StageWork
from kafkafeatures.core.facts.releases import Undo

SHORTEST_HASH = len("sha256:") + 8
"""Length of the shortest hash that an approval may give: eight digits distinguish the plans of a resource."""
HASH_SHOWN = len("sha256:") + 12
"""Length of the part of a hash that is shown to people: enough to approve by."""

_canonical = json.JSONEncoder(sort_keys=True).encode  # json.dumps makes an encoder for each call


def is_named(plan_hash: str, text: str) -> bool:
    """Tell whether the text names the plan of this hash: by the whole hash, or by at least its first eight digits."""
    return len(text) >= SHORTEST_HASH and plan_hash.startswith(text)


def is_another_named(plan_hash: str, approvals: Iterable[str]) -> bool:
    """Tell whether an approval names another plan than that of this hash. Such an approval holds this plan back under
    every policy.
    """
    return any(not is_named(plan_hash, approval) for approval in approvals)


class Plan(Struct, frozen=True):
    """A plan, with what remains of it.

    hash: "sha256:" and hexadecimal digits. It stays the same until another plan replaces this one.
    stages: what is approved.
    work: what remains of each stage, in the order of `stages`; computed at each reconciliation.
    change_count: the new `status.changeCount`. It also rises when a plan ends, so that no later plan has the hash of an
    earlier one.
    """

    hash: str
    stages: tuple[PlannedStage, ...]
    work: tuple[StageWork, ...]
    change_count: int

    @property
    def is_over(self) -> bool:
        """Tell whether nothing of the plan remains to be done."""
        return not any(stage_work.remaining for stage_work in self.work)

    def __str__(self) -> str:
        """Summary of what remains of the plan."""
        return ", ".join(chain.from_iterable(stage_work.remaining for stage_work in self.work)) + self.costs

    @property
    def costs(self) -> str:
        """Topics that the plan's restarts make unavailable, as a consent allows, in words; empty for none."""
        return costs_of(self.stages)

    @property
    def irreversible(self) -> bool:
        """Tell whether a remaining step cannot be undone."""
        return any(stage_work.undo is Undo.IMPOSSIBLE for stage_work in self.work)

    @property
    def is_safe_to_undo(self) -> bool:
        """Tell whether all remaining steps can be undone without a loss."""
        return all(stage_work.undo is Undo.SAFE for stage_work in self.work)

    def is_approved_by(self, approvals: frozenset[str]) -> bool:
        """Tell whether an approval names this plan by its whole hash, or by at least eight digits."""
        return any(is_named(self.hash, approval) for approval in approvals)


class Proposal(Struct, frozen=True):
    """Work from the present state to the desired one: the proposals of all kinds of stages, and their plan."""

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
    may_approve_unseen: bool = True,
) -> Plan:
    """The plan for these proposals: the plan of the status if they are what remains of it, else a new one.

    The hash of a new plan covers everything that a person who approves it relies on. So an old approval never
    authorises a later plan. Each counted step of this resource that was read back adds one to the change count.
    Progress does not change the hash, as it covers the count from before the plan's own steps. A plan that ends without
    such a step (withdrawn, done outside KafkaFeatures, or its approval removed) adds one too.

    uid: of the resource. standing: the plan in the status.
    may_approve_unseen: False if an approval of a plan that no status has shown must be an old one, from before the
        status was lost. Then the new plan gets another hash, which that approval does not name.
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
        work = _remaining_work(standing.stages, parts)
        if work is not None and (
            any(stage_work.remaining for stage_work in work) or not all(part.is_known for part in parts)
        ):
            # Computed again, not believed: whoever may write a status must not be able to give a plan an approved hash.
            count_at_begin = change_count - sum(stage_work.counted for stage_work in work)
            same_plan = Plan(hash_of(standing.stages, count_at_begin), standing.stages, work, change_count)
            if same_plan.hash == standing.hash and not _approval_was_taken_back(standing, same_plan, approvals):
                return same_plan
        if hash_of(standing.stages, change_count) == standing.hash:  # the plan ends, and none of its steps was counted
            change_count += 1
    stages = stages_of(parts)
    new_plan = Plan(hash_of(stages, change_count), stages, _remaining_work(stages, parts) or (), change_count)
    if new_plan.is_approved_by(approvals) and not may_approve_unseen:
        return replace(new_plan, hash=hash_of(stages, change_count + 1), change_count=change_count + 1)
    return new_plan


def stages_of(parts: tuple[StageProposal, ...]) -> tuple[PlannedStage, ...]:
    """The stages in the order in which they are carried out.

    If a person restarts the nodes, no stage stands for the restarts; the first stage then names the topics that the
    restarts make unavailable.
    """
    stages = tuple(chain.from_iterable(part.stages for part in sorted(parts, key=lambda part: not part.goes_first)))
    costs = next((part.costs for part in parts if part.costs is not None), None)
    if costs is None or not stages or any(stage.excused is not None for stage in stages):
        return stages
    return (replace(stages[0], excused=costs), *stages[1:])


def _remaining_work(stages: tuple[PlannedStage, ...], parts: tuple[StageProposal, ...]) -> tuple[StageWork, ...] | None:
    """Remaining work of each stage; None if the stages do not lead to the desired state, or nothing of their kind is
    proposed.
    """
    if not {stage.kind for stage in stages} <= {part.kind for part in parts}:
        return None
    work: dict[int, StageWork] = {}
    for part in parts:
        part_work = part.work_of(stages)
        if part_work is None:
            return None
        numbers = (number for number, stage in enumerate(stages) if stage.kind == part.kind)
        work.update(zip(numbers, part_work, strict=True))
    return tuple(work[number] for number in range(len(stages)))


def _approval_was_taken_back(standing: PlanStatus, plan: Plan, approvals: frozenset[str]) -> bool:
    """Tell whether a person has approved the plan by its hash, and has removed that approval since."""
    by_hash = standing.approved_by in (ApprovedBy.PLAN_HASH, ApprovedBy.ANNOTATION)
    return by_hash and not plan.is_approved_by(approvals)
