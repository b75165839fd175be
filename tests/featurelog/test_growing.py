"""A cluster that is copied each hour: each run reads what is new, and makes the tables that one run over all makes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from featurelog import run as runs
from featurelog.delta import SCHEMAS, load
from featurelog.engine import RowsOfPart
from featurelog.record_files import METADATA_RECORDS
from featurelog.tables import CHECKPOINTS
from kafkafeatures.api.values import replace
from kafkasim.fleet import files as written
from kafkasim.fleet.files import write_cluster
from kafkasim.fleet.history import History, live
from kafkasim.fleet.plan import DAY_MS, SMALL, UNTIL_MS, Story, draw
from kraftlog.files import DIRECTORY
from tests.featurelog.inputs import run, tables

DAYS = 8
SCALE = replace(SMALL, days=DAYS, kept_days=DAYS, copies=3)
HOUR = 1 / 24


def days() -> History:
    """Eight days of a cluster."""
    plan = next(each for each in draw(SCALE, seed=1) if each.story is Story.FINALIZED)
    return live(plan, SCALE, until_ms=UNTIL_MS)


history = pytest.fixture(days)


class Outputs:
    """The copies of a cluster that grows, and the tables that each run continues.

    `opened` counts the parts whose rows were read to make tables; `first` is that number of the first run.
    """

    def __init__(self, folder: Path, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.history = folder, history
        self.opened = self.first = 0
        read = RowsOfPart.__call__

        def counted(part: RowsOfPart) -> Iterator[pa.RecordBatch]:
            self.opened += 1
            return read(part)

        monkeypatch.setattr(RowsOfPart, "__call__", counted)

    def copy(self) -> None:
        """Copy the files that are new or have changed. Files that Kafka has deleted stay."""
        grown, inputs = self.folder / "grown", self.folder / "in" / "orders"
        write_cluster(grown, self.history, SCALE)
        for path in filter(Path.is_file, grown.rglob("*")):
            target = inputs / path.relative_to(grown)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != path.read_bytes():
                path.replace(target)
        shutil.rmtree(grown)

    def log_of(self, node: str) -> Path:
        return self.folder / "in" / "orders" / node / DIRECTORY

    def nodes(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "in" / "orders").iterdir())

    def opened_by_a_run(self) -> tuple[int, list[str]]:
        """Run, and compare the tables with those of one run over all files. How many parts the run opened to make
        tables, and its reasons for reading all records again.
        """
        self.opened = 0
        summary = run([self.folder / "in"], self.folder / "continued", piece=1 << 24)
        opened = self.opened
        whole = self.folder / "whole"
        run([self.folder / "in"], whole, piece=1 << 24)
        assert derived(self.folder / "continued") == derived(whole)
        shutil.rmtree(whole)
        return opened, summary.read_again


def derived(output: Path) -> dict[str, list[str]]:
    """All rows of the tables that are made of the records. The table of the records themselves is left out: a run keeps
    the last NoOp that it reads, so it depends on where runs ended.
    """
    return {name: rows for name, rows in tables(output).items() if name in SCHEMAS and name != METADATA_RECORDS}


@pytest.fixture
def outputs(tmp_path: Path, history: History, monkeypatch: pytest.MonkeyPatch) -> Outputs:
    """The outputs after a first run over the eight days."""
    outputs = Outputs(tmp_path, history, monkeypatch)
    outputs.copy()
    outputs.first, why = outputs.opened_by_a_run()
    assert not why
    return outputs


def test_a_run_after_an_hour_more_opens_less_than_half_of_the_parts(outputs: Outputs, history: History) -> None:
    """The run continues from the checkpoint, and opens only the parts behind that."""
    for number in range(1, 4):
        if number == 2:
            history.roll()
        history.until_day(DAYS + number * HOUR)
        outputs.copy()
        opened, why = outputs.opened_by_a_run()
        assert opened < outputs.first / 2
        assert not why


def test_merged_parts_do_not_make_a_run_read_all_records_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "DAY_MS", DAY_MS * DAYS * 2)  # a single segment
    monkeypatch.setattr(runs, "MOST_PARTS", 2)
    history = days()
    outputs = Outputs(tmp_path, history, monkeypatch)
    for number in range(4):
        history.until_day(DAYS + number * HOUR)
        outputs.copy()
        assert not outputs.opened_by_a_run()[1]
    merged = [part.merged for node in load(str(tmp_path / "continued"))[1].nodes for part in node.parts()]
    assert any(merged)


def _lose(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[20] ^= 0xFF  # in the header, by which a run sees whether it is the same file
    path.write_bytes(content)


@pytest.mark.parametrize("change", [_lose, _damage])
def test_another_file_below_the_checkpoint_makes_the_tables_of_all_records(
    outputs: Outputs, history: History, change: Callable[[Path], None]
) -> None:
    history.until_day(DAYS + HOUR)
    outputs.copy()
    node = outputs.nodes()[0]
    first = min(path for path in outputs.log_of(node).iterdir() if path.suffix == ".log")
    change(first)
    opened, why = outputs.opened_by_a_run()
    assert opened > outputs.first  # all parts, and those of the hour since then
    assert why == [f"orders: all records were read again: {node}/{first.name} was replaced"]


def _replace(path: Path) -> None:
    path.write_bytes(b"PAR1")


def _change_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _damage_a_name(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"outdated", b"outd\xf3ted"))  # a column, no longer UTF-8


def _write_other_rows(path: Path) -> None:
    pq.write_table(pa.table({"checkpoint": [5]}), path)


def _write_no_rows(path: Path) -> None:
    pq.write_table(pa.table({"checkpoint": pa.array([], pa.binary())}), path)


@pytest.mark.parametrize(
    "change", [Path.unlink, _replace, _change_a_byte, _damage_a_name, _write_other_rows, _write_no_rows]
)
def test_a_file_of_a_checkpoint_that_is_gone_or_damaged_makes_the_tables_of_all_records(
    outputs: Outputs, history: History, change: Callable[[Path], None]
) -> None:
    for path in (outputs.folder / "continued" / CHECKPOINTS).glob("*.parquet"):
        change(path)
    history.until_day(DAYS + HOUR)
    outputs.copy()
    assert outputs.opened_by_a_run()[1] == ["orders: all records were read again: the checkpoint is damaged"]
