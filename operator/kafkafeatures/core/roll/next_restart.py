"""Choice of the node that is restarted next, or of what the roll waits for.

Pure. Called by `core/roll/roll.py`. Controllers are restarted before brokers, one at a time and alone, followers first.
A stuck node (its pod cannot run as it is) comes before all others: it cannot get worse. Safety never depends on the
order in which nodes are tried.
"""

from __future__ import annotations

from itertools import islice

from kafkafeatures.api.names import KAFKA_VERSION, QUORUM_OF_ONE
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.facts.observation import NodeState, Unknown
from kafkafeatures.core.facts.quorum import next_controller
from kafkafeatures.core.roll import planner
from kafkafeatures.core.roll.admission import (
    forbidden_by,
    refusal_of,
    refused_as_unavailable,
    refused_by_budget,
    stuck_may_go,
)
from kafkafeatures.core.roll.check_input import Refusal, RestartCheckInput, Restarting
from kafkafeatures.core.roll.checks import FOR_ANY_NODE, FOR_ONE_MORE, OF_PODS, refusal
from kafkafeatures.core.roll.coming_back import MOST_LAGGING, mark_of, supported_now
from kafkafeatures.core.roll.halts import is_halted_for
from kafkafeatures.core.roll.lagging import brokers_behind
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.roll.returned import refused_by_unstable_nodes, unstable
from kafkafeatures.core.roll.small_quorums import is_only_voter
from kafkafeatures.core.roll.targets import revision_of
from kafkafeatures.core.roll.voters import refused_by_voters
from kafkafeatures.core.roll.waits import asked, unconfirmed, unread, waiting

Next = Act | Wait | Stalled

MOST_CANDIDATES = 8
"""Most unstable nodes that are tried as the next one: for each of them all partitions are judged anew, which takes
time.
"""
MOST_WITH_LAGGING = 8
"""Most restarts in flight whose lagging partitions are remembered: a status has no room for those of more."""


def next_restart(inputs: RestartCheckInput, needing: frozenset[int]) -> Next:
    """One more restart, or the reason why there is none.

    A broker whose pod is not confirmed (`PodObstacle.is_alone`) holds back only brokers that share a partition with it.
    Once nothing else can be restarted, the roll reports that it waits for this broker.
    """
    obstacle = next((wait for wait in inputs.fleet.waits if wait.is_alone), None)
    if obstacle is not None and not needing and not inputs.in_flight:
        return refusal((*FOR_ANY_NODE, *OF_PODS), inputs) or unconfirmed(inputs, obstacle)
    covered = frozenset(filter(inputs.is_covered, needing))
    chosen = _chosen(inputs, covered or needing)
    if obstacle is None or inputs.in_flight or not isinstance(chosen, Wait) or chosen.reason in _NOT_OF_NODES:
        return chosen
    return replace(unconfirmed(inputs, obstacle, chosen.message), blockers=chosen.blockers)


_NOT_OF_NODES = (Reason.WAITING_FOR_WINDOW, Reason.WAITING_FOR_BUDGET)
"""Reasons of waits that no node causes: they are reported as they are, instead of the wait for an unconfirmed pod."""


def _chosen(inputs: RestartCheckInput, needing: frozenset[int]) -> Next:
    """Steps 5 to 10 of the algorithm in `core/roll/roll.py`, in this order."""
    refused = refusal(FOR_ANY_NODE, inputs)
    if refused is not None:
        return refused
    unsent = {restart.step.node_id: restart for restart in inputs.in_flight if restart.may_be_unsent}
    budget_wait: Wait | None = None
    for id_ in to_free(inputs, needing):
        if stuck_may_go(inputs, id_):
            why_not = refused_by_budget(inputs, id_)
            if why_not is None:
                return _request_or_wait(inputs, unsent[id_]) if id_ in unsent else Act(_restart(inputs, id_))
            budget_wait = budget_wait or why_not
    if budget_wait is not None:
        return budget_wait
    if unsent:
        return _send_again(inputs, next(iter(unsent.values())))
    if not needing:
        return refusal(OF_PODS, inputs) or waiting(inputs)
    refused = refusal(FOR_ONE_MORE, inputs)
    if refused is not None:
        return refused
    if any(inputs.is_controller(restart.step.node_id) for restart in inputs.in_flight):
        return waiting(inputs)
    controllers = frozenset(id_ for id_ in needing if inputs.is_controller(id_))
    if controllers:
        return waiting(inputs) if inputs.in_flight else _next_controller(inputs, controllers)
    return _next_broker(inputs, inputs.permit.in_turn(needing))


def to_free(inputs: RestartCheckInput, needing: frozenset[int]) -> tuple[int, ...]:
    """Stuck nodes that a restart may free, in the order of their ids: without those whose next pod would have a
    revision that has failed already.
    """
    stuck = (id_ for id_ in sorted(inputs.stuck & needing) if inputs.is_covered(id_))
    return tuple(id_ for id_ in stuck if not is_halted_for(inputs, id_))


def _send_again(inputs: RestartCheckInput, restart: Restarting) -> Next:
    """Next action for a restart whose intent was written and whose old pod still runs: send it once more, or wait.

    The eviction may be on its way, so no other node, unless it is stuck, is restarted until that is known. To send it
    again is safe, because it names the uid of the pod; a request that waits on the pod is not sent again. All checks
    are made again, as a template may have been changed since. A restart that is no longer wanted is not sent again; it
    ends once it can no longer be on its way. A pod that does not run the node of the intent is not evicted either: a
    status can be edited.
    """
    id_ = restart.step.node_id
    pod = inputs.fleet.pods.get(id_)
    if id_ not in inputs.fleet.needing or pod is None or pod.uid != restart.step.pod_uid:
        return waiting(inputs)
    if restart.step.is_not_wanted(inputs.observation):
        return waiting(inputs)
    if any(inputs.is_controller(other) for other in inputs.flying - {id_}):
        return waiting(inputs)  # a stuck controller was restarted meanwhile, so a voter is away
    return refusal_anew(inputs, restart) or _request_or_wait(inputs, restart)


def _request_or_wait(inputs: RestartCheckInput, restart: Restarting) -> Act | Wait:
    """The request; or, if it waits on its pod for another operator already, the wait for that operator."""
    return asked(inputs, restart) if restart.step.is_pending_in(inputs.observation) else Act(restart.step)


def refusal_anew(inputs: RestartCheckInput, restart: Restarting) -> Refusal | None:
    """Refusal of a restart that was decided earlier and is not done yet: all checks again, as if it were not in
    flight.
    """
    without_it, id_ = inputs.without(restart), restart.step.node_id
    refused = refusal(FOR_ANY_NODE, without_it)
    if refused is None and to_free(without_it, frozenset({id_})) and stuck_may_go(without_it, id_):
        return refused_by_budget(without_it, id_)
    return refused or refusal(FOR_ONE_MORE, without_it) or refusal_of(without_it, id_, restart.step.consent)


def _next_controller(inputs: RestartCheckInput, controllers: frozenset[int]) -> Next:
    """Next controller: followers first, the leader of this reading last. If one follower may not go, such as a combined
    node by its partitions, another one may; the leader only once no follower is left.
    """
    if isinstance(inputs.observation.quorum, Unknown):
        return unread(inputs.observation.quorum, "the quorum is not known")
    quorum, refused, remaining_ids = inputs.observation.quorum.value, None, controllers
    while (id_ := next_controller(remaining_ids, quorum)) is not None and not (refused and id_ == quorum.leader_id):
        why_not = refusal_of(inputs, id_)
        if why_not is None:
            return Act(_restart(inputs, id_))
        refused, remaining_ids = refused or why_not, remaining_ids - {id_}
    return refused or Wait(
        Reason.WAITING_FOR_QUORUM,
        "no controller can be restarted now",
        subject="controllers",
        remedy="bring the controllers back that are missing in the quorum",
    )


def _next_broker(inputs: RestartCheckInput, needing: frozenset[int]) -> Next:
    """First broker, in the planned order, that all its partitions and its budget admit; else what the roll waits for.

    The order is changed for three kinds of brokers: unstable ones are the only candidates while there are any; those
    that are behind go earlier, as a restart may help them; and the first of an unknown image goes alone.
    """
    replication, admission = inputs.replication, inputs.admission()
    if replication is None or admission is None:  # `partitions_are_known` has refused already
        remedy = "make the brokers reachable, and grant DESCRIBE on the cluster and on all topics"
        return Wait(Reason.PREFLIGHT, "the partitions are not known", subject="partitions", remedy=remedy)
    too_few = refused_by_voters(inputs)
    if too_few is not None:
        return too_few
    availability = inputs.desired.rollout.availability
    if any(inputs.binaries.is_unknown(restart.step.node_id) for restart in inputs.in_flight):
        return waiting(inputs)
    order = planner.order(replication, needing, inputs.stuck, most=inputs.cap, availability=availability)
    recent = unstable(inputs)
    if recent:  # no other node may go, but a node that does not stay up may need just this restart
        allowed = (id_ for id_ in order if id_ in recent and refused_by_unstable_nodes(inputs, id_) is None)
        order = tuple(islice(allowed, MOST_CANDIDATES))
    if recent and not order:
        return refused_by_unstable_nodes(inputs) or waiting(inputs)
    # An unstable candidate is judged as if the other unstable nodes were away.
    of_unstable = {id_: inputs.admission(beside=frozenset(recent) - {id_}) or admission for id_ in order if recent}
    behind_since = brokers_behind(inputs)
    order = tuple(sorted(order, key=lambda id_: id_ not in behind_since))  # a restart may help those that are behind
    unknown = [id_ for id_ in order if inputs.binaries.is_unknown(id_)]
    none_is_away = not inputs.in_flight and not inputs.gone
    budget_wait: Wait | None = None
    # One node on an unknown image goes first and alone, to learn what its binary supports. Where that has to wait,
    # nodes on known images go.
    for id_ in (*(unknown if none_is_away else ()), *(known_id for known_id in order if known_id not in set(unknown))):
        if id_ not in inputs.unavailable and of_unstable.get(id_, admission).allows(id_):
            why_not = refused_by_budget(inputs, id_)
            if why_not is None:
                return Act(_restart(inputs, id_))
            budget_wait = budget_wait or why_not
    if inputs.in_flight:
        return waiting(inputs)
    if budget_wait is not None:
        return budget_wait
    first = next((id_ for id_ in order if id_ not in inputs.unavailable), None)
    if first is None:
        return refused_as_unavailable(inputs, order[0])
    if of_unstable.get(first, admission).allows(first):  # so its image is unknown, and other nodes are away
        text = f"{inputs.title(first)} is restarted alone, as the Kafka version of its new image is not known"
        remedy = f"bring {inputs.titles(inputs.gone)} back, or set the template's annotation {KAFKA_VERSION}"
        return Wait(Reason.ROLLING_NODES, f"{text}; {remedy}", subject=inputs.title(first), remedy=remedy)
    return forbidden_by(inputs, first, of_unstable.get(first, admission).forbidding(first))


def _restart(inputs: RestartCheckInput, id_: int) -> RestartNode:
    """Step that restarts this node, with what is needed later to tell its next process from the present one."""
    node, pod = inputs.node(id_), inputs.fleet.pods.get(id_)
    in_zookeeper = node is not None and node.czxid >= 0 and not node.runs_in_kraft_mode
    # A node that does not run is out of sync with all its partitions, which says nothing: it has to come back in sync
    # with every one of them.
    lives = inputs.replication is not None and node is not None and node.state is NodeState.LIVE
    most = MOST_LAGGING if len(inputs.in_flight) < MOST_WITH_LAGGING else 0
    out_of_sync, names = inputs.replication.out_of_sync(id_, most) if inputs.replication and lives else (0, ())
    return RestartNode(
        node_id=id_,
        title=inputs.title(id_),
        pod=pod.name if pod else "",
        pod_uid=pod.uid if pod else "",
        earlier_support=supported_now(node) if node and not pod else "",
        next_revision=revision_of(inputs.targets_of(id_)),
        broker_epoch=node.broker_epoch if node and not in_zookeeper else -1,
        czxid=node.czxid if node and in_zookeeper else -1,
        incarnation=node.incarnation if node and node.broker_epoch < 0 else "",
        out_of_sync=out_of_sync,
        consent=QUORUM_OF_ONE if is_only_voter(inputs, id_) else "",
        lagging=frozenset(map(mark_of, names)) if out_of_sync == len(names) else frozenset(),  # all of them, or none
        by=inputs.driver.request,
    )
