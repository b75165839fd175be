"""A metadata log as Arrow columns, for Parquet and whatever reads it: `pip install 'kraftlog[arrow]'`.

`RECORDS` says what a row is, `record_batches` gives the rows of one segment or snapshot, in order: every record, and
every damage where it was met. What became of each byte is in the account of the reading. Nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from kraftlog.arrow import columns, plain
from kraftlog.arrow.framing import Framed, Records, framed
from kraftlog.arrow.schema import DAMAGED, DECODED, KEPT, PARQUET, RECORDS
from kraftlog.batches import HEADER_SIZE, Damage
from kraftlog.reading import Entry, Reading
from kraftlog.walks import Run

__all__ = ["DAMAGED", "DECODED", "KEPT", "LOG", "PARQUET", "RECORDS", "SNAPSHOT", "record_batches"]

LOG, SNAPSHOT = "log", "snapshot"

_ROWS = 65_536
_BYTES = 4 * 1024 * 1024
"""Of records that are in one batch of rows at most, and one more: their text may take some times as much."""
_FEW = 256  # records of a run that are quicker one by one


def record_batches(
    reading: Reading, *, origin: str = LOG, begins_at: int = 0, redact: bool = True
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, bounded in number and size; the reading's account is complete at the end.

    origin: LOG or SNAPSHOT. begins_at: where in its file the data begins, for who goes on where they stopped. redact:
    without secrets, and without the bytes of what could not be decoded.
    """
    rows: list[plain.Row] = []
    size = 0
    for item in _items(reading):
        if isinstance(item, Records):
            if rows:
                yield plain.record_batch(rows)
                rows, size = [], 0
            yield columns.record_batch(reading, item, origin, begins_at, redact)
            continue
        rows.append(plain.row(item, origin, begins_at, redact))
        size += item.size
        if len(rows) == _ROWS or size > _BYTES:
            yield plain.record_batch(rows)
            rows, size = [], 0
    if rows:
        yield plain.record_batch(rows)


def _items(reading: Reading) -> Iterator[Records | Entry | Damage]:
    """What is in the file, in order: many usual records at once, everything else one by one."""
    for found in reading.runs():
        if isinstance(found, Run):
            yield from _of_run(reading, found)
        else:
            yield found


def _of_run(reading: Reading, run: Run) -> Iterator[Records | Entry | Damage]:
    frames, breaks, begin = framed(run), dict[int, list[Damage]](), 0
    for number, damage in run.breaks:
        breaks.setdefault(number, []).append(damage)
    last = len(frames.usual)
    for end in sorted({*np.flatnonzero(~frames.usual).tolist(), *breaks, last}):
        yield from _usual(reading, run, frames, begin, end)
        for damage in breaks.get(end, ()):
            yield reading.damage(damage)
        begin = end
        if end < last and not frames.usual[end]:
            yield from reading.entries(run.batch(end))
            begin = end + 1


def _usual(reading: Reading, run: Run, frames: Framed, begin: int, end: int) -> Iterator[Records | Entry | Damage]:
    """Of batches that all are as usual."""
    first, last = int(frames.first[begin]), int(frames.first[end])
    if last - first < _FEW:
        for number in range(begin, end):
            yield from reading.entries(run.batch(number))
        return
    account = reading.account
    account.batches += end - begin
    account.headers += (end - begin) * HEADER_SIZE
    account.claimed += last - first
    while first < last:
        limit = int(np.searchsorted(frames.records.start, frames.records.start[first] + _BYTES))
        stop = min(first + _ROWS, last, max(limit, first + 1))
        yield frames.records.part(first, stop)
        first = stop
