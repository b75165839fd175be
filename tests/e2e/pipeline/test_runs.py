"""Runs on Spark: they write the tables that a run on one core writes, also after one of their processes was killed, and
with workers in processes of their own.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from featurelog.delta import OutputError
from featurelog.engine import Engine, OneCore
from tests.amounts import SOAK
from tests.e2e.pipeline import sparks
from tests.e2e.pipeline.settings import HEAP, LOOPBACK
from tests.e2e.pipeline.standalone import cluster
from tests.featurelog import evidence
from tests.featurelog.inputs import SEGMENT, made_log, put, run, tables
from tests.featurelog.killing import Looks, Points

LOCAL = "local[2]"


def made_inputs(folder: Path) -> list[Path]:
    """Three logs in two folders: of both nodes of one cluster, and of another cluster with a damaged batch."""
    put(folder / "a", "orders", "1", SEGMENT, made_log(), "orders-id")
    put(folder / "b", "orders", "2", SEGMENT, made_log()[:-40], "orders-id")
    hurt = bytearray(made_log())
    hurt[300] ^= 0xFF
    put(folder / "b", "audit", "1", SEGMENT, bytes(hurt), "audit-id")
    return [folder / "a", folder / "b"]


def points_of_a_run() -> Looks:
    """The points at which a run may be killed, by a run on one core, which writes the same as one on Spark.
    `different`: the points before which something was written since the last one.
    """
    with tempfile.TemporaryDirectory() as name:
        found = Looks(Path(name) / "out")
        parts = {"before": found, "start_engine": lambda: started(found)}
        run(made_inputs(Path(name)), Path(name) / "out", **parts)
    return found


def started(points: Points) -> Engine:
    points()
    return OneCore()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return made_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def expected(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    output = tmp_path_factory.mktemp("expected") / "out"
    run(inputs, output)
    return tables(output)


def on_spark(
    inputs: list[Path], output: Path, *, master: str = LOCAL, settings: dict[str, str] | None = None,
    point: int = -1, kill_file: Path | None = None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run on Spark. `point`: that at which the driver is killed, -1 for none. `kill_file`: the Python worker that
    removes this file is killed.
    """
    values = sparks.arguments([str(one) for one in inputs], output, master, settings or HEAP, point, kill_file)
    return sparks.script("tests.e2e.pipeline.runs", *values)


def test_a_run_on_spark_continues_the_tables_of_another_run(
    inputs: list[Path], expected: dict[str, Any], tmp_path: Path
) -> None:
    run(inputs[:1], tmp_path / "out")
    summary = sparks.said(on_spark(inputs, tmp_path / "out"))
    assert 0 < summary["files"] < 3  # not the files of the first run again
    assert tables(tmp_path / "out") == expected


def test_a_run_on_spark_writes_the_tables_of_a_run_on_one_core(
    inputs: list[Path], expected: dict[str, Any], tmp_path: Path
) -> None:
    summary = sparks.said(on_spark(inputs, tmp_path / "out"))
    assert summary["files"] == 3
    assert summary["points"] == points_of_a_run().count
    assert not summary["problems"]
    assert tables(tmp_path / "out") == expected


@pytest.mark.parametrize("point", points_of_a_run().different if SOAK else (1, 12))
def test_a_run_after_a_killed_driver_completes_the_tables_in_any_order_of_inputs(
    inputs: list[Path], expected: dict[str, Any], tmp_path: Path, point: int
) -> None:
    """Point 1 is before anything is committed, 12 is between the tables and the row of `runs` that names them."""
    done = on_spark(inputs, tmp_path / "out", point=point)
    assert done.returncode == -signal.SIGKILL, done.stderr[-3000:]
    run(inputs[::-1], tmp_path / "out")
    assert tables(tmp_path / "out") == expected


def test_a_run_ends_with_an_error_if_a_python_worker_is_killed_and_the_next_run_makes_all_tables(
    inputs: list[Path], expected: dict[str, Any], tmp_path: Path
) -> None:
    """A local master does not repeat a task that failed."""
    kill_file = tmp_path / "kill"
    kill_file.touch()
    done = on_spark(inputs, tmp_path / "out", kill_file=kill_file)
    assert done.returncode == 1
    assert "featurelog.parts.EngineError: Spark failed: " in done.stderr
    run(inputs[::-1], tmp_path / "out")
    assert tables(tmp_path / "out") == expected


def test_a_run_ends_with_the_name_of_a_library_that_workers_do_not_have(inputs: list[Path], tmp_path: Path) -> None:
    python = sparks.worker_python(tmp_path)
    done = on_spark(inputs, tmp_path / "out", settings={**HEAP, "spark.pyspark.python": python})
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    says = "a worker does not have the library msgspec: install it for the Python of the workers (spark.pyspark.python)"
    assert line.startswith(f"featurelog.parts.EngineError: {says}; the log of Spark's driver is ")
    log = Path(line.rpartition(" ")[2])
    assert "Spark" in log.read_text()
    log.unlink()


def test_a_run_on_two_workers_that_have_kraftlog_and_msgspec_alone_writes_the_same_tables(
    inputs: list[Path], expected: dict[str, Any], tmp_path: Path
) -> None:
    """One Python worker is killed as well: a cluster of Spark repeats its task."""
    kill_file = tmp_path / "kill"
    kill_file.touch()
    python = sparks.worker_python(tmp_path, "msgspec")
    settings = {**HEAP, "spark.executor.memory": "512m", "spark.pyspark.python": python}
    with cluster(tmp_path) as master:
        done = on_spark(inputs, tmp_path / "out", master=master, settings=settings | LOOPBACK, kill_file=kill_file)
        summary = sparks.said(done)
    assert not kill_file.exists()
    assert not summary["problems"]
    assert tables(tmp_path / "out") == expected
    assert len(list(tmp_path.glob("work-*/app-*/*/stderr"))) == 2  # an executor on each worker


def test_a_table_that_a_worker_cannot_write_ends_the_run_as_on_one_core(inputs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "feature_timeline").touch()
    done = on_spark(inputs, tmp_path / "out")
    with pytest.raises(OutputError) as error:
        run(inputs, tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"featurelog.delta.OutputError: {error.value}"


def test_evidence_about_clients_gives_the_same_tables_on_spark_as_on_one_core(tmp_path: Path) -> None:
    evidence.logs(tmp_path / "logs")
    evidence.everything(tmp_path / "evidence")
    values = sparks.arguments(tmp_path / "logs", tmp_path / "out", tmp_path / "evidence", HEAP)
    for count in (8, 1):  # all files of evidence first, then the one that is added at the end of the loop
        summary = sparks.said(sparks.script("tests.e2e.pipeline.client_runs", *values))
        assert summary == {"files": count, "problems": []}
        evidence.run(tmp_path / "logs", tmp_path / "expected", [tmp_path / "evidence"])
        expected = tables(tmp_path / "expected")
        assert tables(tmp_path / "out") == expected
        assert expected["client_blockers"]
        evidence.place(tmp_path / "evidence", 2, evidence.LOG, evidence.lines(evidence.TIMES))
