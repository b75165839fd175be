"""Registry of the kinds of steps and of stages: the only place where a new kind is added.

Pure. Called by the modules of `reconcile/` to request readings, make proposals and judge all stages; and wherever an
intent or an entry of the history is read, whose fields depend on its kind. The packages of the kinds (`core/levels/`,
`core/roll/`, `core/migration/`, `core/ibp/`) use the common engine (`core/engine/`), which knows none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, get_args

from kafkafeatures.api.status import HistoryEntry, Intent, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements, StageInput, StageKind
from kafkafeatures.core.engine.plan import Proposal, plan_of
from kafkafeatures.core.engine.stage import StageProposal, StageState
from kafkafeatures.core.engine.steps import InFlight, Step, UnknownStep
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.ibp.stage import InterBrokerProtocols
from kafkafeatures.core.levels.proposal import LevelsProposal
from kafkafeatures.core.levels.stage import Levels
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.not_desired import MIGRATION
from kafkafeatures.core.migration.stage import Migrations
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.roll.stage import Rolls

if TYPE_CHECKING:
    from kafkafeatures.core.facts.workloads import WorkloadsReading

KnownStep = UpdateFeature | RestartNode | DeleteZnodes

KINDS: Mapping[str, type[Step]] = {step.kind: step for step in get_args(KnownStep)}
"""Kinds of steps, by their name in an intent."""
_RECORDED: Mapping[str, type[Step]] = {step.recorded_as: step for step in KINDS.values()}

STAGES: tuple[StageKind, ...] = (Migrations(), InterBrokerProtocols(), Rolls(), Levels())
"""Kinds of stages in the order in which they are carried out: a migration from ZooKeeper first, restarts before
levels.
"""


# --- steps ---


def known(step: Step) -> KnownStep:
    """The step as the union type, so that mypy knows all kinds where steps are sent."""
    if isinstance(step, KnownStep):
        return step
    raise TypeError(f"{type(step).__name__} is not registered in core/kinds.py")


def in_flight(intent: Intent) -> InFlight | UnknownStep:
    """The step in flight of an intent; `UnknownStep` where it is of another release, or damaged."""
    kind = KINDS.get(intent.kind)
    if kind is None:
        return UnknownStep(intent)
    try:
        return kind.read(intent)
    except ValueError:
        return UnknownStep(intent)


def sent_in(status: Status) -> tuple[InFlight, ...]:
    """Steps in flight of a status, as far as this release can read them."""
    return tuple(sent_step for intent in status.intents if isinstance(sent_step := in_flight(intent), InFlight))


def kind_of(ended: HistoryEntry) -> type[Step] | None:
    """The kind of step that an entry of the history is about; None for a kind of another release of the operator."""
    return _RECORDED.get(ended.kind)


def follows(status: Status) -> bool:
    """Tell whether a step in flight is of a kind that is followed beside other steps (`Step.is_followed`), such as a
    restart; also if the other fields of its intent cannot be read.
    """
    return any(kind.is_followed for intent in status.intents if (kind := KINDS.get(intent.kind)) is not None)


def is_changing(status: Status) -> bool:
    """Tell whether a step in flight is progress of a plan, or of a kind that this release does not know."""
    kinds = (KINDS.get(intent.kind) for intent in status.intents)
    return any(kind is None or kind.counts for kind in kinds)


# --- stages ---


def without_withdrawn_plan(status: Status, desired: DesiredState, workloads: WorkloadsReading | Failure) -> Status:
    """The status without its plan, and so without its approval, if the document now asks for something else.

    Used where the levels could not be read. Otherwise the plan is compared with the proposal, which is more exact.
    """
    stages = status.plan.stages if status.plan is not None else ()
    by_kind = ((kind, [stage for stage in stages if stage.kind == kind.kind]) for kind in STAGES)
    if not any(own_stages and kind.is_withdrawn(own_stages, desired, workloads) for kind, own_stages in by_kind):
        return status
    return replace(status, plan=None, change_count=status.change_count + 1)


def demands_of(read_context: ReadContext) -> ReadRequirements:
    """Readings that all stages need, and those that settle the steps in flight."""
    to_settle = ReadRequirements(
        znodes=any(sent_step.step.is_read_in_zookeeper for sent_step in sent_in(read_context.status))
    )
    return reduce(or_, (kind.demands(read_context) for kind in STAGES), to_settle)


def propose(facts: StageInput) -> Proposal:
    """Proposals of all kinds of stages, and the plan for them."""
    parts: tuple[StageProposal, ...] = ()
    for kind in reversed(STAGES):  # from the last: each kind sees the proposals of the kinds after it
        if (part := kind.propose(facts, parts)) is not None:
            parts = (part, *parts)
    migrates = any(part.kind == MIGRATION and (part.stages or not part.is_known) for part in parts)
    desired, observation, memory = facts.desired, facts.observation, facts.memory
    # While the levels are not known, the plan in the status stays as it is. The plan made here does not replace it, so
    # it keeps its hash, even if it is approved and no status has shown it.
    is_kept = memory.plan is not None and not observation.shows_levels
    plan = plan_of(
        tuple(map(_without_levels, parts)) if migrates else parts,
        uid=desired.uid,
        cluster_id=observation.cluster_id.value if isinstance(observation.cluster_id, Known) else "",
        change_count=memory.change_count,
        standing=memory.plan if observation.shows_levels else None,  # the plan in the status
        approvals=desired.approvals,
        may_approve_unseen=desired.may_approve_unseen or is_kept,
    )
    return Proposal(plan, parts)


def _without_levels(part: StageProposal) -> StageProposal:
    """The proposal as it is in the plan of a migration: without changes of levels. Levels are changed only after the
    migration, and the changes differ from phase to phase, so that the plan would need another approval in each.
    """
    return replace(part, by_stage=()) if isinstance(part, LevelsProposal) else part


def assess(facts: StageInput) -> tuple[Proposal, tuple[StageState, ...]]:
    """Proposals with their plan, and the state of each stage. With a million partitions it takes a second."""
    proposal = propose(facts)
    return proposal, tuple(stage for kind in STAGES if (stage := kind.judge(facts, proposal)) is not None)
