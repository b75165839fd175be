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
from kafkafeatures.core.facts.observation import MetadataMode, NodeState, Unknown
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import Look, a_node, cluster, looks, message_of, wanting
from tests.kafkafeatures.worlds import SILENT, known

P, D = Position, Desired


def test_a_request_to_restart_a_node_by_hand_stands_while_the_settings_of_the_node_are_unknown() -> None:
    """A node that is being restarted stops, or has just been started."""
    step = RestartNode(2, "broker 2", czxid=102)
    restart = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    silent = replace(a_node(2, Shape.PLAIN_BROKER), settings={}, proved_at="")
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, silent), sent=(restart,))
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    assert stage.withdrawn == ()


def test_a_broker_that_a_person_restarts_is_waited_for_although_it_is_registered_nowhere() -> None:
    """A stopped broker has no znode in ZooKeeper, and has not registered with the quorum yet."""
    before = cluster(P.PRE_MIGRATION, a_node(3, Shape.FLAGGED_BROKER))
    remaining = tuple(node for node in before.nodes if node.id != 2)
    lists = known(frozenset({3})), known(frozenset({3001, 3002, 3003}))
    away = replace(before, nodes=remaining, registered_brokers=lists[0], registered_controllers=lists[1])
    step = RestartNode(2, "broker 2", czxid=102)
    assert not step.is_overtaken(away)
    restart = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    look = looks(wanting(D.DUAL_WRITE), away, sent=(restart,))
    assert isinstance(look.decision, Wait)
    assert message_of(look) == (
        "broker 2 is not registered: start it (if its log ends with NodeExists, its last process was killed: start it "
        "again once zookeeper.session.timeout.ms, 18 s by default, is over); if it runs, see its log, and if that "
        "shows no reason, restart it"
    )
    assert step.is_overtaken(replace(away, mode=known(MetadataMode.KRAFT)))


def test_a_restart_in_a_migration_asks_for_new_settings_and_not_for_a_newer_kafka() -> None:
    step = RestartNode(2, "broker 2", czxid=102)
    restart = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    silent = replace(a_node(2, Shape.FLAGGED_BROKER), settings={}, proved_at="")
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, silent), sent=(restart,))
    request = "broker 2 must be restarted as a broker in ZooKeeper mode that migrates; it is not known whether it was"
    assert request in message_of(look)
    assert "newer" not in message_of(look)


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
    silent = replace(a_node(2, before), answer=Unknown(SILENT), state=NodeState.UNREACHABLE)
    observation = cluster(P.COPIED, silent, *(a_node(id_, other_shape) for id_ in (1, 3)))
    flying = (RestartInFlight(RestartNode(2, "broker 2", broker_epoch=102), Stamp("2026-01-02T03:00:00Z"), Via.PERSON),)
    first = Look(wanting(desired), observation, sent=flying)
    later = Look(wanting(desired), observation, sent=flying, before=first, seconds=3600)
    assert isinstance(later.decision, Wait)
    assert later.decision.reason is Reason.ROLLING_NODES
    assert message_of(later) == "broker 2 does not answer yet"
    unasked = Look(wanting(desired), observation, before=Look(wanting(desired), observation), seconds=3600)
    assert isinstance(unasked.decision, Wait)  # its registration tells how it ran, and so where the cluster is
    assert unasked.decision.reason is Reason.WAITING_FOR_NODES
    assert message_of(unasked).startswith("broker 2 is unreachable\nbroker 2 is unreachable; bring broker 2 back")


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
    step = RestartNode(2, "broker 2", broker_epoch=102)
    restart = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    look = looks(wanting(desired), cluster(P.COPIED, stopping, *other_brokers), sent=(restart,))
    (stage,) = (stage for stage in look.stages if stage.kind == "Migration")
    assert stage.withdrawn == ()
    assert "newer" not in message_of(look)  # it restarts with other settings, not with a newer Kafka
