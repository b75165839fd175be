"""The roll: which nodes need a restart, which are in flight, and what comes next.

Pure. Called by `core/roll/stage.py`, with readings of that moment. What is kept for the next reconciliation is in
`status.intents`, in `status.rollout` and in the memory of the process (`core/roll/remembered.py`). The algorithm:

 1. List the nodes that need a restart, by their pods or by their levels: `Driver.fleet`; on the way of a migration
    those that it permits, and no others: `Permit.applied`.
 2. See how far each restart in flight has come: `AwayNode.state_in`. It is over once its node has been back for
    `stableFor`: `RestartInFlight.settle`; nothing is waited for that no longer has to be: `_early_result`.
 3. Withdraw what a person was asked to restart, and must not restart now or does not have to: `_why_withdrawn`.
 4. Restart nothing yet where a level that the new binary cannot hold is about to be downgraded: `levels_go_first`.
    Else choose one node, or what is waited for: `next_restart`.
 5. Refuse where no node at all may be restarted: `FOR_ANY_NODE`.
 6. Free a node that is stuck, whose pod cannot run, before all others, as it cannot get worse: `stuck_may_go`.
 7. Send a restart once more that was decided and may be unsent, if everything still allows it: `_send_again`.
 8. Refuse where not one more node may be away: `FOR_ONE_MORE`.
 9. Restart controllers before brokers, one at a time and alone: `_next_controller`.
10. Restart the first broker, in the order that takes the fewest rounds, which all its partitions admit: `_next_broker`.
    One is decided at a time, each on its own reading: a sliding window, never a batch. Safety never depends on the
    order.

The rules that it keeps, whatever the order:

P1. Every partition keeps as many replicas in sync as min.insync.replicas asks for, and by default is not
    under-replicated before, unless a consent excuses it: `Replication.judge`, `promises_can_be_kept`.
P2. A majority of the voters stays caught up, and no other voter is missing: `why_not_restart`, `refused_by_voters`.
P3. The active controller goes last, and who that is was read just now: `next_controller`.
P4. No more nodes are away than may be, whatever for: `cap_is_kept`.
P5. Nothing begins while something is wrong, or not known: `nothing_is_unavailable`, `nothing_is_reassigned`,
    `nothing_is_halted`, `quorum_is_known`, `partitions_are_known`, `pods_are_known`.
P6. A node is away until its next process is in sync, and has stayed so: `AwayNode.state_in`,
    `refused_by_unstable_nodes`.
P7. No node gets a binary that cannot hold a finalized level: `binary_holds_levels`, `snapshots_are_newer`.
P8. No node gets a release that breaks clients in use, where the document asks for that: `clients_survive`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import Result, RevisionStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.windows import closed_until, opening
from kafkafeatures.core.facts.observation import PODS_UNKNOWN, Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.admission import forbidden_by
from kafkafeatures.core.roll.asked import may_be_pending
from kafkafeatures.core.roll.breaking_clients import ClientBreaks, breaks_of
from kafkafeatures.core.roll.check_input import RestartCheckInput, Restarting
from kafkafeatures.core.roll.coming_back import ReturnPhase, is_unregistered
from kafkafeatures.core.roll.disks import NodeDisks, disks_now
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.core.roll.halts import nothing_is_halted
from kafkafeatures.core.roll.held_levels import levels_go_first
from kafkafeatures.core.roll.lagging import brokers_behind
from kafkafeatures.core.roll.limits import RollLimits, limits_of
from kafkafeatures.core.roll.migrations import no_migration_is_open
from kafkafeatures.core.roll.next_restart import Next, next_restart, refusal_anew, to_free
from kafkafeatures.core.roll.permit import NO_PERMIT, Permit, without_requests
from kafkafeatures.core.roll.pods import Fleet
from kafkafeatures.core.roll.remembered import RollContext
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.revisions import revisions_after
from kafkafeatures.core.roll.targets import ExcusedPartitions
from kafkafeatures.core.roll.waits import unread, waiting
from kafkafeatures.core.words import first_of


class Roll(Struct, frozen=True):
    """State of a roll, and the decision about its next restart.

    id: name of the roll.
    total: number of nodes that it concerns.
    needing: nodes that need a restart, and why.
    in_flight: restarts that are not over.
    fleet: nodes in their pods.
    decision: next restart, or what the roll waits for; None: nothing to restart, or not now.
    levels_first: a finalized level must be downgraded first, so no restart is decided.
    limits: how long the roll takes, and why.
    is_read: False if the pods could not be read, so that it is not known how many nodes are current.
    withdrawn: restarts that a person was asked for and must not make now, or need not make; and why.
    withdrawing: restarts whose request waits on the pod for another operator, and must not be carried out now.
    over: restarts that end, each with its result, on a way of a migration that restarts no node.
    unconfirmed: nodes whose pod is not certain, and since when.
    lagging: live brokers that are not in sync, and since when.
    goes_at_any_time: the next restart may be made outside of the windows: no partition has a leader, and it frees a
        stuck node.
    revisions: entries for `status.rollout.revisions`, one for each target; `report.py` adds their `since`.
    disks: directories of the nodes; empty if no roll is in progress.
    breaks: consents to break clients that the next restart uses.
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
    withdrawing: tuple[RestartNode, ...] = ()
    over: tuple[tuple[RestartInFlight, Result], ...] = ()
    unconfirmed: Mapping[int, Stamp] = field(default_factory=dict)
    lagging: Mapping[int, Stamp] = field(default_factory=dict)
    goes_at_any_time: bool = False
    revisions: tuple[RevisionStatus, ...] = ()
    disks: NodeDisks = NodeDisks()
    breaks: ClientBreaks = ClientBreaks()

    @property
    def is_active(self) -> bool:
        """Tell whether nodes are being restarted, or have to be, or have lost their disks. Also True if the pods could
        not be read: `decision` then says so.
        """
        return bool(self.needing or self.in_flight or self.decision or self.disks.lost)

    @property
    def done(self) -> int:
        """Number of nodes that are current, not in flight, and have their pods and disks."""
        followed = self.fleet.followed - {restart.step.pod for restart in self.in_flight}
        missing = max(self.fleet.missing - len(self.flying - self.fleet.pods.keys()), 0)
        return self.total - len({*self.needing, *self.flying, *self.disks.lost_ids}) - len(followed) - missing

    @property
    def flying(self) -> frozenset[int]:
        """Ids of the nodes in flight."""
        return frozenset(restart.step.node_id for restart in self.in_flight)

    @property
    def asked_of_a_person(self) -> int | None:
        """Id of the first node in flight that a person still has to restart; None for none."""
        return next((restart.step.node_id for restart in self.in_flight if restart.is_asked_of_a_person), None)

    @property
    def titles_in_flight(self) -> str:
        """The nodes in flight, for people; the first few of many."""
        return first_of([restart.step.title for restart in self.in_flight])


def roll_of(
    desired: DesiredState,
    observation: Observation,
    changes: tuple[UpdateFeature, ...],
    remembered: RollContext,
    replication: Replication | None,
    *,
    excused: ExcusedPartitions | None = None,
    permit: Permit = NO_PERMIT,
) -> Roll:
    """Judge which nodes need a restart, and what comes next. With a million partitions it takes a second at most.

    changes: changes of levels that are still to be made.
    replication: partitions of `observation`; None: not known.
    excused: topics that the roll may make unavailable, by a consent.
    permit: permit of a migration, which alone says what is restarted: requests of a person do not count then.
    """
    if permit.is_granted:
        observation = without_requests(observation)
    driver, in_flight = driver_of(desired.rollout), tuple(_in_flight(observation, remembered, replication))
    pods_in_flight = {restart.step.node_id: restart.step.pod for restart in in_flight}
    fleet = permit.applied(driver.fleet(observation, desired.rollout, changes, pods_in_flight), driver)
    inputs = RestartCheckInput(
        desired, observation, fleet, in_flight, changes, remembered, replication, excused, permit
    )
    reasons = [(restart, reason) for restart in in_flight if (reason := _why_withdrawn(inputs, restart))]
    withdrawn = tuple((restart.sent_step, reason) for restart, reason in reasons if not restart.step.pod)
    over = tuple(
        (restart.sent_step, result) for restart in in_flight if (result := _early_result(inputs, restart)) is not None
    )
    ended = [intent for intent, _ in (*withdrawn, *over)]
    inputs = replace(inputs, in_flight=tuple(restart for restart in in_flight if restart.sent_step not in ended))
    flying = inputs.flying
    # A node in flight needs no further restart, unless its pod is stuck, so that another one has to replace it.
    needing = {id_: reason for id_, reason in fleet.needing.items() if id_ not in flying or id_ in inputs.stuck}
    if needing or flying or remembered.disks:  # else no roll is on
        inputs = replace(inputs, disks=_disks(inputs))
    # Restarts in flight and lost disks are reported first: with `levels_first` there is no decision.
    levels_first = bool(needing) and not (flying or inputs.disks.lost) and levels_go_first(inputs)
    ids = frozenset(needing)
    with_roles = {node.id for node in observation.nodes if node.roles}  # all count without pods, as with driver Manual
    return Roll(
        id=inputs.roll_id,
        total=fleet.followed_in or len((fleet.pods.keys() or with_roles) | flying),
        needing=needing,
        in_flight=inputs.in_flight,
        fleet=fleet,
        decision=_decision(inputs, ids, levels_first=levels_first),
        levels_first=levels_first,
        limits=limits_of(inputs, ids),
        is_read=not driver.reads_pods or isinstance(observation.workloads, Known),
        withdrawn=withdrawn,
        withdrawing=tuple(restart.step for restart, _ in reasons if restart.step.pod),
        over=over,
        unconfirmed=inputs.unconfirmed,
        lagging=brokers_behind(inputs),
        goes_at_any_time=observation.nothing_is_led and bool(to_free(inputs, ids)),
        revisions=revisions_after(inputs),
        disks=inputs.disks,
        breaks=breaks_of(inputs),
    )


def _in_flight(
    observation: Observation, remembered: RollContext, replication: Replication | None
) -> Iterator[Restarting]:
    for intent in remembered.in_flight:
        if isinstance(intent, RestartInFlight):
            yield Restarting(intent.step, intent, intent.step.state_in(observation, replication))


def _disks(inputs: RestartCheckInput) -> NodeDisks:
    """Directories that nodes had before, and those that lost them."""
    remembered = inputs.remembered
    earlier_disks = {
        id_: marks for id_, marks in remembered.disks.items() if not is_unregistered(inputs.observation, id_)
    }
    return disks_now(
        inputs.observation.nodes,
        earlier_disks,
        inputs.flying,
        inputs.desired.consents,
        remembered.status.spent_consents,
    )


def _decision(inputs: RestartCheckInput, needing: frozenset[int], *, levels_first: bool) -> Next | None:
    """The next restart, or what it waits for; None where there is nothing to restart, or not now."""
    workloads, fleet, lost = inputs.observation.workloads, inputs.fleet, inputs.disks.lost
    if inputs.driver.reads_pods and isinstance(workloads, Unknown):
        return unread(workloads, PODS_UNKNOWN)
    if not inputs.permit.restarts:
        return (nothing_is_halted(inputs) or waiting(inputs)) if inputs.in_flight else None
    has_waits = bool(fleet.blockers or fleet.waits or fleet.without_node)
    is_due = needing or inputs.in_flight or lost or has_waits or _holds_back_levels(inputs)
    return next_restart(inputs, needing) if is_due and not levels_first else None


def _holds_back_levels(inputs: RestartCheckInput) -> bool:
    """Tell whether a crashing node holds back the raise of a level. A downgrade is not held back, as it may be the
    cure.
    """
    return bool(inputs.crashes) and any(not change.is_downgrade for change in inputs.changes)


def is_withdrawn(
    step: RestartNode,
    desired: DesiredState,
    observation: Observation,
    changes: tuple[UpdateFeature, ...],
    permit: Permit = NO_PERMIT,
) -> bool:
    """Tell whether a person was asked to restart a node, has not done so, and need not do so any more. On the way of a
    migration, a node that is away is still waited for, even if it may not be needed.
    """
    if step.pod or step.state_in(observation, None).phase is not ReturnPhase.REQUESTED:
        return False
    if not driver_of(desired.rollout).asks_people:
        return True
    node = observation.node(step.node_id)
    if permit.is_granted:
        return node is not None and node.state is NodeState.LIVE and permit.is_over_for(step.node_id)
    holds = node is not None and all(node.surely_holds(change.feature, change.to_level) for change in changes)
    return holds and isinstance(observation.finalized, Known)


def _early_result(inputs: RestartCheckInput, restart: Restarting) -> Result | None:
    """Result of a restart that ends because the present way of a migration restarts no node (`Permit.restarts`); None
    if it is still waited for. Its node must be in sync if that can be read, but need not stay so for a while.
    """
    permit, id_ = inputs.permit, restart.step.node_id
    if permit.restarts:
        return None
    if id_ in permit.unneeded:
        return Result.SUPERSEDED
    is_in_sync = (
        restart.is_back if inputs.replication is not None else restart.step.is_a_new_process(inputs.observation)
    )
    return Result.APPLIED if id_ in permit.proven and is_in_sync else None


_NOT_JUDGED = (FailureKind.NOT_ASKED, FailureKind.WAITING_FOR_BUDGET)
"""Failures that say nothing about the partitions: in this reconciliation they were not read, though they could be."""


def _why_withdrawn(inputs: RestartCheckInput, restart: Restarting) -> str:
    """Reason why a person, or another operator that has not begun, must not make a requested restart any more; empty if
    the request still holds. They may take days, so it is checked in each reconciliation: another broker that fails
    meanwhile may have the only other replicas.
    """
    id_, node = restart.step.node_id, inputs.node(restart.step.node_id)
    if not restart.is_asked_of_a_person and not may_be_pending(restart.sent_step, inputs.observation):
        return ""
    if restart.step.is_not_wanted(inputs.observation) or is_withdrawn(
        restart.step, inputs.desired, inputs.observation, inputs.changes, inputs.permit
    ):
        return "it is no longer required"
    partitions = inputs.observation.partitions
    is_unread = isinstance(partitions, Unknown) and partitions.failure.kind in _NOT_JUDGED
    if not restart.step.pod and (node is None or node.state is not NodeState.LIVE):
        return ""  # a person may be restarting it right now
    migrating = no_migration_is_open(inputs)
    if migrating is not None or is_unread:  # without partitions nothing more can be judged
        return migrating.message if migrating is not None else ""
    if (opens := closed_until(inputs.desired.rollout.windows, inputs.remembered.current_time)) is not None:
        return opening(opens)
    without_it = inputs.without(restart)
    if without_it.replication is not None and restart.step.has_left_isr_in(without_it.replication):
        # It is probably being stopped already, so only a danger to min.insync.replicas withdraws the request.
        admission = without_it.admission(availability=Availability.RESPECT_MIN_ISR)
        allowed = admission is None or admission.allows(id_)
        return "" if allowed or admission is None else forbidden_by(without_it, id_, admission.forbidding(id_)).message
    refused = refusal_anew(inputs, restart)
    return refused.message if refused is not None else ""
