"""A restart in flight at each position of a migration and on each edge: when it is over, and how it is waited for."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.facts.observation import Node, NodeState, Observation, Unknown
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.migration.state import MigrationState
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import (
    BROKERS,
    BY_HAND,
    Look,
    a_node,
    cluster,
    compared,
    memory_from,
    message_of,
    status_that_requests_consents,
    wanting,
    without_quorum,
)
from tests.kafkafeatures.core.test_migration_pods import THROUGH_PODS, in_pods
from tests.kafkafeatures.ensembles import claimed, elected
from tests.kafkafeatures.worlds import NOW, SILENT, known

P, D = Position, Desired
FLYING = 2  # the broker whose restart is in flight
FLAGGED = tuple(a_node(id_, Shape.FLAGGED_BROKER) for id_ in BROKERS)


def with_znodes(observation: Observation, **parts: Any) -> Observation:
    assert not isinstance(observation.zookeeper, Unknown)
    return replace(observation, zookeeper=known(replace(observation.zookeeper.value, **parts)))


def without_partitions(observation: Observation) -> Observation:
    """Make the partitions unreadable."""
    return replace(observation, partitions=Unknown(SILENT))


AT = {
    P.ZOOKEEPER: cluster(P.ZOOKEEPER),
    P.PRE_MIGRATION: cluster(P.PRE_MIGRATION),
    P.FLAGGING: cluster(P.PRE_MIGRATION, *FLAGGED[1:]),
    P.COPYING: without_partitions(with_znodes(cluster(P.PRE_MIGRATION, *FLAGGED), controller=claimed(3003, epoch=3))),
    P.COPIED: cluster(P.COPIED),
    P.DUAL_WRITE: cluster(P.DUAL_WRITE),
    P.NO_CONTROLLER: without_partitions(without_quorum(cluster(P.COPIED))),
    P.RELEASED: without_quorum(with_znodes(cluster(P.COPIED), controller=elected(1), migration=None)),
    P.FINALIZED: cluster(P.FINALIZED),
}
"""Every position but `Finalizing`, with all nodes running."""
SENT = stamp(NOW - timedelta(hours=2))
DRIVERS = {"a person": BY_HAND, "pods": THROUGH_PODS}
STATUS = compared()


def stage_of(look: Look) -> MigrationState:
    (stage,) = (stage for stage in look.stages if isinstance(stage, MigrationState))
    return stage


def third_look(
    desired: Desired, observation: Observation, rollout: Rollout, *sent: RestartInFlight, consents: str = ""
) -> Look:
    """Return the decision of the third reconciliation in a row. Restarts that were over, or withdrawn, in the first two
    are no longer in flight.
    """
    look: Look | None = None
    wanted = wanting(desired, rollout=rollout, consents=frozenset(consents.split()))
    status = status_that_requests_consents(wanted, observation, STATUS)
    for _ in range(3):
        memory = memory_from(status)
        look = Look(wanted, observation, before=look, seconds=5.0, sent=sent, status=status, memory=memory)
        ended = [restart for restart, _ in (*stage_of(look).over, *stage_of(look).withdrawn)]
        sent = tuple(step for step in sent if step not in ended)
    assert look is not None
    return look


def in_flight(id_: int, rollout: Rollout) -> RestartInFlight:
    """Build a restart that began hours ago, of a node that ran as another process then."""
    title, pod = (f"controller {id_}", f"controller-{id_}") if id_ > 3000 else (f"broker {id_}", f"broker-{id_}")
    before = {"incarnation": "before"} if id_ > 3000 else {"czxid": 50}
    step = RestartNode(id_, title, **before) if rollout is BY_HAND else RestartNode(id_, title, pod, "before", **before)
    return RestartInFlight(step, SENT, Via.PERSON if rollout is BY_HAND else Via.API_SERVER, stopping_since=SENT)


def in_pods_or_not(observation: Observation, rollout: Rollout) -> Observation:
    if rollout is BY_HAND:
        return observation
    ids = [node.id for node in observation.nodes]
    return in_pods(observation, pods=ids)


def without(observation: Observation, id_: int) -> Observation:
    """Remove a node from every list."""
    assert not isinstance(observation.zookeeper, Unknown)
    brokers = observation.zookeeper.value.brokers
    assert isinstance(brokers, dict)
    other_brokers = {broker_id: broker for broker_id, broker in brokers.items() if broker_id != id_}
    return with_znodes(
        replace(observation, nodes=tuple(node for node in observation.nodes if node.id != id_)), brokers=other_brokers
    )


def restarts_no_node(position: Position, desired: Desired) -> bool:
    progress = stage_of(Look(wanting(desired), AT[position])).progress
    return isinstance(progress, MigrationProgress) and progress.way is not None and progress.way.restarts is None


# Positions with a desired phase: those whose next edge restarts no node, and all others.
WAYS = [(position, desired) for position, desired in product(AT, D) if desired is not D.NONE]
RESTARTING_NONE = [way for way in WAYS if restarts_no_node(*way)]
RESTARTING = [way for way in WAYS if way not in RESTARTING_NONE]


def test_the_cases_of_this_file_cover_every_position_but_finalizing() -> None:
    assert {position for position, _ in WAYS} == {*Position} - {P.FINALIZING}
    assert {position for position, desired in RESTARTING_NONE if desired is D.ROLLED_BACK} == {
        P.PRE_MIGRATION, P.FLAGGING, P.COPYING, P.COPIED, P.NO_CONTROLLER,
    }  # fmt: skip


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize(("position", "desired"), RESTARTING_NONE)
def test_an_edge_that_restarts_no_node_does_not_wait_for_a_broker_that_is_back(
    position: Position, desired: Desired, driver: str, *, is_read: bool
) -> None:
    """The decision is the same as without the restart in flight, although it is not known whether the broker is in
    sync, or it was not back for stableFor.
    """
    observation = in_pods_or_not(
        AT[position] if is_read else without_partitions(AT[position]), rollout := DRIVERS[driver]
    )
    expected = third_look(desired, observation, rollout)
    look = third_look(desired, observation, rollout, in_flight(FLYING, rollout))
    assert (type(look.decision), message_of(look)) == (type(expected.decision), message_of(expected))


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize(("position", "desired"), RESTARTING_NONE)
def test_an_edge_that_restarts_no_node_names_a_broker_that_is_away(
    position: Position, desired: Desired, driver: str, *, is_read: bool
) -> None:
    observation = in_pods_or_not(
        AT[position] if is_read else without_partitions(AT[position]), rollout := DRIVERS[driver]
    )
    survey = known(Survey(assigned={1: "orders-0", FLYING: "orders-1"}, controller_epoch=3))
    away = replace(without(observation, FLYING), surveyed=survey)
    look = third_look(desired, away, rollout, in_flight(FLYING, rollout))
    assert isinstance(look.decision, Wait | Stalled)
    unread_partitions = "it is not known whether every broker that has replicas is registered"
    assert (
        "broker 2" in message_of(look)
        or "pod broker-2" in message_of(look)
        or (not is_read and unread_partitions in message_of(look))
    )


def test_a_broker_in_flight_is_not_waited_for_with_a_consent_to_lose_its_records() -> None:
    away = without(AT[P.NO_CONTROLLER], FLYING)
    away = replace(away, surveyed=known(Survey(assigned={FLYING: "orders-1"}, controller_epoch=3)))
    look = third_look(D.ROLLED_BACK, away, BY_HAND, in_flight(FLYING, BY_HAND), consents="zk-lose-broker:2")
    assert isinstance(look.decision, Act)
    assert isinstance(look.decision.step, DeleteZnodes)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("position", [position for position, desired in RESTARTING_NONE if desired is D.ROLLED_BACK])
def test_an_edge_of_the_rollback_that_restarts_no_node_does_not_wait_for_a_controller_in_flight(
    position: Position, driver: str
) -> None:
    """All controllers are to be stopped anyway."""
    desired = D.ROLLED_BACK
    observation, rollout = in_pods_or_not(AT[position], DRIVERS[driver]), DRIVERS[driver]
    expected = third_look(desired, observation, rollout)
    look = third_look(desired, observation, rollout, in_flight(3002, rollout))
    assert (type(look.decision), message_of(look)) == (type(expected.decision), message_of(expected))


@pytest.mark.parametrize(("position", "desired"), RESTARTING)
def test_a_node_that_is_back_stays_in_flight_until_it_is_stable_where_the_edge_restarts_nodes(
    position: Position, desired: Desired
) -> None:
    stage = stage_of(Look(wanting(desired), AT[position], sent=(in_flight(FLYING, BY_HAND),)))
    assert stage.over == ()
    assert stage.roll is not None
    assert [restart.step.node_id for restart in stage.roll.in_flight] == [FLYING]


def test_the_results_of_restarts_that_ended_are_recorded() -> None:
    """The broker is back in sync; the controller is to be stopped, so nobody waits for it any more."""
    flying = in_flight(FLYING, BY_HAND), in_flight(3002, BY_HAND)
    stage = stage_of(Look(wanting(D.ROLLED_BACK), AT[P.NO_CONTROLLER], sent=flying, status=STATUS))
    assert stage.over == ((flying[0], Result.APPLIED), (flying[1], Result.SUPERSEDED))


UNPROVEN: dict[str, Node] = {
    "it does not answer": replace(FLAGGED[1], answer=Unknown(SILENT), state=NodeState.UNREACHABLE),
    "it does not say which node it is": replace(FLAGGED[1], proved_at="", settings={}),
    "it has no znode": replace(FLAGGED[1], czxid=-1),
    "it is the process of before": replace(FLAGGED[1], czxid=50),  # as in `in_flight`
}


@pytest.mark.parametrize("lacks", UNPROVEN)
def test_a_restart_is_not_over_while_the_new_process_of_its_node_is_unproven(lacks: str) -> None:
    observation = without_partitions(cluster(P.COPIED, UNPROVEN[lacks]))
    stage = stage_of(Look(wanting(D.ROLLED_BACK), observation, sent=(in_flight(FLYING, THROUGH_PODS),)))
    assert stage.over == ()


@pytest.mark.parametrize("position", [P.COPYING, P.COPIED])
def test_an_eviction_that_was_not_sent_ends_on_an_edge_that_restarts_no_node(position: Position) -> None:
    """The pod still runs as before: the eviction is recorded as no longer wanted."""
    observation = in_pods_or_not(AT[position], THROUGH_PODS)
    assert not isinstance(observation.workloads, Unknown)
    pod = observation.workloads.value.pod("broker-2")
    assert pod is not None
    restart = RestartInFlight(RestartNode(FLYING, "broker 2", "broker-2", pod.uid, czxid=102), SENT, Via.API_SERVER)
    status = Status(intents=(restart.to_intent(),))
    look = Look(wanting(D.ROLLED_BACK, rollout=THROUGH_PODS), observation, sent=(restart,), status=status)
    assert isinstance(look.decision, Wait)
    (intent,) = stage_of(look).decided(look.decision, status).intents
    assert "unwantedSince" in intent.unknown
