"""Blockers to the next step of a migration, and waits that start again after a reconciliation without a reading."""

from __future__ import annotations

import pytest

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Wait
from kafkafeatures.core.facts.observation import Node, NodeState, Observation, Unknown
from kafkafeatures.core.facts.znodes import StoreComparison
from kafkafeatures.core.migration.memory import MigrationMemory
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.migrations import (
    FINALIZING,
    Look,
    a_node,
    approved,
    cluster,
    looks,
    memory_from,
    message_of,
    restarted,
    status_after,
    status_after_decision,
    wanting,
)
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.worlds import NOW, SILENT

P, D = Position, Desired


def fenced(id_: int, shape: Shape) -> Node:
    return replace(a_node(id_, shape), state=NodeState.FENCED)


def test_no_broker_is_moved_to_kraft_mode_while_another_broker_is_fenced() -> None:
    look = looks(wanting(D.DUAL_WRITE), cluster(P.COPIED, fenced(2, Shape.FLAGGED_BROKER)))
    assert not isinstance(look.decision, Act)
    assert "broker 2 is fenced" in message_of(look)
    assert "bring broker 2 back" in message_of(look)


def test_no_broker_is_moved_back_to_zookeeper_mode_while_a_broker_is_fenced() -> None:
    look = looks(wanting(D.ROLLED_BACK), cluster(P.DUAL_WRITE, fenced(2, Shape.KRAFT_BROKER)))
    assert not isinstance(look.decision, Act)
    assert "broker 2 is fenced" in message_of(look)


def test_a_migration_is_not_finalized_while_a_broker_is_fenced() -> None:
    look = approved(cluster(P.DUAL_WRITE, fenced(2, Shape.KRAFT_BROKER)))
    assert not isinstance(look.decision, Act)
    assert "broker 2 is fenced" in message_of(look)


@pytest.mark.parametrize(("position", "desired"), [(P.COPIED, D.ROLLED_BACK), (P.COPIED, D.DUAL_WRITE)], ids=str)
def test_a_migration_waits_while_unread_partitions_hide_whether_every_broker_with_replicas_is_registered(
    position: Position, desired: Desired
) -> None:
    """A broker may run in KRaft mode then: the controllers are not stopped, and no other broker is moved."""
    look = looks(wanting(desired), replace(cluster(position), partitions=Unknown(SILENT)))
    assert isinstance(look.decision, Wait)
    assert "it is not known whether every broker that has replicas is registered" in message_of(look)
    assert "stop the controllers" not in message_of(look)


def test_a_migration_is_not_finalized_while_a_partition_is_reassigned() -> None:
    moving = (row("orders", 1, 2, 3, adding=(3,), removing=(1,)),)
    look = approved(cluster(P.DUAL_WRITE, partitions=moving))
    assert not isinstance(look.decision, Act)
    assert "1 partition (orders-0) is being reassigned" in message_of(look)


@pytest.mark.parametrize(
    ("position", "desired", "shape", "named", "remedy"),
    [
        (P.PRE_MIGRATION, D.DUAL_WRITE, Shape.PLAIN_BROKER, "nodes 1, 2", "bring each of them back"),
        (P.DUAL_WRITE, D.ROLLED_BACK, Shape.KRAFT_BROKER, "broker 1", "bring broker 1 back"),
    ],
    ids=["in ZooKeeper mode", "in KRaft mode"],
)
def test_a_silent_node_without_a_restart_in_flight_is_a_blocker_unlike_the_node_that_is_restarted(
    position: Position, desired: Desired, shape: Shape, named: str, remedy: str
) -> None:
    """Broker 2 is being restarted; broker 1 is not."""
    in_zookeeper = shape is Shape.PLAIN_BROKER
    step = RestartNode(2, "broker 2", czxid=102) if in_zookeeper else RestartNode(2, "broker 2", broker_epoch=102)
    sent = RestartInFlight(step, Stamp("2026-01-02T03:00:00Z"), Via.PERSON)

    def look(*away: int) -> Look:
        silent = (replace(a_node(id_, shape), answer=Unknown(SILENT), state=NodeState.UNREACHABLE) for id_ in away)
        return looks(wanting(desired), cluster(position, *silent), sent=(sent,))

    restarted_only, both = look(2), look(1, 2)
    assert isinstance(restarted_only.decision, Wait)
    assert message_of(restarted_only) == "broker 2 does not answer yet"
    assert isinstance(both.decision, Wait)
    assert (both.decision.subject, both.decision.remedy) == (named, remedy)


def test_the_consents_of_a_migration_are_cleared_from_the_status_once_it_is_finalized() -> None:
    status = status_after_decision(approved(cluster(P.DUAL_WRITE)))
    assert status.migration is not None
    assert status.migration.consents == ("zk-finalize",)
    memory = memory_from(status)
    over = status_after_decision(looks(FINALIZING, cluster(P.FINALIZED), status=status, memory=memory), status)
    assert over.migration is not None
    assert over.migration.consents == ()


@pytest.mark.parametrize(
    "meanwhile", [cluster(P.DUAL_WRITE), cluster(P.DUAL_WRITE, zookeeper=Unknown(SILENT))], ids=["known", "unknown"]
)
def test_a_consent_that_was_removed_from_the_document_and_added_again_allows_no_later_step(
    meanwhile: Observation,
) -> None:
    first = approved(cluster(P.DUAL_WRITE))
    status = status_after_decision(first)
    memory = memory_from(status)
    without = looks(replace(first.wanted, consents=frozenset()), meanwhile, status=status, memory=memory)
    status_without = status_after(without, status)
    assert status_without.migration is not None
    assert status_without.migration.consents == ()
    memory = memory_from(status_without)
    approvals = frozenset({first.proposal.plan.hash})
    added_again = looks(
        replace(first.wanted, approvals=approvals), cluster(P.DUAL_WRITE), status=status_without, memory=memory
    )
    assert not isinstance(added_again.decision, Act)


def test_the_consent_to_finalize_is_spent_also_where_a_person_finalized_the_migration_by_hand() -> None:
    assert status_after_decision(looks(FINALIZING, cluster(P.FINALIZED))).spent_consents == ("zk-finalize",)


def test_the_consent_to_finalize_is_not_spent_in_dual_write_without_an_approval() -> None:
    assert status_after_decision(looks(FINALIZING, cluster(P.DUAL_WRITE))).spent_consents == ()


def test_no_consent_is_spent_by_a_finalized_migration_whose_document_has_none() -> None:
    assert status_after_decision(looks(wanting(D.FINALIZED), cluster(P.FINALIZED))).spent_consents == ()


@pytest.fixture
def memory_after_a_minute() -> MigrationMemory:
    """Build the memory of a process that observed, for a minute, unchanged znodes and running controllers, and compared
    the stores.
    """
    memory = MigrationMemory()
    for now in (0.0, 60.0):
        memory = memory.observed(
            now, known=True, end=100, offset=99, compared=StoreComparison(NOW, 99), controllers=True
        )
    return memory


def test_a_process_remembers_the_stillness_of_znodes_the_lag_and_the_comparison(
    memory_after_a_minute: MigrationMemory,
) -> None:
    memory = memory_after_a_minute
    assert (memory.still_for(60.0), memory.lag(60.0), memory.comparison(60.0)) == (60.0, 0.0, StoreComparison(NOW, 99))


def test_a_reconciliation_without_a_reading_clears_the_lag_and_the_comparison_and_starts_all_times_again(
    memory_after_a_minute: MigrationMemory,
) -> None:
    interrupted = memory_after_a_minute.interrupted("the cluster could not be read")
    memory = interrupted.observed(70.0, known=True, end=-1, offset=99, controllers=True)
    assert (memory.lag(71.0), memory.comparison(71.0)) == (None, None)
    assert (memory.still_for(71.0), memory.controllers_for(71.0).total_seconds()) == (1.0, 1.0)


def test_the_time_of_an_unknown_phase_continues_through_a_failed_observation() -> None:
    lost = MigrationMemory().observed(10.0, known=False, end=-1, offset=-1)
    assert lost.interrupted("the cluster could not be read").unknown_since == 10.0


def test_the_first_controller_is_restarted_to_finalize_once_no_blocker_is_left() -> None:
    """Without this test, those above might pass only because no controller is ever restarted."""
    assert restarted(approved(cluster(P.DUAL_WRITE))) == 3001
