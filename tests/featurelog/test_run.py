"""Runs: what is new is read once, and what was read stays, whatever becomes of the inputs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from featurelog import cuts
from featurelog.delta import SCHEMAS, OutputError, load
from featurelog.engine import Engine, OneCore, Outcome, SpanToSurvey, SurveyResult
from featurelog.ledger import Ledger
from featurelog.parts import DROPMALFORMED, FAILFAST, DamagedInputError, Task
from featurelog.run import MOST_PARTS
from kraftlog.files import DIRECTORY
from tests.featurelog.inputs import SEGMENT, files, fleet, made_log, put, run, tables
from tests.kraftlog.build import batch, level, no_op


def no_engine() -> Engine:
    raise AssertionError("there is nothing to read")


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    fleet(tmp_path / "in")
    return tmp_path / "in"


def test_every_byte_of_the_inputs_is_accounted_for(inputs: Path, tmp_path: Path) -> None:
    summary = run([inputs], tmp_path / "out")
    sizes = {path: path.stat().st_size for path in inputs.rglob("*") if path.suffix in {".log", ".checkpoint"}}
    account = summary.account
    shares = [share for kind in ("decoded", "kept", "damaged") for share in account[kind].values()]
    # The log of node 2 ends within a batch: these bytes are left for a later run.
    tail = len(made_log()[:-40]) - _read_to(tmp_path / "out", "orders", "2")
    assert tail > 0
    assert account["size"] + tail == sum(sizes.values())
    assert account["headers"] + sum(share["bytes"] for share in shares) == account["size"]
    assert summary.files == len(sizes)
    assert not summary.problems


def _read_to(output: Path, cluster: str, node: str) -> int:
    """The position up to which a node's segment was read."""
    _, known = load(str(output))
    (found,) = (one for one in known.nodes if (one.cluster, one.node) == (cluster, node))
    return found.files[SEGMENT].next


def test_a_run_without_new_input_starts_no_engine_and_writes_nothing(inputs: Path, tmp_path: Path) -> None:
    run([inputs], tmp_path / "out")
    before = files(tmp_path / "out"), tables(tmp_path / "out")
    summary = run([inputs], tmp_path / "out", start_engine=no_engine)
    assert summary.files == 0
    assert (files(tmp_path / "out"), tables(tmp_path / "out")) == before


def test_files_with_the_same_bytes_and_other_times_are_not_read_again(inputs: Path, tmp_path: Path) -> None:
    run([inputs], tmp_path / "out")
    for path in inputs.rglob("*.log"):
        os.utime(path, ns=(1, 1))
    assert run([inputs], tmp_path / "out", start_engine=no_engine).files == 0


@pytest.mark.parametrize("piece", [1, 300, 100_000])  # bytes: one batch, some batches, and the whole log
def test_a_log_read_while_it_grows_gives_the_same_rows_as_in_one_run(tmp_path: Path, piece: int) -> None:
    whole = made_log()
    for end in (0, 10, 61, 500, 501, 777, 1200, len(whole)):
        put(tmp_path / "in", "orders", "1", SEGMENT, whole[:end])
        run([tmp_path / "in"], tmp_path / "out", piece=piece)
    put(tmp_path / "at once", "orders", "1", SEGMENT, whole)
    run([tmp_path / "at once"], tmp_path / "all", piece=piece)
    grown, expected = tables(tmp_path / "out"), tables(tmp_path / "all")
    # Each run keeps the first and the last NoOp that it reads, so these differ.
    assert [row for row in grown["metadata_records"] if "NO_OP" not in row] == [
        row for row in expected["metadata_records"] if "NO_OP" not in row
    ]
    assert len(expected["feature_timeline"]) > 1
    assert {name: rows for name, rows in grown.items() if name != "metadata_records"} == {
        name: rows for name, rows in expected.items() if name != "metadata_records"
    }


def test_offsets_missing_between_two_runs_are_reported_as_a_row(tmp_path: Path) -> None:
    begun = batch(0, level("metadata.version", 7))
    put(tmp_path / "in", "orders", "1", SEGMENT, begun)
    run([tmp_path / "in"], tmp_path / "out")
    put(tmp_path / "in", "orders", "1", SEGMENT, begun + batch(9, level("metadata.version", 8)))
    run([tmp_path / "in"], tmp_path / "out")
    (row,) = (row for row in tables(tmp_path / "out")["metadata_records"] if "damaged" in row)
    assert "base offset 9, expected 1" in row


def test_a_log_that_was_truncated_and_rewritten_replaces_its_rows(tmp_path: Path) -> None:
    common, old, new = batch(0, no_op()), batch(1, level("a", 1), level("b", 1)), batch(1, level("c", 1), epoch=2)
    put(tmp_path / "in", "orders", "1", SEGMENT, common + old)
    run([tmp_path / "in"], tmp_path / "out")
    put(tmp_path / "in", "orders", "1", SEGMENT, common + new + batch(2, level("d", 1), epoch=2))
    run([tmp_path / "in"], tmp_path / "out")
    put(
        tmp_path / "at once",
        "orders",
        "1",
        SEGMENT,
        (tmp_path / "in/orders/1/__cluster_metadata-0" / SEGMENT).read_bytes(),
    )
    run([tmp_path / "at once"], tmp_path / "all")
    assert tables(tmp_path / "out") == tables(tmp_path / "all")


def test_rows_of_a_segment_that_kafka_deleted_stay(inputs: Path, tmp_path: Path) -> None:
    run([inputs], tmp_path / "out")
    before = tables(tmp_path / "out")
    for path in (inputs / "orders").rglob("*.log"):
        path.unlink()
    run([inputs], tmp_path / "out")
    assert tables(tmp_path / "out") == before


def test_a_segment_that_ends_within_a_batch_is_damage_once_it_is_closed(tmp_path: Path) -> None:
    whole = made_log()
    put(tmp_path / "in", "orders", "1", SEGMENT, whole[:-5])
    run([tmp_path / "in"], tmp_path / "out")
    assert not any("the last batch is cut" in row for row in tables(tmp_path / "out")["metadata_records"])
    put(tmp_path / "in", "orders", "1", f"{90:020}.log", batch(90, no_op()))
    run([tmp_path / "in"], tmp_path / "out")
    assert any("the last batch is cut" in row for row in tables(tmp_path / "out")["metadata_records"])


def test_damage_at_the_end_that_a_node_repairs_is_read_again(tmp_path: Path) -> None:
    whole = made_log()
    hurt = bytearray(whole[:700])
    hurt[-30:] = b"\xff" * 30
    put(tmp_path / "in", "orders", "1", SEGMENT, bytes(hurt))
    run([tmp_path / "in"], tmp_path / "out")
    put(tmp_path / "in", "orders", "1", SEGMENT, whole)
    run([tmp_path / "in"], tmp_path / "out")
    put(tmp_path / "at once", "orders", "1", SEGMENT, whole)
    run([tmp_path / "at once"], tmp_path / "all")
    assert tables(tmp_path / "out")["feature_timeline"] == tables(tmp_path / "all")["feature_timeline"]
    assert not any('"damaged"' in row for row in tables(tmp_path / "out")["metadata_records"])


def test_many_small_parts_of_a_file_are_merged(tmp_path: Path) -> None:
    whole = made_log(200)
    ends = range(400, len(whole), len(whole) // (MOST_PARTS + 5))
    for end in [*ends, len(whole)]:
        put(tmp_path / "in", "orders", "1", SEGMENT, whole[:end])
        run([tmp_path / "in"], tmp_path / "out", piece=100_000)
    committed, _ = load(str(tmp_path / "out"))
    assert len(committed.paths("metadata_records")) < MOST_PARTS < len(ends)
    put(tmp_path / "at once", "orders", "1", SEGMENT, whole)
    run([tmp_path / "at once"], tmp_path / "all")
    assert tables(tmp_path / "out")["feature_timeline"] == tables(tmp_path / "all")["feature_timeline"]


def test_failfast_ends_at_the_first_damage_and_a_later_run_makes_the_tables_of_all(
    inputs: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        DamagedInputError, match=r"1/0+\.log: at byte \d+: the CRC-32C of the batch is wrong; mode is FAI"
    ):
        run([inputs], tmp_path / "out", mode=FAILFAST)
    run([inputs], tmp_path / "out")
    run([inputs], tmp_path / "all")
    assert tables(tmp_path / "out") == tables(tmp_path / "all")


def test_dropmalformed_omits_damaged_records_and_counts_the_damage(inputs: Path, tmp_path: Path) -> None:
    permissive, dropping = run([inputs], tmp_path / "all"), run([inputs], tmp_path / "out", mode=DROPMALFORMED)
    rows = tables(tmp_path / "all")["metadata_records"]
    assert tables(tmp_path / "out")["metadata_records"] == [row for row in rows if '"status": "damaged"' not in row]
    assert dropping.account == permissive.account
    assert dropping.account["damaged"]


def test_a_file_that_shrinks_between_list_and_read_is_named_and_read_by_the_next_run(tmp_path: Path) -> None:
    path = put(tmp_path / "in", "orders", "1", SEGMENT, made_log())

    class Shrinking(OneCore):
        def outcomes(self, tasks: Sequence[Task], output: str) -> Iterator[Outcome]:
            path.write_bytes(made_log()[:700])
            return super().outcomes(tasks, output)

    summary = run([tmp_path / "in"], tmp_path / "out", start_engine=Shrinking)
    assert summary.problems == [f"orders/1/{SEGMENT}: changed while it was read; run again"]
    assert not run([tmp_path / "in"], tmp_path / "out").problems
    assert tables(tmp_path / "out")["metadata_records"]


def test_a_large_file_is_surveyed_by_the_process_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one core would survey the whole file while the others wait."""
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    put(tmp_path / "in", "orders", "2", SEGMENT, made_log(5))
    surveyed: list[SpanToSurvey] = []
    read: list[tuple[int, int]] = []

    class Elsewhere(OneCore):
        def surveys(self, files: Sequence[Sequence[SpanToSurvey]]) -> Iterator[Iterator[SurveyResult]]:
            surveyed.extend(span for spans in files for span in spans)
            with monkeypatch.context() as patch:
                patch.setattr(cuts, "survey", survey)
                return iter([iter([*each]) for each in super().surveys(files)])

        def outcomes(self, tasks: Sequence[Task], output: str) -> Iterator[Outcome]:
            read.extend((task.start, task.end) for task in tasks)
            return super().outcomes(tasks, output)

    survey = cuts.survey
    monkeypatch.setattr(cuts, "survey", None)  # an error wherever the run itself would survey
    run([tmp_path / "in"], tmp_path / "out", piece=1000, start_engine=Elsewhere)
    assert {span.where for span in surveyed} == {f"orders/1/{SEGMENT}"}, "the other one is one piece"
    assert len(read) == len(surveyed) + 1, "a task for each span, and one for the other file"
    monkeypatch.undo()
    run([tmp_path / "in"], tmp_path / "all", piece=10**6)
    assert tables(tmp_path / "out")["feature_timeline"] == tables(tmp_path / "all")["feature_timeline"]


def test_a_file_that_shrinks_before_its_survey_is_named(tmp_path: Path) -> None:
    path = put(tmp_path / "in", "orders", "1", SEGMENT, made_log())

    class Shrinking(OneCore):
        def surveys(self, files: Sequence[Sequence[SpanToSurvey]]) -> Iterator[Iterator[SurveyResult]]:
            path.write_bytes(made_log()[:700])
            return super().surveys(files)

    summary = run([tmp_path / "in"], tmp_path / "out", start_engine=Shrinking)
    assert summary.problems == [f"orders/1/{SEGMENT}: changed while it was read; run again"]
    assert summary.files == 0


def test_two_clusters_under_one_name_are_reported_and_not_merged(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(), "one")
    put(tmp_path / "in", "orders", "2", SEGMENT, made_log(), "another")
    summary = run([tmp_path / "in"], tmp_path / "out")
    assert summary.clusters == 2
    assert summary.doubts == ["folder orders has nodes of clusters another, one"]
    assert any("two_clusters_under_one_name" in row for row in tables(tmp_path / "out")["data_quality"])


def test_one_node_in_two_places_is_read_once_and_reported(tmp_path: Path) -> None:
    for root in ("a", "b"):
        put(tmp_path / root, "orders", "1", SEGMENT, made_log(), "one")
    run([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    run([tmp_path / "a"], tmp_path / "all")
    found, expected = tables(tmp_path / "out"), tables(tmp_path / "all")
    assert found["metadata_records"] == expected["metadata_records"]
    (row,) = set(found["data_quality"]) - set(expected["data_quality"])
    assert f"also in {tmp_path / 'b'}, which is not read" in row


def test_a_node_whose_meta_properties_arrive_later_stays_the_same_node(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    run([tmp_path / "in"], tmp_path / "out")
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(), "one")
    assert run([tmp_path / "in"], tmp_path / "out").clusters == 1
    (only,) = {row.split('"cluster_id": ')[1].split(",")[0] for row in tables(tmp_path / "out")["feature_timeline"]}
    assert only == '"one"'


def test_hostile_names_stay_in_the_output(tmp_path: Path) -> None:
    for name in ("a\nb", "%2e%2e", "..."):
        put(tmp_path / "in", name, "1", SEGMENT, made_log())
    run([tmp_path / "in"], tmp_path / "deep" / "out")
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"out"}
    names = {json.loads(row)["cluster"] for row in tables(tmp_path / "deep" / "out")["metadata_records"]}
    assert names == {"a\nb", "%2e%2e", "..."}


def test_of_two_runs_at_once_the_second_to_commit_fails_and_leaves_the_tables(inputs: Path, tmp_path: Path) -> None:
    """Both begin with the same tables; the other one runs to its end before the first effect of this one."""
    other = iter([lambda: run([inputs], tmp_path / "out")])

    def before() -> None:
        next(other, lambda: None)()

    with pytest.raises(OutputError, match="another run has written to it meanwhile"):
        run([inputs], tmp_path / "out", before=before)
    run([inputs], tmp_path / "all")
    assert tables(tmp_path / "out") == tables(tmp_path / "all")
    assert run([inputs], tmp_path / "out", start_engine=no_engine).files == 0


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\xff"], ids=["empty", "an object without fields", "no UTF-8"])
@pytest.mark.parametrize("table", ["runs", "ledger"])
def test_a_run_fails_if_the_output_cannot_be_read_and_changes_nothing(
    inputs: Path, tmp_path: Path, content: bytes, table: str
) -> None:
    run([inputs], tmp_path / "out")
    for path in (tmp_path / "out" / table / "_delta_log").glob("*.json"):
        path.write_bytes(content)
    before = files(tmp_path / "out")
    with pytest.raises(OutputError):
        run([inputs], tmp_path / "out")
    assert files(tmp_path / "out") == before


def test_a_ledger_of_another_version_is_refused(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "to_json", lambda ledger: b'{"version": 1, "nodes": {}}')  # other fields, too
    run([inputs], tmp_path / "out")
    monkeypatch.undo()
    with pytest.raises(OutputError, match=r"its ledger has version 1, .* version 3; use the release that wrote it, or"):
        run([inputs], tmp_path / "out")


def test_the_ledger_keeps_no_accounts(inputs: Path, tmp_path: Path) -> None:
    """Nothing uses them later, and every process that opens the tables would hold those of every file ever read."""
    assert run([inputs], tmp_path / "out").account["size"]
    assert not any(part.account for node in load(str(tmp_path / "out"))[1].nodes for part in node.parts())


def test_the_output_may_be_moved(inputs: Path, tmp_path: Path) -> None:
    run([inputs], tmp_path / "out")
    before = tables(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    assert tables(tmp_path / "elsewhere") == before
    assert run([inputs], tmp_path / "elsewhere", start_engine=no_engine).files == 0


def test_foreign_files_in_the_output_folder_stay(inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "metadata_records" / "orders").mkdir(parents=True)
    (tmp_path / "out" / "metadata_records" / "orders" / "notes.txt").write_text("mine")
    (tmp_path / "out" / "report.parquet").write_text("mine")
    run([inputs], tmp_path / "out")
    assert (tmp_path / "out" / "report.parquet").exists()
    assert (tmp_path / "out" / "metadata_records" / "orders" / "notes.txt").exists()


def test_older_versions_of_the_tables_stay_for_their_readers(tmp_path: Path) -> None:
    whole = made_log()
    committed, rows = [], []
    for end in (500, 900, len(whole)):
        put(tmp_path / "in", "orders", "1", SEGMENT, whole[:end])
        run([tmp_path / "in"], tmp_path / "out", piece=100_000)
        committed.append(load(str(tmp_path / "out"))[0])
        rows.append(len(tables(tmp_path / "out")["metadata_records"]))
    assert rows == sorted(set(rows))
    read = [each.read("metadata_records", SCHEMAS["metadata_records"]).num_rows for each in committed]
    assert read == rows


def values_of(output: Path, table: str, column: str) -> set[str]:
    """The different values of a column of a table, as JSON."""
    return {json.dumps(json.loads(row)[column]) for row in tables(output)[table]}


def write_of_node(logs: Path, name: str, content: str) -> None:
    """Write a file into the folder of node 1."""
    (logs / "orders" / "1" / name).write_text(content)


def test_a_changed_quorum_state_or_meta_properties_updates_the_tables_of_an_unchanged_log(tmp_path: Path) -> None:
    """These files say who votes and which node has the log; they are no part of the log."""
    logs, output = tmp_path / "in", tmp_path / "out"
    put(logs, "orders", "1", SEGMENT, made_log())
    run([logs], output)
    assert values_of(output, "upgrade_readiness", "voters") == {"null"}
    write_of_node(logs, f"{DIRECTORY}/quorum-state", '{"currentVoters":[{"voterId":7}],"data_version":0}')
    assert run([logs], output).files == 0
    assert values_of(output, "upgrade_readiness", "voters") == {"[7]"}
    assert values_of(output, "upgrade_readiness", "copied_nodes") == {"[1]"}
    write_of_node(logs, "meta.properties", "node.id=7\n")
    assert run([logs], output).files == 0
    assert values_of(output, "upgrade_readiness", "copied_nodes") == {"[7]"}
    write_of_node(logs, f"{DIRECTORY}/{SEGMENT}.deleted", "")
    run([logs], output)
    assert '"unused_file"' in values_of(output, "data_quality", "kind")


def test_a_new_vote_in_quorum_state_updates_the_tables_of_an_unchanged_log(tmp_path: Path) -> None:
    logs, output = tmp_path / "in", tmp_path / "out"
    state = '{"leaderEpoch":1,"votedId":%d,"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    for node in ("1", "2"):
        put(logs, "orders", node, SEGMENT, made_log(), "orders-id")
        put(logs, "orders", node, "quorum-state", (state % 1).encode())
    run([logs], output)
    # The logs are equal, and so are the votes: both copies may be of one node.
    assert values_of(output, "upgrade_readiness", "copied_nodes") == {"[1]"}
    put(logs, "orders", "2", "quorum-state", (state % 2).encode())
    assert run([logs], output).files == 0
    assert values_of(output, "upgrade_readiness", "copied_nodes") == {"[1, 2]"}


def test_a_second_folder_of_the_same_cluster_updates_the_tables_of_an_unchanged_log(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(), "one")
    run([tmp_path / "in"], tmp_path / "out")
    put(tmp_path / "in", "elsewhere", "1", SEGMENT, made_log(), "one")
    run([tmp_path / "in"], tmp_path / "out")
    doubted = {
        json.loads(row)["cluster"]
        for row in tables(tmp_path / "out")["data_quality"]
        if json.loads(row)["kind"] == "one_cluster_in_two_places"
    }
    assert doubted == {"orders", "elsewhere"}
