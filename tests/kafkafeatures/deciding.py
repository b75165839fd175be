"""Decisions on one reading, as `reconcile/evaluate.py` makes them: for tests that have a document and a world only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, cast

from kafkafeatures.api.status import EMPTY, ApprovedBy, ExcusedTopics, PlanStatus, Status
from kafkafeatures.core import kinds
from kafkafeatures.core.engine import decide as engine
from kafkafeatures.core.engine import plan
from kafkafeatures.core.engine.approval import approved_by as how_approved
from kafkafeatures.core.engine.costs import excused_in, without_marks
from kafkafeatures.core.engine.decisions import Decision, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.gates import GateInput, Owner
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.memory import NO_MEMORY, Memory
from kafkafeatures.core.engine.plan import Plan, Proposal
from kafkafeatures.core.engine.settling import OpenOutcome
from kafkafeatures.core.engine.stage import StageState
from kafkafeatures.core.engine.steps import DryRun, Step, UnknownStep
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.proposal import LevelsProposal
from kafkafeatures.core.levels.soak import Soak
from kafkafeatures.core.levels.stage import LevelsState, levels_in
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.report import status as report
from kafkafeatures.core.roll.proposal import Pods, RollProposal
from kafkafeatures.core.roll.roll import Roll
from kafkafeatures.core.roll.stage import RollState
from kafkafeatures.core.roll.targets import ExcusedPartitions


def facts_of(
    wanted: DesiredState, seen: Observation, memory: Memory = NO_MEMORY, now: datetime | None = None
) -> StageInput:
    def age_of(_: str) -> timedelta:
        return timedelta(0)

    return StageInput(wanted, seen, memory, EMPTY, (), now or seen.at, age_of, age_of)


def propose(wanted: DesiredState, seen: Observation, memory: Memory = NO_MEMORY) -> Proposal:
    return kinds.propose(facts_of(wanted, seen, memory))


def changes_in(proposal: Proposal) -> tuple[UpdateFeature, ...]:
    return levels_in(proposal).changes


def stages_of(
    facts: StageInput,
    proposal: Proposal,
    *,
    verdict: DryRun | None = None,
    soak: Soak | None = None,
    roll: Roll | None = None,
) -> tuple[StageState, ...]:
    levels = LevelsState(facts, levels_in(proposal), soak, verdict)
    if roll is None:
        return (levels,)
    (part,) = (part for part in proposal.parts if isinstance(part, RollProposal))
    return (RollState(facts, part, roll), levels)


def decide(
    wanted: DesiredState,
    seen: Observation,
    memory: Memory = NO_MEMORY,
    *,
    proposal: Proposal | None = None,
    unsettled: tuple[Step | UnknownStep, ...] = (),
    why_open: OpenOutcome | None = None,
    verdict: DryRun | None = None,
    owner: Owner | None = None,
    log_says: Stalled | Wait | None = None,
    soak: Soak | None = None,
    roll: Roll | None = None,
) -> Decision:
    facts = facts_of(wanted, seen, memory)
    proposal = proposal or kinds.propose(facts)
    stages = stages_of(facts, proposal, verdict=verdict, soak=soak, roll=roll)
    return engine.decide(
        GateInput(
            wanted, seen, proposal.plan, stages, facts.current_time, memory, unsettled, why_open, owner, log_says,
        )
    )  # fmt: skip


def approved_by(wanted: DesiredState, seen: Observation, proposal: Proposal) -> ApprovedBy | None:
    (levels,) = stages_of(facts_of(wanted, seen), proposal)
    return how_approved(wanted, proposal.plan, waits=levels.waits_for_approval(wanted))


def plan_of(
    changes: tuple[UpdateFeature, ...],
    finalized: Mapping[str, int],
    *,
    pods: Pods | None = MappingProxyType({}),
    excused: ExcusedTopics | None = None,
    excused_is_known: bool = True,
    standing: PlanStatus | None = None,
    **given: Any,
) -> Plan:
    """A plan for these changes, and for the pods that are rolled before them."""
    planned = without_marks(excused if excused_is_known else excused_in(standing.stages) if standing else None)
    parts = (
        RollProposal(pods, ExcusedPartitions(excused) if excused is not None else None, planned),
        LevelsProposal({}, finalized, (), (changes,) if changes else ()),
    )
    return plan.plan_of(parts, standing=standing, **given)


def all_in(plan: Plan) -> tuple[UpdateFeature, ...]:
    """Every change of a plan without restarts."""
    levels = (
        (cast("Mapping[str, int]", stage.target), cast("Mapping[str, int]", stage.start)) for stage in plan.stages
    )
    return tuple(change for target, start in levels for change in changes_between(target, start))


def pending_in(plan: Plan) -> tuple[UpdateFeature, ...]:
    """Changes of a plan with one stage that are not made yet."""
    (work,) = plan.work
    return all_in(plan)[work.counted :]


def status_of(
    decision: Decision, seen: Observation, proposal: Proposal, *, roll: Roll | None = None, now: datetime, **fields: Any
) -> Status:
    stages = stages_of(facts_of(DesiredState({}), seen, now=now), proposal, roll=roll)
    return report.status_of(decision, seen, proposal.plan, stages, now=now, **fields)
