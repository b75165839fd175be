"""A run that is killed at any point, and run again with its inputs in another order: the same tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from featurelog.delta import LEDGER
from tests.featurelog.inputs import SEGMENT, made_log, put, run, tables
from tests.featurelog.killing import killed, points_of


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """Two inputs. One has node 1 of orders. The other has its node 2, whose last batch is cut, and a damaged log."""
    put(tmp_path / "a", "orders", "1", SEGMENT, made_log(12), "orders-id")
    put(tmp_path / "b", "orders", "2", SEGMENT, made_log(12)[:-40], "orders-id")
    hurt = bytearray(made_log(12))
    hurt[300] ^= 0xFF
    put(tmp_path / "b", "audit", "1", SEGMENT, bytes(hurt), "audit-id")
    return [tmp_path / "a", tmp_path / "b"]


def grow(inputs: list[Path]) -> None:
    """Let the logs of orders grow from 12 batches to 20."""
    put(inputs[0], "orders", "1", SEGMENT, made_log(20))
    put(inputs[1], "orders", "2", SEGMENT, made_log(20)[:-40])


def test_a_first_run_killed_at_any_point_is_completed_by_the_next_run(inputs: list[Path], tmp_path: Path) -> None:
    count = points_of(inputs, tmp_path / "whole")
    expected = tables(tmp_path / "whole")
    assert count > 20
    for point in range(count):
        output = tmp_path / str(point)
        assert killed(inputs, output, point), f"not killed at point {point}"
        summary = run(inputs[::-1], output)
        assert tables(output) == expected, f"killed at point {point}"
        assert not summary.problems
        assert committed_files(output) == committed_files(tmp_path / "whole"), f"killed at point {point}"


def test_an_incremental_run_killed_at_any_point_is_completed_by_the_next_run(
    inputs: list[Path], tmp_path: Path
) -> None:
    run(inputs, tmp_path / "before")
    grow(inputs)
    shutil.copytree(tmp_path / "before", tmp_path / "whole")
    count = points_of(inputs, tmp_path / "whole")
    expected = tables(tmp_path / "whole")
    assert count > 10
    for point in range(count):
        output = tmp_path / str(point)
        shutil.copytree(tmp_path / "before", output)
        assert killed(inputs, output, point), f"not killed at point {point}"
        assert tables(output) in (tables(tmp_path / "before"), expected), f"half a result at point {point}"
        run(inputs[::-1], output)
        assert tables(output) == expected, f"killed at point {point}"


def test_a_run_killed_again_and_again_is_completed_by_the_last_run(inputs: list[Path], tmp_path: Path) -> None:
    """Each one is killed a point later than the one before, and every second one has its inputs in another order."""
    points_of(inputs, tmp_path / "whole")
    point = 0
    while killed(inputs[:: 1 if point % 2 else -1], tmp_path / "out", point):
        point += 1
    run(inputs, tmp_path / "out")
    assert point > 3
    assert tables(tmp_path / "out") == tables(tmp_path / "whole")


def committed_files(output: Path) -> dict[str, int]:
    """The number of files in the newest version of each table."""
    return {name: len(DeltaTable(output / name).file_uris()) for name in (LEDGER, *tables(output))}
