"""`kafkafeatures pipeline maintain --keep-log-days`: old files of logs leave the ledger and all tables, no other."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from featurelog.delta import Output, load
from featurelog.record_files import METADATA_RECORDS
from featurelog.retention import drop_old_files
from kafkafeatures.api.values import replace
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from kafkasim.fleet.files import write_cluster
from kafkasim.fleet.plan import DAY_MS, UNTIL_MS
from kraftlog import files
from kraftlog.files import DIRECTORY
from kraftlog.schema import RecordType, table
from tests.featurelog.inputs import put, run, tables
from tests.featurelog.test_growing import SCALE, days, derived
from tests.kraftlog.build import NOW, batch, broker, checkpoint, control_batch, no_op, segment, snapshot

KEEP_LOG_DAYS = 7
DAYS = SCALE.days + 3
LAST_MS = UNTIL_MS + 3 * DAY_MS
"""When the newest record was written."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eleven days of a cluster in `all`, which were read into `out`; then Kafka deleted all but the last of `in`."""
    history = days()
    history.until_day(DAYS)
    write_cluster(tmp_path / "all" / "orders", history, replace(SCALE, days=DAYS, kept_days=DAYS))
    shutil.copytree(tmp_path / "all", tmp_path / "in")
    run([tmp_path / "in"], tmp_path / "out", piece=1 << 24)
    delete(tmp_path / "in" / "orders")
    return tmp_path


def delete(cluster: Path) -> None:
    """Delete what no node needs that starts from its second newest snapshot."""
    for log in cluster.glob(f"*/{DIRECTORY}"):
        snapshots, segments = files.in_order(path.name for path in log.iterdir())
        base = snapshots[-2].end_offset
        old = [each.name for each in snapshots if each.end_offset < base]
        ends = [each.base_offset for each in segments[1:]]
        old += [each.name for each, end in zip(segments, ends, strict=False) if end <= base]
        for name in old:
            (log / name).unlink()


def names(output: Path) -> dict[str, set[str]]:
    """The files in the ledger, by node."""
    return {node.node: set(node.files) for node in load(str(output))[1].nodes}


def listed(inputs: Path) -> dict[str, set[str]]:
    """The segments and snapshots that are there, by node."""
    return {
        log.parent.name: {path.name for path in log.iterdir() if files.parse(path.name)}
        for log in inputs.glob(f"*/*/{DIRECTORY}")
    }


def test_after_old_files_are_dropped_the_tables_are_those_of_the_files_that_are_left(folder: Path) -> None:
    output, before = Output.open(str(folder / "out")), names(folder / "out")
    present = {("orders", node): of_node for node, of_node in listed(folder / "in").items()}
    count = drop_old_files(output.ledger, str(folder / "out"), present, LAST_MS, KEEP_LOG_DAYS * DAY_MS)
    output.commit(output.ledger)
    left = names(folder / "out")
    assert count == sum(len(before[node] - left[node]) for node in before) > 0
    assert all(present["orders", node] < left[node] for node in left), "younger files stay, also if they are gone"
    summary = run([folder / "in"], folder / "out", piece=1 << 24)
    assert (summary.files, summary.read_again) == (0, [])
    for log in (folder / "all").glob(f"*/*/{DIRECTORY}"):
        for path in log.iterdir():
            if files.parse(path.name) and path.name not in left[log.parent.name]:
                path.unlink()
    run([folder / "all"], folder / "whole", piece=1 << 24)
    assert derived(folder / "out") == derived(folder / "whole")
    assert not any('"gap"' in row for row in derived(folder / "out")["data_quality"])
    assert tables(folder / "out")[METADATA_RECORDS] == tables(folder / "whole")[METADATA_RECORDS]


def test_files_that_are_in_the_inputs_or_behind_the_last_old_snapshot_are_not_dropped(folder: Path) -> None:
    everything = {("orders", node): of_node for node, of_node in names(folder / "out").items()}
    assert dropped(folder / "out", everything, DAY_MS) == 0
    assert dropped(folder / "out", {}, 30 * DAY_MS) == 0, "no snapshot is as old"


def test_a_clock_of_this_machine_that_is_fast_drops_no_more_files_and_one_that_is_slow_fewer(folder: Path) -> None:
    count = dropped(folder / "out", {}, KEEP_LOG_DAYS * DAY_MS)
    assert dropped(folder / "out", {}, KEEP_LOG_DAYS * DAY_MS, LAST_MS + 4000 * DAY_MS) == count > 0
    assert dropped(folder / "out", {}, KEEP_LOG_DAYS * DAY_MS, LAST_MS - 30 * DAY_MS) == 0


def dropped(
    output: Path, present: Mapping[tuple[str, str], Collection[str]], keep_ms: int, now_ms: int = LAST_MS
) -> int:
    """The number of files that would be dropped."""
    return drop_old_files(load(str(output))[1], str(output), present, now_ms, keep_ms)


def empty_snapshot(written_ms: int, last_record_ms: int) -> bytes:
    header = control_batch(0, (table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": last_record_ms}), at_ms=written_ms)
    return header + control_batch(1, FOOTER, at_ms=written_ms)


FOOTER: tuple[RecordType, dict[str, Any]] = (table.SNAPSHOT_FOOTER, {})
SNAPSHOT = snapshot(broker(1, 5))


@pytest.mark.parametrize(
    ("content", "keep_ms", "count"),
    [
        (SNAPSHOT, DAY_MS, 1),
        (SNAPSHOT[:-10], DAY_MS, 0),
        (SNAPSHOT.removesuffix(control_batch(2, FOOTER)), DAY_MS, 0),
        (empty_snapshot(0, 0), 3 * DAY_MS, 1),
        (empty_snapshot(NOW, 0), 3 * DAY_MS, 0),
        (empty_snapshot(0, NOW), 3 * DAY_MS, 0),
    ],
    ids=["old", "cut off", "cut off between batches", "old by both clocks", "young by the node's clock",
         "young by the leader's clock"],
)  # fmt: skip
def test_a_log_begins_only_with_a_complete_snapshot_that_is_old_by_the_clocks_of_node_and_leader(
    tmp_path: Path, content: bytes, keep_ms: int, count: int
) -> None:
    put(tmp_path / "in", "orders", "1", segment(0), batch(0, broker(1, 5)))
    put(tmp_path / "in", "orders", "1", checkpoint(1), content)
    put(tmp_path / "in", "orders", "1", segment(1), batch(1, no_op()) + batch(2 * DAY_MS, no_op()))
    for end in range(2, 6):
        put(tmp_path / "in", "orders", "1", checkpoint(end), SNAPSHOT)
    run([tmp_path / "in"], tmp_path / "out")
    assert dropped(tmp_path / "out", {}, keep_ms, 2 * DAY_MS + NOW) == count


def test_snapshots_that_prove_which_copies_are_of_different_nodes_are_not_dropped(folder: Path) -> None:
    before = proved(folder / "out")
    output = Output.open(str(folder / "out"))
    drop_old_files(output.ledger, str(folder / "out"), {}, LAST_MS, 0)
    output.commit(output.ledger)
    run([folder / "in"], folder / "out", piece=1 << 24)
    assert proved(folder / "out") == before == [[101, 102, 103]]


def proved(output: Path) -> list[list[int]]:
    """The nodes whose copies count, by the rows of `upgrade_readiness`, each list once."""
    rows = map(json.loads, derived(output)["upgrade_readiness"])
    return [list(nodes) for nodes in {tuple(row["copied_nodes"]) for row in rows}]


def test_no_file_is_dropped_between_those_that_are_in_the_inputs(folder: Path) -> None:
    """A part of the log would be missing, where no snapshot begins."""
    (node, of_node), *_ = names(folder / "out").items()
    first = min(name for name in of_node if name.endswith(".log"))
    ledger = load(str(folder / "out"))[1]
    drop_old_files(ledger, str(folder / "out"), {("orders", node): {first}}, LAST_MS, 0)
    (left,) = (set(each.files) for each in ledger.nodes if each.node == node)
    assert left == of_node


def test_the_command_says_how_many_files_it_dropped_and_refuses_less_than_a_week(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = folder / "pipeline.yaml"
    config.write_text("inputs: [in]\noutput: out\n")
    words = ["pipeline", "maintain", "--config", str(config), "--keep-log-days"]
    monkeypatch.setattr(time, "time", lambda: LAST_MS / 1000)
    before = names(folder / "out")
    assert main([*words, "6"]) == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*words, "7"]) == Exit.DONE
    left = names(folder / "out")
    count = sum(len(before[node] - left[node]) for node in before)
    assert f"pipeline: the rows of {count} old files of logs dropped, 0 files deleted in " in capsys.readouterr().out
    assert main([*words, "7"]) == Exit.DONE
    assert "the rows of 0 old files of logs dropped" in capsys.readouterr().out
    shutil.rmtree(folder / "in")
    assert main([*words, "7"]) == Exit.UNREACHABLE, "the volume of the inputs may not be mounted"
    assert names(folder / "out") == left
    for path in (folder / "out" / METADATA_RECORDS).glob("*.parquet"):
        path.unlink()
    (folder / "in").mkdir()
    shutil.copytree(folder / "all" / "orders", folder / "in" / "new")
    capsys.readouterr()
    assert main([*words, "7"]) == Exit.UNREACHABLE
    assert "nothing was dropped" in capsys.readouterr().err
