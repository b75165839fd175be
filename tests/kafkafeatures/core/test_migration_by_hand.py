"""What a person is asked to restart on the way from ZooKeeper to KRaft, and what is said until that has been done."""

from __future__ import annotations

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.facts.observation import MetadataMode
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import a_node, cluster, looks, said, wanting
from tests.kafkafeatures.worlds import known

P, D = Position, Desired


def test_a_restart_that_was_asked_for_stands_while_its_node_does_not_say_how_it_is() -> None:
    """A node that is being restarted stops, or has just been started."""
    step = RestartNode(2, "broker 2", czxid=102)
    one = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    silent = replace(a_node(2, Shape.PLAIN_BROKER), settings={}, proved_at="")
    found = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, silent), sent=(one,))
    (stage,) = (stage for stage in found.stages if stage.kind == "Migration")
    assert stage.withdrawn == ()


def test_a_broker_that_is_away_for_its_restart_is_waited_for_although_no_list_has_it() -> None:
    """In ZooKeeper a broker is registered while it runs, and with the quorum it was not yet."""
    before = cluster(P.PRE_MIGRATION, a_node(3, Shape.FLAGGED_BROKER))
    there = tuple(node for node in before.nodes if node.id != 2)
    lists = known(frozenset({3})), known(frozenset({3001, 3002, 3003}))
    away = replace(before, nodes=there, registered_brokers=lists[0], registered_controllers=lists[1])
    step = RestartNode(2, "broker 2", czxid=102)
    assert not step.is_overtaken(away)
    one = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    found = looks(wanting(D.DUAL_WRITE), away, sent=(one,))
    assert isinstance(found.decision, Wait)
    assert said(found) == "broker 2 is not registered: start it; if it was unregistered while it ran, restart it"
    assert step.is_overtaken(replace(away, mode=known(MetadataMode.KRAFT)))


def test_a_node_that_has_its_settings_is_not_asked_for_with_a_newer_kafka() -> None:
    step = RestartNode(2, "broker 2", czxid=102)
    one = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    silent = replace(a_node(2, Shape.FLAGGED_BROKER), settings={}, proved_at="")
    found = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, silent), sent=(one,))
    assert "restart broker 2 as a broker in ZooKeeper mode that migrates; its settings are not known now" in said(found)
    assert "newer" not in said(found)
