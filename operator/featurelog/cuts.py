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
    """Bytes to survey. until: all batches begin before it. end: nothing behind it is read."""

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
    walk, result = Walk(data, begin), None
    while walk.position < until and walk.is_open:
        run = walk.run()
        if run is not None:
            result, is_whole = _with(result, run, until)
            if not is_whole:
                break
        elif result is not None:
            break
        else:
            for _ in walk.next():
                pass
    return result


def _with(result: Survey | None, run: Run, until: int) -> tuple[Survey | None, bool]:
    """The survey with the batches of a run added, as far as they are asked for and in order; and whether those are the
    same.
    """
    due = bisect_left(run.starts, until - run.position, 0, len(run.starts) - 1)
    count = min([due, *run.breaks])
    if not count:
        return result, False
    last = run.batch(count - 1)
    end = run.position + run.starts[count], last.last_offset + 1, last.leader_epoch
    if result is None:
        first = run.batch(0)
        return Survey(first.position, first.base_offset, first.leader_epoch, *end), count == due
    return Survey(result.first, result.base_offset, result.epoch, *end), count == due


def joined(start: int, size: int, spans: Sequence[Span], surveys: Iterable[Survey | None]) -> list[tuple[int, int]]:
    """The ranges, from `start` to the end of the file. surveys: one for each span, and no more are taken than tell."""
    begins = list(_begins(start, spans, surveys)) or [start]
    return list(zip(begins, [*begins[1:], size], strict=True)) if start < size else []


def _begins(start: int, spans: Iterable[Span], surveys: Iterable[Survey | None]) -> Iterator[int]:
    last: Survey | None = None
    for span, survey in zip(spans, surveys, strict=False):
        if last is not None and last.end >= span.until:
            continue  # a batch that is larger than a span
        if survey is None or not _follows(survey, last, start):
            return
        yield survey.first
        last = survey


def _follows(survey: Survey, last: Survey | None, start: int) -> bool:
    if last is None:
        return survey.first == start
    return (survey.first, survey.base_offset) == (last.end, last.end_offset) and survey.epoch >= last.end_epoch


def range_in(data: Pieces, number: int, piece: int) -> tuple[int, int] | None:
    """The range of a whole file that begins in this one of its `spans`; None where none does. What lies before it is
    looked at, as that says whether the file may be cut here; of what lies behind it, no more than where it ends.
    """
    size, start = len(data), None
    file_spans = spans(0, size, piece) or [Span(0, size, size)]
    for begin in _begins(0, file_spans, (survey(data, span.begin, span.until) for span in file_spans)):
        if start is not None:
            return start, begin
        if begin >= file_spans[number].begin:
            if begin >= file_spans[number].until:
                return None
            start = begin
    if start is None and number == 0:
        start = 0  # whatever it begins with
    return None if start is None or not size else (start, size)
