"""The output as Delta tables: read with libraries that others use, maintained, and never those of other programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import featurelog
from featurelog import delta
from featurelog.delta import LEDGER, RUNS, SCHEMAS, OutputError, load
from featurelog.parts import METADATA_RECORDS
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.featurelog.inputs import SEGMENT, files, fleet, made_log, put, run, tables, texts


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the fleet; no test changes them."""
    folder = tmp_path_factory.mktemp("delta")
    fleet(folder / "in")
    run([folder / "in"], folder / "out")
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
        assert not table.metadata().configuration


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
    everything, only_orders = table.file_uris(), table.file_uris(file_pruning_predicate=[("cluster", "=", "orders")])
    assert 0 < len(only_orders) < len(everything)


def test_the_last_row_of_runs_names_versions_that_belong_together(grown: Path) -> None:
    runs = DeltaTable(grown / RUNS).to_pyarrow_table().sort_by("sequence").to_pylist()
    assert [row["sequence"] for row in runs] == [1, 2]
    first, last = (dict(row["versions"]) for row in runs)
    assert {name: rows(grown, name, last[name]) for name in SCHEMAS} == tables(grown)
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


def test_an_output_of_a_version_before_delta_is_not_written_to(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(12))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "LATEST").write_text("manifest-000001.json\n")
    with pytest.raises(OutputError, match="/out: tables of a version before Delta; give another output"):
        run([tmp_path / "in"], tmp_path / "out")
    assert files(tmp_path / "out") == {"LATEST"}


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
    assert json.loads(capsys.readouterr().out) == {"output": str(grown), "deletedFiles": 1}
    assert (of_killed_run.exists(), of_run_under_way.exists()) == (False, True)
    assert tables(grown) == before


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
    assert "--keep-days: at least 1" in capsys.readouterr().err
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
    assert maintain() == Exit.BLOCKED
    remedy = "deltalake is not installed: pip install '.[pipeline]' in the folder of this repository\n"
    assert capsys.readouterr().err.endswith(remedy)
