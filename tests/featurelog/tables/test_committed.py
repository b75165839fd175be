"""Committed records: a record is committed if a majority of the voters has it, and no other makes a verdict ready.

A record that only a minority has may be overwritten by the next leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import pytest

from featurelog.tables import NodeCopy
from featurelog.tables.history import BROKER
from kraftlog.schema import RecordType, table
from tests.featurelog.tables.build import (
    VOTERS,
    Item,
    changed,
    copies_of,
    copy,
    healthy,
    history,
    kraft_version,
    leader,
    level,
    log,
    migration,
    readiness,
    registered_broker,
    registered_controller,
    segment_name,
    snapshot_at,
    unknown_kinds,
    unregistered_broker,
)
from tests.kraftlog.build import NOW, no_op


def only_first_has(items: Sequence[Item], more: Sequence[Item]) -> list[NodeCopy]:
    """Three copies of `items`, the first of which has the records `more` as well."""
    whole = log([*items, *more])
    return [copy("3001", {segment_name(0): whole}), *copies_of(log(items), (3002, 3003))]


def voters_record(*voters: int) -> tuple[RecordType, dict[str, Any]]:
    each = {"voterDirectoryId": UUID(int=1), "endpoints": ()}
    ranges = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
    entries = tuple({"voterId": one, **each, "kRaftVersionFeature": ranges} for one in voters)
    return table.KRAFT_VOTERS, {"voters": entries}


@pytest.mark.parametrize(("copied", "committed"), [(1, 0), (2, 0), (3, 10), (4, 10)])
def test_a_majority_of_four_voters_is_three(copied: int, committed: int) -> None:
    """All ten records of the log are committed once three nodes have it."""
    four = (3001, 3002, 3003, 3004)
    items = [leader(3001, four), *healthy()[1:], registered_controller(3004)]
    row = readiness(copies_of(log(items), four[:copied]))
    assert (row["voters"], row["committed_below"]) == ([*four], committed)


# --- voters


def test_the_voters_are_unknown_after_a_gap_that_may_hold_another_election() -> None:
    items = [*healthy(), no_op(), no_op(), no_op(), no_op()]
    files = {
        segment_name(0): log(items[:9]),
        **snapshot_at(12, log(items)),
        segment_name(12): log(items[12:], start=12),
    }
    row = readiness(copies_of(files))
    assert (row["verdict"], unknown_kinds(row), row["voters"]) == ("unknown", {"voters"}, None)


DYNAMIC: list[Item] = [leader(3001), kraft_version(1), voters_record(*VOTERS), *healthy()[1:]]
"""The log of a quorum whose voters are in the log: 11 records."""
END = len(DYNAMIC)


def unregistered(items: Iterable[Item], number: int) -> list[Item]:
    return [one for one in items if one != registered_controller(number)]


def blocking(row: dict[str, Any]) -> list[int]:
    return [one["node_id"] for one in row["blocking_nodes"]]


def test_a_voter_whose_removal_may_be_undone_has_to_be_registered() -> None:
    """Voter 3003 counts as long as only one copy has the record that removes it."""
    items = unregistered(DYNAMIC, 3003)
    assert blocking(readiness(only_first_has(items, [voters_record(3001, 3002)]))) == [3003]
    gone = [*items, voters_record(3001, 3002), no_op()]
    assert blocking(readiness(copies_of(log(gone)))) == []


def test_a_voter_whose_removal_is_surely_committed_need_not_be_registered() -> None:
    items = [*unregistered(DYNAMIC, 3003), voters_record(3001, 3002)]
    row = readiness(only_first_has(items, [no_op()]))
    assert (row["committed_below"], blocking(row)) == (len(items), [])


def test_a_controller_that_may_still_become_a_voter_has_to_be_registered() -> None:
    row = readiness(only_first_has(DYNAMIC, [voters_record(*VOTERS, 3009), voters_record(*VOTERS)]))
    assert blocking(row) == [3009]


def log_with_snapshot(
    voters_in_log: Sequence[int], voters_in_snapshot: Sequence[int], records_behind: Sequence[Item], *, is_whole: bool
) -> list[NodeCopy]:
    """A snapshot that names the voters, records behind it that only one copy has, and the log before it (`is_whole`) or
    a gap. Controller 3003 is not registered: as a voter it blocks.
    """
    items = [leader(3001), kraft_version(1), voters_record(*voters_in_log), *unregistered(healthy()[1:], 3003)]
    data = log(items)
    control = (table.KRAFT_VERSION, {"kRaftVersion": 1}), voters_record(*voters_in_snapshot)
    files = snapshot_at(len(items), data, control=control)
    if is_whole:
        files[segment_name(0)] = data
    first = files | {segment_name(len(items)): log(records_behind, start=len(items))}
    return [copy("3001", first), *copies_of(files, VOTERS[1:])]


def test_a_voter_of_a_snapshot_remains_a_voter_until_its_removal_is_surely_committed() -> None:
    copies = log_with_snapshot(VOTERS, VOTERS, [voters_record(3001, 3002), no_op()], is_whole=False)
    assert blocking(readiness(copies)) == [3003]


def test_a_voter_that_a_later_snapshot_does_not_have_is_no_longer_a_voter() -> None:
    copies = log_with_snapshot(VOTERS, VOTERS[:2], [no_op()], is_whole=True)
    assert blocking(readiness(copies)) == []


# --- records that may be overwritten


@pytest.mark.parametrize(
    ("items", "more", "target"),
    [
        pytest.param(healthy(), [level("group.version", 1)], "group.version=1", id="the first level of a feature"),
        pytest.param(healthy(), [level("metadata.version", 29)], "metadata.version=29", id="a level that was raised"),
        pytest.param(
            [*healthy(), level("group.version", 1)], [level("group.version", 0)], "group.version=0", id="removed"
        ),
        pytest.param(
            unregistered(healthy(), 3003), [registered_controller(3003)], "4.2", id="the registration of a voter"
        ),
        pytest.param(
            [*healthy(), migration(0), migration(2), migration(1)], [migration(3)], "4.2", id="the end of a migration"
        ),
        pytest.param(
            [*healthy(), registered_broker(7, 500, supports=())], [unregistered_broker(7, 500)], "4.2",
            id="the end of a registration",
        ),
    ],
)  # fmt: skip
def test_records_that_only_one_copy_of_the_log_has_make_no_verdict_ready(
    items: Sequence[Item], more: Sequence[Item], target: str
) -> None:
    row = readiness(only_first_has(items, more), target)
    assert (row["verdict"], unknown_kinds(row)) == ("unknown", {"not_committed"})
    assert readiness(copies_of(log([*items, *more])), target)["verdict"] == "ready", "once all have it"


def test_a_downgrade_is_blocked_by_a_finalized_level_that_needs_the_higher_one() -> None:
    items = [*healthy(version=25), level("eligible.leader.replicas.version", 1)]
    found = readiness(copies_of(log(items)), "metadata.version=22")["other_blockers"]
    assert [one["text"] for one in found] == [
        "eligible.leader.replicas.version 1 requires metadata.version 23 (4.0-IV1), which would be 22"
    ]


# --- since when a broker is fenced


def fenced_since(*items: bytes) -> int | None:
    """The time since when broker 7 is fenced, in the log of a healthy cluster (offsets 0 to 8) and then these items.
    The time of a record is `NOW` plus its offset in ms.
    """
    return history(*copies_of(log([*healthy(), *items]))).nodes.current[BROKER, 7].value.fenced_since


def test_a_broker_is_fenced_since_the_registration_of_its_current_process() -> None:
    """The time counts anew for each process, although the earlier one was fenced too."""
    first, second = registered_broker(7, 500), registered_broker(7, 600)
    assert fenced_since(first, no_op(), no_op()) == NOW + 9
    assert fenced_since(first, no_op(), second) == NOW + 11


def test_a_broker_is_fenced_since_its_last_fencing_record() -> None:
    once = [registered_broker(7, 500), changed(7, 500, fenced=-1)]
    assert fenced_since(*once, changed(7, 500, fenced=1), changed(7, 500, inControlledShutdown=1)) == NOW + 11
