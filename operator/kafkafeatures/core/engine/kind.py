"""Protocol of a kind of stage (levels, rolls, migrations, the inter-broker protocol), and the input of its methods.

Pure. Each kind is one object, registered in `core/kinds.py`; nothing else in the engine knows which kinds there are. In
each reconciliation `demands` chooses what is read of the cluster; then `propose` and `judge` are called.
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
    memory: what `memory_of` took from `remembered`: reached levels, spent consents, plan, change count, ages.
    remembered: the previous status, in which steps that have ended since are closed.
    in_flight: steps whose end was not observed yet.
    age_of: age of a time in the status; by the wall clock when this process first reads it, from then on by the
        monotonic clock. known_for: the part of it that this process counted itself: right even if the wall clock was
        wrong.
    ours: False if another cluster answers, or one whose id is not known; then nothing in the status is about it.
    restarts: True if this process can restart nodes.
    replication: the partitions; None if they were not read.
    monotonic: seconds of the monotonic clock. read_at: its value before the cluster was read.
    stage_memory: by kind, what this process remembers of the last reconciliation and no status has.
    is_changing: True if a step of the plan is in flight, or one that only another release of the operator can read.
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
    znodes: bool = False  # the znodes of Kafka in ZooKeeper, read before all else
    settings: frozenset[str] = frozenset()  # of every node, by name
    comparison: bool = False  # of ZooKeeper with the metadata log; slow in a large cluster
    survey: float | None = None  # greatest age in seconds of a reading of all znodes that Kafka copies; also slow
    named_controllers: bool = False  # the node that each broker takes for the controller
    former_controllers: frozenset[str] = frozenset()  # addresses (host:port) where a controller may still answer

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
    stage_memory: by kind, what this process remembers of the last reconciliation and no status has.
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

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> StageProposal | None:
        """Work from the present state to the desired one; None if the document asks for none of this kind. `later`:
        proposals of the kinds that are registered after this one.
        """

    def judge(self, facts: StageInput, proposal: Proposal) -> StageState | None:
        """State of this kind's stage; None if there is nothing to judge. `proposal`: the proposals of all kinds, and
        their plan.
        """

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], desired: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether these stages of a plan, all of this kind, are no longer what the document or the pod templates
        ask for. Called if the levels could not be read: the plan can be withdrawn even then.
        """
