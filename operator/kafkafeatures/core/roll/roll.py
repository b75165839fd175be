"""The roll: which nodes need a restart, which are in flight, and what comes next.

Pure. Called by `core/roll/stage.py` in every reconciliation of a resource with a workload driver, with readings of
that moment; nothing of it is kept but `status.intents` and `status.rollout`. One restart is decided at a time, each on
its own reading: a sliding window, never a batch. Safety never depends on the order in which nodes are tried.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import Result, RevisionStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.windows import closed_until, opening
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.admission import forbidden_by, refusal_of
from kafkafeatures.core.roll.check_input import RestartCheckInput, Restarting
from kafkafeatures.core.roll.checks import FOR_ANY_NODE, FOR_ONE_MORE, refusal
from kafkafeatures.core.roll.coming_back import ReturnPhase, is_unregistered
from kafkafeatures.core.roll.disks import NodeDisks, disks_now
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.core.roll.halts import nothing_is_halted
from kafkafeatures.core.roll.held_levels import levels_go_first
from kafkafeatures.core.roll.lagging import brokers_behind
from kafkafeatures.core.roll.limits import RollLimits, limits_of
from kafkafeatures.core.roll.migrations import no_migration_is_open
from kafkafeatures.core.roll.next_restart import Next, next_restart, to_free
from kafkafeatures.core.roll.permit import Permit, without_requests
from kafkafeatures.core.roll.pods import Fleet
from kafkafeatures.core.roll.remembered import RollContext
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.revisions import revisions_after
from kafkafeatures.core.roll.targets import ExcusedPartitions
from kafkafeatures.core.roll.waits import unread, waiting


class Roll(Struct, frozen=True):
    """State of a roll, and the decision about its next restart. id: the name of the roll. total: how many nodes are
    restarted. needing: nodes that need a restart, and why. decision: None where there is nothing to restart, or not
    now. levels_first: some finalized level must be downgraded before. limits: how long it takes, and why. is_read:
    False where the pods could not be read, so that nothing is known of what is done. withdrawn: nodes that a person was
    asked to restart, and must not restart now, or does not have to; and why. over: restarts that nothing has to be
    waited for on a way that restarts no node. unconfirmed: nodes of which it is not certain which pod is theirs, and
    since when; lagging: live brokers that are not in sync. goes_at_any_time: no window holds the next one. revisions:
    what is to be remembered of each target, but for since when nodes may be restarted to it. disks: directories of its
    nodes; of none where no roll is on.
    """

    id: str
    total: int
    needing: Mapping[int, str]
    in_flight: tuple[Restarting, ...]
    fleet: Fleet
    decision: Next | None
    levels_first: bool = False
    limits: RollLimits = RollLimits()
    is_read: bool = True
    withdrawn: tuple[tuple[RestartInFlight, str], ...] = ()
    over: tuple[tuple[RestartInFlight, Result], ...] = ()
    unconfirmed: Mapping[int, Stamp] = field(default_factory=dict)
    lagging: Mapping[int, Stamp] = field(default_factory=dict)
    goes_at_any_time: bool = False
    revisions: tuple[RevisionStatus, ...] = ()
    disks: NodeDisks = NodeDisks()

    @property
    def is_active(self) -> bool:
        """Tell whether nodes are being restarted, or have to be, or have lost their disks; or that is not known."""
        return bool(self.needing or self.in_flight or self.decision or self.disks.lost)

    @property
    def done(self) -> int:
        """Number of nodes that are current, not in flight, and have their disks."""
        flying = (restart.step.node_id for restart in self.in_flight)
        return self.total - len({*self.needing, *flying, *self.disks.lost_ids})

    @property
    def titles_in_flight(self) -> str:
        """The nodes in flight, for people; the first few of many."""
        names = [restart.step.title for restart in self.in_flight]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def roll_of(
    desired: DesiredState,
    observation: Observation,
    changes: tuple[UpdateFeature, ...],
    remembered: RollContext,
    replication: Replication | None,
    *,
    excused: ExcusedPartitions | None = None,
    permit: Permit | None = None,
) -> Roll:
    """Judge what there is to restart, and what comes next. `changes`: of levels, still to be made. `replication`: of
    `seen`. `excused`: what it may make unavailable, by a consent. `permit`: of a migration, which says what is
    restarted: no person can request it then.

    With a million partitions it takes a second at most.
    """
    if permit is not None:
        observation = without_requests(observation)
    in_flight = tuple(
        Restarting(intent.step, intent, intent.step.state_in(observation, replication))
        for intent in remembered.in_flight
        if isinstance(intent, RestartInFlight)
    )
    driver = driver_of(desired.rollout)
    flying = {restart.step.node_id: restart.step.pod for restart in in_flight}
    fleet = driver.fleet(observation, desired.rollout, changes, flying)
    if permit is not None:
        fleet = permit.applied(fleet, driver)
    question = RestartCheckInput(
        desired, observation, fleet, in_flight, changes, remembered, replication, excused, permit
    )
    withdrawn = tuple(
        (restart.restart, reason) for restart in in_flight if (reason := _why_withdrawn(question, restart))
    )
    over = tuple(
        (restart.restart, result) for restart in in_flight if (result := _is_over(question, restart)) is not None
    )
    gone = [intent for intent, _ in (*withdrawn, *over)]
    in_flight = tuple(restart for restart in in_flight if restart.restart not in gone)
    question = replace(question, in_flight=in_flight)
    needing = {
        id_: reason for id_, reason in fleet.needing.items() if id_ not in question.flying or id_ in question.stuck
    }
    if needing or in_flight or remembered.disks:  # else no roll is on
        spent = remembered.status.spent_consents
        earlier_disks = {id_: marks for id_, marks in remembered.disks.items() if not is_unregistered(observation, id_)}
        question = replace(
            question, disks=disks_now(observation.nodes, earlier_disks, question.flying, desired.consents, spent)
        )
    halts = bool(in_flight or question.disks.lost)
    first = bool(needing) and not halts and levels_go_first(question)
    decision: Next | None = None
    if driver.reads_pods and isinstance(observation.workloads, Unknown):
        decision = unread(observation.workloads, "the pods could not be read")
    elif permit is not None and not permit.restarts:
        decision = (nothing_is_halted(question) or waiting(question)) if in_flight else None
    elif (needing or halts or fleet.blockers or fleet.waits or fleet.without_node or _keeps_levels(question)) and (
        not first
    ):
        decision = next_restart(question, frozenset(needing))
    return Roll(
        id=question.roll_id,
        total=len((fleet.pods.keys() or {node.id for node in observation.nodes if node.roles}) | question.flying),
        needing=needing,
        in_flight=in_flight,
        fleet=fleet,
        decision=decision,
        levels_first=first,
        limits=limits_of(question, frozenset(needing)),
        is_read=not driver.reads_pods or isinstance(observation.workloads, Known),
        withdrawn=withdrawn,
        over=over,
        unconfirmed=question.unconfirmed,
        lagging=brokers_behind(question),
        goes_at_any_time=observation.nothing_is_led and bool(to_free(question, frozenset(needing))),
        revisions=revisions_after(question),
        disks=question.disks,
    )


def _keeps_levels(question: RestartCheckInput) -> bool:
    """Tell whether a node crashes, and a level is to be raised. To downgrade one may be what helps."""
    return bool(question.crashes) and any(not change.is_downgrade for change in question.changes)


def is_withdrawn(
    step: RestartNode,
    desired: DesiredState,
    observation: Observation,
    changes: tuple[UpdateFeature, ...],
    permit: Permit | None = None,
) -> bool:
    """Tell whether a person was asked to restart a node, has not done so, and no longer has to. On the way of a
    migration a node that is away for its restart may not be needed by what is known without it: it is waited for all
    the same.
    """
    if step.pod or step.state_in(observation, None).phase is not ReturnPhase.REQUESTED:
        return False
    if not driver_of(desired.rollout).asks_people:
        return True
    node = observation.node(step.node_id)
    if permit is not None:
        return node is not None and node.state is NodeState.LIVE and permit.is_over_for(step.node_id)
    holds = node is not None and all(node.surely_holds(change.feature, change.to_level) for change in changes)
    return holds and isinstance(observation.finalized, Known)


def _is_over(question: RestartCheckInput, restart: Restarting) -> Result | None:
    """Result of a restart that ended on a way that restarts no node. Its node may have to become in sync before, where
    that can be seen; it does not have to stay so for a while.
    """
    permit, id_ = question.permit, restart.step.node_id
    if permit is None or permit.restarts:
        return None
    if id_ in permit.unneeded:
        return Result.SUPERSEDED
    is_in_sync = (
        restart.is_back if question.replication is not None else restart.step.is_a_new_process(question.observation)
    )
    return Result.APPLIED if id_ in permit.proven and is_in_sync else None


_NOT_JUDGED = (FailureKind.NOT_ASKED, FailureKind.WAITING_FOR_BUDGET)
"""Reasons why partitions are not read in every look, although they could be."""


def _why_withdrawn(question: RestartCheckInput, one: Restarting) -> str:
    """Reason why a person must not do any longer what was asked for; empty where it still holds. A person may take
    days, so it is asked again in each look: another broker that dies meanwhile may be all that its partitions have
    besides.
    """
    id_, node = one.step.node_id, question.node(one.step.node_id)
    if not one.is_asked_of_a_person:
        return ""
    if is_withdrawn(one.step, question.desired, question.observation, question.changes, question.permit):
        return "it is no longer required"
    partitions = question.observation.partitions
    is_unread = isinstance(partitions, Unknown) and partitions.failure.kind in _NOT_JUDGED
    if node is None or node.state is not NodeState.LIVE:
        return ""  # it may be what stops now
    migrating = no_migration_is_open(question)
    if migrating is not None or is_unread:
        return migrating.message if migrating is not None else ""
    if (opens := closed_until(question.desired.rollout.windows, question.remembered.current_time)) is not None:
        return opening(opens)
    without_it = replace(question, in_flight=tuple(restart for restart in question.in_flight if restart is not one))
    if without_it.replication is not None and one.step.leaves_in(without_it.replication):
        admission = without_it.admission(availability=Availability.RESPECT_MIN_ISR)
        allowed = admission is None or admission.allows(id_)
        return "" if allowed or admission is None else forbidden_by(without_it, id_, admission.forbidding(id_)).message
    refused = refusal((*FOR_ANY_NODE, *FOR_ONE_MORE), without_it) or refusal_of(without_it, id_, one.step.consent)
    return refused.message if refused is not None else ""
