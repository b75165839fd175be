"""Interface of a stage of each kind, so that the engine need not know which kinds there are.

A plan is a tuple of stages: levels that are moved, nodes that are restarted. Each kind stands in a room of its own
(`core/levels`, `core/roll`) and is registered in `core/kinds.py`. Here is what they have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import ExcusedTopics, PlannedStage, Result, Status, StepStatus
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Stalled, Wait, blocked
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.steps import DryRun, InFlight, Step

ConditionText = tuple[str, Reason, str] | None
"""Status, reason and message of a condition; None for one that is not there now."""
Conditions = Mapping[Condition, ConditionText]

Next = Act | Wait | Stalled | Done
"""One more step; or what is waited for, what halts it, or that all of it is done."""


class Work(Protocol):
    """One stage of a plan, and what is left of it."""

    @property
    def is_over(self) -> bool:
        """Tell whether nothing of it is left to do."""

    @property
    def counted(self) -> int:
        """Number of its steps that are done and added one to the change count."""

    @property
    def remaining(self) -> Sequence[str]:
        """Summary of what is left of it, for people."""

    @property
    def is_irreversible(self) -> bool:
        """Tell whether a step that is left cannot be undone."""

    @property
    def is_safe_to_undo(self) -> bool:
        """Tell whether all that is left can be undone without a loss."""

    def steps(self) -> Iterator[StepStatus]:
        """All its steps, done or not, as in `status.plan`; the plan numbers them."""


class StageProposal(Struct, frozen=True):
    """Proposal of a kind of stage from here: of what was read, and of the document."""

    kind: ClassVar[str]
    """Name of the kind, as in `status.plan.stages`."""

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """Targets, and what they start from, in their order: what the hash covers; empty where nothing is to do."""
        raise NotImplementedError

    @property
    def goes_first(self) -> bool:
        """Tell whether its stages go before those of kinds that are registered before it."""
        return False

    @property
    def costs(self) -> ExcusedTopics | None:
        """Topics that its restarts make unavailable, by a consent."""
        return None

    @property
    def is_known(self) -> bool:
        """Tell whether all was read that shows what is done of it."""
        raise NotImplementedError

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[Work, ...] | None:
        """Work that is left of each stage of this kind in a plan; None where they are not what there is to do."""
        raise NotImplementedError


class NoProposal(StageProposal, frozen=True):
    """Proposal of a kind that the document does not ask for."""

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """There are none."""
        return ()

    @property
    def is_known(self) -> bool:
        """There is nothing to be known."""
        return True

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[Work, ...] | None:
        """None where a plan has stages of this kind, which are no longer wanted."""
        return None if any(stage.kind == self.kind for stage in stages) else ()


class StageMemory(Protocol):
    """Memory that a process keeps of a stage from one look to the next."""

    def interrupted(self, reason: str) -> StageMemory:
        """This stage where nothing could be read of the cluster."""


class SummaryRank(IntEnum):
    """Rank of the stage that says how the cluster is, where nothing is left to do: of several the last one of the
    highest.
    """

    NOTHING_WANTED = 0  # the document asks nothing of this kind
    WANTED = 1
    HELD = 2  # something that the document does not ask for holds all of them


class StageState(Struct, frozen=True, dict=True):
    """One stage, judged on one reading of the cluster: what prevents its next step, and which step that is.

    Nothing here knows whether the document lets it continue: `core/engine/gates.py` asks that, for all kinds alike.
    What has a default is for those kinds that need it.
    """

    kind: ClassVar[str]
    """Name of the kind, as in `status.plan.stages`."""

    @property
    def is_due(self) -> bool:
        """Tell whether it has something to do, or has to find out, and no other stage must come first."""
        raise NotImplementedError

    @property
    def next(self) -> Next:
        """The next step of the stage, were every gate open."""
        raise NotImplementedError

    @property
    def outlook(self) -> str:
        """Message about what it would do, and what prevents it: for a resource that is suspended, or only observes."""
        raise NotImplementedError

    @property
    def needs_approval(self) -> bool:
        """Tell whether the policy of the document asks a person before its next step."""
        raise NotImplementedError

    @property
    def note(self) -> str:
        """Message where nothing is left to do; empty for none."""
        return ""

    @property
    def unverified(self) -> tuple[str, ...]:
        """Consents it uses next that may have been used before the status began (`core/engine/consents.py`)."""
        return ()

    def waits_for_approval(self, desired: DesiredState) -> bool:
        """Tell whether a person has to approve its plan. On the command line a person is asked about consents
        besides.
        """
        return self.needs_approval or (bool(self.unverified) and not desired.may_approve_unseen)

    @property
    def approval_reason(self) -> Reason:
        """The reason of the condition ApprovalRequired while its plan waits."""
        return Reason.PLAN_PENDING

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """Blockers of the next step of the stage, each with its remedy."""
        raise NotImplementedError

    @property
    def blocked(self) -> Wait | Stalled | None:
        """Decision that its blockers come to; None where nothing prevents a step."""
        return blocked(self.blockers) if self.blockers else None

    @property
    def is_at_work(self) -> tuple[Reason, str] | None:
        """Steps that were begun and are followed: a reason, and which, for people; None where there are none."""
        return None

    @property
    def drift(self) -> Decision | None:
        """Something it had reached was changed outside KafkaFeatures, and is not corrected."""
        return None

    def corrects_drift(self, step: Step) -> bool:
        """Tell whether a step of this kind undoes a change that was made outside."""
        return False

    @property
    def last_word(self) -> SummaryRank:
        """Rank among the stages that say how the cluster is once none has anything to do."""
        return SummaryRank.WANTED

    @property
    def soaking(self) -> Wait | None:
        """Wait of an irreversible next step until nodes have been healthy for long enough; else None."""
        return None

    @property
    def dry_run(self) -> Sequence[Any]:
        """Changes that the server is asked about before, as its port takes them; empty where there is nothing
        to ask.
        """
        return ()

    def with_verdict(self, verdict: DryRun) -> StageState:
        """This stage with the answer of the server to exactly that dry run."""
        return self

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether no window holds it: nothing can get worse."""
        return False

    @property
    def meanwhile(self) -> str:
        """Loss that the cluster bears until the next step is taken, whatever holds it back; empty for none."""
        return ""

    @property
    def withdrawn(self) -> Sequence[tuple[InFlight, str]]:
        """Steps that a person was asked for and must not carry out now, or does not have to; and why."""
        return ()

    @property
    def over(self) -> Sequence[tuple[InFlight, Result]]:
        """Steps of which this look shows that nothing has to be waited for, and how they ended."""
        return ()

    @property
    def stage_memory(self) -> Mapping[str, StageMemory]:
        """Memory of this look that this process keeps for the next one, and no status tells; each by a name."""
        return {}

    def remembered(self, status: Status) -> Status:
        """The status with what is to be remembered of this look, whatever is decided."""
        return status

    def decided(self, decision: Decision, status: Status) -> Status:
        """The status with what is to be remembered of this decision."""
        return status

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with the part that is of this kind."""
        return status

    def conditions(self, decision: Decision) -> Conditions:
        """The conditions of the status that are of this kind."""
        return {}


def due_in(stages: tuple[StageState, ...]) -> StageState:
    """The stage whose turn it is; where nothing is left to do, the one that says so."""
    due = next((stage for stage in stages if stage.is_due), None)
    return due or max(reversed(stages), key=lambda one: one.last_word)
