"""Contents of a file in order: records of usual batches many at a time, everything else one by one.

A batch is usual if it is not compressed and its data records have neither key nor headers (`framing`); nearly all are.

It decides how many records are taken together, so that memory is bounded. Callers count the records that come many at a
time; batches and single records are counted here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kraftlog.arrow.framing import Framed, Records, framed
from kraftlog.batches import Damage
from kraftlog.reading import Entry, Reading
from kraftlog.walks import Run

ROWS = 65_536
"""Most records that are taken together."""
BYTES = 4 * 1024 * 1024
"""Bytes of records that are taken together, plus at most one record. Their text may take several times as much."""
_FEW = 256  # fewer records are read one by one, which is faster


def items(reading: Reading) -> Iterator[Records | Entry | Damage]:
    """All records and damage of the file in order; records of usual batches come many at a time, as `Records`."""
    for item in reading.runs():
        if isinstance(item, Run):
            yield from _of_run(reading, item)
        else:
            yield item


def _of_run(reading: Reading, run: Run) -> Iterator[Records | Entry | Damage]:
    """The contents of a run, which is divided at unusual batches, and before batches that break the order."""
    frames, begin = framed(run), 0
    last = len(frames.usual)
    for end in sorted({*np.flatnonzero(~frames.usual).tolist(), *run.breaks, last}):
        yield from _usual(reading, run, frames, begin, end)
        for damage in run.breaks.get(end, ()):
            yield reading.damage(damage)
        begin = end
        if end < last and not frames.usual[end]:
            yield from reading.entries(run.batch(end))
            begin = end + 1


def _usual(reading: Reading, run: Run, frames: Framed, begin: int, end: int) -> Iterator[Records | Entry | Damage]:
    """The records of the batches from `begin` to `end`, all of which are usual."""
    first, last = int(frames.first[begin]), int(frames.first[end])
    if last - first < _FEW:
        for number in range(begin, end):
            yield from reading.entries(run.batch(number))
        return
    reading.count_batches(end - begin, last - first)
    while first < last:
        limit = int(np.searchsorted(frames.records.start, frames.records.start[first] + BYTES))
        stop = min(first + ROWS, last, max(limit, first + 1))
        yield frames.records.part(first, stop)
        first = stop
