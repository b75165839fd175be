"""Brokers that are not registered with the quorum during a migration: reported by name, with a remedy."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import Migration
from kafkafeatures.core.engine.kind import ReadContext
from kafkafeatures.core.facts.observation import Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.migration.led import not_led
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.progress import MigrationProgress, progress_of
from kafkafeatures.core.migration.read_requirements import demands_of
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import Look, a_node, approved, cluster, looks, message_of, restarted, wanting
from tests.kafkafeatures.core.preflights import from_file
from tests.kafkafeatures.worlds import NOW, SILENT, known, node

P, D = Position, Desired


def with_level(id_: int, level: str) -> Node:
    """Build a broker with the flag whose file names another protocol version than the others."""
    flagged = a_node(id_, Shape.FLAGGED_BROKER)
    return replace(flagged, settings={**flagged.settings, IBP: from_file(level)})


def without(observation: Observation, id_: int) -> Observation:
    """Remove a broker that was unregistered from every list."""
    return replace(observation, nodes=tuple(node for node in observation.nodes if node.id != id_))


def test_a_broker_with_the_id_of_a_silent_voter_does_not_count_as_the_voter() -> None:
    progress = progress_of(cluster(P.COPIED), D.DUAL_WRITE, frozenset())
    assert isinstance(progress, MigrationProgress)
    assert list(not_led(progress, frozenset())) == []
    silent = replace(a_node(3002, Shape.MIGRATING_CONTROLLER), state=NodeState.UNREACHABLE)
    namesake = replace(a_node(1, Shape.FLAGGED_BROKER), id=3002)
    observation = cluster(P.COPIED, silent)
    with_both = replace(progress, observation=replace(observation, nodes=(*observation.nodes, namesake)))
    (blocker,) = not_led(with_both, frozenset())
    assert blocker.message == "controller 3002 is a voter that does not answer"


def test_no_broker_is_restarted_while_a_voter_does_not_answer_or_has_not_registered() -> None:
    silent = replace(a_node(3002, Shape.MIGRATING_CONTROLLER), state=NodeState.UNREACHABLE)
    look = looks(wanting(D.DUAL_WRITE), cluster(P.COPIED, silent))
    assert isinstance(look.decision, Wait)
    assert "controller 3002 is a voter that does not answer" in message_of(look)
    unregistered = replace(cluster(P.COPIED), registered_controllers=known(frozenset({3001, 3003})))
    look = looks(wanting(D.DUAL_WRITE), unregistered)
    assert isinstance(look.decision, Wait)
    assert "controller 3002 is a voter that has not registered" in message_of(look)


def test_a_running_controller_that_is_no_voter_is_reported_before_the_quorum_takes_over() -> None:
    """A quorum that was begun with one controller alone: Kafka does not ask who is to be in it."""
    never_added = replace(a_node(3002, Shape.MIGRATING_CONTROLLER), is_voter=False)
    look = looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, never_added))
    assert isinstance(look.decision, Wait)
    assert look.decision.reason is Reason.WAITING_FOR_QUORUM
    assert "controller 3002 runs, but is not a voter of the quorum" in message_of(look)
    assert "kafka-metadata-quorum.sh add-controller" in message_of(look)


STOPPED = replace(
    a_node(3004, Shape.MIGRATING_CONTROLLER), state=NodeState.GHOST, answer=Unknown(SILENT), is_voter=False,
    settings={}, proved_at="",
)  # fmt: skip
"""A controller that is no voter any more, and does not run."""


def test_a_stopped_controller_that_is_no_voter_is_no_blocker_as_kafka_cannot_unregister_it() -> None:
    """The first node of each edge is restarted: a broker that is not the controller, and a standby controller."""
    assert restarted(looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, STOPPED))) == 2
    assert restarted(approved(cluster(P.DUAL_WRITE, STOPPED))) == 3001


def test_a_stopped_controller_that_is_a_voter_is_waited_for() -> None:
    voter = replace(STOPPED, is_voter=True, state=NodeState.UNREACHABLE)
    assert isinstance(looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, voter)).decision, Wait)
    assert isinstance(approved(cluster(P.DUAL_WRITE, voter)).decision, Wait)


@pytest.mark.parametrize("desired", [D.DUAL_WRITE, D.ROLLED_BACK])
def test_a_broker_with_another_protocol_version_is_a_blocker_once_the_quorum_has_taken_over(
    desired: Desired,
) -> None:
    """Kafka fences it, and says so in its log alone."""
    moved = a_node(1, Shape.KRAFT_BROKER)
    look = looks(wanting(desired), cluster(P.COPIED, moved, with_level(2, "3.8")))
    assert isinstance(look.decision, Stalled)
    assert look.decision.reason is Reason.MIGRATION_BLOCKED
    assert f"broker 2 has {IBP} 3.8, and the controllers have metadata.version 3.9-IV0" in message_of(look)
    assert f"set {IBP}=3.9 on broker 2, and restart it" in message_of(look)


def test_a_protocol_version_with_its_minor_level_equals_its_short_name() -> None:
    assert restarted(looks(wanting(D.DUAL_WRITE), cluster(P.COPIED, with_level(2, "3.9-IV0")))) == 1


def test_the_remedy_for_one_broker_with_another_protocol_version_does_not_format_the_quorum_again() -> None:
    message = message_of(looks(wanting(D.DUAL_WRITE), cluster(P.PRE_MIGRATION, with_level(2, "3.8"))))
    assert f"set {IBP}=3.9 on broker 2, and restart it" in message
    assert "--release-version" not in message


@pytest.mark.parametrize(
    ("position", "desired"), [(P.COPIED, D.DUAL_WRITE), (P.DUAL_WRITE, D.ROLLED_BACK), (P.COPIED, D.ROLLED_BACK)]
)
def test_an_unregistered_broker_with_replicas_is_reported_with_a_remedy(position: Position, desired: Desired) -> None:
    look = looks(wanting(desired), without(cluster(position), 2))
    assert isinstance(look.decision, Wait)
    assert (
        "broker 2 has replicas but is not registered: it is not known in which mode it would start again"
        in message_of(look)
    )
    assert "start broker 2 in the mode of the other brokers, or move its replicas to other brokers" in message_of(look)


def test_a_migration_is_not_finalized_while_a_broker_with_replicas_is_not_registered() -> None:
    look = approved(without(cluster(P.DUAL_WRITE), 2))
    assert not isinstance(look.decision, Act)
    assert "broker 2 has replicas but is not registered" in message_of(look)


def test_a_broker_that_is_being_restarted_need_not_be_registered() -> None:
    step = RestartNode(2, "broker 2", earlier_support="", czxid=102)
    restart = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)
    look = looks(wanting(D.DUAL_WRITE), without(cluster(P.COPIED), 2), sent=(restart,))
    assert "has replicas but is not registered" not in message_of(look)


def test_partitions_are_read_before_the_controllers_are_stopped() -> None:
    context = ReadContext(wanting(D.ROLLED_BACK), Status(), NOT_ASKED, NOW, cluster(P.COPIED))
    assert demands_of(context, Migration(D.ROLLED_BACK)).partitions


def test_the_remedy_for_a_running_unregistered_broker_is_to_restart_it() -> None:
    """A broker that runs does not register again by itself."""
    broker = node(2, state=NodeState.REFUSED, said=SILENT)
    look = Look(wanting(D.DUAL_WRITE), cluster(P.DUAL_WRITE, broker))
    assert isinstance(look.decision, Wait)
    assert "these nodes do not answer: 2; brokers that run, but were unregistered: 2" in message_of(look)
    (blocker,) = look.decision.blockers
    assert blocker.remedy == "restart each of them with its settings, so that it registers again"


def test_an_unregistered_broker_is_named_beside_a_broker_that_is_only_away() -> None:
    away, broker = node(1, state=NodeState.UNREACHABLE, said=SILENT), node(2, state=NodeState.REFUSED, said=SILENT)
    look = Look(wanting(D.DUAL_WRITE), cluster(P.DUAL_WRITE, away, broker))
    assert "these nodes do not answer: 1, 2; brokers that run, but were unregistered: 2" in message_of(look)
