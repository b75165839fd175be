"""`kafkafeatures pipeline remove`: a cluster whose logs are gone leaves all tables at once, and does not come back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from featurelog.delta import Output, OutputError, load
from featurelog.record_files import METADATA_RECORDS
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.main import main
from tests.featurelog.inputs import SEGMENT, files, made_log, put, run, tables
from tests.featurelog.killing import Points, killed_while_it_removes

GONE = "=cmd|' C'!A0 <b>"


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """The logs of a cluster that stays. Those of another one were read into the tables in `out`, and are gone."""
    put(tmp_path / "in", "orders", "1", SEGMENT, made_log(12), "orders-id")
    put_gone(tmp_path / "in")
    run([tmp_path / "in"], tmp_path / "out")
    shutil.rmtree(tmp_path / "in" / GONE)
    return tmp_path / "in"


def put_gone(inputs: Path) -> None:
    put(inputs, GONE, "1", SEGMENT, made_log(12) + b"\xff" * 100, "gone-id")


@pytest.fixture
def output(inputs: Path, tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def expected(inputs: Path, tmp_path: Path) -> dict[str, list[str]]:
    """The tables of an output that never had the other cluster."""
    run([inputs], tmp_path / "without")
    return tables(tmp_path / "without")


@pytest.fixture
def remove(output: Path, tmp_path: Path) -> Callable[..., int]:
    """The command; by default for the cluster that is gone."""
    config = tmp_path / "pipeline.yaml"
    config.write_text(f"inputs: [in]\noutput: {output}\n")
    return lambda *words: main(["pipeline", "remove", "--config", str(config), *(words or ("--cluster", GONE))])


def test_a_cluster_whose_logs_are_gone_leaves_all_tables(
    output: Path, expected: dict[str, list[str]], remove: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    before = tables(output)
    assert remove() == Exit.DONE
    assert capsys.readouterr().out == f"pipeline: removed all rows of cluster {GONE!r} from the tables in {output}\n"
    assert tables(output) == expected != before
    assert {name: DeltaTable(output / name).to_pyarrow_table().num_rows for name in expected} == {
        name: len(rows) for name, rows in expected.items()
    }
    committed, ledger = load(str(output))
    assert {node.cluster for node in ledger.nodes} == {"orders"}
    assert len(ledger.derived) == 1
    assert not any(committed.paths(name, GONE) for name in committed.files)


def test_older_versions_still_have_a_cluster_that_the_tables_have_no_longer(
    output: Path, remove: Callable[..., int]
) -> None:
    before, versions = tables(output)[METADATA_RECORDS], load(str(output))[0].versions
    old_files = files(output)
    assert remove() == Exit.DONE
    table = DeltaTable(output / METADATA_RECORDS, version=versions[METADATA_RECORDS])
    assert table.to_pyarrow_table().num_rows == len(before)
    assert old_files <= files(output)


def test_the_next_run_brings_a_cluster_back_only_if_its_logs_are_there(
    inputs: Path, output: Path, expected: dict[str, list[str]], remove: Callable[..., int]
) -> None:
    before = tables(output)
    assert remove() == Exit.DONE
    run([inputs], output)
    assert tables(output) == expected
    put_gone(inputs)
    assert run([inputs], output).files == 1
    assert tables(output) == before


def test_the_new_folder_of_a_cluster_is_no_second_place_once_the_old_folder_is_removed(
    inputs: Path, output: Path, remove: Callable[..., int]
) -> None:
    (inputs / "orders").rename(inputs / "new orders")
    doubt = "cluster orders-id lies in folders new orders, orders"
    assert run([inputs], output).doubts == [doubt]
    assert any(doubt in row for row in tables(output)["data_quality"])
    assert remove("--cluster", "orders") == Exit.DONE
    assert run([inputs], output).doubts == []
    assert not any(doubt in row for row in tables(output)["data_quality"])


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("--cluster", "orders"), Exit.BLOCKED, "/in: logs of cluster 'orders' are here, and the next run would read"),
        (("--cluster", "gone-id"), Exit.UNREACHABLE, "the tables have no cluster with the folder 'gone-id'"),
        (("-o", "json"), Exit.USAGE, "remove: --cluster: required: the name of the cluster's folder"),
    ],
)
def test_a_cluster_that_cannot_be_removed_is_one_line_and_changes_nothing(
    output: Path, remove: Callable[..., int], capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...], code: Exit, line: str,
) -> None:  # fmt: skip
    before = files(output)
    assert remove(*words) == code
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
    assert files(output) == before


@pytest.mark.parametrize("state", ["empty", "absent"])
def test_a_cluster_is_not_gone_if_an_input_has_no_log_at_all(
    inputs: Path, output: Path, remove: Callable[..., int], capsys: pytest.CaptureFixture[str], state: str
) -> None:
    """A volume that is not mounted looks like this."""
    shutil.rmtree(inputs)
    if state == "empty":
        inputs.mkdir()
    before = files(output)
    assert remove() == Exit.UNREACHABLE
    assert f"{inputs}: " in capsys.readouterr().err
    assert files(output) == before


def test_a_command_that_is_killed_at_any_point_leaves_one_state_and_is_completed_by_its_repetition(
    output: Path, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    before, points = tables(output), Points()
    shutil.copytree(output, tmp_path / "whole")
    Output.open(str(tmp_path / "whole")).remove_cluster(GONE, points)
    assert points.count > len(expected)
    for point in range(points.count):
        copy = tmp_path / str(point)
        shutil.copytree(output, copy)
        assert killed_while_it_removes(copy, GONE, point), f"not killed at point {point}"
        is_last = point == points.count - 1  # this point is after the commit
        assert tables(copy) == (expected if is_last else before), f"half a result at point {point}"
        Output.open(str(copy)).remove_cluster(GONE)
        assert tables(copy) == expected, f"killed at point {point}"


def test_a_run_after_a_command_that_was_killed_reads_what_is_new_and_keeps_the_cluster(
    inputs: Path, output: Path, tmp_path: Path
) -> None:
    for name in ("whole", "other"):
        shutil.copytree(output, tmp_path / name)
    points = Points()
    Output.open(str(tmp_path / "whole")).remove_cluster(GONE, points)
    # The last but one point (they begin at 0): tables have new versions, and nothing was committed yet.
    assert killed_while_it_removes(output, GONE, points.count - 2)
    put(inputs, "orders", "1", SEGMENT, made_log(20))
    run([inputs], output)
    run([inputs], tmp_path / "other")
    assert tables(output) == tables(tmp_path / "other")
    newest = DeltaTable(output / METADATA_RECORDS).to_pyarrow_table()
    assert newest.num_rows == len(tables(output)[METADATA_RECORDS])


def test_a_removal_that_began_before_another_one_was_committed_is_refused(
    inputs: Path, output: Path, expected: dict[str, list[str]], remove: Callable[..., int]
) -> None:
    earlier = Output.open(str(output))
    assert remove("--cluster", GONE, "-o", "json") == Exit.DONE
    with pytest.raises(OutputError, match="another run has written to it meanwhile"):
        earlier.remove_cluster("orders")
    assert tables(output) == expected


def test_the_command_prints_an_object_for_scripts(
    output: Path, remove: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    sequence = load(str(output))[0].sequence
    assert remove("--cluster", GONE, "-o", "json") == Exit.DONE
    document = json.loads(capsys.readouterr().out)
    assert document == {"output": str(output), "cluster": GONE, "sequence": sequence + 1}
