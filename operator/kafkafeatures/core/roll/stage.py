"""The stage that restarts nodes: what prevents the next restart, and which one it is.

Pure. It is light: what judges partitions, by numpy, is imported once nodes are restarted (`core/roll/roll.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kafkafeatures.api.names import QUORUM_OF_ONE, SINGLE_REPLICA_TOPICS
from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.status import ExcusedTopics, PlannedStage, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.consents import unverified_among
from kafkafeatures.core.engine.costs import as_planned, excused_in
from kafkafeatures.core.engine.decisions import PARTITIONS_ARE_NOT_NEEDED, Act, Decision, Done, Stalled, blocked
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements, StageInput
from kafkafeatures.core.engine.memory import remembering
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.stage import Conditions, Next, StageMemory, StageProposal, StageState, SummaryRank
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.engine.windows import closed_until
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.proposal import LevelsProposal
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.disks import is_on_new_disk
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.core.roll.excuses import excused_now
from kafkafeatures.core.roll.permit import Permit, is_left_to_ibp, is_left_to_migration, without_requests
from kafkafeatures.core.roll.proposal import ROLL, RollProposal, pods_in, revisions_in
from kafkafeatures.core.roll.remembered import disks_before, kept_of_roll, remembered_of
from kafkafeatures.core.roll.report import nodes_rolled, rollout_status, with_breaks, workload_statuses
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.targets import ExcusedPartitions
from kafkafeatures.core.words import counted

if TYPE_CHECKING:
    from kafkafeatures.core.facts.workloads import WorkloadsReading
    from kafkafeatures.core.roll.roll import Roll


NO_RESTART_CURES = frozenset({BlockerKind.GHOST_REGISTRATION, BlockerKind.DEPENDENCY, BlockerKind.CONSENT})
"""Blockers of levels that are the same after every node was restarted."""


class RollState(StageState, frozen=True):
    """State of a roll in one reconciliation."""

    kind: ClassVar[str] = ROLL

    facts: StageInput
    part: RollProposal
    roll: Roll
    changes: tuple[UpdateFeature, ...] = ()

    @property
    def is_due(self) -> bool:
        """Tell whether nodes are restarted before levels are moved; not where levels must be downgraded before."""
        return self.roll.decision is not None

    @property
    def is_at_work(self) -> tuple[Reason, str] | None:
        """Nodes in flight."""
        return (Reason.ROLLING_NODES, self.roll.titles_in_flight) if self.roll.in_flight else None

    @property
    def last_word(self) -> SummaryRank:
        """A document asks for levels or a migration; nodes are restarted for them, or for what changed elsewhere."""
        return SummaryRank.NOTHING_WANTED

    @property
    def outlook(self) -> str:
        """Number of nodes that it would restart, and what it waits for."""
        nodes, decision = len(self.roll.needing), self.next
        would = f"would restart {counted(nodes, 'node')}"
        if isinstance(decision, Act) or decision == PARTITIONS_ARE_NOT_NEEDED:
            return would
        next_message = f"now: {decision.message}"
        return f"{would}; {next_message}" if nodes else next_message

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """Blockers of the next restart."""
        return self.next.blockers

    @property
    def blocked(self) -> Stalled | None:
        """Halt of the roll until a user acts. What it merely waits for does not prevent an approval."""
        return self.next if isinstance(self.next, Stalled) else self._blocked_later()

    def _blocked_later(self) -> Stalled | None:
        """Halt for blockers of the levels after the roll that no restart cures: before its first restart. A node that
        does not run is restarted all the same.
        """
        step, rollout = self.next.step if isinstance(self.next, Act) else None, self.facts.remembered.rollout
        has_begun = rollout is not None and rollout.is_in_progress and rollout.restarted > 0
        if has_begun or self.roll.in_flight or not isinstance(step, RestartNode):
            return None
        node, wanted = self.facts.observation.node(step.node_id), self.facts.desired
        if node is None or node.state is not NodeState.LIVE:
            return None
        question = LevelCheckInput(
            self.facts.observation, self.changes, consents=wanted.consents, spent=self.facts.memory.spent,
            cluster_flags=wanted.cluster_flags,
        )  # fmt: skip
        lasting_blockers = tuple(blocker for blocker in blockers(question) if blocker.kind in NO_RESTART_CURES)
        halt = blocked(lasting_blockers) if lasting_blockers else None
        return (
            replace(halt, message=f"{halt.message}; {lasting_blockers[0].remedy}")
            if isinstance(halt, Stalled)
            else None
        )

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether no window holds the next restart: where no partition has a leader, restarting a stuck node makes
        nothing worse.
        """
        return self.roll.goes_at_any_time

    @property
    def unverified(self) -> tuple[str, ...]:
        """Consents that its restarts rest on."""
        return unverified_of(self.roll, self.part.planned, self.facts)

    @property
    def needs_approval(self) -> bool:
        """A restart can be undone, whatever levels the plan changes afterwards."""
        return self.facts.desired.policy is ApprovalPolicy.ALWAYS

    @cached_property
    def next(self) -> Next:
        """The next restart, or what it waits for."""
        roll = self.roll
        return roll.decision or Done(Reason.ALL_CURRENT, f"all {roll.total} nodes are current")

    @property
    def withdrawn(self) -> Sequence[tuple[InFlight, str]]:
        """Restarts that a person must not carry out now, or does not have to."""
        return self.roll.withdrawn

    def remembered(self, status: Status) -> Status:
        """Spend the consent of a roll that has ended."""
        if self.roll.is_active or status.rollout is None or not status.rollout.is_in_progress:
            return status
        spent = {*status.spent_consents, *({SINGLE_REPLICA_TOPICS} & self.facts.desired.consents)}
        return replace(status, spent_consents=tuple(sorted(spent)))

    @property
    def stage_memory(self) -> Mapping[str, StageMemory]:
        """Disks that nodes had, while a roll is on, and since when each is up."""
        return kept_of_roll(self.facts, self.roll.disks.earlier, is_over=not self.roll.is_active)

    def decided(self, decision: Decision, status: Status) -> Status:
        """A consent is spent before it is used: `status.rollout` has what this roll was given, and no other roll."""
        breaks = self.roll.breaks.consents if restarted_by(decision) is not None else frozenset[str]()
        if used := spent_by(decision, self.part.excused) | breaks:
            status = replace(status, spent_consents=tuple(sorted({*status.spent_consents, *used})))
        return with_requests(self.roll, self.facts, decision, status)

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with the workloads, and how far the roll is."""
        topics = self.part.excused.topics if self.part.excused is not None else None
        rollout = rollout_status(self.roll, decision, previous.rollout, self.facts.stamp, topics)
        if restarted_by(decision) is not None:
            rollout = with_breaks(rollout, self.roll.breaks)
        return replace(status, workloads=workload_statuses(self.facts.observation, previous), rollout=rollout)

    def conditions(self, decision: Decision) -> Conditions:
        """Condition that every node runs what it should."""
        return {Condition.NODES_ROLLED: nodes_rolled(self.roll, decision)}


class Rolls:
    """The kind of stage that restarts nodes."""

    kind: ClassVar[str] = ROLL

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], desired: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether the document no longer has the operator restart these pods, or their templates are others by
        now.
        """
        rollout = desired.rollout
        if not driver_of(rollout).reads_pods:
            return True
        set_names = {*rollout.brokers, *rollout.controllers}
        sets = () if isinstance(workloads, Failure) else workloads.stateful_sets
        update_revisions = {stateful_set.name: stateful_set.update_revision for stateful_set in sets}
        targets = [revisions_in(stage.target) for stage in stages]
        return any(not target.keys() <= set_names for target in targets) or not any(
            all(update_revisions.get(name, revision) == revision for name, revision in target.items())
            for target in targets
        )

    def demands(self, read_context: ReadContext) -> ReadRequirements:
        """All partitions, where restarts are under way, or about to be."""
        return ReadRequirements(partitions=_needs_partitions(read_context))

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> RollProposal:
        """The pods that are not at the update revisions of their StatefulSets."""
        if is_left_to_migration(facts.desired, facts.observation):
            return RollProposal({}, is_left=True)
        if is_left_to_ibp(facts.desired, facts.observation):
            return RollProposal(pods_in(without_requests(facts.observation)), is_left=True)
        wanted, replication = facts.desired, facts.replication
        consents = replication is not None and SINGLE_REPLICA_TOPICS in wanted.consents
        excused, is_known = excused_now(
            wanted,
            facts.observation,
            facts.memory,
            changes=changes_in(later),
            unavailable=replication.never_available() if replication is not None and consents else None,
        )
        planned = as_planned(excused.topics if excused is not None else None)
        if not is_known:  # as it was
            standing = facts.memory.plan if facts.observation.shows_levels else None
            planned = as_planned(excused_in(standing.stages) if standing is not None else None)
        return RollProposal(pods_in(facts.observation), excused, planned)

    def judge(self, facts: StageInput, proposal: Proposal) -> RollState | None:
        """Judge what there is to restart; None where no driver restarts nodes, and none is in flight, or where a
        migration, or an inter.broker.protocol.version, decides on it.
        """
        if is_left_to_migration(facts.desired, facts.observation) or is_left_to_ibp(facts.desired, facts.observation):
            return None
        if not facts.ours or not (facts.restarts or is_restarting(facts)):
            return None
        from kafkafeatures.core.roll.roll import roll_of

        part = next(part for part in proposal.parts if isinstance(part, RollProposal))
        changes, remembered = changes_in(proposal.parts), remembered_of(facts)
        roll = roll_of(facts.desired, facts.observation, changes, remembered, facts.replication, excused=part.excused)
        return RollState(facts, part, roll, changes)


def with_requests(roll: Roll, facts: StageInput, decision: Decision, status: Status) -> Status:
    """The status with since when an eviction that may not have been sent is not asked for. It is asked for again as
    long as nothing forbids it; what is forbidden for longer than it can be on its way ends, and no other node waits for
    it. And with the consents that new disks have used up: these are the disks of before by now.
    """
    if used := roll.disks.used:
        status = replace(status, spent_consents=tuple(sorted({*status.spent_consents, *used})))
    for restart in roll.in_flight:
        if restart.may_be_unsent or restart.step.is_not_wanted(facts.observation):
            again = isinstance(decision, Act) and decision.step == restart.step
            status = remembering(status, restart.sent_step, restart.sent_step.with_request(facts.stamp, again=again))
    return status


def spent_by(decision: Decision, excused: ExcusedTopics | ExcusedPartitions | None) -> frozenset[str]:
    """The consents that a restart rests on: one is spent with the first, whether or not its topics suffer from it."""
    return decision.step.consents_of_plan if excused is not None and isinstance(decision, Act) else frozenset()


def restarted_by(decision: Decision) -> int | None:
    """The node that it restarts."""
    return decision.step.node_id if isinstance(decision, Act) and isinstance(decision.step, RestartNode) else None


def unverified_of(roll: Roll | None, planned: ExcusedTopics | None, facts: StageInput) -> tuple[str, ...]:
    """The consents to restarts that are still to be made which may have been used before the status began.

    `planned`: what they make unavailable.
    """
    if roll is None or not roll.needing:
        return ()
    quorum = facts.observation.quorum
    voters = [voter.id for voter in quorum.value.voters] if isinstance(quorum, Known) else []
    used = {SINGLE_REPLICA_TOPICS} if planned is not None else set[str]()
    if len(voters) == 1 and voters[0] in roll.needing:
        used.add(QUORUM_OF_ONE)
    used |= roll.breaks.consents
    return unverified_among(used, facts.memory.unverified, facts.memory.spent)


def is_restarting(facts: StageInput) -> bool:
    """Tell whether a restart was begun whose end was not seen yet."""
    return any(isinstance(intent, RestartInFlight) for intent in facts.in_flight)


def permitted_roll(facts: StageInput, permit: Permit, *, excused: ExcusedTopics | None) -> Roll | None:
    """The restarts of nodes that another stage needs, and those in flight; None where there are none, or no driver
    restarts nodes from here. `excused`: what they may make unavailable, by a consent to the plan of that stage.
    """
    disks = disks_before(facts)
    has_lost_one = any(is_on_new_disk(disks.get(node.id, frozenset()), node) for node in facts.observation.nodes)
    if not is_restarting(facts) and not (permit.needing and facts.restarts) and not has_lost_one:
        return None
    from kafkafeatures.core.roll.roll import roll_of

    excuse, remembered = (
        ExcusedPartitions(excused, is_for_all=True) if excused is not None else None,
        remembered_of(facts),
    )
    return roll_of(facts.desired, facts.observation, (), remembered, facts.replication, excused=excuse, permit=permit)


def _needs_partitions(read_context: ReadContext) -> bool:
    wanted, status = read_context.desired, read_context.status
    if any(intent.kind == RestartNode.kind for intent in status.intents):
        return True
    if _waits_for_people(read_context):
        return False
    if driver_of(wanted.rollout).asks_people:
        if status.rollout is not None and status.rollout.is_in_progress:
            return True  # not read twice, without them and with them
        return read_context.observation is not None and _asks_people(wanted, read_context.observation)
    return not isinstance(read_context.workloads, Failure) and any(
        not pod.stays_at(stateful_set.update_revision)
        for stateful_set in read_context.workloads.stateful_sets
        for pod in stateful_set.pods
    )


def _asks_people(desired: DesiredState, observation: Observation) -> bool:
    """Tell whether a person has to restart a node, which is known only once the cluster was read."""
    if isinstance(observation.finalized, Unknown):
        return False
    changes = changes_between(desired.desired(observation.finalized.value), observation.finalized.value)
    return driver_of(desired.rollout).targets(observation, changes) != frozenset()


def _waits_for_people(read_context: ReadContext) -> bool:
    """Tell whether no node may be restarted for hours, and the status has what the roll needs. Few clusters may have
    their partitions in memory: who waits for an approval or for a night must not keep others from it.
    """
    wanted, rollout = read_context.desired, read_context.status.rollout
    if rollout is None or not rollout.is_in_progress or not rollout.notes:
        return False
    unapproved = wanted.policy is ApprovalPolicy.ALWAYS and not wanted.approvals
    closed = (
        bool(wanted.rollout.windows) and closed_until(wanted.rollout.windows, read_context.current_time) is not None
    )
    return wanted.mode is Mode.OBSERVE or wanted.suspend or unapproved or closed


def changes_in(parts: tuple[StageProposal, ...]) -> tuple[UpdateFeature, ...]:
    """Levels that are to be moved, before or after: nodes must be able to hold them."""
    return next((part.changes for part in parts if isinstance(part, LevelsProposal)), ())
