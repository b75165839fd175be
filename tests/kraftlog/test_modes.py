"""The mode of each broker, and the state of the migration, by the log: only changes, each with its record."""

from __future__ import annotations

from kraftlog.modes import MAX_CHANGES, ModeChange, Modes, StateChange
from kraftlog.rolls import RollReader
from kraftlog.strips import Moment
from tests.kraftlog.golden import KRAFT, MIGRATION
from tests.kraftlog.partitions import ALL


def at(offset: int) -> Moment:
    return Moment(offset * 1000, offset)


def registered(id_: int, *, flagged: bool) -> dict[str, object]:
    return {"brokerId": id_, "isMigratingZkBroker": flagged}


def test_the_log_of_a_real_migration_has_each_broker_twice_and_each_state_once() -> None:
    reader = RollReader(since_ms=0)
    reader.append(MIGRATION.read_bytes(), below=ALL)
    migration = reader.finish(0).migration
    assert [(state.code, state.at.offset) for state in migration.states] == [(2, 4), (1, 409), (3, 837)]
    assert [(mode.node_id, mode.in_kraft) for mode in migration.modes] == [
        *((id_, False) for id_ in (1, 2, 3)),
        *((id_, True) for id_ in (1, 2, 3)),
    ]


def test_the_log_of_a_cluster_that_began_in_kraft_mode_has_no_broker_with_the_flag() -> None:
    reader = RollReader(since_ms=0)
    reader.append(KRAFT.read_bytes(), below=ALL)
    migration = reader.finish(0).migration
    assert all(mode.in_kraft for mode in migration.modes)
    assert {state.code for state in migration.states} <= {0}


def test_a_registration_in_the_same_mode_is_no_change_of_mode() -> None:
    modes = Modes()
    modes.registered(registered(1, flagged=True), at(1))
    modes.registered(registered(1, flagged=True), at(2))
    modes.registered({"brokerId": 1}, at(3))  # by a release without the field: it can only run in KRaft mode
    assert modes.finish().modes == (ModeChange(1, in_kraft=False, at=at(1)), ModeChange(1, in_kraft=True, at=at(3)))


def test_an_unregistered_broker_has_no_mode_until_it_registers_again() -> None:
    modes = Modes()
    modes.registered(registered(1, flagged=False), at(1))
    modes.unregistered(1, at(2))
    modes.unregistered(1, at(3))
    modes.registered(registered(1, flagged=False), at(4))
    assert [(mode.in_kraft, mode.at.offset) for mode in modes.finish().modes] == [(True, 1), (None, 2), (True, 4)]


def test_a_state_that_is_written_again_is_no_change() -> None:
    modes = Modes()
    for offset, code in enumerate((2, 2, 1, 1, 3)):
        modes.reached({"zkMigrationState": code}, at(offset))
    assert modes.finish().states == (StateChange(2, at(0)), StateChange(1, at(2)), StateChange(3, at(4)))


def test_only_the_latest_changes_of_mode_are_kept() -> None:
    modes = Modes()
    for offset in range(2 * MAX_CHANGES + 1):  # with the last one, all but the latest `MAX_CHANGES` are dropped
        modes.registered(registered(1, flagged=bool(offset % 2)), at(offset))
    latest = modes.finish().modes
    assert len(latest) == MAX_CHANGES
    assert latest[-1].at.offset == 2 * MAX_CHANGES
