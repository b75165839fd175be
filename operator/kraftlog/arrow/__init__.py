"""A metadata log as Arrow columns, for Parquet and whatever reads it: `pip install 'kraftlog[arrow]'`.

`RECORDS` says what a row is, `record_batches` gives the rows of one segment or snapshot, in order: every record, and
every damage where it was met. What became of each byte is in the account of the reading. Nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kraftlog.arrow import plain
from kraftlog.arrow.schema import DAMAGED, DECODED, KEPT, RECORDS
from kraftlog.reading import Reading

__all__ = ["DAMAGED", "DECODED", "KEPT", "LOG", "RECORDS", "SNAPSHOT", "record_batches"]

LOG, SNAPSHOT = "log", "snapshot"

_ROWS = 32_768
_BYTES = 8 * 1024 * 1024
"""Of records that are in one batch of rows at most, and one more: their text may take some times as much."""


def record_batches(
    reading: Reading, *, origin: str = LOG, begins_at: int = 0, redact: bool = True
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, bounded in number and size; the reading's account is complete at the end.

    origin: LOG or SNAPSHOT. begins_at: where in its file the data begins, for who goes on where they stopped. redact:
    without secrets, and without the bytes of what could not be decoded.
    """
    rows: list[plain.Row] = []
    size = 0
    for item in reading:
        rows.append(plain.row(item, origin, begins_at, redact))
        size += item.size
        if len(rows) == _ROWS or size > _BYTES:
            yield plain.record_batch(rows)
            rows, size = [], 0
    if rows:
        yield plain.record_batch(rows)
