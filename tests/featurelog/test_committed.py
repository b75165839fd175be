"""Before a run commits: workers must see the output as the run does, and every written file must be there whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from featurelog.delta import OutputError, load
from featurelog.engine import OneCore, Outcome
from featurelog.parts import EngineError, Part, Task
from tests.featurelog.inputs import SEGMENT, made_log, put, run


class OnOtherDisks(OneCore):
    """Workers that do not share the folder of the output: what they write there is on disks of their own."""

    def __init__(self, output: Path) -> None:
        self.other = f"{output}-of-a-worker"

    def outcomes(self, tasks: Sequence[Task], output: str) -> Iterator[Outcome]:
        return super().outcomes(tasks, self.other)


def test_a_run_ends_with_a_reason_where_workers_do_not_see_the_folder_of_the_output(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    out = tmp_path / "out"
    with pytest.raises(EngineError) as error:
        run([tmp_path / "in"], out, start_engine=lambda: OnOtherDisks(out))
    assert "out-of-a-worker: a worker does not see this output as the run does; use one" in str(error.value)
    assert not load(str(out))[0].sequence
    assert run([tmp_path / "in"], out).files == 1, "nothing was taken for read"


class Losing(OneCore):
    """An engine after whose work written files are lost or changed. rows: those with the rows of parts; otherwise those
    of the tables that are made of them.
    """

    def __init__(self, output: Path, lose: Callable[[Path], object], *, rows: bool) -> None:
        self.output, self.lose, self.rows = output, lose, rows

    def outcomes(self, tasks: Sequence[Task], output: str) -> Iterator[Outcome]:
        for outcome in super().outcomes(tasks, output):
            if self.rows and isinstance(outcome, Part) and outcome.path is not None:
                self.lose(Path(output) / outcome.path)
            yield outcome

    def mapped(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for made in super().mapped(work, items):
            for file in () if self.rows else made.files.values():
                self.lose(self.output / file.path)
            yield made


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize(
    ("lose", "why"),
    [pytest.param(Path.unlink, "is not there", id="missing"), pytest.param(_cut, "here it has ", id="a byte shorter")],
)
def test_a_missing_or_shorter_table_file_is_never_committed(
    tmp_path: Path, lose: Callable[[Path], object], why: str
) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    with pytest.raises(OutputError) as error:
        run([tmp_path / "in"], tmp_path / "out", start_engine=lambda: Losing(tmp_path / "out", lose, rows=False))
    assert why in str(error.value)
    assert "nothing was committed" in str(error.value)
    assert not load(str(tmp_path / "out"))[0].sequence
    assert run([tmp_path / "in"], tmp_path / "out").files == 1


def test_a_run_ends_where_the_rows_of_a_worker_are_missing(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    with pytest.raises(OutputError, match="No such file"):
        run([tmp_path / "in"], tmp_path / "out", start_engine=lambda: Losing(tmp_path / "out", Path.unlink, rows=True))
    assert not load(str(tmp_path / "out"))[0].sequence


def test_the_file_by_which_workers_show_that_they_see_the_output_is_deleted_after_a_run(tmp_path: Path) -> None:
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log())
    run([tmp_path / "in"], tmp_path / "out")
    assert list((tmp_path / "out").glob(".seen*")) == []
