"""State of the stage that raises inter.broker.protocol.version (IBP): its next restart, and what prevents it.

Pure. Made by `core/ibp/stage.py` in each reconciliation. The versions that brokers use and know come from the answers
of the brokers (`core/ibp/progress.py`), never from a status. Brokers are restarted by the code of rolls (`core/roll/`),
which gets a permit for the brokers to be restarted. Settings and images are changed by people in Git, never by the
operator.

 1. Read the IBP of each broker, and what its Kafka knows: `demands_of`, `IbpProgress`.
 2. Choose the purpose of the next roll; no roll begins before every broker has ended the one before: `permit_for`.
 3. Check all that must hold before a restart: `checks.blockers`.
 4. Restart the brokers by the rules of a roll, or ask for the change in Git that is missing: `next`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import ExcusedTopics, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.consents import spend
from kafkafeatures.core.engine.costs import without_marks
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Stalled, Wait, blocked, unreadable
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements, StageInput
from kafkafeatures.core.engine.stage import Conditions, Next, StageMemory, StageState, SummaryRank
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.facts.observation import MetadataMode, Observation, Unknown
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.ibp import INTER_BROKER_PROTOCOL, checks
from kafkafeatures.core.ibp.progress import IbpProgress, progress_of
from kafkafeatures.core.ibp.proposal import IbpProposal, shown_in
from kafkafeatures.core.ibp.report import in_use
from kafkafeatures.core.ibp.requests import wait_for_git, wait_for_person
from kafkafeatures.core.ibp.restarts import permit_for, wrongly_restarted
from kafkafeatures.core.ibp.versions import Version, version_of
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.core.roll.excuses import excused_in_all_rolls, is_to_be_shown
from kafkafeatures.core.roll.remembered import kept_of_roll
from kafkafeatures.core.roll.report import nodes_rolled, rollout_status, without_restarts, workload_statuses
from kafkafeatures.core.roll.stage import is_restarting, permitted_roll, spent_by, unverified_of, with_requests

if TYPE_CHECKING:
    from kafkafeatures.core.roll.roll import Roll

NO_MEANING = (
    f"spec.interBrokerProtocolVersion has no meaning in KRaft mode, where metadata.version takes the place of {IBP}: "
    "remove it from the document"
)


class IbpState(StageState, frozen=True):
    """State of the stage.

    facts: the readings of this reconciliation, and the document.
    progress: versions that the brokers use, and the next roll.
    roll: restarts of brokers; None if none is needed, or the document has no driver that restarts nodes.
    excused: topics that all restarts of the plan may make unavailable, by a consent.
    """

    kind: ClassVar[str] = INTER_BROKER_PROTOCOL

    facts: StageInput
    progress: IbpProgress
    roll: Roll | None = None
    excused: ExcusedTopics | None = None

    @property
    def is_in_kraft(self) -> bool:
        """Tell whether the cluster certainly runs in KRaft mode, which has no such setting."""
        return self.facts.observation.in_kraft_mode

    @property
    def note(self) -> str:
        """Message with the version that every broker uses; in KRaft mode, a message that the field of the document has
        no effect.
        """
        return NO_MEANING if self.is_in_kraft else f"every broker uses {IBP} {in_use(self.facts.observation)}"

    @property
    def is_due(self) -> bool:
        """Tell whether a broker does not set or use the target, a blocker exists, or a pod is outdated. In KRaft mode:
        whether a restart is in flight.
        """
        if self.is_in_kraft:
            return self.work_in_flight is not None
        restarts = self.roll is not None and self.roll.is_active
        return restarts or not self.progress.is_reached or bool(self.blockers)

    @property
    def work_in_flight(self) -> tuple[Reason, str] | None:
        if self.roll is None or not self.roll.in_flight:
            return None
        return Reason.ROLLING_NODES, self.roll.titles_in_flight

    @property
    def summary_rank(self) -> SummaryRank:
        """Lowest rank: the message of this stage is shown as a note beside that of another stage."""
        return SummaryRank.NOTHING_WANTED

    @property
    def outlook(self) -> str:
        """Message about the change that would be made, and what prevents it."""
        would = f"would raise {IBP} to {self.progress.target}"
        if self.progress.is_reached:
            would = "would restart outdated pods"
        decision = self.blocked or self.next
        return would if isinstance(decision, Act) else f"{would}; now: {decision.message}"

    @cached_property
    def blockers(self) -> tuple[Blocker, ...]:
        """All that prevents the next restart."""
        if self.is_in_kraft:
            return ()
        flying, fleet = (self.roll.flying, self.roll.fleet) if self.roll is not None else (frozenset[int](), None)
        replication = self.facts.replication
        assigned = replication.brokers() if replication is not None else frozenset()
        blockers = checks.blockers(checks.IbpCheckInput(self.progress, flying, assigned))
        return (*blockers, *wrongly_restarted(self.progress, fleet, flying))

    @property
    def blocked(self) -> Wait | Stalled | None:
        if self.is_in_kraft:
            return None
        if isinstance(self.facts.observation.mode, Unknown):
            return unreadable("the metadata mode is not known", self.facts.observation.mode.failure)
        return blocked(self.blockers) if self.blockers else None

    @property
    def needs_approval(self) -> bool:
        """Tell whether the policy is Always: under any other policy the exact version in the document is the
        approval.
        """
        return self.facts.desired.policy is ApprovalPolicy.ALWAYS

    @property
    def unverified(self) -> tuple[str, ...]:
        """Unverified consents that the restarts need."""
        return unverified_of(self.roll, without_marks(self.excused), self.facts)

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether the next decision is no restart: windows hold only restarts."""
        return not isinstance(self.next, Act)

    @cached_property
    def next(self) -> Next:
        """The next restart; or a wait for restarts, for Git, or for a person; or that all is done."""
        if self.roll is not None and (decision := self.roll.decision) is not None:
            if isinstance(decision, Wait) and (node_id := self.roll.asked_of_a_person) is not None:
                return wait_for_person(self.progress, decision, node_id)
            return decision
        if self.is_in_kraft or self.progress.is_reached:
            return Done(Reason.IN_SYNC, self.note)
        return wait_for_git(self.progress)

    @property
    def withdrawn(self) -> Sequence[tuple[InFlight, str]]:
        """Restarts that a person must not carry out now, or does not have to."""
        return self.roll.withdrawn if self.roll is not None else ()

    @property
    def stage_memory(self) -> Mapping[str, StageMemory]:
        """Memory of the roll: the disks of brokers before their restarts, and since when each broker is up."""
        disks = self.roll.disks.earlier if self.roll is not None else None
        return kept_of_roll(self.facts, disks, is_over=self._is_rolled)

    @property
    def _is_rolled(self) -> bool:
        """Tell whether it is certain that no broker is left to restart."""
        return self.roll is None and (self.progress.is_reached or not self.progress.unknown)

    def decided(self, decision: Decision, status: Status) -> Status:
        """The status, to be written before the decision is carried out, with the consent spent that a restart needs."""
        status = with_requests(self.roll, self.facts, decision, status) if self.roll is not None else status
        return spend(status, spent_by(decision, self.excused))

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with the version in use, and with the progress of the restarts."""
        if self.is_in_kraft:
            return status
        status = replace(status, inter_broker_protocol_version=_version_for_status(self.facts.observation, previous))
        rollout = previous.rollout
        if self.roll is not None:
            rollout = rollout_status(self.roll, decision, rollout, self.facts.stamp, without_marks(self.excused))
        else:
            rollout = without_restarts(rollout, is_known=self._is_rolled)
        return replace(status, workloads=workload_statuses(self.facts.observation, previous), rollout=rollout)

    def conditions(self, decision: Decision) -> Conditions:
        """Condition NodesRolled, if a driver restarts nodes."""
        if self.roll is not None:
            return {Condition.NODES_ROLLED: nodes_rolled(self.roll, decision)}
        if self.is_in_kraft or not self.facts.restarts or not self.progress.is_reached:
            return {}
        text = f"all {len(self.progress.brokers)} brokers use {IBP} {in_use(self.facts.observation)}"
        return {Condition.NODES_ROLLED: ("True", Reason.ALL_CURRENT, text)}


def _version_for_status(observation: Observation, previous: Status) -> str:
    """Version in use; the previous one if none could be read now."""
    return in_use(observation) or previous.inter_broker_protocol_version


def target_of(desired: DesiredState) -> Version:
    """Version that the document names. Raises ValueError for an invalid name, which `core/resolve.py` rejects
    before.
    """
    version = version_of(desired.ibp)
    if version is None:
        raise ValueError(f"{desired.ibp!r} is no {IBP}")
    return version


def proposed(facts: StageInput) -> IbpProposal:
    """Proposal of the stage in ZooKeeper mode."""
    observation, target = facts.observation, target_of(facts.desired)
    excused = excused_in_all_rolls(facts, shown_in(facts.memory.plan, target))
    return IbpProposal(progress_of(observation, target), observation.in_zookeeper_mode, excused)


def ibp_now(facts: StageInput, part: IbpProposal | None) -> IbpState | None:
    """State of the stage; None if another cluster answers. `part`: the proposal; None in KRaft mode, where there is
    none.
    """
    if not facts.ours:
        return None
    progress = part.progress if part is not None else progress_of(facts.observation, target_of(facts.desired))
    rollout, excused = facts.remembered.rollout, part.excused if part is not None else None
    reads_pods = driver_of(facts.desired.rollout).reads_pods
    rollout_id = rollout.id if rollout is not None else ""
    permit = permit_for(progress, reads_pods=reads_pods, started=rollout_id, flies=is_restarting(facts))
    return IbpState(facts, progress, permitted_roll(facts, permit, excused=excused), excused)


def demands_of(read_context: ReadContext) -> ReadRequirements:
    """Readings that are needed: the znodes and the setting of each broker; partitions if people are about to restart
    brokers, or the plan has to show which topics a consent is for; nothing in KRaft mode.
    """
    observation = read_context.observation
    if observation is None:
        return ReadRequirements() if read_context.status.metadata_mode == MetadataMode.KRAFT else _READ
    if observation.in_kraft_mode:
        return ReadRequirements()
    progress = progress_of(observation, target_of(read_context.desired))
    restarts = progress.roll is not None and driver_of(read_context.desired.rollout).asks_people
    shows = progress.roll is not None and is_to_be_shown(read_context.desired, read_context.status.plan)
    return replace(_READ, partitions=restarts or shows)


_READ = ReadRequirements(znodes=True, settings=frozenset({IBP}))
