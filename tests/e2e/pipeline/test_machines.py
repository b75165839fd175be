"""Spark on two machines that share no folder, with a real object store between them: each worker has a mount namespace,
in which the driver's folders are empty ones of its own.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from featurelog import stores
from tests.amounts import only_in_soak
from tests.e2e.pipeline import sparks
from tests.e2e.pipeline.settings import HEAP, LOOPBACK
from tests.e2e.pipeline.standalone import cluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.s3 import CREDENTIALS, S3, server
from tests.featurelog.inputs import fleet, run, tables

EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
SETTINGS = {**HEAP, **LOOPBACK, "spark.executor.memory": "512m"}


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stores, "_opened", {})
    folder = tmp_path / "s3"
    folder.mkdir()
    with server(folder) as running:
        yield running


@pytest.fixture
def drivers(tmp_path: Path) -> Path:
    """The folder that the driver alone has: logs, and the tables that one core makes of them."""
    folder = tmp_path / "driver"
    fleet(folder / "in")
    run([folder / "in"], folder / "expected")
    return folder


@only_in_soak
def test_workers_that_share_a_bucket_alone_make_the_same_tables_though_an_executor_is_killed(
    s3: S3, drivers: Path, tmp_path: Path
) -> None:
    s3.copy(drivers / "in", "fleet/logs")
    s3.system.create_dir("tables")
    with cluster(tmp_path, hidden=[drivers]) as master, killed_executor(tmp_path / "work-0") as killed:
        values = sparks.arguments([s3.uri("fleet/logs")], s3.uri("tables"), master, SETTINGS, -1, None)
        summary = sparks.said(sparks.script("tests.e2e.pipeline.runs", *values, env=CREDENTIALS))
    assert len(killed) == 1
    assert not summary["problems"]
    assert tables(s3.uri("tables")) == tables(drivers / "expected")


@only_in_soak
def test_a_run_commits_nothing_if_workers_do_not_see_the_output_of_the_driver(
    s3: S3, drivers: Path, tmp_path: Path
) -> None:
    s3.copy(drivers / "in", "fleet/logs")
    with cluster(tmp_path, hidden=[drivers]) as master:
        values = sparks.arguments([s3.uri("fleet/logs")], drivers / "out", master, SETTINGS, -1, None)
        done = sparks.script("tests.e2e.pipeline.runs", *values, env=CREDENTIALS)
    assert done.returncode == 1
    assert not any(tables(drivers / "out").values())


@only_in_soak
def test_a_run_names_each_file_that_workers_do_not_see(s3: S3, drivers: Path, tmp_path: Path) -> None:
    s3.system.create_dir("tables")
    with cluster(tmp_path, hidden=[drivers]) as master:
        values = sparks.arguments([drivers / "in"], s3.uri("tables"), master, SETTINGS, -1, None)
        summary = sparks.said(sparks.script("tests.e2e.pipeline.runs", *values, env=CREDENTIALS))
    assert len(summary["problems"]) == len([path for path in (drivers / "in").rglob("*[0-9].*") if path.is_file()])
    assert not tables(s3.uri("tables"))["metadata_records"]


@contextmanager
def killed_executor(work: Path) -> Iterator[list[int]]:
    """Kill the first executor of a worker as soon as it has a Python worker, so in its first task. `work`: the folder
    of the worker. Yields the list of the processes that were killed.
    """
    killed: list[int] = []

    def kill() -> bool:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_executor = EXECUTOR in (process / "cmdline").read_bytes()
                if is_executor and work in Path(os.readlink(process / "cwd")).parents and children(process):
                    os.kill(int(process.name), signal.SIGKILL)
                    killed.append(int(process.name))
        return bool(killed)

    thread = threading.Thread(target=wait_until, args=("an executor works", kill, 300), kwargs={"step": 0.05})
    thread.start()
    yield killed
    thread.join()


def children(process: Path) -> bool:
    """True if any thread of the process has started another process."""
    return any(path.read_text().strip() for path in process.glob("task/*/children"))
