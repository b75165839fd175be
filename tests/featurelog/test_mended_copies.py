"""Copies of logs with damage: once a sound copy takes their place, the tables are those of the sound one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from featurelog.run import MOST_PARTS
from tests.featurelog.inputs import SEGMENT, made_log, put, run, tables
from tests.kraftlog.build import batch, no_op

WHOLE = made_log()
MIDDLE = WHOLE.index(batch(14, no_op(), no_op(), no_op()))
"""Position of a batch in the middle."""


def damaged(data: bytes, position: int) -> bytes:
    """The same bytes with one bit changed."""
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize("place", [0, 12, 70], ids=["base offset", "leader epoch", "records"])
@pytest.mark.parametrize("piece", [500, 100_000])
@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("missing", [0, 200], ids=["same size", "grown"])
def test_a_sound_copy_in_place_of_one_that_is_damaged_in_the_middle_is_read_again(
    tmp_path: Path, place: int, piece: int, missing: int, *, is_closed: bool
) -> None:
    inputs, output = [tmp_path / "in"], tmp_path / "out"
    if is_closed:
        put(inputs[0], "orders", "1", f"{95:020}.log", batch(95, no_op()))
    path = put(inputs[0], "orders", "1", SEGMENT, damaged(WHOLE[: len(WHOLE) - missing], MIDDLE + place))
    run(inputs, output, piece=piece)
    before = tables(output)["data_quality"]
    os.utime(path, ns=(1, 1))
    assert run(inputs, output, piece=piece).files == 0, "the bytes are the same"
    path.write_bytes(WHOLE)
    run(inputs, output, piece=piece)
    run(inputs, tmp_path / "all", piece=piece)
    after, of_one_run = tables(output), tables(tmp_path / "all")
    assert [after[name] for name in ("data_quality", "feature_timeline")] == [
        of_one_run[name] for name in ("data_quality", "feature_timeline")
    ]
    assert after["data_quality"] != before


def test_damage_in_a_part_that_was_merged_is_read_again(tmp_path: Path) -> None:
    whole = made_log(200)
    ends = [*range(400, len(whole), len(whole) // (MOST_PARTS + 5)), len(whole)]
    copy = damaged(whole, ends[2] + 100)
    for end in ends:
        put(tmp_path / "in", "orders", "1", SEGMENT, copy[:end])
        run([tmp_path / "in"], tmp_path / "out", piece=100_000)
    put(tmp_path / "in", "orders", "1", SEGMENT, whole)
    run([tmp_path / "in"], tmp_path / "out", piece=100_000)
    assert not any('"damaged"' in row for row in tables(tmp_path / "out")["metadata_records"])
