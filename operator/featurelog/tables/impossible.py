"""Finds the records of a cluster's log at which Kafka stops: it throws an exception when it replays them.

Called by `walk`, for the table `data_quality`. `kraftlog.judge` judges the records, as in the commands that show a log;
here they come from rows. This module decides where the state is known: after a gap, or a record that was not decoded,
it is unknown up to the end of the next complete snapshot. Records of partitions are read one by one and not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from featurelog.tables.merged_log import Merged
from featurelog.tables.scans import Scan, rows_between
from featurelog.tables.tracks import Evidence
from kraftlog.arrow import DECODED
from kraftlog.errors import TooLargeError
from kraftlog.judge import KEYS, Judge
from kraftlog.schema import table

STEP = "impossible"
_ALL = 1 << 62  # above every offset
_KEY_SET = pa.array(sorted(KEYS), pa.int16())
_USUAL_CHANGE = re.compile(
    r'\{"partitionId":([0-9]{1,10}),"topicId":"([^"]+)"(?:,"isr":\[[0-9,]*\])?(?:,"leader":-?[0-9]+)?\}'
)
"""Body of a partition change for which only one check counts: that the partition exists."""
_COLUMNS = ["offset", "timestamp_ms", "api_key", "status", "body"]


class JudgedRow(NamedTuple):
    """A record at which Kafka stops. text: the reason. at: the record. end_offset: of the snapshot that contains it;
    None: it is in a segment.
    """

    text: str
    at: Evidence
    end_offset: int | None = None


def findings(log: Merged) -> Iterator[JudgedRow]:
    """Findings in snapshots, then those in the log, in order. Not complete for a snapshot, or a log, that is too large
    for a `Judge`: then the table `rolls` is incomplete too, and has a note. Reads the files once more. If an earlier
    run saved its state (`checkpoint.py`; that is no snapshot of Kafka), only findings behind the offset of that state.
    """
    states: dict[int, Judge] = {}
    for snapshot in log.new_snapshots:
        judge = Judge(is_complete=True, in_snapshot=True)
        with suppress(TooLargeError):
            yield from _judged(judge, snapshot.scan, (0, _ALL), snapshot.end)
            if snapshot.end:  # the snapshot at 0 is written when the disk is formatted, and has no state
                states[snapshot.end] = judge.end_snapshot()
    with suppress(TooLargeError):
        yield from _in_log(log, states)


def _in_log(log: Merged, states: dict[int, Judge]) -> Iterator[JudgedRow]:
    """Findings in the log. states: behind snapshots, by their end. Raises TooLargeError."""
    position, judge = (0, Judge(is_complete=True)) if log.earlier is None else log.earlier.state(STEP)
    for piece in log.new_pieces:
        if log.recorder.is_due(STEP, piece.begin):
            log.recorder.save(STEP, (position, judge))
        if piece.begin != position:
            judge.miss()
        if not judge.is_complete and piece.begin in states:  # pieces end where snapshots do
            judge = states.pop(piece.begin)
        yield from _judged(judge, piece.scan, (piece.begin, piece.end), None)
        position = piece.end


def _judged(judge: Judge, scan: Scan, offsets: tuple[int, int], end_offset: int | None) -> Iterator[JudgedRow]:
    suffix = "" if end_offset is None else " of the snapshot"
    batches = scan.source.rows(len(scan.former.parts))
    for row in rows_between(batches, offsets, _KEY_SET, _COLUMNS, "record_type"):
        if row["status"] != DECODED:
            judge.miss()
            continue
        usual = _USUAL_CHANGE.fullmatch(row["body"]) if row["api_key"] == table.PARTITION_CHANGE.key else None
        if usual is not None and judge.has_partition(usual[2], int(usual[1])):
            continue  # most records of a log are such changes
        if impossible := judge.take(row["api_key"], json.loads(row["body"]), row["offset"]):
            at = Evidence(scan.source.node, scan.source.file, row["offset"], row["timestamp_ms"])
            yield JudgedRow(f"offset {impossible.offset}{suffix}: {impossible.reason}", at, end_offset)
