"""Inputs of tables: which copies are of one cluster, the records that they agree on, and their defects."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from featurelog.tables import NO_DOCUMENTS, TABLES, FileRecords, Judging, NodeCopy, clusters_of, history_of, tables_of
from kraftlog.batches import Batch
from kraftlog.walks import walk
from tests.featurelog.tables.build import (
    OF_3_9,
    changed,
    copies_of,
    copy,
    healthy,
    history,
    image_of,
    leader,
    level,
    log,
    one,
    registered_broker,
    rows,
    rows_of,
    segment_name,
    snapshot_at,
    snapshot_name,
    snapshot_of,
    tables,
    verdicts,
)
from tests.kraftlog.build import NOW, batch, begin, no_op, snapshot
from tests.kraftlog.golden import LOGS
from tests.kraftlog.impossible import CASES, Case
from tests.kraftlog.partitions import change as partition_change
from tests.kraftlog.partitions import partition, topic


def quality(copies: list[Any]) -> list[dict[str, Any]]:
    return rows(copies, "data_quality")


def kinds(copies: list[Any]) -> list[str]:
    return [row["kind"] for row in quality(copies)]


def test_two_clusters_under_one_name_are_never_merged() -> None:
    ours, other = log(healthy()), log(healthy(version=20))
    copies = [
        copy("3001", {segment_name(0): ours}, cluster_id="one"),
        copy("3002", {segment_name(0): ours}, cluster_id="one"),
        copy("3003", {segment_name(0): other}, cluster_id="two"),
        copy("4", {segment_name(0): other}, cluster_id=None),
    ]
    found = clusters_of(copies)
    assert [(one.cluster_id, [copy.node for copy in one.copies]) for one in found] == [
        (None, ["4"]), ("one", ["3001", "3002"]), ("two", ["3003"]),
    ]  # fmt: skip
    for cluster in found:
        ((kind, text),) = cluster.doubts
        assert (kind, text) == ("two_clusters_under_one_name", "folder prod has nodes of clusters one, two")


def test_clusters_that_share_a_name_have_no_verdict_ready() -> None:
    data = log(healthy())
    copies = [*copies_of(data), copy("9", {segment_name(0): data}, cluster_id="another")]
    for cluster in clusters_of(copies):
        made = tables_of(cluster, NO_DOCUMENTS, Judging(history_of(cluster).end_ms or 0))
        assert set(made["upgrade_readiness"]["verdict"].to_pylist()) == {"unknown"}
        assert "two_clusters_under_one_name" in made["data_quality"]["kind"].to_pylist()


def test_one_cluster_in_two_places_is_never_merged() -> None:
    data = log(healthy())
    copies = [copy("3001", {segment_name(0): data}), copy("3001", {segment_name(0): data}, cluster="backup")]
    found = clusters_of(copies)
    assert [(one.cluster, [kind for kind, _ in one.doubts]) for one in found] == [
        ("backup", ["one_cluster_in_two_places"]), ("prod", ["one_cluster_in_two_places"]),
    ]  # fmt: skip


def test_copies_of_a_log_that_contradict_each_other_are_not_merged() -> None:
    """No copy has a cluster id, and their records differ: only the first by name counts."""
    first = copy("3001", {segment_name(0): log(healthy())}, cluster_id=None)
    other = copy("3002", {segment_name(0): log(healthy(version=20))}, cluster_id=None)
    found = [first, other]
    (note,) = quality(found)
    assert (note["kind"], note["node"], note["offset"]) == ("contradiction", "3002", 0)
    assert note["text"].startswith("3002 and 3001 are no copies of one log: their records differ from offset")
    assert {row["level"] for row in rows(found, "feature_timeline")} == {27}
    assert set(verdicts(found).values()) == {"unknown"}


def test_a_log_that_is_newer_from_its_first_record_on_is_another_log() -> None:
    first = copy("3001", {segment_name(0): log(healthy())})
    other = copy("3002", {segment_name(0): log(healthy(version=20), epoch=9)})
    (note, *_) = quality([first, other])
    assert (note["kind"], note["text"]) == (
        "contradiction", "3002 and 3001 are no copies of one log: their leader epochs differ from offset 0 on",
    )  # fmt: skip
    assert {row["level"] for row in rows([first, other], "feature_timeline")} == {27}


def test_a_file_with_two_records_at_one_offset_contradicts_itself() -> None:
    data = log([*healthy(), level("group.version", 1)]) + log([level("group.version", 0)], start=9)
    found = copies_of(data)
    assert "contradiction" in kinds(found)
    assert set(verdicts(found).values()) == {"unknown"}


def test_a_snapshot_that_contradicts_the_log_is_named_and_no_verdict_is_ready() -> None:
    data, other = log(healthy()), log(healthy(version=20))
    files = {segment_name(0): data, **snapshot_at(9, other)}
    found = [copy("3001", files)]
    (note,) = quality(found)
    assert (note["kind"], note["file"], note["offset"]) == ("snapshot_contradicts_log", snapshot_name(9), 9)
    assert note["text"] == "it contradicts the log before its end: metadata.version"
    assert set(verdicts(found).values()) == {"unknown"}


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        ("a byte", "some of its bytes are damaged"),
        ("its footer", "it has no footer"),
        ("its header", "it has no header"),
    ],
)
def test_an_incomplete_snapshot_is_not_used(lacks: str, why: str) -> None:
    snapshot = snapshot_of(image_of(log(healthy()), 9))
    header, records, _ = (one.data for one in walk(snapshot) if isinstance(one, Batch))
    content = {"a byte": snapshot[:-1], "its footer": bytes(header) + bytes(records), "its header": log(healthy())}[
        lacks
    ]
    found = [copy("3001", {snapshot_name(9): content, segment_name(9): log([no_op()], start=9)})]
    assert [row["text"] for row in quality(found) if row["kind"] == "snapshot_incomplete"] == [why]
    assert rows(found, "feature_timeline") == []


def test_snapshots_of_several_nodes_that_differ_make_every_verdict_unknown() -> None:
    state, other = (image_of(log(healthy(version=version)), 9) for version in (27, 26))
    rest = {segment_name(9): log([leader(3002)], start=9)}
    same = [
        copy(node, {snapshot_name(9): snapshot_of(state, at_ms=NOW + later), **rest})
        for later, node in enumerate(("3001", "3002", "3003"))
    ]
    assert len(history(*same).log.snapshots) == 1
    assert verdicts(same)["4.2"] == "ready"
    found = [*same[:2], copy("3003", {snapshot_name(9): snapshot_of(other), **rest})]
    assert kinds(found) == ["snapshot_contradicts_log"]
    assert set(verdicts(found).values()) == {"unknown"}


def test_a_damaged_batch_is_reported_with_its_file_and_position() -> None:
    data = bytearray(log([*healthy(), no_op(), no_op()]))
    at = len(log(healthy()))
    data[at + 60] ^= 0xFF
    found = quality(copies_of(bytes(data), (3001,)))
    (damaged,) = [row for row in found if row["text"].startswith("the CRC-32C of the batch is wrong")]
    assert (damaged["kind"], damaged["node"], damaged["file"]) == ("damaged", "3001", segment_name(0))
    assert (damaged["position"], damaged["count"], damaged["bytes"]) == (at, 1, len(log([no_op()])))
    (gap,) = [row for row in found if row["kind"] == "gap"]
    assert (gap["offset"], gap["end_offset"]) == (9, 10)


def test_records_of_an_unknown_type_are_reported_with_their_count() -> None:
    unknown = bytes([1, 99, 0, 1, 2, 3])
    (row,) = quality(copies_of(log([*healthy(), unknown, no_op(), unknown]), (3001,)))
    assert (row["kind"], row["offset"], row["end_offset"], row["count"]) == ("not_decoded", 9, 12, 2)
    assert row["text"] == "type 99, version 0: the table has no such type"


def test_an_open_transaction_and_a_nested_transaction_are_reported() -> None:
    data = log([*healthy(), begin(), begin(), level("group.version", 1)])
    assert kinds(copies_of(data)) == ["contradiction_in_log", "open_transaction"]


def test_a_registration_change_without_a_matching_registration_is_reported() -> None:
    row, of_rolls = quality(copies_of(log([*healthy(), changed(1, 999, fenced=1)])))
    assert (row["kind"], row["offset"], of_rolls["kind"]) == ("contradiction_in_log", 9, "rolls_not_known")
    assert row["text"] == (
        "offset 9: BROKER_REGISTRATION_CHANGE of broker 1 has epoch 999, its registration has 101: "
        "Kafka stops here (ClusterDelta.getBrokerOrThrow)"
    )


def test_files_that_are_no_part_of_a_log_are_listed() -> None:
    found = copy("3001", {segment_name(0): log(healthy())})
    part = f"{snapshot_name(9)}.part"
    with_part = NodeCopy(
        found.cluster, found.node, found.cluster_id, found.files, ((part, "a snapshot that was not finished"),)
    )
    (row,) = quality([with_part])
    assert (row["kind"], row["node"], row["file"], row["text"]) == (
        "unused_file", "3001", part, "a snapshot that was not finished",
    )  # fmt: skip


def test_no_op_records_that_were_thinned_out_are_no_gap() -> None:
    """Among the no-op records of an hour only the first and the last one have rows; those between them are no gap."""
    data = log([*healthy(), *[no_op()] * 50, leader(3002), *[no_op()] * 50])
    whole = rows_of(segment_name(0), data)
    # offsets 0 to 8: the healthy cluster; 9 and 58, 60 and 109: first and last no-op; 59: the leader
    thin = whole.take([*range(10), 58, 59, 60, 109])
    found = history(NodeCopy("prod", "3001", None, (FileRecords.of("3001", segment_name(0), thin.to_batches),)))
    assert (found.end, found.doubts, found.notes) == (110, [], [])


def test_rows_may_come_in_batches_of_any_size() -> None:
    data = log([*healthy(), registered_broker(7, 500, supports=OF_3_9), no_op()]) + log(
        [leader(3002)], start=11, epoch=2
    )
    for name, content in {segment_name(0): data, **snapshot_at(9, data)}.items():
        whole = rows_of(name, content)
        of_one = FileRecords.of("3001", name, lambda whole=whole: whole.to_batches(max_chunksize=1))  # type: ignore[misc]
        at_once = FileRecords.of("3001", name, whole.to_batches)
        by_row, whole_tables = (
            tables([NodeCopy("prod", "3001", None, (each,))], at_ms=0) for each in (of_one, at_once)
        )
        assert by_row == whole_tables


def blocks(how_many: int) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Function that makes the rows of a log with so many times 4,000 changes of partitions, as they are read."""
    items = [*healthy(), topic(1, "orders"), *[partition(1, number, 1, 2) for number in range(100)]]
    first = rows_of(segment_name(0), log(items))
    values = [partition_change(1, number % 100, leader=number % 2 + 1) for number in range(4000)]
    block = rows_of("", batch(len(items), *values)).combine_chunks().to_batches()[0]

    def generate() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches()
        for number in range(how_many):
            columns = {name: block[name] for name in block.schema.names}
            for name in ("offset", "timestamp_ms", "batch_position"):
                columns[name] = pc.add(block[name], 4000 * number)
            yield pa.RecordBatch.from_arrays(list(columns.values()), schema=block.schema)

    return generate


def test_memory_does_not_grow_with_the_number_of_partition_changes() -> None:
    peaks = {}
    for how_many in (1, 4):
        cluster = one([NodeCopy("prod", "3001", None, (FileRecords.of("3001", segment_name(0), blocks(how_many)),))])
        tracemalloc.start()
        made = tables_of(cluster, NO_DOCUMENTS, Judging(0))
        peaks[how_many] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # 9 records of the healthy cluster, a topic, 100 partitions: offsets 0 to 109
        assert made["upgrade_readiness"]["watermark_offset"][0].as_py() == 110 + 4000 * how_many
    assert peaks[4] < peaks[1] + 1_000_000, "12,000 more changes would take some 10 MB as objects"


def test_tables_have_their_schema_and_the_key_of_each_row_is_unique() -> None:
    for name, made in tables(golden("4.2.0-feature-changes")).items():
        assert made.schema.equals(TABLES[name].schema)
        keys = made.select(list(TABLES[name].key)).to_pylist()
        assert len({json.dumps(key, default=str) for key in keys}) == made.num_rows
        assert keys == sorted(keys, key=lambda key: [(value is not None, value) for value in key.values()])


def golden(name: str) -> list[NodeCopy]:
    return [
        copy("3001", {path.name: path.read_bytes() for path in sorted(LOGS.joinpath(name).iterdir()) if is_log(path)})
    ]


def is_log(path: Path) -> bool:
    return path.suffix in (".log", ".checkpoint")


@pytest.mark.parametrize("name", ["3.9.1-after-migration", "3.9.1-kraft", "4.2.0-feature-changes"])
def test_snapshots_of_real_nodes_agree_with_their_logs(name: str) -> None:
    """A snapshot that differs from the log is a doubt or a note. Kafka 4.x also writes a FeatureLevel record for
    kraft.version, which has no effect (KAFKA-18979) and is a note.
    """
    found = history(*golden(name))
    assert (found.base, found.doubts) == (0, [])
    assert {note.kind for note in found.notes} <= {"kraft_version_record"}


def test_the_table_of_migrations_has_the_states_of_a_migration_of_real_nodes() -> None:
    found = rows(golden("3.9.1-after-migration"), "migration_timeline")
    assert [(row["state_name"], row["zk_brokers_remaining"], row["from_offset"]) for row in found] == [
        ("PRE_MIGRATION", [], 4), ("PRE_MIGRATION", [1], 240), ("PRE_MIGRATION", [1, 2], 376),
        ("PRE_MIGRATION", [1, 2, 3], 390), ("MIGRATION", [1, 2, 3], 409), ("MIGRATION", [2, 3], 579),
        ("MIGRATION", [3], 637), ("MIGRATION", [], 694), ("POST_MIGRATION", [], 837),
    ]  # fmt: skip


def test_the_table_of_levels_has_the_changes_of_real_nodes() -> None:
    found = [
        row for row in rows(golden("4.2.0-feature-changes"), "feature_timeline") if row["feature"] == "metadata.version"
    ]
    assert [(row["level"], row["change"], row["from_offset"]) for row in found] == [
        (21, "finalized", 3), (22, "raised", 65), (25, "raised", 67), (24, "downgraded", 73), (25, "raised", 75),
        (28, "raised", 143), (29, "raised", 421), (28, "downgraded", 423),
    ]  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_record_at_which_kafka_stops_is_reported_in_the_words_of_log_verify(case: Case) -> None:
    before = healthy()
    at = len(before) + len(case.values) - 1
    found = quality(copies_of(log([*before, *case.values, no_op()])))
    (row,) = [one for one in found if one["kind"] == "contradiction_in_log"]
    began = case.text.replace("at offset 0 ", f"at offset {len(before)} ")
    assert row["text"].startswith(f"offset {at}: {began}: Kafka stops here ({case.check.method})")
    assert (row["offset"], row["node"], row["file"], row["count"]) == (at, "3001", segment_name(0), 1)


def test_a_record_is_no_contradiction_where_the_log_before_it_is_missing() -> None:
    data = log([partition_change(1, 0, isr=(1,)), changed(7, 10, fenced=1), no_op()], start=50)
    assert "contradiction_in_log" not in kinds([copy("3001", {segment_name(50): data})])


def test_a_record_that_contradicts_the_snapshot_before_it_is_reported() -> None:
    state = snapshot(topic(1, "orders"), partition(1, 0, 1, 2))
    files = {snapshot_name(50): state, segment_name(50): log([partition_change(1, 9, isr=(1,)), no_op()], start=50)}
    (row,) = [one for one in quality([copy("3001", files)]) if one["kind"] == "contradiction_in_log"]
    assert row["text"].startswith("offset 50: PARTITION_CHANGE of partition orders-9, which does not exist: Kafka")
    (row,) = quality([copy("3001", {snapshot_name(50): snapshot(partition(1, 0, 1, 2))})])
    assert (row["kind"], row["file"], row["offset"]) == ("contradiction_in_log", snapshot_name(50), 1)
