"""Reads the records of which `rolls` is made, for each stretch of the log without a gap.

`kraftlog.rolls` finds the absences of nodes. Here it gets records from rows. Records of partitions are read one by one
and not kept, so that memory depends on the number of partitions, not of their changes. Called by `rolls`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from featurelog.tables.checkpoint import FileKey, Recorder, key_of
from featurelog.tables.history import History, Note
from featurelog.tables.merged_log import Piece, SnapshotFile
from featurelog.tables.scans import header_ms, rows_between
from kraftlog.arrow import DECODED
from kraftlog.errors import TooLargeError
from kraftlog.records import parse_kafka_uuid
from kraftlog.rolls import KEYS, MAX_ABSENCES, RollHistory, RollRecords
from kraftlog.strips import Moment

STEP = "rolls"
_ALL = 1 << 62  # above every offset, number and time


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of the log without a gap. pieces: in order. base: the snapshot with the state before them; None: the
    stretch begins at offset 0, or its records are continued.
    """

    pieces: tuple[Piece, ...]
    base: SnapshotFile | None


@dataclass(slots=True)
class _Feed:
    """The records of a stretch so far. file: that was read last. position: of its last batch. batch_begins: offset of
    the first record of that batch that rolls are made of.
    """

    records: RollRecords
    file: FileKey | None = None
    position: int = -1
    batch_begins: int = 0


@dataclass(slots=True)
class _Progress:
    """State of the table while the log is read, as a checkpoint has it. histories: of the stretches that are over.
    notes: about them. feed: records of the stretch that is not over; None: it has not begun.
    """

    histories: list[RollHistory] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    feed: _Feed | None = None


def histories_of(history: History) -> tuple[list[RollHistory], list[Note]]:
    """The absences of nodes in each stretch of the log, and notes about stretches that are not known."""
    earlier = history.log.earlier
    progress = _Progress() if earlier is None else earlier.state(STEP)
    for stretch in _stretches(history, progress):
        _read_stretch(stretch, progress, history.log.recorder)
    return progress.histories, progress.notes


def _read_stretch(stretch: _Stretch, progress: _Progress, recorder: Recorder) -> None:
    """Add the history of a stretch to the progress, and notes about it."""
    end, notes = stretch.pieces[-1].end, progress.notes
    try:
        records = _fed(stretch, progress, recorder)
    except TooLargeError as error:
        notes.append(Note("rolls_not_known", f"rolls up to offset {end} are not known: {error}", end_offset=end))
        return
    finally:
        progress.feed = None
    roll_history = records.finish(_ALL)
    if roll_history.unreadable:
        text = f"{roll_history.unreadable} records up to offset {end} were not understood: rolls may be wrong"
        notes.append(Note("rolls_not_known", text, end_offset=end, count=roll_history.unreadable))
    if len(roll_history.absences) >= MAX_ABSENCES:
        text = f"only the last {MAX_ABSENCES} times that a node was away are in `rolls`"
        notes.append(Note("rolls_not_known", text, end_offset=end))
    progress.histories.append(roll_history)


def _stretches(history: History, progress: _Progress) -> Iterator[_Stretch]:
    """The parts of the log without a gap, each from where its state is known. A part without a known state is noted.
    The parts that a checkpoint covers are left out.
    """
    log, groups = history.log, list[list[Piece]]()
    for piece in log.pieces:
        if groups and groups[-1][-1].end == piece.begin:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    start = log.earlier.end if log.earlier is not None else 0
    recorder, previous_ends = log.recorder, [0, *(group[-1].end for group in groups)]
    for previous_end, group in zip(previous_ends, groups, strict=False):
        begin, end = group[0].begin, group[-1].end
        if end <= start:
            continue
        if recorder.is_due(STEP, begin):
            # A stretch that was over at this offset would continue if the gap behind it were filled; and one that was
            # too large was left before its end.
            if recorder.end is not None and previous_end >= recorder.end:
                recorder.end = None
            else:
                recorder.save(STEP, progress)
        base = next((snapshot for snapshot in log.snapshots if begin <= snapshot.end < end), None)
        if progress.feed is not None:
            yield _Stretch(tuple(piece for piece in group if piece.begin >= start), None)
        elif begin == 0:
            yield _Stretch(tuple(group), None)
        elif base is not None:
            yield _Stretch(tuple(piece for piece in group if piece.begin >= base.end), base)
        else:
            text = f"rolls in offsets {begin} to {end - 1} are not known: no snapshot says what was there before"
            progress.notes.append(Note("rolls_not_known", text, offset=begin, end_offset=end))


def _fed(stretch: _Stretch, progress: _Progress, recorder: Recorder) -> RollRecords:
    """The records of a stretch: those of its base, and then those of its pieces, file by file."""
    base = stretch.base
    if base is not None and recorder.is_due(STEP, base.end):
        recorder.save(STEP, progress)
    feed = progress.feed = progress.feed or _Feed(RollRecords(since_ms=-_ALL))
    if base is not None:
        at_ms = header_ms(base.scan)
        feed.records.begin(Moment(at_ms, base.end))
        for row, data in _records(base.scan.source.rows(), 0, _ALL):
            _take(feed.records, row, data, Moment(at_ms, base.end), base.end)
    for of_file in _of_one_file(stretch.pieces, recorder.end):
        if recorder.is_due(STEP, of_file[0].begin):
            recorder.save(STEP, progress)
        _feed(feed, of_file)
    last = stretch.pieces[-1]
    feed.records.read_to(Moment(last.end_ms, last.end - 1))
    return feed.records


def _feed(feed: _Feed, pieces: Sequence[Piece]) -> None:
    """Pass the records of successive pieces of a file."""
    scan = pieces[0].scan
    if feed.file != (file := key_of(scan.source)):
        feed.file, feed.position, feed.batch_begins = file, -1, 0
    batches = scan.source.rows(len(scan.former.parts))
    for row, data in _records(batches, pieces[0].begin, pieces[-1].end):
        if row["batch_position"] != feed.position:  # another batch: this is its first record that rolls are made of
            feed.position, feed.batch_begins = row["batch_position"], row["offset"]
        _take(feed.records, row, data, Moment(row["timestamp_ms"] or 0, row["offset"]), feed.batch_begins)


def _take(
    records: RollRecords, row: Mapping[str, Any], data: Mapping[str, Any] | None, at: Moment, batch_begins: int
) -> None:
    if data is None:
        records.count_unreadable()
    else:
        records.take(row["api_key"], data, at, batch_begins)


def _of_one_file(pieces: Sequence[Piece], cut: int | None) -> Iterator[list[Piece]]:
    """Groups of successive pieces that are read from the same file, all before or all behind the offset `cut`."""
    run: list[Piece] = []
    for piece in pieces:
        if run and (run[-1].scan is not piece.scan or piece.begin == cut):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


_KEY_SET = pa.array(sorted(KEYS), pa.int16())
_COLUMNS = ["offset", "batch_position", "timestamp_ms", "api_key", "status", "body"]


def _records(
    batches: Iterable[pa.RecordBatch], begin: int, end: int
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """The records of a file that rolls are made of, from `begin` on and below `end`: the row, and its fields; None: the
    record was not decoded.
    """
    for row in rows_between(batches, (begin, end), _KEY_SET, _COLUMNS, "api_key"):
        data = json.loads(row["body"]) if row["status"] == DECODED else None
        if data is not None and "topicId" in data:
            data["topicId"] = _topic(data["topicId"])
        yield row, data


@lru_cache(maxsize=100_000)
def _topic(text: str) -> UUID:
    return parse_kafka_uuid(text)
