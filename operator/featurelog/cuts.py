"""Where a large file is cut, so that several workers read it: at the boundaries of batches, and nowhere else.

What it decides: the ranges of a file. Called when a run is planned: workers look at one span each (`survey`), and what
they found is put together here (`joined`); a worker that plans for itself asks for one range (`range_in`). A cut is
made only where everything before it was read, is in order up to the checksum, and continues in order: a reader of the
pieces then finds what a reader of the whole finds, whatever the bytes are. From the first damage on a file is one
piece.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kraftlog.batches import MAX_BATCH, Pieces
from kraftlog.walks import Run, Walk

PIECE = 16 * 1024 * 1024
"""Bytes that a piece has, but for what the batch has in which it begins; the last one has up to twice as many."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where to look. until: all batches begin before it. end: nothing behind it is read."""

    begin: int
    until: int
    end: int


@dataclass(frozen=True, slots=True)
class Survey:
    """Batches one behind the other, in order. first: where the first of them begins; base_offset, epoch: its own. end:
    behind the last one; end_offset, end_epoch: what the next one has at least.
    """

    first: int
    base_offset: int
    epoch: int
    end: int
    end_offset: int
    end_epoch: int

    def moved(self, by: int) -> Survey:
        """The survey of these bytes where they stand `by` bytes further on."""
        return replace(self, first=self.first + by, end=self.end + by)


def spans(start: int, size: int, piece: int = PIECE) -> list[Span]:
    """Divides a file from `start`, where a batch begins, into pieces to be surveyed; none if it is below two pieces."""
    places = [*range(start, size - piece, piece), size] if size - start > 2 * piece else []
    return [Span(begin, until, min(until + MAX_BATCH, size)) for begin, until in pairwise(places)]


def survey(data: Pieces, begin: int, until: int) -> Survey | None:
    """The first batches that begin from `begin` on, up to `until`; None where none does."""
    walk, found = Walk(data, begin), None
    while walk.position < until and walk.is_open:
        run = walk.run()
        if run is not None:
            found, is_whole = _with(found, run, until)
            if not is_whole:
                break
        elif found is not None:
            break
        else:
            for _ in walk.next():
                pass
    return found


def _with(found: Survey | None, run: Run, until: int) -> tuple[Survey | None, bool]:
    """The survey with the batches of a run added, as far as they are asked for and in order; and whether those are the
    same.
    """
    asked = bisect_left(run.starts, until - run.position, 0, len(run.starts) - 1)
    count = min([asked, *run.breaks])
    if not count:
        return found, False
    last = run.batch(count - 1)
    end = run.position + run.starts[count], last.last_offset + 1, last.leader_epoch
    if found is None:
        first = run.batch(0)
        return Survey(first.position, first.base_offset, first.leader_epoch, *end), count == asked
    return Survey(found.first, found.base_offset, found.epoch, *end), count == asked


def joined(start: int, size: int, wanted: Sequence[Span], surveys: Iterable[Survey | None]) -> list[tuple[int, int]]:
    """The ranges, from `start` to the end of the file. surveys: one for each span, and no more are taken than tell."""
    begins = list(_begins(start, wanted, surveys)) or [start]
    return list(zip(begins, [*begins[1:], size], strict=True)) if start < size else []


def _begins(start: int, wanted: Iterable[Span], surveys: Iterable[Survey | None]) -> Iterator[int]:
    last: Survey | None = None
    for span, found in zip(wanted, surveys, strict=False):
        if last is not None and last.end >= span.until:
            continue  # a batch that is larger than a span
        if found is None or not _follows(found, last, start):
            return
        yield found.first
        last = found


def _follows(found: Survey, last: Survey | None, start: int) -> bool:
    if last is None:
        return found.first == start
    return (found.first, found.base_offset) == (last.end, last.end_offset) and found.epoch >= last.end_epoch


def range_in(data: Pieces, number: int, piece: int) -> tuple[int, int] | None:
    """The range of a whole file that begins in this one of its `spans`; None where none does. What lies before it is
    looked at, as that says whether the file may be cut here; of what lies behind it, no more than where it ends.
    """
    size, found = len(data), None
    wanted = spans(0, size, piece) or [Span(0, size, size)]
    for begin in _begins(0, wanted, (survey(data, one.begin, one.until) for one in wanted)):
        if found is not None:
            return found, begin
        if begin >= wanted[number].begin:
            if begin >= wanted[number].until:
                return None
            found = begin
    if found is None and number == 0:
        found = 0  # whatever it begins with
    return None if found is None or not size else (found, size)
