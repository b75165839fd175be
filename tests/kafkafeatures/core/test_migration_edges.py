"""The next edge of a migration from every position, forward and back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkafeatures.api.spec import Desired
from kafkafeatures.api.values import replace
from kafkafeatures.core.migration.edges import (
    BACK,
    FINALIZE,
    FLAG_BROKERS,
    FORWARD,
    GIVE_UP,
    MOVE_BROKERS,
    MOVE_BROKERS_BACK,
    RELEASE,
    START_CONTROLLERS,
    STOP_CONTROLLERS,
    TARGETS,
    UNFLAG_BROKERS,
    Edge,
    NoEdge,
    PersonAction,
    next_edge,
)
from kafkafeatures.core.migration.positions import BrokerMode, ClaimKind, MigrationEvidence, Position
from kafkafeatures.core.migration.way_back import RETURNS
from kraftlog.image import ZkMigrationState as S

P = Position
ALL_FLAGGED = MigrationEvidence(
    S.MIGRATION, ClaimKind.LEADER, 409, {1: BrokerMode.FLAGGED, 2: BrokerMode.FLAGGED}, {3001: True}
)
SOME_IN_KRAFT = MigrationEvidence(
    S.MIGRATION, ClaimKind.LEADER, 409, {1: BrokerMode.KRAFT, 2: BrokerMode.FLAGGED}, {3001: True}
)


def positions_on_the_way(position: Position, desired: Desired) -> list[Position]:
    """Return the positions reached by one edge after another, until nothing is left to do."""
    passed: list[Position] = []
    facts = SOME_IN_KRAFT
    while (edge := next_edge(position, desired, facts)) is not None:
        assert isinstance(edge, Edge)
        position = edge.end_from(position)
        passed.append(position)
        assert len(passed) < 10
        if position is Position.COPIED:
            facts = ALL_FLAGGED
    return passed


def test_no_position_is_skipped_on_the_way_forward() -> None:
    assert positions_on_the_way(P.DUAL_WRITE, Desired.FINALIZED) == [P.FINALIZED]
    assert positions_on_the_way(P.ZOOKEEPER, Desired.DUAL_WRITE) == [P.PRE_MIGRATION, P.COPIED, P.DUAL_WRITE]
    assert positions_on_the_way(P.ZOOKEEPER, Desired.PRE_MIGRATION) == [P.PRE_MIGRATION]
    for position, other in pairwise(FORWARD):
        assert position.end in other.start


def test_every_position_but_finalizing_and_finalized_has_a_way_back_to_zookeeper() -> None:
    assert positions_on_the_way(P.DUAL_WRITE, Desired.ROLLED_BACK) == [
        P.COPIED,
        P.NO_CONTROLLER,
        P.RELEASED,
        P.ZOOKEEPER,
    ]
    assert positions_on_the_way(P.COPYING, Desired.ROLLED_BACK) == [P.NO_CONTROLLER, P.RELEASED, P.ZOOKEEPER]
    assert positions_on_the_way(P.FLAGGING, Desired.ROLLED_BACK) == [P.RELEASED, P.ZOOKEEPER]
    assert positions_on_the_way(P.PRE_MIGRATION, Desired.ROLLED_BACK) == [P.ZOOKEEPER]
    assert positions_on_the_way(P.ZOOKEEPER, Desired.ROLLED_BACK) == []
    for position in (P.FINALIZING, P.FINALIZED):
        edge = next_edge(position, Desired.ROLLED_BACK, ALL_FLAGGED)
        assert isinstance(edge, NoEdge)
        assert "cannot be rolled back" in edge.message


def test_an_edge_that_was_begun_is_continued_from_the_middle() -> None:
    for position in (P.PRE_MIGRATION, P.FLAGGING, P.COPYING):
        assert positions_on_the_way(position, Desired.DUAL_WRITE) == [P.COPIED, P.DUAL_WRITE]
    assert positions_on_the_way(P.FINALIZING, Desired.FINALIZED) == [P.FINALIZED]


@pytest.mark.parametrize("position", [Position.NO_CONTROLLER, Position.RELEASED])
def test_a_rollback_is_finished_before_a_migration_begins_anew(position: Position) -> None:
    for desired in (Desired.PRE_MIGRATION, Desired.DUAL_WRITE, Desired.FINALIZED):
        edge = next_edge(position, desired, ALL_FLAGGED)
        assert isinstance(edge, NoEdge)
        assert "RolledBack" in edge.remedy


def test_a_target_below_the_position_that_was_reached_is_refused_with_a_remedy() -> None:
    for position in (Position.FLAGGING, Position.COPYING, Position.COPIED, Position.DUAL_WRITE):
        edge = next_edge(position, Desired.PRE_MIGRATION, ALL_FLAGGED)
        assert isinstance(edge, NoEdge)
        assert "RolledBack" in edge.remedy
    for desired in (Desired.PRE_MIGRATION, Desired.DUAL_WRITE):
        edge = next_edge(Position.FINALIZED, desired, ALL_FLAGGED)
        assert isinstance(edge, NoEdge)
        assert edge.remedy == "set spec.migration.desired to Finalized, because finalizing is irreversible"


@pytest.mark.parametrize("position", Position)
@pytest.mark.parametrize("desired", TARGETS)
def test_every_position_has_an_edge_a_refusal_or_nothing_left_to_do_for_every_target(
    position: Position, desired: Desired
) -> None:
    edge = next_edge(position, desired, ALL_FLAGGED)
    if edge is None:
        assert position is TARGETS[desired]
    elif isinstance(edge, Edge):
        assert position in edge.start
        assert edge.end is not position


ANSWERS = {
    # position: the next edge to PreMigration, DualWrite, Finalized, RolledBack; None: reached; NoEdge: refused
    P.ZOOKEEPER: (START_CONTROLLERS, START_CONTROLLERS, NoEdge, None),
    P.PRE_MIGRATION: (None, FLAG_BROKERS, NoEdge, GIVE_UP),
    P.FLAGGING: (NoEdge, FLAG_BROKERS, NoEdge, GIVE_UP),
    P.COPYING: (NoEdge, FLAG_BROKERS, NoEdge, STOP_CONTROLLERS),
    P.COPIED: (NoEdge, MOVE_BROKERS, NoEdge, STOP_CONTROLLERS),
    P.DUAL_WRITE: (NoEdge, None, FINALIZE, MOVE_BROKERS_BACK),
    P.FINALIZING: (NoEdge, NoEdge, FINALIZE, NoEdge),
    P.FINALIZED: (NoEdge, NoEdge, None, NoEdge),
    P.NO_CONTROLLER: (NoEdge, NoEdge, NoEdge, RELEASE),
    P.RELEASED: (NoEdge, NoEdge, NoEdge, UNFLAG_BROKERS),
}


@pytest.mark.parametrize("position", Position)
def test_the_next_edge_from_each_position_to_each_target_is_the_one_of_the_table(position: Position) -> None:
    for desired, expected in zip(TARGETS, ANSWERS[position], strict=True):
        edge = next_edge(position, desired, ALL_FLAGGED)
        if expected is NoEdge:
            assert isinstance(edge, NoEdge), (position, desired)
            assert edge.message
            assert edge.remedy
        else:
            assert edge == expected, (position, desired)


def test_every_edge_is_taken_from_each_of_its_starts_and_has_a_way_back_entry() -> None:
    taken = {
        (position, edge.end_from(position))
        for position in Position
        for desired in TARGETS
        for facts in (ALL_FLAGGED, SOME_IN_KRAFT, replace(ALL_FLAGGED, has_progress=True))
        if isinstance(edge := next_edge(position, desired, facts), Edge)
    }
    assert taken == {(start, edge.end_from(start)) for edge in (*FORWARD, *BACK) for start in edge.start}
    assert set(RETURNS) == {*FORWARD, *BACK}


def test_the_way_back_of_an_edge_ends_where_the_edges_of_the_rollback_end() -> None:
    """`RETURNS` has, for each edge, where its way back leads: forward edges to ZooKeeper, the first edge back to dual
    write, finalizing nowhere.
    """
    assert [edge for edge in FORWARD if RETURNS[edge].to is None] == [FINALIZE]
    for edge, back in RETURNS.items():
        if edge in FORWARD and back.to is not None:
            assert positions_on_the_way(edge.end, Desired.ROLLED_BACK)[-1] is back.to is P.ZOOKEEPER
    assert next_edge(MOVE_BROKERS_BACK.end, Desired.DUAL_WRITE, ALL_FLAGGED) == MOVE_BROKERS
    assert RETURNS[MOVE_BROKERS_BACK].to is P.DUAL_WRITE


def test_znodes_are_deleted_only_at_positions_after_all_controllers_were_stopped() -> None:
    deleting = [edge for edge in (*FORWARD, *BACK) if edge.deletes]
    stopping = [edge for edge in BACK if PersonAction.NO_CONTROLLERS in edge.further_actions]
    without = {edge.end_from(start) for edge in stopping for start in edge.start}
    assert {start for edge in deleting for start in edge.start} == without
    assert not [edge for edge in FORWARD if edge.deletes]


def test_the_migration_znode_of_a_quorum_that_never_took_over_is_deleted_before_any_other_step() -> None:
    with_progress = replace(ALL_FLAGGED, has_progress=True)
    for position in (P.ZOOKEEPER, P.RELEASED):
        edge = next_edge(position, Desired.ROLLED_BACK, with_progress)
        assert isinstance(edge, Edge)
        assert (edge.deletes, edge.end_from(position), str(edge)) == (
            ("/migration",), position, "ZooKeeper or Released: delete /migration",
        )  # fmt: skip
        assert next_edge(position, Desired.ROLLED_BACK, ALL_FLAGGED) != edge
    assert isinstance(next_edge(P.ZOOKEEPER, Desired.DUAL_WRITE, with_progress), Edge)
    refused = next_edge(P.RELEASED, Desired.DUAL_WRITE, with_progress)
    assert isinstance(refused, NoEdge)
    assert "start the controllers with their disks" in refused.remedy
