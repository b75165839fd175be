"""Tables exported as Delta tables, and read back with the library that others read them with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import featurelog.export
from featurelog import parts
from featurelog.disk import Disk
from featurelog.export import SCHEMAS, SEQUENCE, Exported, ExportError, export
from featurelog.manifest import load
from featurelog.run import METADATA_RECORDS, Run, Settings
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.featurelog.inputs import SEGMENT, files, fleet, made_log, put, run, tables, texts
from tests.kraftlog.build import batch, level


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the fleet; no test changes them."""
    folder = tmp_path_factory.mktemp("export")
    fleet(folder / "in")
    run([folder / "in"], folder / "out")
    return folder / "out"


def exported(output: Path, to: Path) -> list[Exported]:
    return list(export(load(output)[0], str(to)))


def delta(to: Path) -> dict[str, list[str]]:
    """All rows, as `tables` gives those of the output."""
    return {name: sorted(texts(DeltaTable(to / name).to_pyarrow_table())) for name in SCHEMAS}


def test_an_export_has_all_rows_of_every_table_and_the_version_of_the_run(output: Path, tmp_path: Path) -> None:
    done = exported(output, tmp_path)
    rows = tables(output)
    assert delta(tmp_path) == rows
    assert {one.table: one.rows for one in done} == {name: len(found) for name, found in rows.items()}
    assert all(rows.values())
    for name in SCHEMAS:
        assert DeltaTable(tmp_path / name).history(1)[0][SEQUENCE] == str(load(output)[0].sequence)


def test_a_second_export_of_the_same_run_changes_no_file(output: Path, tmp_path: Path) -> None:
    exported(output, tmp_path)
    before = files(tmp_path)
    assert not any(one.is_new for one in exported(output, tmp_path))
    assert files(tmp_path) == before


def test_an_export_writes_only_the_clusters_that_a_run_changed_and_removes_replaced_rows(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(12), "orders-id")
    run([tmp_path / "in"], tmp_path / "out")
    exported(tmp_path / "out", tmp_path / "delta")
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(20), "orders-id")
    run([tmp_path / "in"], tmp_path / "out")
    done = {one.table: one.is_new for one in exported(tmp_path / "out", tmp_path / "delta")}
    assert (done["metadata_records"], done["feature_timeline"], done["migration_timeline"]) == (True, True, False)
    assert delta(tmp_path / "delta") == tables(tmp_path / "out")


def test_a_table_without_rows_is_exported_with_its_columns(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(12), "orders-id")
    run([tmp_path / "in"], tmp_path / "out")
    exported(tmp_path / "out", tmp_path / "delta")
    empty = DeltaTable(tmp_path / "delta" / "migration_timeline").to_pyarrow_table()
    assert (empty.num_rows, empty.column_names) == (0, SCHEMAS["migration_timeline"].names)


def test_rows_that_another_program_wrote_into_an_exported_table_are_overwritten(output: Path, tmp_path: Path) -> None:
    exported(output, tmp_path)
    table = DeltaTable(tmp_path / "rolls")
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    assert [one.table for one in exported(output, tmp_path) if one.is_new] == ["rolls"]
    assert delta(tmp_path) == tables(output)


def test_replaced_files_of_an_export_are_kept_for_a_week(tmp_path: Path) -> None:
    lies = tmp_path / "delta" / "feature_timeline"
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(12), "orders-id")
    run([tmp_path / "in"], tmp_path / "out")
    exported(tmp_path / "out", tmp_path / "delta")
    (written,) = lies.glob("*.parquet")
    left = written.with_name("part-of-a-killed-export.parquet")
    left.write_bytes(written.read_bytes())
    os.utime(left, (0, 0))
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(20))
    run([tmp_path / "in"], tmp_path / "out")
    exported(tmp_path / "out", tmp_path / "delta")
    assert (left.exists(), written.exists()) == (False, True)
    assert not any(one.is_new for one in exported(tmp_path / "out", tmp_path / "delta"))


def test_a_new_output_of_the_same_version_number_is_exported(tmp_path: Path) -> None:
    for name in ("first", "second"):
        put(tmp_path / name, name, "1", SEGMENT, made_log(12), f"{name}-id")
        run([tmp_path / name], tmp_path / f"out-{name}")
        exported(tmp_path / f"out-{name}", tmp_path / "delta")
    assert load(tmp_path / "out-first")[0].sequence == load(tmp_path / "out-second")[0].sequence
    assert delta(tmp_path / "delta") == tables(tmp_path / "out-second")


KILLED = """
import os, signal, sys
from pathlib import Path
import featurelog.export as delta
from featurelog.manifest import load

written = delta._written

def killing(target, name, rows, schema):
    for file in written(target, name, rows, schema):
        if name == sys.argv[3]:
            os.kill(os.getpid(), signal.SIGKILL)
        yield file

delta._written = killing
list(delta.export(load(Path(sys.argv[1]))[0], sys.argv[2]))
"""


@pytest.mark.parametrize("table", [next(iter(SCHEMAS)), "upgrade_readiness", list(SCHEMAS)[-1]])
def test_the_next_export_completes_a_table_whose_writer_was_killed(output: Path, tmp_path: Path, table: str) -> None:
    words = [sys.executable, "-c", KILLED, str(output), str(tmp_path), table]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(words, env=environment, check=False).returncode == -signal.SIGKILL
    done = exported(output, tmp_path)
    names = [one.table for one in done]
    assert [one.table for one in done if one.is_new] == names[names.index(table) :]
    assert delta(tmp_path) == tables(output)


def test_a_delta_table_of_another_program_is_not_overwritten(output: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "rolls", pa.table({"when": [1]}))
    with pytest.raises(ExportError, match=r"/rolls: a Delta table that another program wrote; choose another place"):
        exported(output, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["rolls"]


def test_files_that_are_no_delta_table_are_not_overwritten(output: Path) -> None:
    before = files(output)
    with pytest.raises(ExportError, match=r"metadata_records: files are here that are no Delta table; choose another"):
        exported(output, output)
    assert files(output) == before


def test_a_target_that_cannot_be_written_is_one_line_of_error(output: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError) as error:
        exported(output, tmp_path / "file")
    assert str(error.value) == f"{tmp_path}/file: File exists; no table was written"


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("gs://bucket/tables", "gs://: exports go to a folder or to s3://bucket/prefix"),
        ("s3://key:hidden@bucket/tables", "s3://bucket/tables: credentials may not be part of a URI"),
        ("s3://bucket/tables?secret_key=hidden", "s3://bucket/tables: unknown option 'secret_key'"),
    ],
)
def test_an_invalid_target_is_one_line_of_error_without_its_secrets(output: Path, to: str, says: str) -> None:
    with pytest.raises(ExportError) as error:
        list(export(load(output)[0], to))
    assert str(error.value).startswith(says)
    assert "hidden" not in str(error.value)


@pytest.fixture
def config(output: Path, tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"inputs: [logs]\noutput: {output}\n")
    return path


def test_the_command_export_reports_the_number_of_written_tables(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pipeline", "export", "--config", str(config), "--to", str(tmp_path / "delta")]
    assert main(words) == Exit.DONE
    assert capsys.readouterr().out.endswith("8 written, 0 were the same\n")
    assert main([*words, "-o", "json"]) == Exit.DONE
    document = json.loads(capsys.readouterr().out)
    assert {one["table"]: one["written"] for one in document["tables"]} == dict.fromkeys(SCHEMAS, False)


def test_no_run_changes_the_tables_during_an_export(
    config: Path, output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Disk().locked(output / ".lock"):
        assert main(["pipeline", "export", "--config", str(config), "--to", str(tmp_path / "delta")]) == Exit.BLOCKED
    assert capsys.readouterr().err.count("another run writes to it; wait until it has ended") == 1


def test_an_export_without_deltalake_or_a_target_ends_with_one_line_and_a_remedy(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["pipeline", "export", "--config", str(config)]) == Exit.USAGE
    assert "--to PLACE is required" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "featurelog.export")
    monkeypatch.delattr(featurelog, "export")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert main(["pipeline", "export", "--config", str(config), "--to", str(tmp_path / "delta")]) == Exit.BLOCKED
    says = "deltalake is not installed: pip install '.[pipeline,export]' in the folder of this repository\n"
    assert capsys.readouterr().err.endswith(says)


WEIGHED = """
import resource, sys
from pathlib import Path
from featurelog.export import export
from featurelog.manifest import load

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
list(export(load(Path(sys.argv[1]))[0], sys.argv[2]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_wide_rows_take_no_more_memory_than_narrow_ones(tmp_path: Path) -> None:
    """A name of 8,000 characters in each record: twice in a row, which is 160 MB of them."""
    log = b"".join(batch(offset, *[level("f" * 8000, 1)] * 10) for offset in range(0, 10_000, 10))
    put(tmp_path / "in", "orders", "1", SEGMENT, log)
    Run(Settings((str(tmp_path / "in"),), tmp_path / "out"), lambda cluster: {})()
    words = [sys.executable, "-c", WEIGHED, str(tmp_path / "out"), str(tmp_path / "delta")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    grown = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    assert int(grown) < 256
    assert DeltaTable(tmp_path / "delta" / METADATA_RECORDS).to_pyarrow_dataset().count_rows() == 10_000


def test_a_table_of_many_bytes_is_several_files(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(featurelog.export, "_FILE", 1)
    monkeypatch.setattr(parts, "_GROUP", 1)
    exported(output, tmp_path)
    assert delta(tmp_path) == tables(output)
    assert len(list((tmp_path / METADATA_RECORDS).glob("*.parquet"))) > 2
    assert not any(one.is_new for one in exported(output, tmp_path))


def test_an_export_has_one_file_open_at_a_time(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of an open file of many columns takes more memory than its few rows."""
    opened: list[weakref.ref[pq.ParquetFile]] = []
    most = []

    class Counted(pq.ParquetFile):  # type: ignore[misc]
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            opened.append(weakref.ref(self))
            most.append(sum(one() is not None for one in opened))

    monkeypatch.setattr(pq, "ParquetFile", Counted)
    exported(output, tmp_path)
    assert (len(most) > 20, max(most)) == (True, 1)
