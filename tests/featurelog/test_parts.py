"""Parts of files: pieces of a file have all its rows, no-ops are thinned out, and memory is bounded."""

from __future__ import annotations

import base64
import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from featurelog.parts import (
    PERMISSIVE,
    InputChangedError,
    PartReader,
    Task,
    combined,
    fingerprint,
    merged,
    open_range,
    write_part,
)
from featurelog.record_files import batches_of
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.reading import Reading
from kraftlog.records import frame
from kraftlog.schema import others, table
from tests.bench.segments import FIRST, segment
from tests.featurelog.inputs import made_log, put, ranges
from tests.kraftlog.build import batch, no_op

HOUR = 3_600_000


def task(path: Path, start: int = 0, end: int | None = None, **more: Any) -> Task:
    end = path.stat().st_size if end is None else end
    fields: dict[str, Any] = {"lead": start, "is_open": False, "mode": PERMISSIVE, **more}
    return Task(
        uri=str(path.parent), path=str(path), cluster="orders", node="1", file=path.name, fingerprint="f",
        start=start, end=end, **fields,
    )  # fmt: skip


def rows(one: Task) -> list[dict[str, Any]]:
    return [row for found in PartReader(one) for row in found.to_pylist()]


def damaged(content: bytes, places: list[int]) -> bytes:
    """The content with the bytes at these positions changed; a position behind the end begins again at 0."""
    result = bytearray(content)
    for place in places:
        result[place % len(result)] ^= 0x41
    return bytes(result)


@given(st.lists(st.integers(0, 10_000), max_size=3), st.integers(61, 1500), st.integers(0, 80))
def test_pieces_of_any_file_have_the_rows_and_the_account_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, places: list[int], piece: int, cut: int
) -> None:
    content = damaged(made_log(), places)
    content = content[: len(content) - cut]
    path = put(tmp_path_factory.mktemp("in"), "orders", "1", f"{0:020}.log", content)
    found = ranges(memoryview(content), piece)
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert (found[0][0], found[-1][1]) == (0, len(content))
    # Each piece keeps its own first and last NoOp, so these differ.
    of_pieces = [
        row for start, end in found for row in rows(task(path, start, end)) if row["record_type"] != table.NO_OP.name
    ]
    assert of_pieces == [row for row in rows(task(path)) if row["record_type"] != table.NO_OP.name]
    account: dict[str, Any] = {}
    for start, end in found:
        reader = PartReader(task(path, start, end))
        list(reader)
        account = combined(account, reader.account())
    whole = PartReader(task(path))
    list(whole)
    assert account == whole.account()


def test_the_first_and_last_no_op_of_an_hour_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    content = b"".join(
        encode_batch([Record(number, number * HOUR // 100, no_op())], leader_epoch=1) for number in range(250)
    )
    path = put(tmp_path, "orders", "1", f"{0:020}.log", content)
    reader = PartReader(task(path))
    kept = [row["offset"] for found in reader for row in found.to_pylist()]
    assert kept == [0, 99, 100, 199, 200, 249]  # 100 NoOps in each hour, and 50 in the last one
    assert reader.account()["decoded"][table.NO_OP.name]["records"] == 250


def test_the_few_rows_of_a_long_idle_log_are_one_row_group(tmp_path: Path) -> None:
    """Each column of each row group costs a reader time, so there should be few groups."""
    idle = ([Record(number, number * HOUR // 100, no_op())] for number in range(40_000))
    content = b"".join(encode_batch(one, leader_epoch=1) for one in idle)
    part = write_part(task(put(tmp_path, "orders", "1", f"{0:020}.log", content)), str(tmp_path / "rows"))
    assert part.path is not None
    assert pq.ParquetFile(tmp_path / "rows" / part.path).num_row_groups == 1
    both = merged([part, part], str(tmp_path / "rows"))
    assert both.path is not None
    assert (both.rows, pq.ParquetFile(tmp_path / "rows" / both.path).num_row_groups) == (2 * part.rows, 1)


def test_the_rows_of_several_row_groups_are_written_in_the_order_of_their_records(tmp_path: Path) -> None:
    one = task(put(tmp_path, "orders", "1", f"{FIRST:020}.log", segment(100_000, (39,))))
    part = write_part(one, str(tmp_path / "rows"))
    assert part.path is not None
    file = pq.ParquetFile(tmp_path / "rows" / part.path)
    assert file.num_row_groups > 2  # so that one is decoded while another is written
    assert file.read().equals(pa.Table.from_batches(list(PartReader(one))))


def test_a_row_group_that_cannot_be_written_fails_the_part(tmp_path: Path) -> None:
    """The file reaches the limit of the process at its second row group; Python gets EFBIG, as it would get ENOSPC."""
    one = task(put(tmp_path, "orders", "1", f"{FIRST:020}.log", segment(100_000, (39,))))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_part(one, str(tmp_path / "rows"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_the_no_ops_next_to_damage_are_kept(tmp_path: Path) -> None:
    written = [batch(number, no_op()) for number in range(9)]
    written[4] = damaged(written[4], [70])
    path = put(tmp_path, "orders", "1", f"{0:020}.log", b"".join(written))
    # Rows without an offset: the damaged batch, and the gap in the offsets behind it.
    assert [row["offset"] for row in rows(task(path))] == [0, 3, None, None, 5, 8]


def test_a_part_has_the_size_of_its_file_of_rows_and_ends_before_a_batch_that_is_cut(tmp_path: Path) -> None:
    whole = made_log()
    path = put(tmp_path, "orders", "1", f"{0:020}.log", whole[:-10])
    part = write_part(task(path, is_open=True), str(tmp_path / "rows"))
    assert part.path is not None
    assert part.size == (tmp_path / "rows" / part.path).stat().st_size
    assert part.next < len(whole) - 10
    data = open_range(str(tmp_path), str(path), 0, part.next, "")
    reading = Reading(data)
    assert sum(1 for _ in reading) == reading.account.claimed
    assert part.account["size"] == part.next
    assert part.ends == reading.end_offset


def test_a_written_file_is_read_at_most_one_row_group_at_once(tmp_path: Path) -> None:
    pq.write_table(pa.table({"body": ["wide"] * 10}), tmp_path / "rows", row_group_size=4)
    assert [one.num_rows for one in batches_of(str(tmp_path), "rows")] == [4, 4, 2]


def test_no_file_is_written_for_a_part_without_rows(tmp_path: Path) -> None:
    path = put(tmp_path, "orders", "1", f"{0:020}.log", b"\0" * 4096)
    part = write_part(task(path, is_open=True), str(tmp_path / "rows"))
    assert (part.path, part.rows, part.next) == (None, 0, 0)
    assert not (tmp_path / "rows").exists()


def test_a_file_that_is_gone_or_shorter_than_it_was_listed_is_an_error_and_no_damage(tmp_path: Path) -> None:
    path = put(tmp_path, "orders", "1", f"{0:020}.log", made_log())
    longer = task(path, end=10**6)
    with pytest.raises(InputChangedError, match="changed while it was read"):
        rows(longer)
    path.unlink()
    with pytest.raises(InputChangedError, match="deleted since it was listed"):
        rows(task(path, end=100))


def test_secrets_are_in_no_row(tmp_path: Path) -> None:
    secret = {
        "name": "alice",
        "mechanism": 1,
        "salt": b"salty",
        "storedKey": b"s3cr3t",
        "serverKey": b"s3cr3t",
        "iterations": 4096,
    }
    path = put(tmp_path, "orders", "1", f"{0:020}.log", batch(0, frame(others.USER_SCRAM_CREDENTIAL, secret)))
    (row,) = rows(task(path))
    assert "alice" in row["body"]
    for hidden in (b"s3cr3t", b"salty"):
        assert base64.b64encode(hidden).decode() not in str(row)


def test_a_replaced_file_has_another_fingerprint_and_one_that_has_grown_has_the_same(tmp_path: Path) -> None:
    def of(content: bytes) -> str:
        path = put(tmp_path, "orders", "1", f"{0:020}.log", content)
        return fingerprint(open_range(str(tmp_path), str(path), 0, len(content), ""))

    first = of(made_log(1))
    assert of(made_log(9)) == first
    assert of(batch(0, no_op())) != first
    assert of(b"") != first
