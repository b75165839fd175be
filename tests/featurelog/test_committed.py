"""Commits of a run: workers see the folder of the output, and every file that is named is looked at before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from featurelog.engine import Derive, Derived, OneCore, Outcome, run_task
from featurelog.manifest import OutputError
from featurelog.parts import EngineError, Part, Task
from featurelog.tables import ClusterCopies
from tests.featurelog.inputs import SEGMENT, made_log, put, run


class OnOtherDisks(OneCore):
    """Workers that do not share the folder of the output: what they write there is on disks of their own."""

    def __init__(self, output: Path) -> None:
        self.output, self.other = str(output), f"{output}-of-a-worker"

    def outcomes(self, tasks: Sequence[tuple[Task, str]]) -> Iterator[Outcome]:
        for task, folder in tasks:
            moved = replace(task, proof=task.proof.replace(self.output, self.other))
            yield run_task(moved, folder.replace(self.output, self.other))


def test_a_run_ends_with_a_reason_where_workers_do_not_see_the_folder_of_the_output(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    out = tmp_path / "out"
    with pytest.raises(EngineError) as error:
        run([tmp_path / "in"], out, start_engine=lambda: OnOtherDisks(out))
    assert "out-of-a-worker: a worker does not see this folder as the run does; use a folder" in str(error.value)
    assert not (out / "LATEST").exists()
    assert run([tmp_path / "in"], out).files == 1, "nothing was taken for read"


class Losing(OneCore):
    """An engine whose written files are lost or changed before the run commits them."""

    def __init__(self, lose: Callable[[Path], object], *, rows: bool) -> None:
        self.lose, self.rows = lose, rows

    def outcomes(self, tasks: Sequence[tuple[Task, str]]) -> Iterator[Outcome]:
        for one in super().outcomes(tasks):
            if self.rows and isinstance(one, Part) and one.path is not None:
                self.lose(Path(one.path))
            yield one

    def derived(self, derive: Derive, clusters: Sequence[ClusterCopies], output: Path) -> Iterator[Derived]:
        for made in super().derived(derive, clusters, output):
            for file in () if self.rows else made.values():
                self.lose(output / file.path)
            yield made


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize(("lose", "why"), [(Path.unlink, "is not there"), (_cut, "here it has ")])
def test_a_missing_or_changed_table_file_is_never_committed(
    tmp_path: Path, lose: Callable[[Path], object], why: str
) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    with pytest.raises(OutputError) as error:
        run([tmp_path / "in"], tmp_path / "out", start_engine=lambda: Losing(lose, rows=False))
    assert why in str(error.value)
    assert "nothing was committed" in str(error.value)
    assert not (tmp_path / "out" / "LATEST").exists()
    assert run([tmp_path / "in"], tmp_path / "out").files == 1


def test_a_run_ends_where_the_rows_of_a_worker_are_missing(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    with pytest.raises(OutputError, match="No such file"):
        run([tmp_path / "in"], tmp_path / "out", start_engine=lambda: Losing(Path.unlink, rows=True))
    assert not (tmp_path / "out" / "LATEST").exists()


def test_the_test_file_for_workers_is_deleted_after_a_run_also_that_of_a_killed_run(
    tmp_path: Path,
) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".seen-of-a-killed-run").touch()
    run([tmp_path / "in"], tmp_path / "out")
    assert list((tmp_path / "out").glob(".seen*")) == []
