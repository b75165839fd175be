"""The kind of stage that rolls nodes: what it has to read, what it proposes for the plan, and its next restart.

Pure. Registered in `core/kinds.py`, and called by the engine in every reconciliation. The decision itself is made in
`core/roll/roll.py`, which judges partitions by numpy: it is imported only once nodes are restarted, so that other
documents start faster. The stages of migrations and of the inter.broker.protocol.version call it too: they restart
nodes through `permitted_roll`.
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
from kafkafeatures.core.engine.consents import spend, unverified_among
from kafkafeatures.core.engine.costs import excused_in, without_marks
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
from kafkafeatures.core.roll.asked import may_be_pending
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
"""Kinds of blockers of levels that stay, however many nodes are restarted."""


class RollState(StageState, frozen=True):
    """State of a roll in one reconciliation.

    facts: everything that was read and is remembered.
    part: the proposal of this roll in the plan.
    roll: nodes that need a restart, and the decision about the next one.
    changes: levels that are still to be changed.
    """

    kind: ClassVar[str] = ROLL

    facts: StageInput
    part: RollProposal
    roll: Roll
    changes: tuple[UpdateFeature, ...] = ()

    @property
    def is_due(self) -> bool:
        """Tell whether the roll goes before the levels: it has a next restart, or waits for one. False where a level
        must be downgraded first.
        """
        return self.roll.decision is not None

    @property
    def work_in_flight(self) -> tuple[Reason, str] | None:
        return (Reason.ROLLING_NODES, self.roll.titles_in_flight) if self.roll.in_flight else None

    @property
    def summary_rank(self) -> SummaryRank:
        """Lowest rank: a document asks for levels or a migration, and restarts only serve these."""
        return SummaryRank.NOTHING_WANTED

    @property
    def outlook(self) -> str:
        """Number of nodes that it would restart, and what it waits for, in words."""
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
        """Halt of the roll until a user acts. A `Wait` is not among these: it ends by itself, and the plan can be
        approved meanwhile.
        """
        return self.next if isinstance(self.next, Stalled) else self._blocked_later()

    def _blocked_later(self) -> Stalled | None:
        """Halt before the first restart, if a level that follows the roll has a blocker that no restart cures: the
        roll would be in vain. A node that does not run is restarted all the same.
        """
        step, rollout = self.next.step if isinstance(self.next, Act) else None, self.facts.remembered.rollout
        has_begun = rollout is not None and rollout.is_in_progress and rollout.restarted > 0
        if has_begun or self.roll.in_flight or not isinstance(step, RestartNode):
            return None
        node, desired = self.facts.observation.node(step.node_id), self.facts.desired
        if node is None or node.state is not NodeState.LIVE:
            return None
        inputs = LevelCheckInput(
            self.facts.observation, self.changes, consents=desired.consents, spent=self.facts.memory.spent,
            cluster_flags=desired.cluster_flags,
        )  # fmt: skip
        lasting_blockers = tuple(blocker for blocker in blockers(inputs) if blocker.kind in NO_RESTART_CURES)
        halt = blocked(lasting_blockers) if lasting_blockers else None
        return (
            replace(halt, message=f"{halt.message}; {lasting_blockers[0].remedy}")
            if isinstance(halt, Stalled)
            else None
        )

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether the next restart may be made outside of the windows: where no partition has a leader,
        restarting a stuck node makes nothing worse.
        """
        return self.roll.goes_at_any_time

    @property
    def unverified(self) -> tuple[str, ...]:
        return unverified_of(self.roll, self.part.planned, self.facts)

    @property
    def needs_approval(self) -> bool:
        """Tell whether a restart needs an approval: only with the policy Always, as a restart can be undone, whatever
        levels the plan changes afterwards.
        """
        return self.facts.desired.policy is ApprovalPolicy.ALWAYS

    @cached_property
    def next(self) -> Next:
        """The next restart, or what the roll waits for, or that all nodes are current."""
        roll = self.roll
        return roll.decision or Done(Reason.ALL_CURRENT, f"all {roll.total} nodes are current")

    @property
    def withdrawing(self) -> Sequence[RestartNode]:
        """Restarts whose request waits for another operator, and is to be taken from the pod."""
        return self.roll.withdrawing

    @property
    def withdrawn(self) -> Sequence[tuple[InFlight, str]]:
        return self.roll.withdrawn

    def remembered(self, status: Status) -> Status:
        """The status in which the consent `single-replica-topics` is spent, if the roll has ended."""
        if self.roll.is_active or status.rollout is None or not status.rollout.is_in_progress:
            return status
        return spend(status, self.facts.desired.consents & {SINGLE_REPLICA_TOPICS})

    @property
    def stage_memory(self) -> Mapping[str, StageMemory]:
        """Disks that the nodes had earlier in this roll, and since when each node is up."""
        return kept_of_roll(self.facts, self.roll.disks.earlier, is_over=not self.roll.is_active)

    def decided(self, decision: Decision, status: Status) -> Status:
        """The status in which the consents of the next restart are spent, which is written before the restart is sent.
        From then on only this roll has them, by `status.rollout`.
        """
        breaks = self.roll.breaks.consents if restarted_by(decision) is not None else frozenset[str]()
        status = spend(status, spent_by(decision, self.part.excused) | breaks)
        return with_requests(self.roll, self.facts, decision, status)

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with `workloads` and `rollout`."""
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
        """Tell whether these planned rolls are void: the document no longer has the operator restart their pods, or
        none of them leads to the present revisions, as a template has changed since.
        """
        rollout = desired.rollout
        if not driver_of(rollout).reads_pods:
            return True
        if not driver_of(rollout).restarts_outdated:
            return any(revisions_in(stage.target) for stage in stages)
        set_names = {*rollout.brokers, *rollout.controllers}
        sets = () if isinstance(workloads, Failure) else workloads.stateful_sets
        update_revisions = {stateful_set.name: stateful_set.update_revision for stateful_set in sets}
        targets = [revisions_in(stage.target) for stage in stages]
        return any(not target.keys() <= set_names for target in targets) or not any(
            all(update_revisions.get(name, revision) == revision for name, revision in target.items())
            for target in targets
        )

    def demands(self, read_context: ReadContext) -> ReadRequirements:
        """All partitions, if a node is in flight or may be restarted next; else nothing."""
        return ReadRequirements(partitions=_needs_partitions(read_context))

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> RollProposal:
        """The pods that are not at the update revisions of their StatefulSets."""
        if is_left_to_migration(facts.desired, facts.observation):
            return RollProposal({}, is_left_to_others=True)
        if is_left_to_ibp(facts.desired, facts.observation):
            return RollProposal(pods_in(without_requests(facts.observation)), is_left_to_others=True)
        desired, replication = facts.desired, facts.replication
        has_consent = replication is not None and SINGLE_REPLICA_TOPICS in desired.consents
        excused, is_known = excused_now(
            desired,
            facts.observation,
            facts.memory,
            changes=changes_in(later),
            unavailable=replication.never_available() if replication is not None and has_consent else None,
        )
        planned = without_marks(excused.topics if excused is not None else None)
        if not is_known:  # the plan keeps the topics that it showed, so that its hash stays the same
            standing = facts.memory.plan if facts.observation.shows_levels else None
            planned = without_marks(excused_in(standing.stages) if standing is not None else None)
        return RollProposal(pods_in(facts.observation), excused, planned)

    def judge(self, facts: StageInput, proposal: Proposal) -> RollState | None:
        """Judge what there is to restart. None where no driver restarts nodes and none is in flight, and where the
        stage of a migration or of the inter.broker.protocol.version decides on restarts.
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
    """The status with the evictions that may be unsent, and with the consents to new disks that are spent.

    An eviction whose old pod still runs is sent again as long as the checks allow it. Otherwise its intent notes since
    when it was not repeated: once that is longer than a request can be on its way, the restart ends
    (`RestartInFlight.settle`), and no other node waits for it any more.
    """
    status = spend(status, roll.disks.used)
    for restart in roll.in_flight:
        if restart.may_be_unsent or restart.step.is_not_wanted(facts.observation):
            repeats = may_be_pending(restart.sent_step, facts.observation) or (
                isinstance(decision, Act) and decision.step == restart.step
            )
            status = remembering(
                status, restart.sent_step, restart.sent_step.with_request(facts.stamp, repeats=repeats)
            )
    return status


def spent_by(decision: Decision, excused: ExcusedTopics | ExcusedPartitions | None) -> frozenset[str]:
    """Consents that the next restart spends: with the first restart of a roll, whether or not it makes one of the
    excused topics unavailable.
    """
    return decision.step.consents_of_plan if excused is not None and isinstance(decision, Act) else frozenset()


def restarted_by(decision: Decision) -> int | None:
    """Id of the node that this decision restarts; None if it restarts none."""
    return decision.step.node_id if isinstance(decision, Act) and isinstance(decision.step, RestartNode) else None


def unverified_of(roll: Roll | None, planned: ExcusedTopics | None, facts: StageInput) -> tuple[str, ...]:
    """Consents that remaining restarts use, and that may have been used before: an earlier status, which would show
    that, may be lost.

    planned: topics that these restarts make unavailable.
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
    """Tell whether a restart is in flight."""
    return any(isinstance(intent, RestartInFlight) for intent in facts.in_flight)


def permitted_roll(facts: StageInput, permit: Permit, *, excused: ExcusedTopics | None) -> Roll | None:
    """The roll that the stage of a migration or of the inter.broker.protocol.version needs; None where no restart is
    due or in flight, and no node has lost its disk. `excused`: topics that it may make unavailable, by a consent to the
    plan of that stage.
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
    """Tell whether a node is in flight, or may be restarted next."""
    desired, status = read_context.desired, read_context.status
    if any(intent.kind == RestartNode.kind for intent in status.intents):
        return True
    if _is_held_by_people(read_context):
        return False
    if driver_of(desired.rollout).asks_people:
        if status.rollout is not None and status.rollout.is_in_progress:
            return True  # else the cluster would be read twice: without its partitions, then with them
        return read_context.observation is not None and _asks_people(desired, read_context.observation)
    return not isinstance(read_context.workloads, Failure) and any(
        stateful_set.is_to_restart(pod)
        for stateful_set in read_context.workloads.stateful_sets
        for pod in stateful_set.pods
    )


def _asks_people(desired: DesiredState, observation: Observation) -> bool:
    """Tell whether a person has to restart a node, which is known only once the cluster was read."""
    if isinstance(observation.finalized, Unknown):
        return False
    changes = changes_between(desired.desired(observation.finalized.value), observation.finalized.value)
    return driver_of(desired.rollout).targets(observation, changes) != frozenset()


def _is_held_by_people(read_context: ReadContext) -> bool:
    """Tell whether the roll waits for an approval, a window or the end of a suspension, and the status already has its
    notes, which are worked out from the partitions. Memory has room for the partitions of few clusters at a time: a
    roll that waits for hours must not take that room from other clusters.
    """
    desired, rollout = read_context.desired, read_context.status.rollout
    if rollout is None or not rollout.is_in_progress or not rollout.notes:
        return False
    unapproved = desired.policy is ApprovalPolicy.ALWAYS and not desired.approvals
    closed = (
        bool(desired.rollout.windows) and closed_until(desired.rollout.windows, read_context.current_time) is not None
    )
    return desired.mode is Mode.OBSERVE or desired.suspend or unapproved or closed


def changes_in(parts: tuple[StageProposal, ...]) -> tuple[UpdateFeature, ...]:
    """Levels that the plan changes, before the roll or after it."""
    return next((part.changes for part in parts if isinstance(part, LevelsProposal)), ())
