"""Timelines of levels, registrations and migrations: the time and the offset from which and to which each row is valid.

Each record of these logs is a batch, and its time is NOW plus its offset in ms.
"""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.records import Decoded, encode, frame
from kraftlog.schema import table
from tests.featurelog.tables.build import (
    CLUSTER_ID,
    OF_3_9,
    batches,
    changed,
    copies_of,
    copy,
    healthy,
    image_of,
    kraft_version,
    leader,
    level,
    log,
    migration,
    milliseconds,
    registered_broker,
    registered_controller,
    rows,
    segment_name,
    snapshot_at,
    snapshot_name,
    snapshot_of,
    unregistered_broker,
)
from tests.kraftlog.build import NOW, abort, begin, end, no_op


def levels(copies: list[Any], feature: str = "metadata.version") -> list[dict[str, Any]]:
    return [row for row in rows(copies, "feature_timeline") if row["feature"] == feature]


def registrations(copies: list[Any], role: str, node_id: int) -> list[dict[str, Any]]:
    return [
        row for row in rows(copies, "node_registrations") if (row["role"], row["node_id"]) == (role, node_id)
    ]  # fmt: skip


def test_a_level_is_valid_from_its_record_to_the_next_record_of_the_feature() -> None:
    data = log([leader(3001), level("metadata.version", 25), no_op(), level("metadata.version", 27)])
    first, second = levels(copies_of(data))
    assert (first["cluster"], first["cluster_id"]) == ("prod", CLUSTER_ID)
    assert (first["level"], first["level_name"], first["previous_level"], first["change"]) == (
        25, "4.0-IV3", 0, "finalized",
    )  # fmt: skip
    assert (first["from_offset"], first["to_offset"], first["is_current"]) == (1, 3, False)
    assert (milliseconds(first["from_ts"]), milliseconds(first["to_ts"])) == (1, 3)
    assert (second["level"], second["previous_level"], second["change"], second["is_current"]) == (
        27,
        25,
        "raised",
        True,
    )
    assert (second["to_offset"], second["to_ts"]) == (None, None)
    assert (second["evidence_node"], second["evidence_file"], second["evidence_offset"]) == ("3001", segment_name(0), 3)


def test_a_level_after_a_removal_is_a_change_of_its_own_kind() -> None:
    items = [level("group.version", 1), level("group.version", 0), level("group.version", 1)]
    found = levels(copies_of(log([leader(3001), *items])), "group.version")
    assert [row["change"] for row in found] == ["finalized", "removed", "finalized"]
    items = [level("metadata.version", 27), level("metadata.version", 26)]
    assert [row["change"] for row in levels(copies_of(log([leader(3001), *items])))] == ["finalized", "downgraded"]


def test_the_state_before_is_uncertain_after_a_record_that_was_not_decoded_until_a_snapshot_has_it() -> None:
    unknown, group = bytes([1, 99, 0]), "group.version"
    data = log([*healthy(), unknown, level(group, 1), no_op(), level(group, 0)])
    files = {segment_name(0): data, **snapshot_at(12, data)}
    first, second = levels([copy("3001", files)], group)
    assert (first["from_offset"], first["previous_level"], first["change"]) == (10, None, "seen")
    assert (first["after_gap"], second["after_gap"]) == (True, False)


def test_the_two_layouts_of_a_level_record_give_the_same_rows() -> None:
    """Kafka 3.0 to 3.2 finalized a range under the same key and version."""
    data = {"name": "metadata.version", "minFeatureLevel": 1, "maxFeatureLevel": 3}
    old = encode(Decoded(table.FEATURE_LEVEL, 0, data, "3.0-3.2"))
    removed = frame(table.REMOVE_FEATURE_LEVEL, {"name": "metadata.version"})
    found = levels(copies_of(log([leader(3001), old, removed, level("metadata.version", 5)])))
    assert [(row["level"], row["change"]) for row in found] == [(3, "finalized"), (0, "removed"), (5, "finalized")]


def test_kraft_version_is_read_only_from_control_records() -> None:
    copies = copies_of(log([*healthy(), level("kraft.version", 1), kraft_version(1)]))
    (row,) = levels(copies, "kraft.version")
    assert (row["level"], row["from_offset"], row["source"]) == (1, 10, "control")
    (note,) = rows(copies, "data_quality")
    assert (note["kind"], note["offset"]) == ("kraft_version_record", 9)


def test_a_level_in_a_transaction_is_valid_from_its_end() -> None:
    items = [leader(3001), begin(), level("metadata.version", 25), no_op(), end()]
    (row,) = levels(copies_of(log(items)))
    assert (row["from_offset"], row["evidence_offset"], milliseconds(row["from_ts"])) == (4, 2, 4)


def test_an_aborted_transaction_has_no_effect_and_is_noted() -> None:
    copies = copies_of(log([leader(3001), begin(), level("metadata.version", 25), abort()]))
    assert levels(copies) == []
    assert [row["kind"] for row in rows(copies, "data_quality")] == ["aborted_transaction"]


def test_a_snapshot_is_a_state_and_no_event() -> None:
    data = log([*healthy(), leader(3002)])
    files = {**snapshot_at(9, data), segment_name(9): log([leader(3002)], start=9)}
    (row,) = levels([copy("3001", files)])
    assert (row["change"], row["previous_level"], row["source"], row["from_ts"]) == ("seen", None, "snapshot", None)
    assert (row["from_offset"], milliseconds(row["not_after"]), row["after_gap"]) == (9, 8, True)
    assert (row["evidence_file"], row["evidence_offset"]) == (snapshot_name(9), 9)


def test_a_snapshot_that_agrees_with_the_log_changes_no_row() -> None:
    data = log(healthy())
    alone = [copy("3001", {segment_name(0): data})]
    both = [copy("3001", {segment_name(0): data, **snapshot_at(9, data)})]
    assert [row | {"committed": ""} for row in levels(alone)] == [row | {"committed": ""} for row in levels(both)]


def test_levels_of_a_formatted_directory_are_no_levels_of_the_cluster_that_the_node_joined() -> None:
    formatted = {snapshot_name(0, 0): snapshot_of(image_of(log([level("transaction.version", 2)]), 1))}
    data = log([*healthy(), leader(3001)])
    joined = copy("3001", {**formatted, segment_name(0): data})
    expected = rows([copy("3001", {segment_name(0): data})], "feature_timeline")
    assert rows([joined], "feature_timeline") == expected
    assert "transaction.version" not in {row["feature"] for row in expected}


def test_levels_before_the_oldest_snapshot_stay_and_the_snapshot_adds_missing_ones() -> None:
    items = [*healthy(), level("group.version", 1), no_op(), no_op()]
    data = log(items)
    files = {segment_name(9): log(items[9:], start=9), **snapshot_at(11, data)}
    found = rows([copy("3001", files)], "feature_timeline")
    assert [(row["feature"], row["source"], row["change"]) for row in found] == [
        ("group.version", "record", "seen"), ("metadata.version", "snapshot", "seen"),
    ]  # fmt: skip


def test_a_level_that_changed_within_a_gap_has_no_exact_time() -> None:
    items = [*healthy(), no_op(), level("metadata.version", 28), no_op(), leader(3002)]
    data = log(items)
    files = {
        segment_name(0): log(items[:10]),
        **snapshot_at(12, data),
        segment_name(12): log(items[12:], start=12),
    }
    copies = [copy("3001", files)]
    before, after = levels(copies)
    assert (before["level"], before["to_offset"], before["to_ts"]) == (27, 12, None)
    assert (after["level"], after["previous_level"], after["change"]) == (28, 27, "raised")
    assert (after["from_ts"], after["after_gap"], milliseconds(after["not_after"])) == (None, True, 11)
    (gap,) = rows(copies, "data_quality")
    assert (gap["kind"], gap["offset"], gap["end_offset"], gap["count"]) == ("gap", 10, 12, 2)


def test_a_row_after_a_gap_is_marked() -> None:
    items = [*healthy(), no_op(), no_op(), level("metadata.version", 28)]
    files = {segment_name(0): log(items[:10]), segment_name(11): log(items[11:], start=11)}
    assert [row["after_gap"] for row in levels([copy("3001", files)])] == [False, True]


def test_a_broker_has_a_row_for_each_state_of_its_registration() -> None:
    items = [
        leader(3001), registered_broker(7, 101, rack="a"), changed(7, 101, fenced=-1),
        changed(7, 101, inControlledShutdown=1), changed(7, 101, fenced=1),
        registered_broker(7, 106, supports=OF_3_9), unregistered_broker(7, 106), no_op(),
    ]  # fmt: skip
    found = registrations(copies_of(log(items)), "broker", 7)
    assert [
        (row["from_offset"], row["to_offset"], row["fenced"], row["in_controlled_shutdown"], row["registered_offset"])
        for row in found
    ] == [
        (1, 2, True, False, 1), (2, 3, False, False, 1), (3, 4, False, True, 1), (4, 5, True, True, 1),
        (5, 6, True, False, 5),
    ]  # fmt: skip
    assert {row["is_current"] for row in found} == {False}
    first, last = found[0], found[-1]
    assert (first["rack"], first["node_epoch"], last["node_epoch"]) == ("a", 101, 106)
    assert first["incarnation_id"] != last["incarnation_id"]
    assert dict(last["features"])["metadata.version"] == {"min": 7, "max": 21}
    assert first["endpoints"] == [{"name": "PLAINTEXT", "host": "b7.example", "port": 9092, "security_protocol": 0}]


def test_the_last_evidence_of_a_node_is_its_last_record() -> None:
    data = log([*healthy(), no_op(), no_op()])
    (row,) = registrations(copies_of(data), "controller", 3002)
    assert (row["registered_offset"], row["last_evidence_offset"], row["is_voter"]) == (3, 3, True)
    files = {segment_name(0): data, **snapshot_at(10, data)}
    (row,) = registrations([copy("3001", files)], "controller", 3002)
    assert (row["registered_offset"], row["last_evidence_offset"], row["last_evidence_file"]) == (
        3, 10, snapshot_name(10),
    )  # fmt: skip


MINUTES = 60_000


def later(items: list[Any], minutes: int) -> bytes:
    """A log with these items, and a no-op so many minutes later: ghosts are judged at its time."""
    offset = len(items)
    last = encode_batch([Record(offset, NOW + offset + minutes * MINUTES, no_op())], leader_epoch=1)
    return b"".join([*batches(items), last])


@pytest.mark.parametrize(("minutes", "span"), [(5, ""), (16, "16 minutes"), (150, "2 h 30 min"), (3970, "2 d 18 h")])
def test_a_broker_that_is_fenced_for_long_is_suspected_to_be_a_ghost(minutes: int, span: str) -> None:
    """After 5 minutes it is not suspected yet (`span` is empty)."""
    items = [*healthy(), changed(2, 102, inControlledShutdown=1), changed(2, 102, fenced=1)]
    row = registrations(copies_of(later(items, minutes)), "broker", 2)[-1]
    assert row["ghost_suspect"] is bool(span)
    assert row["ghost_reason"] == (f"fenced for {span} at the end of what was read" if span else None)


def test_an_unfenced_broker_is_no_ghost_and_an_unregistered_broker_is_not_judged() -> None:
    copies = copies_of(later([*healthy(), unregistered_broker(2, 102)], 60))
    assert [row["ghost_suspect"] for row in registrations(copies, "broker", 1)] == [None, False]
    assert {row["ghost_suspect"] for row in registrations(copies, "broker", 2)} == {None}


def test_a_registered_controller_that_is_no_voter_is_suspected_to_be_a_ghost() -> None:
    copies = copies_of(log([*healthy(), registered_controller(9)]))
    (row,) = registrations(copies, "controller", 9)
    assert (row["ghost_suspect"], row["ghost_reason"]) == (True, "registered as a controller, and not a voter")
    assert registrations(copies, "controller", 3001)[0]["ghost_suspect"] is False


def test_the_suspicion_of_a_ghost_controller_is_unknown_where_the_voters_are_unknown() -> None:
    items = [one for one in healthy() if one != leader(3001)]
    (row,) = registrations(copies_of(log(items)), "controller", 3002)
    assert (row["ghost_suspect"], row["is_voter"]) == (None, None)
    assert row["ghost_reason"].startswith("who votes is not known")


def test_a_migration_row_has_its_state_and_the_brokers_in_zookeeper_mode() -> None:
    items = [
        leader(3001), level("metadata.version", 21), migration(0), migration(2),
        registered_broker(1, 101, isMigratingZkBroker=True), registered_broker(2, 102, isMigratingZkBroker=True),
        migration(1), registered_broker(1, 107), unregistered_broker(2, 102), migration(3),
    ]  # fmt: skip
    found = rows(copies_of(log(items)), "migration_timeline")
    assert [(row["state_name"], row["zk_brokers_remaining"], row["from_offset"]) for row in found] == [
        ("NONE", [], 2), ("PRE_MIGRATION", [], 3), ("PRE_MIGRATION", [1], 4), ("PRE_MIGRATION", [1, 2], 5),
        ("MIGRATION", [1, 2], 6), ("MIGRATION", [2], 7), ("MIGRATION", [], 8), ("POST_MIGRATION", [], 9),
    ]  # fmt: skip
    assert {row["metadata_version"] for row in found} == {21}
    assert {row["written_by_3_4_possible"] for row in found} == {False}


@pytest.mark.parametrize(("version", "flagged"), [(8, True), (9, False)])
def test_a_state_that_kafka_3_4_may_have_written_is_flagged(version: int, flagged: bool) -> None:
    """Kafka 3.4, whose highest level is 8, used codes 1 and 2 with each other's meaning. Names are those of 3.5."""
    items = [leader(3001), level("metadata.version", version), migration(1)]
    (row,) = rows(copies_of(log(items)), "migration_timeline")
    assert (row["state_code"], row["state_name"], row["written_by_3_4_possible"]) == (1, "MIGRATION", flagged)


def test_an_unknown_migration_state_code_is_kept_without_a_name() -> None:
    (row,) = rows(copies_of(log([leader(3001), migration(9)])), "migration_timeline")
    assert (row["state_code"], row["state_name"]) == (9, None)


def test_a_record_that_only_one_copy_has_is_not_surely_committed() -> None:
    items = [*healthy(), level("metadata.version", 28)]
    copies = [copy("3001", {segment_name(0): log(items)}), *copies_of(log(items[:-1]), (3002, 3003))]
    assert [row["committed"] for row in levels(copies)] == ["yes", "unknown"]
    assert [row["committed"] for row in levels(copies_of(log(items), (3001, 3002)))] == ["yes", "yes"]
    assert [row["committed"] for row in levels(copies_of(log(items), (3001,)))] == ["unknown", "unknown"]


def test_a_time_that_no_calendar_has_is_null() -> None:
    data = encode_batch([Record(0, 2**62, level("metadata.version", 27))], leader_epoch=1)
    (row,) = levels(copies_of(data))
    assert (row["from_ts"], row["not_after"], row["from_offset"]) == (None, None, 0)
