"""State of a migration in one reconciliation: its next step, and what prevents it.

Pure. Made by `core/migration/stage.py`, whose docstring has the algorithm; this module puts its parts together. The
position that steps rest on comes from this reconciliation's readings (`core/migration/positions.py`), never from a
status. Nodes are restarted by the code of rolls (`core/roll/`) with a permit. The operator changes no settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kafkafeatures.api.names import ZK_FINALIZE
from kafkafeatures.api.reasons import BlockerKind, Condition, Reason
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import ConsentRequest, ExcusedTopics, MigrationStatus, Result, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.approval import hold_until_approved
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.consents import spend, unverified_among
from kafkafeatures.core.engine.costs import without_marks
from kafkafeatures.core.engine.decisions import Act, Decision, Stalled, Wait, blocked, stalled_by
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, Migration
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.plan import Plan
from kafkafeatures.core.engine.stage import Conditions, Next, StageMemory, StageState
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.facts.observation import Known, NodeState, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration import checks, finalize
from kafkafeatures.core.migration.check_input import EdgeCheckInput
from kafkafeatures.core.migration.checks import lag_of
from kafkafeatures.core.migration.consents import consents_of_plan, with_consents_of_plan, with_spent
from kafkafeatures.core.migration.edges import FINALIZE, RELEASE, STOP_CONTROLLERS
from kafkafeatures.core.migration.last_comparison import last_comparison, later
from kafkafeatures.core.migration.losses import given_up, requested_by, with_consentable
from kafkafeatures.core.migration.memory import DualWrite, MigrationMemory
from kafkafeatures.core.migration.not_desired import MIGRATION, NO_CONTROLLER, UNLED
from kafkafeatures.core.migration.positions import Misplaced, Position
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.proposal import MigrationProposal
from kafkafeatures.core.migration.release import deletion
from kafkafeatures.core.migration.report import migration_settled, with_migration
from kafkafeatures.core.migration.requests import reached, wait_for_git, wait_for_person
from kafkafeatures.core.migration.restarts import permit_for, template_ahead, wrongly_restarted
from kafkafeatures.core.migration.stopped import unreachable
from kafkafeatures.core.migration.takeover import wait_for_quorum
from kafkafeatures.core.migration.unplaced import CONTRADICTS_FOR, unplaced
from kafkafeatures.core.roll.remembered import kept_of_roll
from kafkafeatures.core.roll.report import nodes_rolled, rollout_status, without_restarts, workload_statuses
from kafkafeatures.core.roll.stage import permitted_roll, restarted_by, spent_by, unverified_of, with_requests
from kraftlog.image import ZkMigrationState

if TYPE_CHECKING:
    from kafkafeatures.core.roll.roll import Roll


class MigrationState(StageState, frozen=True):
    """State of the migration.

    facts, wish: the readings of this reconciliation, and the migration that the document asks for.
    progress: position of the cluster, or the reason why it is not known.
    memory: memory of this process, with the readings of this reconciliation.
    roll: restarts for the next position; None if there are none, or the document has no driver that restarts nodes.
    excused: topics that all restarts of the migration may make unavailable, by a consent.
    is_approved: exactly this plan was approved.
    dual_write: duration of dual write; None: not known.
    """

    kind: ClassVar[str] = MIGRATION

    facts: StageInput
    wish: Migration
    progress: MigrationProgress | Misplaced | Failure
    memory: MigrationMemory
    roll: Roll | None = None
    excused: ExcusedTopics | None = None
    is_approved: bool = False
    dual_write: DualWrite | None = None

    @property
    def is_due(self) -> bool:
        """Tell whether the cluster is not where the document wants it, or must not stay there."""
        progress = self.progress
        if not isinstance(progress, MigrationProgress) or not progress.is_at_goal or self.work_in_flight is not None:
            return True
        return bool(self.blockers)

    @property
    def work_in_flight(self) -> tuple[Reason, str] | None:
        return (Reason.MIGRATING, self.roll.titles_in_flight) if self.roll is not None and self.roll.in_flight else None

    @property
    def outlook(self) -> str:
        """Message about the way that would be taken, and what prevents it."""
        if not isinstance(self.progress, MigrationProgress):
            return str(self.progress)
        would = f"would continue from {self.progress.position} to {self.wish.desired}"
        decision = self.blocked or self.next
        return would if isinstance(decision, Act) else f"{would}; now: {decision.message}"

    @cached_property
    def blockers(self) -> tuple[Blocker, ...]:
        """All that prevents the next step."""
        check_input = self._check_input
        if check_input is None:
            return self._unplaced
        progress = check_input.progress
        no_way = progress.no_way
        if no_way is not None:
            blocker = Blocker(BlockerKind.MIGRATION, no_way.message, no_way.remedy, reason=Reason.MIGRATION_BLOCKED)
            return (*finalize.unasked(progress, may_begin=False), blocker)
        blockers, flying = checks.blockers(check_input), check_input.flying
        fleet = self.roll.fleet if self.roll is not None else None
        pods = frozenset(restart.step.pod for restart in self.roll.in_flight) if self.roll is not None else frozenset()
        soaks = self.soaking is not None
        finalizes = finalize.may_begin(progress, blockers, soaks=soaks, is_approved=self.is_approved)
        unasked = finalize.unasked(progress, may_begin=finalizes)
        is_asked_of_git = ZK_FINALIZE in self._own_consents and not soaks
        # Controllers may have a new template once Git was asked for it, even if a blocker has come up since.
        begins = finalizes or is_asked_of_git or progress.way is not FINALIZE
        ahead = template_ahead(progress, self.facts.observation, pods, may_begin=begins)
        return (*unasked, *blockers, *ahead, *wrongly_restarted(progress, fleet, flying))

    @property
    def _unplaced(self) -> tuple[Blocker, ...]:
        """Blocker for the unknown position of the cluster; empty if it is known."""
        progress = self.progress
        if isinstance(progress, Failure):
            return (Blocker(BlockerKind.ZOOKEEPER, progress.message, progress.action, about=progress.subject),)
        if isinstance(progress, Misplaced):
            return (Blocker(BlockerKind.MIGRATION, progress.message, progress.remedy, about=progress.subject),)
        return ()

    @property
    def _flying(self) -> frozenset[int]:
        """Ids of nodes that are being restarted."""
        return self.roll.flying if self.roll is not None else frozenset()

    @cached_property
    def _check_input(self) -> EdgeCheckInput | None:
        """Input of the checks; None while the position of the cluster is not known."""
        progress, monotonic = self.progress, self.facts.monotonic
        if not isinstance(progress, MigrationProgress):
            return None
        check_input = EdgeCheckInput(
            progress, self.facts.desired.consents, self._spent, self._flying, self.facts.replication,
            lag_of(progress, self.memory.lag(monotonic)), self._compared(progress),
            progress.way is not FINALIZE or (self.soaking is None and self.is_approved),
            self.memory.still_for(monotonic), self.memory.controllers_for(monotonic), self.memory.is_written(monotonic),
            frozenset(self.facts.desired.rollout.controllers), self.memory.equality, self._status.voters,
            self._status.requested,
        )  # fmt: skip
        return with_consentable(check_input)

    @property
    def _status(self) -> MigrationStatus:
        """Status of the migration as this reconciliation began with it."""
        return self.facts.remembered.migration or MigrationStatus()

    @property
    def _requested(self) -> tuple[ConsentRequest, ...]:
        """Requests for consents that are needed now; while the position is not known, those of the status."""
        return (
            self._status.requested if self._check_input is None else requested_by(self._check_input, self.facts.stamp)
        )

    def _compared(self, progress: MigrationProgress) -> StoreComparison | None:
        """The last comparison, if recent; before the controllers stop, also only if no later one has failed."""
        if progress.way is STOP_CONTROLLERS and self.memory.has_failed:
            return None
        return self.memory.comparison(self.facts.monotonic)

    @property
    def _spent(self) -> frozenset[str]:
        """Consents that were used for something else than this plan."""
        return self.facts.memory.spent - self._own_consents

    @property
    def _own_consents(self) -> frozenset[str]:
        """Consents that this plan has spent, and can still rely on."""
        return consents_of_plan(self.facts, self.wish.desired)

    @property
    def blocked(self) -> Wait | Stalled | None:
        blockers = self.blockers
        if not blockers:
            return None
        if isinstance(self.progress, MigrationProgress):
            if self.progress.no_way is not None:
                silent = unreachable(self.progress, self.memory, self.facts.monotonic, CONTRADICTS_FOR)
                return silent or stalled_by(*blockers)
            waits = blocked(blockers)
            if isinstance(waits, Wait) and self.progress.way is RELEASE:  # no partition gets a new leader meanwhile
                return replace(waits, delay=1.0, steady=True)
            return waits
        if isinstance(self.progress, Misplaced) and (away := self._away) is not None:
            return away
        since, goes_back = self.memory.unknown_since, self.wish.desired is Desired.ROLLED_BACK
        unknown_for = 0.0 if since is None else self.facts.monotonic - since
        return unplaced(self.progress, blockers, unknown_for=unknown_for, goes_back=goes_back)

    @property
    def _away(self) -> Wait | Stalled | None:
        """Decision of the roll, if only nodes that are being restarted and do not answer keep the position unknown;
        else None. A roll waits for at most `rollout.nodeTimeout`, but for a person without a limit.
        """
        if not isinstance(self.progress, Misplaced) or self.roll is None or isinstance(self.roll.decision, Act | None):
            return None
        if not self.progress.silent or not self._flying.issuperset(self.progress.silent):
            return None
        decision = self.roll.decision
        if isinstance(decision, Wait) and all(restart.is_asked_of_a_person for restart in self.roll.in_flight):
            text = f"waiting for {self.roll.titles_in_flight} to answer, on which the phase depends"
            return replace(decision, message=text)
        return decision

    @property
    def soaking(self) -> Wait | None:
        """Wait until dual write, from which there is a way back, was kept for as long as the document says."""
        if not isinstance(self.progress, MigrationProgress):
            return None
        return finalize.soaking(self.progress, self.wish, self.dual_write)

    @property
    def needs_approval(self) -> bool:
        """Tell whether the policy is Always, or the migration is to be finalized, which is irreversible."""
        return self.wish.desired is Desired.FINALIZED or self.facts.desired.policy is ApprovalPolicy.ALWAYS

    @property
    def unverified(self) -> tuple[str, ...]:
        """Unverified consents that the next step needs."""
        memory = self.facts.memory
        used = checks.consents_used(self._check_input) if self._check_input is not None else frozenset[str]()
        of_restarts = unverified_of(self.roll, without_marks(self.excused), self.facts)
        return (*unverified_among(used, memory.unverified, memory.spent), *of_restarts)

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether the next step is not delayed by maintenance windows, which are for restarts alone."""
        return not isinstance(self.next, Act) or self.next.step.goes_at_any_time

    @cached_property
    def next(self) -> Next:
        """The next step; or a wait for the quorum, for restarts, for Git, or for a person."""
        if not isinstance(self.progress, MigrationProgress):
            return self.blocked or blocked(self.blockers)
        quorum = wait_for_quorum(self.progress)
        restarts = self.roll is not None and bool(self.roll.in_flight)
        if quorum is not None and (self.progress.position is Position.COPYING or not restarts):
            return quorum
        deletes = self.progress.way is not None and self.progress.way.deletes  # the deletion does not wait for restarts
        if self.roll is not None and not deletes and (decision := self.roll.decision) is not None:
            if isinstance(decision, Wait) and (node_id := self.roll.asked_of_a_person) is not None:
                return wait_for_person(self.progress, decision, node_id)
            return decision
        if self.progress.way is None:
            return reached(self.progress, self.wish.desired, self._status)
        return deletion(self.progress) or wait_for_git(self.progress)

    @property
    def approval_reason(self) -> Reason:
        return Reason.MIGRATION_FINALIZE if self.wish.desired is Desired.FINALIZED else Reason.PLAN_PENDING

    @property
    def meanwhile(self) -> str:
        """Loss while the cluster has no controller: it serves what it has, until a leader fails."""
        position = (
            self.progress.position.value if isinstance(self.progress, MigrationProgress) else self._status.position
        )
        return UNLED if position == NO_CONTROLLER else ""

    @property
    def withdrawn(self) -> Sequence[tuple[InFlight, str]]:
        """Restarts that a person must not carry out now, or does not have to."""
        if self.roll is None:
            return ()
        reason = finalize.withdrawal_reason(self.progress, self.blockers, self.soaking, is_approved=self.is_approved)
        restarts = (restart for restart in self.roll.in_flight if restart.is_asked_of_a_person)
        # A node that is not live may be stopping just now: the person has begun.
        live = {node.id for node in self.facts.observation.nodes if node.state is NodeState.LIVE}
        return (
            *self.roll.withdrawn,
            *((restart.sent_step, reason) for restart in restarts if reason and restart.step.node_id in live),
        )

    @property
    def over(self) -> Sequence[tuple[InFlight, Result]]:
        """Restarts that need not be waited for on a way that restarts no node."""
        return self.roll.over if self.roll is not None else ()

    @property
    def unneeded(self) -> frozenset[int]:
        """Ids of nodes that are not expected to come back: controllers that are to stop, and brokers given up."""
        if self._check_input is None:
            return frozenset()
        facts = self._check_input.progress.facts
        controllers = {*facts.controllers, *(voter.node_id for voter in self._status.voters)}
        return frozenset(controllers - facts.brokers.keys()) | given_up(self._check_input)

    @property
    def stage_memory(self) -> Mapping[str, StageMemory]:
        """Memory of the migration and of its restarts, by kind."""
        disks = self.roll.disks.earlier if self.roll is not None else None
        return {MIGRATION: self.memory, **kept_of_roll(self.facts, disks, is_over=self._is_rolled)}

    @property
    def _is_rolled(self) -> bool:
        """Tell whether it is certain that no node is left to restart on this way."""
        if self.roll is not None:
            return False
        return not self.is_due or (
            isinstance(self.progress, MigrationProgress) and not permit_for(self.progress).unknown
        )

    def remembered(self, status: Status) -> Status:
        """The status with the consent spent once the migration is over: left in Git, it covers no later migration."""
        over = (
            isinstance(self.progress, MigrationProgress)
            and self.progress.facts.state is ZkMigrationState.POST_MIGRATION
        )
        if not over or ZK_FINALIZE not in self.facts.desired.consents:
            return status
        return spend(status, frozenset({ZK_FINALIZE}))

    def decided(self, decision: Decision, status: Status) -> Status:
        """The status to be written before the decision is carried out: needed consents are spent, and controllers that
        are asked to lose the flag are listed.
        """
        status = with_requests(self.roll, self.facts, decision, status) if self.roll is not None else status
        return finalize.with_asked(with_spent(status, self._used(decision)), self._asked_controllers(decision))

    def _asked_controllers(self, decision: Decision) -> tuple[int, ...]:
        return finalize.asked_by(self.progress, self._flying, restarted_by(decision))

    def _used(self, decision: Decision) -> frozenset[str]:
        asks = isinstance(decision, Wait) and decision.reason is Reason.WAITING_FOR_GIT
        if self._check_input is None or not (isinstance(decision, Act) or asks):
            return frozenset()
        return checks.consents_used(self._check_input) | spent_by(decision, self.excused)

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with the progress of the migration and of its restarts."""
        status = with_migration(
            status, self.progress, self.wish, previous, self.facts, flying=self._flying, equality=self.memory.equality,
            dual_write=self.dual_write, requested=self._requested, asked=self._asked_controllers(decision),
        )  # fmt: skip
        status = with_consents_of_plan(status, self._own_consents | self._used(decision), is_over=not self.is_due)
        if self.roll is None:  # the list of restarted nodes is kept while the position is not known
            return replace(status, rollout=without_restarts(previous.rollout, is_known=self._is_rolled))
        rollout = rollout_status(self.roll, decision, previous.rollout, self.facts.stamp, without_marks(self.excused))
        if rollout is not None and previous.rollout is not None and not isinstance(self.progress, MigrationProgress):
            rollout = replace(rollout, done=previous.rollout.done)  # it is not known which nodes remain
        return replace(status, workloads=workload_statuses(self.facts.observation, previous), rollout=rollout)

    def conditions(self, decision: Decision) -> Conditions:
        """Conditions MigrationSettled and, during restarts, NodesRolled."""
        conditions = {Condition.MIGRATION_SETTLED: migration_settled(self.progress)}
        if self.roll is not None:
            conditions[Condition.NODES_ROLLED] = nodes_rolled(self.roll, decision)
        return conditions


def migration_now(facts: StageInput, part: MigrationProposal, plan: Plan) -> MigrationState | None:
    """State of the migration; None if another cluster answers. `plan`: the plan that an approval has to name."""
    wish, progress = facts.desired.migration, part.progress
    if wish is None or not facts.ours:
        return None
    monotonic, previous = facts.monotonic, facts.stage_memory.get(MIGRATION)
    cluster = progress.cluster_id if isinstance(progress, MigrationProgress) else ""
    memory = previous if isinstance(previous, MigrationMemory) and previous.may_be_of(cluster) else MigrationMemory()
    offset = progress.facts.offset if isinstance(progress, MigrationProgress) else -1
    nodes, comparison, migration = facts.observation.nodes, facts.observation.compared, facts.remembered.migration
    last = later(memory.equality, migration.equality if migration is not None else None)
    dual_write = finalize.dual_write_of(
        facts.observation.last_registration, facts.current_time, monotonic, memory.dual_write, migration
    )
    memory = memory.observed(
        monotonic, known=isinstance(progress, MigrationProgress), end=facts.observation.source.offset, offset=offset,
        compared=comparison.value if isinstance(comparison, Known) else None,
        tried=None
        if isinstance(comparison, Unknown) and comparison.failure.kind is FailureKind.NOT_ASKED
        else facts.observation.at,
        controllers=any(Role.CONTROLLER in node.roles and isinstance(node.answer, Known) for node in nodes),
        equality=last_comparison(progress, facts.observation, last), cluster=cluster, dual_write=dual_write,
    )  # fmt: skip
    approved = hold_until_approved(facts.desired, plan, waits=True) is None
    # Without the roll at first: its permit depends on `unneeded`, which does not depend on the roll.
    stage = MigrationState(facts, wish, progress, memory, None, part.excused, approved, dual_write)
    roll = permitted_roll(facts, permit_for(progress, stage.unneeded), excused=part.excused)
    return replace(stage, roll=roll) if roll is not None else stage
