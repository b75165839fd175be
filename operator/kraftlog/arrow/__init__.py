"""A metadata log as Arrow columns, for Parquet and whatever reads it: `pip install 'kraftlog[arrow]'`.

`RECORDS` is the schema of a row. `record_batches` returns the rows of one segment or snapshot, in order: every record,
and every damage in its place. The account of the reading counts all bytes. Nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kraftlog.arrow import columns, plain
from kraftlog.arrow.framing import Records
from kraftlog.arrow.runs import BYTES, ROWS, items
from kraftlog.arrow.schema import DAMAGED, DECODED, KEPT, PARQUET, RECORDS
from kraftlog.reading import Reading

__all__ = ["DAMAGED", "DECODED", "KEPT", "LOG", "PARQUET", "RECORDS", "SNAPSHOT", "record_batches"]

LOG, SNAPSHOT = "log", "snapshot"


def record_batches(
    reading: Reading, *, origin: str = LOG, begins_at: int = 0, redact: bool = True
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, bounded in number and size; the reading's account is complete at the end.

    origin: LOG or SNAPSHOT. begins_at: position of the data in its file, for a caller that continues a file. redact:
    leave out secrets, and bytes that could not be decoded.
    """
    rows: list[plain.Row] = []
    size = 0
    for item in items(reading):
        if isinstance(item, Records):
            if rows:
                yield plain.record_batch(rows)
                rows, size = [], 0
            yield columns.record_batch(reading, item, origin, begins_at, redact)
            continue
        rows.append(plain.row(item, origin, begins_at, redact))
        size += item.size
        if len(rows) == ROWS or size > BYTES:
            yield plain.record_batch(rows)
            rows, size = [], 0
    if rows:
        yield plain.record_batch(rows)
