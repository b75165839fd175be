"""The output as Delta tables: read with libraries that others use, maintained, and never those of other programs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import featurelog
from featurelog import delta
from featurelog.delta import LEDGER, RUNS, SCHEMAS, Output, OutputError, load
from featurelog.parts import PROOF
from featurelog.record_files import METADATA_RECORDS
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.featurelog import evidence
from tests.featurelog.inputs import SEGMENT, files, fleet, made_log, put, run, tables, texts
from tests.featurelog.killing import Points, killed, killed_in_maintenance, points_of


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the fleet, and of evidence about clients; no test changes them."""
    folder = tmp_path_factory.mktemp("delta")
    fleet(folder / "in")
    run([folder / "in"], folder / "out")
    evidence.everything(folder / "evidence")
    evidence.run(folder / "in", folder / "out", [folder / "evidence"])
    return folder / "out"


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """The tables of one cluster after two runs."""
    for batches in (12, 20):
        put(tmp_path / "in", "orders", "1", SEGMENT, made_log(batches), "orders-id")
        run([tmp_path / "in"], tmp_path / "out")
    return tmp_path / "out"


def rows(output: Path, name: str, version: int | None = None) -> list[str]:
    """The rows of a Delta table, as `tables` gives those of the last run."""
    return sorted(texts(DeltaTable(output / name, version=version).to_pyarrow_table()))


def test_every_table_has_the_same_rows_for_delta_as_for_our_readers(output: Path) -> None:
    expected = tables(output)
    assert expected.keys() == SCHEMAS.keys()
    assert {name: rows(output, name) for name in SCHEMAS} == expected
    assert all(expected.values())


def test_the_columns_of_every_table_have_the_types_of_delta(output: Path) -> None:
    """No engine has to convert them, and files of different releases fit together."""
    for name, schema in SCHEMAS.items():
        columns = pa.schema(DeltaTable(output / name).schema().to_arrow())
        assert [(field.name, field.type) for field in columns] == [
            (field.name, _as_delta(field.type)) for field in schema
        ]


def _as_delta(kind: pa.DataType) -> pa.DataType:
    """The type with Delta's name for the items of a list."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _as_delta(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_delta(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_delta(kind.key_type), _as_delta(kind.item_type))
    return kind


def test_tables_need_no_more_than_the_first_protocol_and_types_that_every_engine_documents(output: Path) -> None:
    """Trino lists these types, and no table features for this protocol: its reader is not among those we run."""
    documented = {"boolean", "integer", "short", "long", "string", "binary", "timestamp"}
    for name in (*SCHEMAS, LEDGER, RUNS):
        table = DeltaTable(output / name)
        protocol, schema = table.protocol(), table.schema().to_json()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
        assert not protocol.reader_features
        assert set(_primitives(json.loads(schema))) <= documented
        assert table.metadata().partition_columns == ([] if name == RUNS else ["cluster"])
        assert table.metadata().configuration == {"delta.enableExpiredLogCleanup": "false"}


def _primitives(kind: Any) -> Iterator[str]:
    """Names of the primitive types in a type as Delta writes it."""
    if isinstance(kind, str):
        yield kind
        return
    for field in kind.get("fields", ()):
        yield from _primitives(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            yield from _primitives(kind[part])


def test_a_filter_by_cluster_reads_only_the_files_of_that_cluster(output: Path) -> None:
    table = DeltaTable(output / METADATA_RECORDS)
    clusters = {
        one["path"]: one["partition.cluster"] for one in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    }
    paths = table.file_uris(file_pruning_predicate=[("cluster", "=", "orders")])
    assert {Path(path).name for path in paths} == {Path(path).name for path, of in clusters.items() if of == "orders"}
    assert 0 < len(paths) < len(clusters)


def test_a_filter_by_time_reads_only_the_files_that_may_have_its_rows(output: Path) -> None:
    """The log of the table has the times of each file."""
    table = DeltaTable(output / METADATA_RECORDS)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    for action in actions:
        times = pq.read_table(output / METADATA_RECORDS / action["path"])["timestamp_ms"].drop_null().to_pylist()
        assert (action["min.timestamp_ms"], action["max.timestamp_ms"]) == (min(times), max(times))
    latest = max(action["max.timestamp_ms"] for action in actions)
    fragments = [*table.to_pyarrow_dataset().get_fragments(pc.field("timestamp_ms") == latest)]
    assert 0 < len(fragments) == sum(action["max.timestamp_ms"] == latest for action in actions) < len(actions)


def test_the_last_row_of_runs_names_versions_that_belong_together(grown: Path) -> None:
    runs = DeltaTable(grown / RUNS).to_pyarrow_table().sort_by("sequence").to_pylist()
    assert [row["sequence"] for row in runs] == [1, 2]
    first, last = (dict(row["versions"]) for row in runs)
    assert {name: rows(grown, name, last[name]) for name in SCHEMAS if name in last} == tables(grown)
    assert rows(grown, METADATA_RECORDS, first[METADATA_RECORDS]) != rows(grown, METADATA_RECORDS)
    assert first["migration_timeline"] == last["migration_timeline"] == 0, (
        "a table that did not change has no new version"
    )


def test_a_table_without_rows_has_its_columns(grown: Path) -> None:
    empty = DeltaTable(grown / "migration_timeline").to_pyarrow_table()
    assert (empty.num_rows, empty.column_names) == (0, SCHEMAS["migration_timeline"].names)


def test_rows_that_another_program_added_are_removed_by_the_next_run(grown: Path, tmp_path: Path) -> None:
    table = DeltaTable(grown / "feature_timeline")
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(25), "orders-id")
    run([tmp_path / "in"], grown)
    assert rows(grown, "feature_timeline") == tables(grown)["feature_timeline"]


def test_a_table_that_another_program_changed_to_a_feature_of_delta_that_is_not_known_is_refused(
    grown: Path,
) -> None:
    features = {"readerFeatures": ["newest"], "writerFeatures": ["newest"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    next_version = load(str(grown))[0].versions["rolls"] + 1
    (grown / "rolls" / "_delta_log" / f"{next_version:020}.json").write_text(json.dumps(protocol))
    with pytest.raises(OutputError, match=r"'newest'.*; another program changed a table; restore it, or give another"):
        load(str(grown))


def test_a_column_that_a_release_adds_is_null_in_files_of_an_older_one(
    grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wider = SCHEMAS[METADATA_RECORDS].append(pa.field("colour", pa.string()))
    monkeypatch.setattr(delta, "_SCHEMAS", {**delta._SCHEMAS, METADATA_RECORDS: wider})
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(25), "orders-id")
    run([tmp_path / "in"], grown)
    assert set(DeltaTable(grown / METADATA_RECORDS).to_pyarrow_table()["colour"].to_pylist()) == {None}
    assert set(load(str(grown))[0].read(METADATA_RECORDS, wider)["colour"].to_pylist()) == {None}


@pytest.mark.parametrize("name", [LEDGER, "rolls", RUNS])
def test_a_delta_table_of_another_program_is_not_written_to(tmp_path: Path, name: str) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(12))
    write_deltalake(tmp_path / "out" / name, pa.table({"when": [1]}))
    before = files(tmp_path / "out")
    with pytest.raises(OutputError, match=f"/{name}: a Delta table that another program wrote; choose another output"):
        run([tmp_path / "in"], tmp_path / "out")
    assert files(tmp_path / "out") == before


@pytest.mark.parametrize("state", ["lost", "older"])
def test_runs_that_are_lost_or_older_than_the_tables_are_refused(grown: Path, tmp_path: Path, state: str) -> None:
    """A run that began anew would lose the rows of logs that Kafka has deleted."""
    shutil.copytree(grown / RUNS, tmp_path / "older")
    for batches in (25, 30):
        put(tmp_path / "in", "orders", "1", SEGMENT, made_log(batches), "orders-id")
        run([tmp_path / "in"], grown)
    shutil.rmtree(grown / RUNS)
    if state == "older":
        shutil.copytree(tmp_path / "older", grown / RUNS)
    before = files(grown)
    with pytest.raises(OutputError, match="/runs: is missing or older than the tables; restore it, or give another"):
        run([tmp_path / "in"], grown)
    assert files(grown) == before


@pytest.mark.parametrize("name", [LEDGER, "rolls"])
def test_a_table_that_is_lost_is_named(grown: Path, tmp_path: Path, name: str) -> None:
    shutil.rmtree(grown / name)
    before = files(grown)
    with pytest.raises(OutputError, match=f"/{name}: version [0-9]+, which `runs` names, cannot be read; restore the"):
        run([tmp_path / "in"], grown)
    assert files(grown) == before


def test_a_table_that_is_made_while_another_process_opens_the_output_is_read(
    grown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, is_there = tables(grown), DeltaTable.is_deltatable
    monkeypatch.setattr(
        DeltaTable, "is_deltatable", lambda uri, options: not uri.endswith("/rolls") and is_there(uri, options)
    )
    assert tables(grown) == expected


def test_a_table_of_a_newer_release_is_left_alone(grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(delta, "SCHEMAS", {**SCHEMAS, "new": SCHEMAS["rolls"]})
        patch.setattr(delta, "_SCHEMAS", {LEDGER: delta._LEDGER, **delta.SCHEMAS, RUNS: delta._RUNS})
        put(tmp_path / "in", "orders", "1", SEGMENT, made_log(25), "orders-id")
        run([tmp_path / "in"], grown)
    assert "new" in dict(DeltaTable(grown / RUNS).to_pyarrow_table().to_pylist()[-1]["versions"])
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(30), "orders-id")
    run([tmp_path / "in"], grown)
    run([tmp_path / "in"], tmp_path / "whole")
    assert tables(grown)["feature_timeline"] == tables(tmp_path / "whole")["feature_timeline"]


def test_an_output_that_is_a_file_ends_a_run_with_one_line(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(12))
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=f"{tmp_path / 'file'}.*: .*check the path and the rights"):
        run([tmp_path / "in"], tmp_path / "file")


@pytest.fixture
def maintain(grown: Path, tmp_path: Path) -> Callable[..., int]:
    """The command `pipeline maintain` on the tables of one cluster."""
    config = tmp_path / "pipeline.yaml"
    config.write_text(f"inputs: [in]\noutput: {grown}\n")
    return lambda *words: main(["pipeline", "maintain", "--config", str(config), *words])


def test_maintenance_deletes_old_files_of_no_table_and_keeps_those_of_the_last_run(
    grown: Path, maintain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    of_killed_run = grown / METADATA_RECORDS / "part-of-a-killed-run.parquet"
    of_killed_run.write_bytes(b"PAR1")
    os.utime(of_killed_run, (0, 0))
    of_run_under_way = grown / METADATA_RECORDS / "part-of-a-run.parquet"
    of_run_under_way.write_bytes(b"PAR1")
    before = tables(grown)
    assert maintain("-o", "json") == Exit.DONE
    assert json.loads(capsys.readouterr().out) == {"output": str(grown), "deletedFiles": 1, "droppedLogFiles": 0}
    assert (of_killed_run.exists(), of_run_under_way.exists()) == (False, True)
    assert tables(grown) == before


def make_old(output: Path, days: int) -> None:
    """Let all files in the output have been written this many days ago."""
    at = time.time() - days * 86_400
    for path in output.rglob("*"):
        os.utime(path, (at, at))


def test_the_version_that_runs_names_stays_readable_however_old_it_is_and_however_many_runs_fail(
    grown: Path, tmp_path: Path
) -> None:
    """Delta's own cleanup would delete the log of a version that is 90 days old once a checkpoint is behind it."""
    before = tables(grown)
    make_old(grown, 90)
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(25), "orders-id")
    shutil.copytree(grown, tmp_path / "whole")
    # The last but one point (they begin at 0): all tables have new versions, which no row of `runs` names yet.
    point = points_of([tmp_path / "in"], tmp_path / "whole") - 2
    for _ in range(2):
        assert killed([tmp_path / "in"], grown, point)
        assert tables(grown) == before
        Output.open(str(grown)).maintain(7)
        assert tables(grown) == before
    run([tmp_path / "in"], grown)
    assert tables(grown) == tables(tmp_path / "whole")


@pytest.fixture
def three_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tables of runs 40 and 20 days ago, and of now. All files are older than that."""
    output = tmp_path / "three"
    for days, batches in ((40, 12), (20, 20), (0, 25)):
        put(tmp_path / "in", "orders", "1", SEGMENT, made_log(batches), "orders-id")
        monkeypatch.setattr(delta, "_now", lambda days=days: datetime.now(UTC) - timedelta(days=days))
        run([tmp_path / "in"], output)
    make_old(output, 90)
    return output


def versions_of(output: Path) -> dict[int, dict[str, list[str]]]:
    """The rows of all tables as each row of `runs` names them."""
    runs = DeltaTable(output / RUNS).to_pyarrow_table().to_pylist()
    return {
        run["sequence"]: {name: rows(output, name, version) for name, version in run["versions"] if name in SCHEMAS}
        for run in runs
    }


def test_maintenance_keeps_every_version_that_was_the_last_one_in_these_days(three_runs: Path) -> None:
    """Run 1 of 40 days ago was the last one until run 2 of 20 days ago: within 30 days, but not within 10."""
    before = versions_of(three_runs)
    for _ in range(2):  # the first one makes checkpoints, which no longer have entries of files removed long ago
        Output.open(str(three_runs)).maintain(30)
        assert versions_of(three_runs) == before
    assert Output.open(str(three_runs)).maintain(10) > 0
    assert versions_of(three_runs) == {sequence: before[sequence] for sequence in (2, 3)}
    assert not list((three_runs / LEDGER / "_delta_log").glob(f"{0:020}.json"))
    assert Output.open(str(three_runs)).maintain(30) == 0, "no row names a version that is gone"


def test_maintenance_deletes_the_proof_files_of_runs_that_were_killed_days_ago(three_runs: Path) -> None:
    old, new = three_runs / f"{PROOF}old", three_runs / f"{PROOF}new"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))  # of 1970, so older than 365 days too
    assert Output.open(str(three_runs)).maintain(365) == 1
    assert not old.exists()
    assert new.exists()


def test_maintenance_that_is_killed_leaves_versions_that_can_be_read_and_is_completed_by_the_next(
    three_runs: Path, tmp_path: Path
) -> None:
    before, points = versions_of(three_runs), Points()
    shutil.copytree(three_runs, tmp_path / "whole")
    Output.open(str(tmp_path / "whole")).maintain(10, points)
    assert points.count > len(tables(three_runs))
    for point in range(0, points.count, 5):  # every fifth one, to save time
        copy = tmp_path / str(point)
        shutil.copytree(three_runs, copy)
        assert killed_in_maintenance(copy, 10, point), f"not killed at point {point}"
        left = versions_of(copy)
        assert left == {sequence: before[sequence] for sequence in left}, f"killed at point {point}"
        Output.open(str(copy)).maintain(10)
        assert set(versions_of(copy)) == {2, 3}


def test_runs_go_on_after_maintenance(grown: Path, tmp_path: Path, maintain: Callable[..., int]) -> None:
    assert maintain() == Exit.DONE
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(25), "orders-id")
    run([tmp_path / "in"], grown)
    run([tmp_path / "in"], tmp_path / "whole")
    assert tables(grown)["feature_timeline"] == tables(tmp_path / "whole")["feature_timeline"]


def test_maintenance_without_tables_or_for_no_time_is_one_line(
    tmp_path: Path, maintain: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert maintain("--keep-days", "0") == Exit.USAGE
    assert "--keep-days: expected 1 to" in capsys.readouterr().err
    (tmp_path / "pipeline.yaml").write_text("inputs: [in]\noutput: nothing\n")
    assert maintain() == Exit.UNREACHABLE
    assert "there are no tables; `kafkafeatures pipeline run` makes them" in capsys.readouterr().err


def test_a_pipeline_without_deltalake_ends_with_one_line_and_a_remedy(
    maintain: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("delta", "run", "config"):
        monkeypatch.delitem(sys.modules, f"featurelog.{module}")
        monkeypatch.delattr(featurelog, module)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert maintain() == Exit.FAILED
    remedy = "deltalake is not installed: pip install '.[pipeline]' in the folder of this repository\n"
    assert capsys.readouterr().err.endswith(remedy)
