"""Parquet files of `metadata_records`: how rows are collected into row groups, written and read again.

Called by `parts`, which a data source of Spark sends to workers by value: it may import `stores` beside it,
`kraftlog`, pyarrow and the standard library, and nothing else.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from featurelog import stores
from kraftlog.arrow import PARQUET, RECORDS

_LABELS = (
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("node", pa.string(), nullable=False),
    pa.field("file", pa.string(), nullable=False),
    pa.field("fingerprint", pa.string(), nullable=False),  # of the first header: the same as long as the file grows
)
METADATA_RECORDS = "metadata_records"
ROWS = pa.schema([*_LABELS, *RECORDS])
"""The columns of `metadata_records`: what a file says, and which file it is."""

_ROWS, _GROUP = 32_768, 8 * 1024 * 1024
"""Rows, and their bytes, at which a row group is complete."""
SMALL = 4096
"""Rows: fewer make a small file."""


def new_path(table_name: str, suffix: str = ".parquet") -> str:
    """The path of a new file of a table below the output, with a unique name."""
    return f"{table_name}/part-{uuid.uuid4().hex}{suffix}"


class RecordFile(NamedTuple):
    """A Parquet file that was written.

    path: below the output; None: there were no rows, and there is no file.
    times: of the earliest and the latest record, in ms since 1970; None: no record has one.
    """

    path: str | None
    rows: int = 0
    size: int = 0
    times: tuple[int, int] | None = None


def write_records(batches: Iterable[pa.RecordBatch], output: str) -> RecordFile:
    """Write rows to a new file. Small batches are collected first, since readers pay for each column of each row
    group.
    """
    groups = row_groups(batches)
    first = next(groups, None)
    if first is None:
        return RecordFile(None)
    path = new_path(METADATA_RECORDS)
    with stores.new_file(output, path) as stream:
        with _writer(stream, is_small=first.num_rows < SMALL) as writer:
            rows, times = _write_behind(writer, itertools.chain((first,), groups))
        return RecordFile(path, rows, stream.tell(), times)


def _write_behind(writer: pq.ParquetWriter, groups: Iterable[pa.Table]) -> tuple[int, tuple[int, int] | None]:
    """Write row groups in a second thread, each while the next one is decoded. Returns (number of rows, times as
    of `RecordFile`).

    Compression releases the interpreter's lock, so this saves a third of the time where a second core is idle. At most
    one group is waited for, so memory is that of two.
    """
    rows, times = 0, list[int]()
    with ThreadPoolExecutor(1, "parquet") as thread:
        pending: Future[None] | None = None
        for group in groups:
            if pending is not None:
                pending.result()
            pending = thread.submit(writer.write_table, group, group.num_rows)
            rows += group.num_rows
            bounds = pc.min_max(group["timestamp_ms"]).as_py()
            times += [time for time in bounds.values() if time is not None]
        if pending is not None:
            pending.result()
    return rows, (min(times), max(times)) if times else None


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Collect batches into row groups, which are limited by `_ROWS` and `_GROUP`, plus one batch."""
    batches_of_group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        batches_of_group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _GROUP:
            yield pa.Table.from_batches(batches_of_group)
            batches_of_group, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(batches_of_group)


def batches_of(output: str, path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in batches of at most one row group, whose bytes are limited."""
    file = pq.ParquetFile(stores.open_file(output, path))
    for number in range(file.num_row_groups):
        yield from file.iter_batches(_ROWS, row_groups=[number], use_threads=False)


def _writer(stream: pa.NativeFile, *, is_small: bool) -> pq.ParquetWriter:
    """A writer with kraftlog's settings for its columns, and dictionaries for those that name the file, as these have
    one value each. A small file is compressed with Snappy: it is not larger, and takes half as long to read.
    """
    options: dict[str, Any] = {**PARQUET}
    for columns in ("use_dictionary", "write_statistics"):
        options[columns] = [*(label.name for label in _LABELS), *options[columns]]
    if is_small:
        options |= {"compression": "snappy", "compression_level": None}
    return pq.ParquetWriter(stream, ROWS, **options)
