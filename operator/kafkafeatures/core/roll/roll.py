"""The roll: which nodes need a restart, which are in flight, and which one is restarted next.

Pure. Called by `reconcile/evaluate.py` in every reconciliation of a resource with a workload driver, with readings of
that moment; nothing of it is kept but `status.intents` and `status.rollout`. One restart is decided at a time, each on
its own reading: a sliding window, never a batch. Safety never depends on the order in which nodes are tried.

Controllers go before brokers, one at a time and alone, followers first. A node that is stuck (its pod cannot run on
what it has) goes first: it cannot get worse. Nothing goes to what halted the roll.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from kafkafeatures.api.names import KAFKA_VERSION, QUORUM_OF_ONE
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import ExcusedTopics
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.wanted import Wanted
from kafkafeatures.core.engine.windows import closed_until, opening
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.quorum import may_restart, next_controller
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.facts.replication import Admission, Forbidding, Replication, Why, format_partitions
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll import planner
from kafkafeatures.core.roll.checks import (
    FOR_ANY_NODE,
    FOR_ONE_DECIDED,
    FOR_ONE_MORE,
    OF_PODS,
    budget_allows,
    is_halted_for,
    levels_go_first,
    refusal,
    told_waiting,
    unconfirmed,
    unread,
    waiting,
)
from kafkafeatures.core.roll.coming_back import MOST_LAGGING, Phase, mark_of, supported_now
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.core.roll.migrations import no_migration_is_open
from kafkafeatures.core.roll.pods import Fleet
from kafkafeatures.core.roll.question import Remembered, Restarting, RestartQuestion
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.small_quorums import is_only_voter, refused_by_small_quorum
from kafkafeatures.core.roll.voters import voters_allow
from kafkafeatures.core.words import cut

Next = Act | Wait | Stalled

MOST_NOTES, MAX_NOTE = 8, 512
FEW = 8
"""Nodes in flight for which a status has room to say which partitions they were not in sync with before."""


class Limits(Struct, frozen=True):
    """How many restarts one after the other it takes, and what limits how many nodes are restarted at once."""

    rounds: int = 0
    notes: tuple[str, ...] = ()


class Roll(Struct, frozen=True):
    """What is to be said and done about restarts.

    id: of what the nodes are rolled to; a new image is a new one. total: nodes that somebody restarts. needing: nodes
    that need a restart, and why. decision: None where there is nothing to restart, or not now. levels_first: some
    finalized level must be downgraded before. limits: how long it takes, and why.
    is_read: False where the pods could not be read, so that nothing is known of what is done. withdrawn: nodes that a
    person was asked to restart, and must not restart now, or does not have to; and why. unconfirmed: nodes of which it
    is not certain which pod is theirs, and since when. goes_at_any_time: no window holds the next one.
    """

    id: str
    total: int
    needing: Mapping[int, str]
    in_flight: tuple[Restarting, ...]
    fleet: Fleet
    decision: Next | None
    levels_first: bool = False
    limits: Limits = Limits()
    is_read: bool = True
    withdrawn: tuple[tuple[RestartInFlight, str], ...] = ()
    unconfirmed: Mapping[int, Stamp] = field(default_factory=dict)
    goes_at_any_time: bool = False

    @property
    def is_active(self) -> bool:
        """Whether nodes are being restarted, or have to be, or it is not known whether they have to."""
        return bool(self.needing or self.in_flight or self.decision)

    @property
    def done(self) -> int:
        """How many nodes are current, and not in flight."""
        return self.total - len(self.needing.keys() | {one.step.node_id for one in self.in_flight})

    @property
    def titles_in_flight(self) -> str:
        """The nodes in flight, for people; the first few of many."""
        names = [one.step.title for one in self.in_flight]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def roll_of(
    wanted: Wanted,
    seen: Observation,
    changes: tuple[UpdateFeature, ...],
    remembered: Remembered,
    replication: Replication | None,
    *,
    excused: ExcusedTopics | None = None,
) -> Roll:
    """What there is to restart, and what comes next. `changes`: of levels, still to be made. `replication`: of `seen`.
    `excused`: what it may make unavailable, by a consent.

    With a million partitions it takes a second at most.
    """
    in_flight = tuple(
        Restarting(one.step, one, one.step.state_in(seen, replication))
        for one in remembered.sent
        if isinstance(one, RestartInFlight)
    )
    driver = driver_of(wanted.rollout)
    flying = {one.step.node_id: one.step.pod for one in in_flight}
    fleet = driver.fleet(seen, wanted.rollout, changes, flying)
    question = RestartQuestion(wanted, seen, fleet, in_flight, changes, remembered, replication, excused)
    withdrawn = tuple((one.sent, why) for one in in_flight if (why := _why_withdrawn(question, one)))
    gone = [one for one, _ in withdrawn]
    in_flight = tuple(one for one in in_flight if one.sent not in gone)
    question = replace(question, in_flight=in_flight)
    needing = {id_: why for id_, why in fleet.needing.items() if id_ not in question.flying or id_ in question.stuck}
    first = bool(needing) and not in_flight and levels_go_first(question)
    decision: Next | None = None
    if driver.reads_pods and isinstance(seen.workloads, Unknown):
        decision = unread(seen.workloads, "the pods could not be read")
    elif (needing or in_flight or fleet.blockers or fleet.waits or fleet.without_node or _keeps_levels(question)) and (
        not first
    ):
        decision = _next(question, frozenset(needing))
    return Roll(
        id=question.roll_id,
        total=len(fleet.pods) or sum(bool(node.roles) for node in seen.nodes),
        needing=needing,
        in_flight=in_flight,
        fleet=fleet,
        decision=decision,
        levels_first=first,
        limits=_limits(question, frozenset(needing)),
        is_read=not driver.reads_pods or isinstance(seen.workloads, Known),
        withdrawn=withdrawn,
        unconfirmed=question.unconfirmed,
        goes_at_any_time=seen.nothing_is_led and bool(_to_free(question, frozenset(needing))),
    )


def _keeps_levels(question: RestartQuestion) -> bool:
    """Whether a node crashes, and a level is to be raised. To downgrade one may be what helps."""
    return bool(question.crashes) and any(not one.is_downgrade for one in question.changes)


def replication_of(seen: Observation) -> Replication | None:
    """All partitions, to be judged; None where they could not be read."""
    return Replication(seen.partitions.value) if isinstance(seen.partitions, Known) else None


def is_withdrawn(step: RestartNode, wanted: Wanted, seen: Observation, changes: tuple[UpdateFeature, ...]) -> bool:
    """Whether a person was asked to restart a node, has not done it, and does not have to any more."""
    if step.pod or step.state_in(seen, None).phase is not Phase.REQUESTED:
        return False
    if not driver_of(wanted.rollout).asks_people:
        return True
    node = seen.node(step.node_id)
    holds = node is not None and all(node.surely_holds(one.feature, one.after) for one in changes)
    return holds and isinstance(seen.finalized, Known)


_NOT_JUDGED = (FailureKind.NOT_ASKED, FailureKind.WAITING_FOR_BUDGET)
"""Why partitions are not read in every look, although they could be."""


def _why_withdrawn(question: RestartQuestion, one: Restarting) -> str:
    """Why a person must not do any longer what was asked for; empty where it still holds. A person may take days, so it
    is asked again in each look: another broker that dies meanwhile may be all that its partitions have besides.
    """
    id_, node = one.step.node_id, question.node(one.step.node_id)
    if not one.is_asked_of_a_person:
        return ""
    if is_withdrawn(one.step, question.wanted, question.seen, question.changes):
        return "it is no longer required"
    partitions = question.seen.partitions
    unread = isinstance(partitions, Unknown) and partitions.why.kind in _NOT_JUDGED
    if node is None or node.state is not NodeState.LIVE:
        return ""  # it may be what stops now
    migrating = no_migration_is_open(question)
    if migrating is not None or unread:
        return migrating.message if migrating is not None else ""
    if (opens := closed_until(question.wanted.rollout.windows, question.remembered.now)) is not None:
        return opening(opens)
    others = replace(question, in_flight=tuple(it for it in question.in_flight if it is not one))
    if others.replication is not None and one.step.leaves_in(others.replication):
        admission = others.admission(availability=Availability.RESPECT_MIN_ISR)
        allowed = admission is None or admission.allows(id_)
        return "" if allowed or admission is None else _forbidden(others, id_, admission.forbidding(id_)).message
    refused = refusal((*FOR_ANY_NODE, *FOR_ONE_MORE), others) or _allowed(others, id_, one.step.consent)
    return refused.message if refused is not None else ""


def _limits(question: RestartQuestion, needing: frozenset[int]) -> Limits:
    """Worked out once, when the roll begins: with every node that comes back less would be left to say."""
    before = question.remembered.status.rollout
    if before is not None and before.id == question.roll_id and before.is_in_progress and before.rounds:
        return Limits(before.rounds, before.notes)
    found, rounds = list(question.fleet.notes), 0
    if question.has_unknown_binary:
        found.append(
            "what the new image supports cannot be told from its template: the first node of each such image is "
            "restarted alone"
        )
    brokers = frozenset(id_ for id_ in needing if not question.is_controller(id_))
    wanted, most = question.wanted.rollout.max_parallel, planner.MOST_IN_FLIGHT
    asked = wanted.number * sum(Role.BROKER in one.roles for one in question.seen.nodes) // 100
    if (asked if wanted.percent else wanted.number) > most and len(brokers) > most:
        found.insert(
            0, f"at most {most} nodes at a time: rollout.maxParallel is {wanted}, and never more are in flight"
        )
    if question.replication is not None:
        cap, availability = question.cap, question.wanted.rollout.availability
        of_brokers = planner.bounds(question.replication, brokers, most=cap, availability=availability)
        rounds = of_brokers.planned + len(needing - brokers)
        if len(brokers) > 1:
            found += _on_parallelism(question.replication, brokers, cap, availability, of_brokers)
    return Limits(rounds, tuple(cut(note, MAX_NOTE) for note in found[:MOST_NOTES]))


def _on_parallelism(
    replication: Replication, brokers: frozenset[int], cap: int, availability: Availability, rounds: planner.Rounds
) -> Iterator[str]:
    least = "" if rounds.at_least == rounds.planned else f", at least {rounds.at_least}"
    yield f"{len(brokers)} brokers in about {rounds.planned} rounds of {cap} at most{least}"
    found = planner.advice(replication, brokers, most=cap, availability=availability)
    if found is not None:
        moved = format_partitions(found.partitions, found.names)
        yield f"move {moved} to other racks to restart them in {found.then} rounds instead of {found.rounds}"


# --- what comes next ---


def _next(question: RestartQuestion, needing: frozenset[int]) -> Next:
    """One more restart, or why not. A broker that does not say who it is keeps only those from going that share a
    partition with it; what is left to wait for then is that broker.
    """
    alone = next((one for one in question.fleet.waits if one.is_alone), None)
    if alone is None or needing or question.in_flight:
        chosen = _chosen(question, needing)
    else:
        return refusal((*FOR_ANY_NODE, *OF_PODS), question) or unconfirmed(question, alone)
    if alone is None or question.in_flight or not isinstance(chosen, Wait) or chosen.reason in _NOT_OF_NODES:
        return chosen
    return replace(unconfirmed(question, alone, chosen.message), blockers=chosen.blockers)


_NOT_OF_NODES = (Reason.WAITING_FOR_WINDOW, Reason.WAITING_FOR_BUDGET)


def _chosen(question: RestartQuestion, needing: frozenset[int]) -> Next:
    refused = refusal(FOR_ANY_NODE, question)
    if refused is not None:
        return refused
    unsent = {one.step.node_id: one for one in question.in_flight if one.may_be_unsent}
    kept: Wait | None = None
    for id_ in _to_free(question, needing):
        if _stuck_may_go(question, id_):
            why_not = budget_allows(question, id_)
            if why_not is None:
                return Act(unsent[id_].step if id_ in unsent else _restart(question, id_))
            kept = kept or why_not
    if kept is not None:
        return kept
    if unsent:
        return _again(question, next(iter(unsent.values())))
    if not needing:
        return refusal(OF_PODS, question) or waiting(question)
    refused = refusal(FOR_ONE_MORE, question)
    if refused is not None:
        return refused
    if any(question.is_controller(one.step.node_id) for one in question.in_flight):
        return waiting(question)
    controllers = frozenset(id_ for id_ in needing if question.is_controller(id_))
    if controllers:
        return waiting(question) if question.in_flight else _next_controller(question, controllers)
    return _next_broker(question, needing)


def _to_free(question: RestartQuestion, needing: frozenset[int]) -> tuple[int, ...]:
    """Nodes that are stuck on what is not wanted any more; what has failed already would not help them."""
    return tuple(id_ for id_ in sorted(question.stuck & needing) if not is_halted_for(question, id_))


def _again(question: RestartQuestion, one: Restarting) -> Next:
    """Its intent was written, and its pod still runs: the eviction may be on its way. No other node until that is seen.

    To ask again is safe, because it is for the same life of the pod. What is not wanted any more is not asked for: it
    is given up once it cannot be on its way. A pod that runs another node stays too: a status can be edited.
    """
    id_ = one.step.node_id
    pod = question.fleet.pods.get(id_)
    if id_ not in question.fleet.needing or pod is None or pod.uid != one.step.pod_uid:
        return waiting(question)
    if one.step.is_not_wanted(question.seen):
        return waiting(question)
    if any(question.is_controller(other) for other in question.flying - {id_}):
        return waiting(question)  # one that was stuck went meanwhile: a voter is away
    refused = refusal(FOR_ONE_DECIDED, question)
    return refused or _allowed(question, id_, one.step.consent) or Act(one.step)


def _stuck_may_go(question: RestartQuestion, id_: int) -> bool:
    """It is in no ISR, or alone in one that nobody leads now, so it costs nothing; elsewhere others do without it.
    Where nobody leads anything, that is so whatever the partitions are: without a broker they cannot be read.

    What the document allows holds for it as for any: it may take its data along, and be what somebody repairs by hand.
    Those that are stuck beside it count as away only once they were restarted, else none of them could be the first.
    """
    node, is_controller = question.node(id_), question.is_controller(id_)
    no_quorum = question.seen.no_quorum is not None or isinstance(question.seen.quorum, Unknown)
    others = question.flying - {id_}
    if is_controller and not no_quorum and any(question.is_controller(one) for one in others):
        return False
    if question.seen.nothing_is_led:
        return True
    if is_controller and (no_quorum or node is None or Role.BROKER not in node.roles):
        return True
    if len(others | ({*question.gone} - question.stuck)) >= question.cap:
        return False
    admission = _admission_of_stuck(question)
    return admission is not None and admission.allows(id_)


def _admission_of_stuck(question: RestartQuestion) -> Admission | None:
    return question.admission(availability=Availability.RESPECT_MIN_ISR)


def _allowed(question: RestartQuestion, id_: int, given: str = "") -> Wait | Stalled | None:
    """Why this node may not go now; None where it may. A combined node satisfies both chains. `given`: the consent that
    its restart has used already.
    """
    too_small = refused_by_small_quorum(question, id_, given)
    if too_small is not None:
        return too_small
    too_few = voters_allow(question, id_)
    if too_few is not None:
        return too_few
    if not is_only_voter(question, id_) and question.is_controller(id_) and isinstance(question.seen.quorum, Known):
        down = (question.flying | question.unavailable) - {id_}
        why = may_restart(id_, question.seen.quorum.value, down)
        if why:
            text = f"{question.title(id_)} cannot be restarted now: {why}"
            return Wait(Reason.WAITING_FOR_QUORUM, text, after=2.0)
    node = question.node(id_)
    is_broker = node is not None and Role.BROKER in node.roles
    if is_broker and id_ in question.unavailable:
        return _of_unavailable(question, id_)
    admission = question.admission(but=frozenset({id_}) & question.flying)
    if not is_broker or admission is None or admission.allows(id_):
        return budget_allows(question, id_)
    return _forbidden(question, id_, admission.forbidding(id_))


def _next_controller(question: RestartQuestion, controllers: frozenset[int]) -> Next:
    """Followers first, the leader last; who that is was read just now. Of combined nodes another follower may go where
    the first one's partitions forbid it.
    """
    if isinstance(question.seen.quorum, Unknown):
        return unread(question.seen.quorum, "the quorum is not known")
    quorum, refused, left = question.seen.quorum.value, None, controllers
    while (id_ := next_controller(left, quorum)) is not None and not (refused and id_ == quorum.leader_id):
        why_not = _allowed(question, id_)
        if why_not is None:
            return Act(_restart(question, id_))
        refused, left = refused or why_not, left - {id_}
    return refused or Wait(Reason.WAITING_FOR_QUORUM, "no controller can be restarted now", after=2.0)


def _next_broker(question: RestartQuestion, needing: frozenset[int]) -> Next:
    replication, admission = question.replication, question.admission()
    if replication is None or admission is None:  # `partitions_are_known` has refused already
        return Wait(Reason.PREFLIGHT, "the partitions are not known", after=2.0)
    too_few = voters_allow(question)
    if too_few is not None:
        return too_few
    availability = question.wanted.rollout.availability
    if any(question.is_of_unknown_binary(one.step.node_id) for one in question.in_flight):
        return waiting(question)
    order = planner.order(replication, needing, question.stuck, most=question.cap, availability=availability)
    unknown = [id_ for id_ in order if question.is_of_unknown_binary(id_)]
    is_alone = not question.in_flight and not question.gone
    kept: Wait | None = None
    # What another binary does is learned first, of one node; where that has to wait, those go that are known.
    for id_ in (*(unknown if is_alone else ()), *(one for one in order if one not in set(unknown))):
        if id_ not in question.unavailable and admission.allows(id_):
            why_not = budget_allows(question, id_)
            if why_not is None:
                return Act(_restart(question, id_))
            kept = kept or why_not
    if question.in_flight:
        return waiting(question)
    if kept is not None:
        return kept
    first = next((id_ for id_ in order if id_ not in question.unavailable), None)
    if first is None:
        return _of_unavailable(question, order[0])
    if admission.allows(first):  # so it is the first of an unknown image, and not alone
        text = f"{question.title(first)} is restarted alone, as the Kafka version of its new image is not known"
        remedy = f"bring {question.titles(question.gone)} back, or set the template's annotation {KAFKA_VERSION}"
        return Wait(Reason.ROLLING_NODES, f"{text}; {remedy}", after=2.0)
    return _forbidden(question, first, admission.forbidding(first))


def _of_unavailable(question: RestartQuestion, id_: int) -> Wait:
    """A broker that is away without being stuck is left alone: to end it would begin its recovery anew."""
    admission = _admission_of_stuck(question)
    if id_ in question.stuck and admission is not None:
        return _forbidden(question, id_, admission.forbidding(id_))
    pod, node = question.fleet.pods.get(id_), question.node(id_)
    if pod is not None and pod.waiting and (node is None or node.state is not NodeState.LIVE):
        why = told_waiting(pod)
        text = f"{question.title(id_)} is unavailable, and its pod {pod.name} does not run ({why}): it may run again by"
        remedy = "delete the pod if it does not: its next one is of the current revision"
        return Wait(Reason.ROLLING_NODES, f"{text} itself; {remedy}", after=2.0)
    if pod is not None and pod.waiting:
        text = f"{question.title(id_)} answers, but the container of its pod {pod.name} waits ({pod.waiting})"
        return Wait(Reason.ROLLING_NODES, f"{text}: one of the two is out of date", after=2.0)
    text = f"{question.title(id_)} is unavailable, and its pod runs: it may recover its log for hours"
    look = f"; see `kubectl logs {pod.name}`, and delete the pod if it hangs" if pod is not None else ""
    return Wait(Reason.ROLLING_NODES, text + look, after=2.0)


_FORBIDS: Mapping[Why, tuple[str, str, str]] = {
    Why.AT_MIN_ISR: ("would be", "would be", "left with fewer in-sync replicas than min.insync.replicas"),
    Why.REASSIGNING: ("is", "are", "being reassigned"),
    Why.UNDER_REPLICATED: ("is", "are", "under-replicated"),
    Why.REPLICA_IN_FLIGHT: ("has", "have", "a replica on a node that is in flight or unavailable"),
}
"""Of one partition, of several, and the rest."""


def _forbidden(question: RestartQuestion, id_: int, found: Forbidding | None) -> Wait:
    partitions = "not known why"
    if found is not None:
        one, several, rest = _FORBIDS[found.why]
        named = format_partitions(found.count, found.names)
        partitions = f"{named} {one if found.count == 1 else several} {rest}"
    away = question.titles(question.unavailable)
    message = f"{question.title(id_)} cannot be restarted now: {partitions}{f'; unavailable: {away}' * bool(away)}"
    remedy = f"bring {away} back" if away else "bring the other replicas back in sync"
    blocker = Blocker(BlockerKind.PARTITION, message, remedy, nodes=question.nodes(id_))
    return Wait(Reason.ROLLING_NODES, message, after=2.0, blockers=(blocker,))


def _restart(question: RestartQuestion, id_: int) -> RestartNode:
    node, pod, owner = question.node(id_), question.fleet.pods.get(id_), question.fleet.sets.get(id_)
    # Of one that does not run, all partitions are: there it has to come back in sync with every one.
    lives = question.replication is not None and node is not None and node.state is NodeState.LIVE
    most = MOST_LAGGING if len(question.in_flight) < FEW else 0
    lagging, names = question.replication.out_of_sync(id_, most) if question.replication and lives else (0, ())
    return RestartNode(
        node_id=id_,
        title=question.title(id_),
        pod=pod.name if pod else "",
        pod_uid=pod.uid if pod else "",
        before=supported_now(node) if node and not pod else "",
        after=owner.update_revision if owner else "",
        broker_epoch=node.broker_epoch if node else -1,
        incarnation=node.incarnation if node and node.broker_epoch < 0 else "",
        out_of_sync=lagging,
        consent=QUORUM_OF_ONE if is_only_voter(question, id_) else "",
        lagging=frozenset(map(mark_of, names)) if lagging == len(names) else frozenset(),
        by=question.driver.request,
    )
