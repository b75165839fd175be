"""Restarts that a person is asked for during a migration from ZooKeeper to KRaft, and their messages until they are
done.
"""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.facts.observation import MetadataMode, NodeState, Observation, Unknown
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import Look, a_node, cluster, looks, message_of, wanting
from tests.kafkafeatures.worlds import SILENT, known

P, D = Position, Desired
STEP = RestartNode(2, "broker 2", czxid=102)
"""A restart of broker 2, which is registered in ZooKeeper."""
REQUESTED_AT = Stamp("2026-01-02T03:00:00Z")
REQUEST = RestartInFlight(STEP, REQUESTED_AT, Via.PERSON)
REQUEST_IN_KRAFT = RestartInFlight(RestartNode(2, "broker 2", broker_epoch=102), REQUESTED_AT, Via.PERSON)
"""A request to restart broker 2, which is registered with the quorum."""


def test_a_request_to_restart_a_node_by_hand_stands_while_the_settings_of_the_node_are_unknown() -> None:
    """A node that is being restarted stops, or has just been started."""
    silent = replace(a_node(2, Shape.PLAIN_BROKER), settings={}, proved_at="")
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, silent), sent=(REQUEST,))
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    assert stage.withdrawn == ()


def without_broker_2() -> Observation:
    """Build a cluster in which broker 2 is registered nowhere: it has no znode in ZooKeeper once it has stopped, and
    has not registered with the quorum yet.
    """
    observation = cluster(P.PRE_MIGRATION, a_node(3, Shape.FLAGGED_BROKER))
    return replace(
        observation,
        nodes=tuple(node for node in observation.nodes if node.id != 2),
        registered_brokers=known(frozenset({3})),
        registered_controllers=known(frozenset({3001, 3002, 3003})),
    )


def test_a_broker_that_a_person_restarts_is_waited_for_although_it_is_registered_nowhere() -> None:
    assert not STEP.is_overtaken(without_broker_2())
    look = looks(wanting(D.DUAL_WRITE), without_broker_2(), sent=(REQUEST,))
    assert isinstance(look.decision, Wait)
    assert message_of(look) == (
        "broker 2 is not registered: start it (if its log ends with NodeExists, its last process was killed: start it "
        "again once zookeeper.session.timeout.ms, 18 s by default, is over); if it runs, see its log, and if that "
        "shows no reason, restart it"
    )


def test_the_restart_of_a_broker_that_is_registered_nowhere_in_kraft_mode_is_over() -> None:
    """A person has unregistered the broker."""
    assert STEP.is_overtaken(replace(without_broker_2(), mode=known(MetadataMode.KRAFT)))


def test_a_restart_in_a_migration_asks_for_new_settings_and_not_for_a_newer_kafka() -> None:
    silent = replace(a_node(2, Shape.FLAGGED_BROKER), settings={}, proved_at="")
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, silent), sent=(REQUEST,))
    request = "broker 2 must be restarted as a broker in ZooKeeper mode that migrates; it is not known whether it was"
    assert request in message_of(look)
    assert "newer" not in message_of(look)


AN_HOUR = 3600.0
FORWARD_AND_BACK = pytest.mark.parametrize(
    ("desired", "before", "other_shape"),
    [(D.DUAL_WRITE, Shape.FLAGGED_BROKER, Shape.KRAFT_BROKER), (D.ROLLED_BACK, Shape.KRAFT_BROKER, Shape.KRAFT_BROKER)],
    ids=["last broker to KRaft mode", "first broker back"],
)


@FORWARD_AND_BACK
def test_a_broker_that_restarts_slowly_is_waited_for_although_the_phase_of_the_migration_depends_on_it(
    desired: Desired, before: Shape, other_shape: Shape
) -> None:
    """Until broker 2 answers, it is not known whether all brokers are in KRaft mode, which is the
    phase of dual write.
    """
    observation, requests = with_silent_broker_2(before, other_shape), (REQUEST_IN_KRAFT,)
    first = Look(wanting(desired), observation, sent=requests)
    look = Look(wanting(desired), observation, sent=requests, before=first, seconds=AN_HOUR)
    assert isinstance(look.decision, Wait)
    assert look.decision.reason is Reason.ROLLING_NODES
    assert message_of(look) == "broker 2 does not answer yet"


@FORWARD_AND_BACK
def test_a_silent_broker_that_nobody_restarts_is_reported_and_does_not_hide_the_phase(
    desired: Desired, before: Shape, other_shape: Shape
) -> None:
    """The registration of the broker tells how it ran, and so where the cluster is."""
    observation = with_silent_broker_2(before, other_shape)
    first = Look(wanting(desired), observation)
    look = Look(wanting(desired), observation, before=first, seconds=AN_HOUR)
    assert isinstance(look.decision, Wait)
    assert look.decision.reason is Reason.WAITING_FOR_NODES
    assert message_of(look).startswith("broker 2 is unreachable\nbroker 2 is unreachable; bring broker 2 back")


def with_silent_broker_2(shape: Shape, other_shape: Shape) -> Observation:
    """Build a cluster with all metadata copied, whose broker 2 does not answer; the other brokers have another
    shape.
    """
    silent = replace(a_node(2, shape), answer=Unknown(SILENT), state=NodeState.UNREACHABLE)
    return cluster(P.COPIED, silent, *(a_node(id_, other_shape) for id_ in (1, 3)))


@FORWARD_AND_BACK
@pytest.mark.parametrize("answers", [False, True])
def test_a_request_to_restart_a_broker_by_hand_stands_while_the_broker_stops(
    desired: Desired, before: Shape, other_shape: Shape, *, answers: bool
) -> None:
    """While a broker stops, the quorum has fenced it already, and its registration still has the old epoch."""
    stopping = replace(a_node(2, before), state=NodeState.FENCED)
    if not answers:
        stopping = replace(stopping, answer=Unknown(SILENT))
    other_brokers = [a_node(id_, Shape.FLAGGED_BROKER if desired is D.ROLLED_BACK else other_shape) for id_ in (1, 3)]
    look = looks(wanting(desired), cluster(P.COPIED, stopping, *other_brokers), sent=(REQUEST_IN_KRAFT,))
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    assert stage.withdrawn == ()
    assert "newer" not in message_of(look)  # it restarts with other settings, not with a newer Kafka
