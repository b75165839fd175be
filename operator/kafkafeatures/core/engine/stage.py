"""Interface of a stage, so that the engine need not know which kinds there are.

A plan is a tuple of stages, such as levels to be changed or nodes to be restarted. Each kind has a package of its own
(`core/levels`, `core/roll`) and is registered in `core/kinds.py`. For each reconciliation a kind makes a
`StageProposal` (work that remains), and a `StageState` (the next step, and what prevents it); `core/engine/gates.py`
and `core/report/` read both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import ExcusedTopics, PlannedStage, Result, Status, StepStatus
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Stalled, Wait, blocked
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.steps import DryRun, InFlight, Step
from kafkafeatures.core.facts.releases import Undo

ConditionText = tuple[str, Reason, str] | None
"""Status, reason and message of a condition; None: the condition is removed."""
Conditions = Mapping[Condition, ConditionText]

Next = Act | Wait | Stalled | Done
"""The next step; or what is waited for, what halts the stage, or that it is done."""


class StageWork(Struct, frozen=True):
    """Remaining work of one stage of a plan.

    remaining: summary of each part that remains, for people; empty once the stage is over.
    undo: the worst way in which what remains can be undone.
    steps: all steps of the stage, done or not, as in `status.plan`; the plan numbers them.
    counted: number of steps that are done and were added to `status.changeCount`.
    """

    remaining: tuple[str, ...]
    undo: Undo
    steps: tuple[StepStatus, ...]
    counted: int = 0


class StageProposal(Struct, frozen=True):
    """Work that a kind of stage proposes, from the present state to the desired one."""

    kind: ClassVar[str]
    """Name of the kind, as in `status.plan.stages`."""

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """Stages with their targets and starting points, in order; the hash of the plan covers them. Empty if nothing
        is to be done.
        """
        raise NotImplementedError

    @property
    def goes_first(self) -> bool:
        """Tell whether its stages come before those of kinds that are registered earlier."""
        return False

    @property
    def costs(self) -> ExcusedTopics | None:
        """Topics that restarts make unavailable, by a consent; None for none."""
        return None

    @property
    def is_known(self) -> bool:
        """Tell whether everything was read that shows how much of the work is done."""
        raise NotImplementedError

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[StageWork, ...] | None:
        """Remaining work of each stage of this kind in a plan; None if those stages do not lead to the desired
        state.
        """
        raise NotImplementedError


class StageMemory(Protocol):
    """Memory that a process keeps of a stage from one reconciliation to the next, and that is lost with the process."""

    def interrupted(self, reason: str) -> StageMemory:
        """The memory after a reconciliation in which the cluster could not be read, for this reason."""


class SummaryRank(IntEnum):
    """Rank of a stage by which the summary of the cluster is chosen once nothing is left to do: the message of the
    stage with the highest rank is shown; among equals, that of the last stage.
    """

    NOTHING_WANTED = 0  # the document does not ask for this kind
    WANTED = 1
    HELD = 2  # something that the document does not mention holds all stages back, such as an open migration


class StageState(Struct, frozen=True, dict=True):
    """One stage, judged on one reading of the cluster: its next step, and what prevents it.

    Whether the document lets the stage continue is judged by `core/engine/gates.py`, for all kinds alike. A method that
    takes a status returns an updated one.
    """

    kind: ClassVar[str]
    """Name of the kind, as in `status.plan.stages`."""

    @property
    def is_due(self) -> bool:
        """Tell whether the stage has something to do or to find out, and no other stage must come first."""
        raise NotImplementedError

    @property
    def next(self) -> Next:
        """The next step of the stage if every gate were open."""
        raise NotImplementedError

    @property
    def outlook(self) -> str:
        """Message about what the stage would do, and what prevents it: for a resource that is suspended or only
        observes.
        """
        raise NotImplementedError

    @property
    def needs_approval(self) -> bool:
        """Tell whether the policy of the document requires a person's approval before the next step."""
        raise NotImplementedError

    @property
    def note(self) -> str:
        """Message where nothing is left to do; empty for none."""
        return ""

    @property
    def unverified(self) -> tuple[str, ...]:
        """Consents that the next step uses, and that may have been used before, as the status does not reach back far
        enough to tell (`core/engine/consents.py`).
        """
        return ()

    def waits_for_approval(self, desired: DesiredState) -> bool:
        """Tell whether a person has to approve the plan. On the command line, unverified consents are confirmed
        separately.
        """
        return self.needs_approval or (bool(self.unverified) and not desired.may_approve_unseen)

    @property
    def approval_reason(self) -> Reason:
        """Reason of the condition ApprovalRequired while the plan waits for approval."""
        return Reason.PLAN_PENDING

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """Blockers of the next step of the stage, each with its remedy."""
        raise NotImplementedError

    @property
    def blocked(self) -> Wait | Stalled | None:
        """Decision for the blockers; None if there are none."""
        return blocked(self.blockers) if self.blockers else None

    @property
    def work_in_flight(self) -> tuple[Reason, str] | None:
        """Reason and titles, for people, of the steps in flight; None if there are none."""
        return None

    @property
    def drift(self) -> Decision | None:
        """Decision where something was changed outside KafkaFeatures and is not corrected; else None."""
        return None

    def corrects_drift(self, step: Step) -> bool:
        """Tell whether the step undoes a change that was made outside KafkaFeatures."""
        return False

    @property
    def summary_rank(self) -> SummaryRank:
        """Rank of this stage for the summary of the cluster, once no stage has anything to do."""
        return SummaryRank.WANTED

    @property
    def soaking(self) -> Wait | None:
        """Wait before an irreversible step until nodes have been healthy for long enough; else None."""
        return None

    @property
    def withdrawing(self) -> Sequence[Any]:
        """Steps whose request waits outside of the cluster, and is to be withdrawn, as the port takes them."""
        return ()

    @property
    def dry_run(self) -> Sequence[Any]:
        """Changes for the server's dry run, as the port takes them; empty if there is nothing to ask."""
        return ()

    def with_verdict(self, verdict: DryRun) -> StageState:
        """This stage with the server's answer to its dry run."""
        return self

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether the next step may be taken outside of windows, because it can make nothing worse."""
        return False

    @property
    def meanwhile(self) -> str:
        """Message about what the cluster lacks until the next step is taken, whatever holds it back; empty for none."""
        return ""

    @property
    def withdrawn(self) -> Sequence[tuple[InFlight, str]]:
        """Steps that a person was asked to carry out and now must not or need not; each with the reason."""
        return ()

    @property
    def over(self) -> Sequence[tuple[InFlight, Result]]:
        """Steps that, as this reading shows, need not be waited for any longer; each with its result."""
        return ()

    @property
    def stage_memory(self) -> Mapping[str, StageMemory]:
        """Memory for the next reconciliation that no status has, by the kind that it belongs to."""
        return {}

    def remembered(self, status: Status) -> Status:
        """The status with what has to be remembered of this reconciliation, whatever is decided."""
        return status

    def decided(self, decision: Decision, status: Status) -> Status:
        """The status with what has to be remembered of this decision; written before the decision is carried out."""
        return status

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with the fields that belong to this kind, for people. `previous`: the status before."""
        return status

    def conditions(self, decision: Decision) -> Conditions:
        """Conditions of the status that belong to this kind."""
        return {}


def due_in(stages: tuple[StageState, ...]) -> StageState:
    """The stage whose turn it is; where nothing is left to do, the one that sums up the cluster."""
    due = next((stage for stage in stages if stage.is_due), None)
    # reversed: `max` returns the first of several equal ranks, and the last stage is meant to win.
    return due or max(reversed(stages), key=lambda stage: stage.summary_rank)
