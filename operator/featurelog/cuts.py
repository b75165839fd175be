"""Cuts large files at boundaries of batches, so that several workers can read one file.

What it decides: the ranges of a file. When a run is planned, each worker surveys one span (`survey`), and the surveys
of a file are combined into ranges (`joined`). A worker of the Spark data source asks for a single range
(`range_in`). A cut is made only where all batches before it are sound and in order, and the next one continues the
order: readers of the ranges then find exactly what a reader of the whole file finds. From the first damage on, the rest
of a file is one range.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kraftlog.batches import MAX_BATCH, Pieces
from kraftlog.walks import Run, Walk

PIECE = 16 * 1024 * 1024
"""Bytes of a range, which ends at the next boundary of a batch. The last range has up to twice as many, or more if it
begins at damage.
"""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes to survey. begin, until: batches that begin from `begin` on and before `until` are surveyed. end: no byte
    behind it is read.
    """

    begin: int
    until: int
    end: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The batches that begin in a span, as far as they are sound and in order.

    first: position of the first one. base_offset, epoch: of the first one. end: position behind the last one.
    end_offset, end_epoch: the offset at which the next batch must begin, and the lowest leader epoch that it can have.
    """

    first: int
    base_offset: int
    epoch: int
    end: int
    end_offset: int
    end_epoch: int

    def moved(self, by: int) -> Survey:
        """The survey with its positions moved by this many bytes."""
        return replace(self, first=self.first + by, end=self.end + by)


def spans(start: int, size: int, piece: int = PIECE) -> list[Span]:
    """Divide a file into spans, from `start`, where a batch begins. No spans unless it is longer than two pieces."""
    places = [*range(start, size - piece, piece), size] if size - start > 2 * piece else []
    return [Span(begin, until, min(until + MAX_BATCH, size)) for begin, until in pairwise(places)]


def survey(data: Pieces, begin: int, until: int) -> Survey | None:
    """Survey the batches that begin from `begin` on and before `until`; None: there are none."""
    walk, result = Walk(data, begin), None
    while walk.position < until and walk.is_open:
        run = walk.run()
        if run is not None:
            result, is_whole = _with(result, run, until)
            if not is_whole:
                break
        elif result is not None:
            break
        else:  # a span hardly ever begins with a batch: skip the bytes before the first one
            for _ in walk.next():
                pass
    return result


def _with(result: Survey | None, run: Run, until: int) -> tuple[Survey | None, bool]:
    """The survey extended by the batches of a run that begin before `until` and are in order; and whether no batch of
    the run before `until` is out of order.
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
    """The ranges of a file from `start` to its end, as (begin, end). surveys: one for each span, possibly lazy: the
    first one that does not continue the one before it is the last one that is taken.
    """
    begins = list(_begins(start, spans, surveys)) or [start]
    return list(zip(begins, [*begins[1:], size], strict=True)) if start < size else []


def _begins(start: int, spans: Iterable[Span], surveys: Iterable[Survey | None]) -> Iterator[int]:
    """Positions at which ranges begin."""
    last: Survey | None = None
    for span, survey in zip(spans, surveys, strict=False):
        if last is not None and last.end >= span.until:
            continue  # the last batch of an earlier span covers this one
        if survey is None or not _follows(survey, last, start):
            return
        yield survey.first
        last = survey


def _follows(survey: Survey, last: Survey | None, start: int) -> bool:
    if last is None:
        return survey.first == start
    return (survey.first, survey.base_offset) == (last.end, last.end_offset) and survey.epoch >= last.end_epoch


def range_in(data: Pieces, number: int, piece: int) -> tuple[int, int] | None:
    """The range of a file that begins in the span with this number; None: no range begins there. All spans before it
    are surveyed, since the file is cut here only if they are sound; spans after it only up to the end of the range.
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
        start = 0  # the first range begins at 0 even if the bytes there are damaged
    return None if start is None or not size else (start, size)
