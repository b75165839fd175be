"""Gaps, damage and merged parts around a checkpoint: the tables are those that are made of all records.

`grow` and `made` (`copied.py`) compare both, and `grown` makes three copies with segments from offsets 0 and 10 on. A
checkpoint ends at a snapshot.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from featurelog.tables import checkpoint as checkpoints
from featurelog.tables.checkpoint import Checkpoint
from kraftlog import known, strips
from kraftlog.records import frame
from kraftlog.schema import table
from tests.featurelog.tables.build import (
    VOTERS,
    batches,
    changed,
    healthy,
    image_of,
    segment_name,
    snapshot_of,
)
from tests.featurelog.tables.copied import Copied, checkpoint, grow, grown, made


def test_damage_and_records_that_were_not_decoded_are_counted_after_any_number_of_checkpoints() -> None:
    found = grown(14, snapshots=(12, 16, 19))
    for copy in found:
        copy.batches[9] = batches([bytes([1, 99, 0, 7, 0])], start=9)[0]
        copy.flipped.add(10)
    ends, data = [], None
    for until in (18, 21, 24):
        continued, row = grow(found, until, data)
        assert {"damaged", "not_decoded"} <= {note["kind"] for note in continued["data_quality"]}
        assert not row["outdated"]
        data = row["checkpoint"]
        ends.append(Checkpoint.load(data).end)
    assert ends == [16, 19, 19]  # the newest snapshot at each time; they are at 12, 16 and 19


def test_no_checkpoint_is_made_where_a_gap_begins_that_may_be_filled() -> None:
    found = grown(24, snapshots=(16,))
    for copy in found:
        copy.batches = batches([*healthy(), *FENCED[:15]])
        copy.begins, copy.lost = [0, 10, 16, 20], 16
    continued, row = made([copy.copy() for copy in found], None)
    assert [note["offset"] for note in continued["data_quality"] if note["kind"] == "gap"] == [16]
    data = row["checkpoint"]
    for copy in found:
        copy.lost = None
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, data)
    assert continued == made(nodes, None)[0]
    assert Checkpoint.load(row["checkpoint"]).end == 16


FENCED = [changed(1, 101, fenced=number % 2 or -1) for number in range(20)]
"""Records by which broker 1 is unfenced (-1) and fenced (1) in turn."""


def test_no_checkpoint_is_made_in_a_stretch_whose_rolls_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "MAX_PARTITIONS", 1)
    topic = UUID(int=7)
    nodes_of = {"replicas": [1], "isr": [1], "leader": 1, "removingReplicas": [], "addingReplicas": []}
    of_topic = [frame(table.TOPIC, {"name": "t", "topicId": topic})]
    for number in range(2):
        data = {"partitionId": number, "topicId": topic, "leaderEpoch": 0, "partitionEpoch": 0, **nodes_of}
        of_topic.append(frame(table.PARTITION, data))
    whole = batches([*healthy(), *of_topic, *FENCED])
    found = [Copied(str(node), whole, [0, 20, 22], lost=20) for node in VOTERS]
    for copy in found:
        copy.snapshots[18, 1] = snapshot_of(image_of(b"".join(whole), 18), at_ms=int(copy.node))
        copy.grow(13)
    saved = None
    for until in (26, 29):
        _, row = grow(found, until, saved)
        saved = row["checkpoint"]
        assert saved is None


def test_damage_that_makes_no_rows_just_after_a_checkpoint_does_not_outdate_it() -> None:
    found = grown(16, 20, snapshots=(16,))
    for copy in found:
        copy.flipped.add(16)
        copy.drops = True
    data = made([copy.copy() for copy in found], None)[1]["checkpoint"]
    assert Checkpoint.load(data).end == 16
    _, row = grow(found, 24, data)
    assert not row["outdated"]


def test_a_checkpoint_is_outdated_by_damage_without_rows_where_a_shorter_copy_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "LIVE_MS", 0)  # a checkpoint does not wait for the third copy, which is shorter
    found = [*grown(20, snapshots=(16,))[:2], *grown(16, snapshots=(16,))[2:]]
    found[2].flipped.add(16)
    found[2].drops = True
    data = made([copy.copy() for copy in found], None)[1]["checkpoint"]
    assert Checkpoint.load(data).end == 16
    _, row = grow(found, 24, data)
    assert row["outdated"] == f"3003/{segment_name(10)} has no record at offset 16"


def test_a_contradiction_is_still_reported_after_a_snapshot_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record at offset 11 changes broker 9, which is not registered. The snapshot at 26 has more values than are
    kept.
    """
    monkeypatch.setattr(known, "MAX_KNOWN", 12)
    whole = batches([*healthy(), *FENCED[:2], changed(9, 5, fenced=1), *FENCED])
    large = image_of(b"".join(batches(healthy(brokers=12))), 29)
    found = [Copied(str(node), whole, [0]) for node in VOTERS]
    for copy in found:
        copy.snapshots[16, 1] = snapshot_of(image_of(b"".join(whole), 16), at_ms=int(copy.node))
        copy.snapshots[26, 1] = snapshot_of(large, at_ms=int(copy.node))
    data = None
    for until in (24, 29):
        continued, row = grow(found, until, data)
        assert any(note["offset"] == 11 for note in continued["data_quality"])
        data = row["checkpoint"]
    assert not row["outdated"]


def test_a_checkpoint_is_not_outdated_when_the_parts_that_it_covers_are_merged() -> None:
    found = grown(14, 20, 22, snapshots=(12, 16, 21))
    for copy in found:
        copy.merged = 3
    nodes = [copy.copy() for copy in found]
    assert [len(file.parts[0].merged) for file in nodes[0].files[:2]] == [0, 3]
    continued, row = made(nodes, checkpoint())
    assert continued == made(nodes, None)[0]
    assert not row["outdated"]
    for copy in found:
        copy.grow(24)
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, row["checkpoint"])
    assert continued == made(nodes, None)[0]
    assert not row["outdated"]


def test_a_checkpoint_is_outdated_by_a_merged_part_that_may_have_new_records_below_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "LIVE_MS", 0)  # a checkpoint does not wait for the third copy, which is shorter
    found = [*grown(20, snapshots=(16,))[:2], *grown(12, 14, snapshots=(16,))[2:]]
    data = made([copy.copy() for copy in found], None)[1]["checkpoint"]
    for copy in found:
        copy.grow(24)
    found[2].merged = 3
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, data)
    assert continued == made(nodes, None)[0]
    assert row["outdated"] == f"3003/{segment_name(10)} may have new records below offset 16"
