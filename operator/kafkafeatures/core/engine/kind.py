"""Protocol of a kind of stage: the readings that it needs, its proposal, and its judgement of where it stands.

Each kind is one object, registered in `core/kinds.py`; nothing else in the engine knows which there are. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Protocol

from msgspec import Struct, field

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.status import PlannedStage, Status
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.engine.stage import StageMemory, StageProposal, StageState
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import Failure

if TYPE_CHECKING:  # only its judgement of partitions needs numpy
    from kafkafeatures.core.facts.replication import Replication
    from kafkafeatures.core.facts.workloads import WorkloadsReading


class StageInput(Struct, frozen=True):
    """All that stages are judged on in one reconciliation: read once.

    desired: what the document asks for. observation: the cluster; replication: its partitions, to be judged, None where
    they were not read. remembered: the status, with what was settled closed in it; memory: what decisions need of it.
    in_flight: steps that are followed, whose end was not seen. ours: False where another cluster answers, or one whose
    id is not known: then nothing is remembered of it. restarts: nodes can be restarted from here. age_of, known_for:
    how old a moment of the status is, and how much of that this process has lived through. monotonic: seconds of a
    clock that is never set, and read_at: the same before the cluster was asked. stage_memory: by kind, what this
    process keeps of its last reading and is in no status. is_changing: a step is open that makes progress with a plan,
    or that only another release knows.
    """

    desired: DesiredState
    observation: Observation
    memory: Memory
    remembered: Status
    in_flight: tuple[InFlight, ...]
    current_time: datetime
    age_of: AgeOf
    known_for: AgeOf
    ours: bool = True
    restarts: bool = False
    replication: Replication | None = None
    monotonic: float = 0.0
    read_at: float = 0.0
    stage_memory: Mapping[str, StageMemory] = field(default_factory=dict)
    is_changing: bool = False

    @property
    def stamp(self) -> Stamp:
        """The time, as a status has it."""
        return stamp(self.current_time)


class ReadRequirements(Struct, frozen=True):
    """Readings that a stage needs, beside those of every reconciliation."""

    partitions: bool = False
    znodes: bool = False  # what Kafka keeps in ZooKeeper, read before everything else
    settings: frozenset[str] = frozenset()  # of every node, by name
    comparison: bool = False  # of ZooKeeper with the metadata log, which takes long in a large cluster
    survey: float | None = None  # of all znodes that Kafka copies, which does too: at most so many seconds old
    named_controllers: bool = False  # which node each broker takes for the controller
    former_controllers: frozenset[str] = frozenset()  # addresses at which a controller may still answer

    def __or__(self, other: ReadRequirements) -> ReadRequirements:
        return ReadRequirements(
            partitions=self.partitions or other.partitions,
            znodes=self.znodes or other.znodes,
            settings=self.settings | other.settings,
            comparison=self.comparison or other.comparison,
            survey=min((age for age in (self.survey, other.survey) if age is not None), default=None),
            named_controllers=self.named_controllers or other.named_controllers,
            former_controllers=self.former_controllers | other.former_controllers,
        )


class ReadContext(Struct, frozen=True):
    """Facts that are known when it is settled what to read: the document, the status of before, and the pods.

    observation: the nodes and their levels, None before they were read. stage_memory: by kind, what this process keeps
    of its last reading and is in no status.
    """

    desired: DesiredState
    status: Status
    workloads: WorkloadsReading | Failure
    current_time: datetime
    observation: Observation | None = None
    stage_memory: Mapping[str, StageMemory] = field(default_factory=dict)


class StageKind(Protocol):
    """One kind of stage."""

    kind: ClassVar[str]
    """Name of the kind, as in `status.plan.stages`."""

    def demands(self, read_context: ReadContext) -> ReadRequirements:
        """Readings that the stage needs."""

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> StageProposal:
        """Work to do from here. `later`: what the kinds propose that come after it."""

    def judge(self, facts: StageInput, proposal: Proposal) -> StageState | None:
        """State of its stage; None where there is nothing to judge."""

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], desired: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether something else is asked for by now than these stages of a plan, all of this kind: by the
        document, or by the pods as they are to be. Nothing else was read.
        """
