"""Rolls in a log: rows of restarts and outages, which equal the report of the operator on the same bytes.

The time of a record is `NOW` plus its offset in ms; `milliseconds` is a time without `NOW`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftlog import Batch, walk
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.rolls import RollReader
from tests.featurelog.tables.build import (
    LATEST,
    OF_3_9,
    Item,
    changed,
    copies_of,
    copy,
    healthy,
    leader,
    log,
    milliseconds,
    registered_broker,
    registered_controller,
    rows,
    segment_name,
    snapshot_at,
    unregistered_broker,
)
from tests.kraftlog.build import NOW, begin, end, no_op
from tests.kraftlog.golden import SEGMENTS, SNAPSHOTS, name, snapshot_id
from tests.kraftlog.partitions import ALL, partition, topic
from tests.kraftlog.partitions import change as isr

STAGES = ("stopping_ts", "fenced_ts", "registered_ts", "unfenced_ts", "in_sync_ts")
AWAY = [
    changed(1, 101, inControlledShutdown=1), isr(1, 0, isr=(2,), leader=2), changed(1, 101, fenced=1),
    registered_broker(1, 500), changed(1, 500, fenced=-1), isr(1, 0, isr=(2, 1)),
]  # fmt: skip
"""A restart of broker 1: controlled shutdown, its partition moves, fenced, registered, unfenced (-1), in sync."""


def rolls(items: list[Item] | bytes, **more: Any) -> list[dict[str, Any]]:
    return rows(copies_of(items if isinstance(items, bytes) else log(items)), "rolls", **more)


def with_partition() -> list[Item]:
    """Eleven records, at offsets 0 to 10: a cluster with partition orders-0 on brokers 1 and 2. No record sets
    min.insync.replicas.
    """
    return [*healthy()[:-1], no_op(), topic(1, "orders"), partition(1, 0, 1, 2)]


def test_a_restart_has_the_time_of_each_stage_and_its_effect_on_partitions() -> None:
    (row,) = rolls([*with_partition(), *AWAY, no_op()])
    assert (row["role"], row["node_id"], row["kind"], row["outcome"]) == ("broker", 1, "controlled", "in_sync")
    assert [milliseconds(row[stage]) for stage in STAGES] == [11, 13, 14, 15, 16]
    assert (row["roll_id"], row["step"], row["first_offset"], row["last_offset"]) == (11, 1, 11, 16)
    assert (row["first_node"], row["first_file"]) == ("3001", segment_name(0))
    assert (row["away_ms"], row["duration_ms"], row["concurrency"], row["roll_nodes"]) == (4, 5, 1, 1)
    assert (milliseconds(row["roll_from"]), milliseconds(row["roll_to"])) == (11, 16)
    assert (row["partitions_affected"], row["without_leader_ms"], row["under_replicated_ms"]) == (1, 0, 4)
    assert row["below_minimum_ms"] is None, "min.insync.replicas is not in the log"


def test_a_restart_has_the_supported_ranges_before_and_after_it() -> None:
    items = [*healthy(), registered_broker(7, 200, supports=OF_3_9), changed(7, 200, fenced=-1)]
    (row,) = rolls([*items, changed(7, 200, inControlledShutdown=1), registered_broker(7, 300, supports=LATEST)])
    assert dict(row["from_features"])["metadata.version"] == {"min": 7, "max": 21}
    assert dict(row["to_features"])["metadata.version"] == {"min": 7, "max": 33}


def test_restarts_that_follow_each_other_closely_are_one_roll() -> None:
    second = [
        changed(2, 102, fenced=1), registered_broker(2, 600), changed(2, 600, fenced=-1),
    ]  # fmt: skip
    found = rolls([*with_partition(), *AWAY, *second])
    assert [(row["roll_id"], row["step"], row["node_id"], row["kind"]) for row in found] == [
        (11, 1, 1, "controlled"), (11, 2, 2, "fenced"),
    ]  # fmt: skip
    assert {row["roll_nodes"] for row in found} == {2}
    assert [row["concurrency"] for row in found] == [1, 1]


def test_rolls_of_nodes_away_at_the_same_time_have_their_concurrency() -> None:
    items = [
        changed(1, 101, fenced=1),
        changed(2, 102, fenced=1),
        changed(1, 101, fenced=-1),
        changed(2, 102, fenced=-1),
    ]
    assert [row["concurrency"] for row in rolls([*healthy(), *items])] == [2, 2]


@pytest.mark.parametrize(("minutes", "expected"), [(10, 1), (16, 2)], ids=["10 minutes", "16 minutes"])
def test_a_quarter_of_an_hour_without_an_absence_ends_a_roll(minutes: int, expected: int) -> None:
    items = [*with_partition(), *AWAY]
    offset = len(items)
    at_ms = NOW + offset + minutes * 60_000
    data = log(items) + encode_batch([Record(offset, at_ms, changed(2, 102, fenced=1))], leader_epoch=1)
    assert len({row["roll_id"] for row in rolls(data)}) == expected


def test_an_unfinished_roll_has_no_end() -> None:
    (row,) = rolls([*with_partition(), *AWAY[:3]])
    assert (row["outcome"], row["roll_to"], row["duration_ms"], row["to_features"]) == ("away", None, None, None)


def test_the_restart_of_a_broker_that_is_unregistered_has_the_outcome_unregistered() -> None:
    (row,) = rolls([*healthy(), changed(2, 102, fenced=1), unregistered_broker(2, 102), no_op(), no_op()])
    assert (row["outcome"], row["roll_to"], row["concurrency"]) == ("unregistered", None, 1)


def test_a_controller_that_registers_again_was_restarted() -> None:
    (row,) = rolls([*healthy(), registered_controller(3002, 7)])
    assert (row["role"], row["node_id"], row["kind"], row["outcome"]) == (
        "controller",
        3002,
        "registered",
        "registered",
    )
    assert (milliseconds(row["registered_ts"]), milliseconds(row["roll_to"])) == (9, 9)


def test_a_restart_in_a_transaction_has_the_time_of_its_end() -> None:
    (row,) = rolls([*healthy(), begin(), changed(1, 101, fenced=1), end()])
    assert (row["first_offset"], milliseconds(row["fenced_ts"])) == (11, 11)


def test_rolls_after_a_gap_are_known_from_the_next_snapshot_on() -> None:
    items = [*with_partition(), *AWAY, no_op()]
    before = log(items[:11])
    files = {segment_name(0): log(items[:9]), segment_name(11): log(items[11:], start=11)}
    copies = [copy("3001", files)]
    assert rows(copies, "rolls") == []
    (note,) = [row for row in rows(copies, "data_quality") if row["kind"] == "rolls_not_known"]
    assert (note["offset"], note["end_offset"]) == (11, 18)
    files |= snapshot_at(11, before)
    (row,) = rows([copy("3001", files)], "rolls")
    assert (row["roll_id"], row["outcome"]) == (11, "in_sync")


def test_a_leaderless_partition_has_the_time_without_a_leader() -> None:
    items = [
        isr(1, 0, isr=(2,), leader=-1),
        changed(1, 101, fenced=1),
        no_op(),
        isr(1, 0, leader=2),
        changed(1, 101, fenced=-1),
    ]
    (row,) = rolls([*with_partition(), *items])
    assert (row["partitions_affected"], row["without_leader_ms"]) == (1, 2), (
        "from the fencing, with which the roll began"
    )


def test_a_restart_in_copies_of_several_nodes_is_one_row() -> None:
    data = log([*with_partition(), *AWAY, leader(3002)])
    alone = rows([copy("3001", {segment_name(0): data})], "rolls")
    assert rows(copies_of(data), "rolls") == alone
    assert len(alone) == 1


@pytest.mark.parametrize("path", SEGMENTS, ids=name)
def test_the_table_of_rolls_of_real_nodes_equals_the_report_of_rolls(path: Path) -> None:
    reader = RollReader(since_ms=0)
    reader.append(path.read_bytes(), below=ALL)
    assert same(reader.finish(50).absences, rows([copy("3001", {path.name: path.read_bytes()})], "rolls"))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name)
def test_the_table_of_rolls_of_real_nodes_equals_the_report_from_a_snapshot_on(path: Path) -> None:
    offset, epoch = snapshot_id(path)
    whole = path.with_name(segment_name(0)).read_bytes()
    reader = RollReader(since_ms=0)
    reader.load_snapshot(path.read_bytes(), end_offset=offset, epoch=epoch)
    reader.append(whole, below=ALL)
    files = {path.name: path.read_bytes(), segment_name(offset): behind(whole, offset)}
    assert same(reader.finish(50).absences, rows([copy("3001", files)], "rolls"))


def behind(data: bytes, offset: int) -> bytes:
    """The batches from an offset on."""
    return b"".join(bytes(one.data) for one in walk(data) if isinstance(one, Batch) and one.base_offset >= offset)


def same(absences: Any, found: list[dict[str, Any]]) -> bool:
    expected = [
        (one.role, one.node_id, one.unregistered, *(moment and moment.at_ms for moment in one.moments))
        for one in absences
    ]
    actual = [
        (
            row["role"], row["node_id"], row["outcome"] == "unregistered",
            *(None if row[stage] is None else round(row[stage].timestamp() * 1000) for stage in STAGES),
        )
        for row in found
    ]  # fmt: skip
    return actual == expected
