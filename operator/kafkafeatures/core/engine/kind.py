"""Protocol of a kind of stage: the readings that it needs, its proposal, and its state.

Pure. Each kind is one object, registered in `core/kinds.py`; nothing else in the engine knows which kinds there are.
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
    """Everything that stages are judged on in one reconciliation, read once.

    desired: what the document asks for.
    observation: the cluster.
    memory: facts of the status that decisions need.
    remembered: the status, with settled steps closed.
    in_flight: steps whose end was not observed yet.
    age_of: age of a time in the status, by the clock. known_for: the part of that age that this process itself has run.
    ours: False where another cluster answers, or one whose id is not known; then nothing is remembered of it.
    restarts: this process can restart nodes.
    replication: the partitions; None where they were not read.
    monotonic: seconds of a clock that is never set. read_at: its value before the cluster was read.
    stage_memory: by kind, what this process keeps of its last reading and is in no status.
    is_changing: a step of the plan is in flight, or one that only another release can read.
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
        """The current time, in the form that a status has."""
        return stamp(self.current_time)


class ReadRequirements(Struct, frozen=True):
    """Readings that a stage needs, besides those of every reconciliation."""

    partitions: bool = False
    znodes: bool = False  # what Kafka keeps in ZooKeeper, read before all else
    settings: frozenset[str] = frozenset()  # of every node, by name
    comparison: bool = False  # of ZooKeeper with the metadata log; slow in a large cluster
    survey: float | None = None  # of all znodes that Kafka copies, also slow: its greatest age in seconds
    named_controllers: bool = False  # which node each broker takes for the controller
    former_controllers: frozenset[str] = frozenset()  # addresses where a controller may still answer

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
    """Input for the choice of readings: the document, the previous status, and the pods.

    observation: the nodes and their levels; None before they were read.
    stage_memory: by kind, what this process keeps of its last reading and is in no status.
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
        """Work from the present state to the desired one. `later`: proposals of the kinds that come after this one."""

    def judge(self, facts: StageInput, proposal: Proposal) -> StageState | None:
        """State of this kind's stage; None where there is nothing to judge."""

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], desired: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether the document, or the pod templates, now ask for something else than these stages of a plan,
        which are all of this kind. No other reading is needed.
        """
