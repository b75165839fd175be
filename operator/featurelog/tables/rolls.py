"""`rolls`: each time that a node was away, which roll that was part of, and what partitions had of it.

What a log tells of restarts is `kraftlog.rolls`' to say, as on the page of the operator's report; here its records come
from rows, one stretch of the log without a gap after the other. Records of partitions are looked at one by one and not
kept: what is remembered grows with the partitions that there are, not with their changes.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelog.tables.history import BROKER, CONTROLLER, History, Note, Registered
from featurelog.tables.merging import Piece, SnapshotFile
from featurelog.tables.table import RANGES, TIME, WHERE, Column, Row, Table, ranges_of
from featurelog.tables.tracks import Version
from kraftlog.arrow import DECODED
from kraftlog.errors import TooLargeError
from kraftlog.records import parse_kafka_uuid
from kraftlog.rolls import KEYS, MAX_ABSENCES, Absence, RollHistory, RollRecords
from kraftlog.strips import Moment, Strip

BETWEEN_ROLLS_MS = 15 * 60 * 1000
"""Nodes that are away within this time of each other are of one roll."""

_ALL = 1 << 62

TABLE = Table(
    "rolls",
    "A row for each time that a node was away, because it was restarted or only fenced. For a controller, the log "
    "shows only that a new process registered. Times of partitions are sums over all partitions and the whole roll.",
    ("cluster", "cluster_id", "roll_id", "step"),
    (
        *WHERE,
        Column("roll_id", pa.int64(), "offset of the record with which the roll began"),
        Column("step", pa.int32(), "number of the row in its roll, from 1, in the order in which the nodes went away"),
        Column("role", pa.string(), "`broker`, `controller`, or `node` (both in one process)"),
        Column("node_id", pa.int32(), "id of the node"),
        Column(
            "kind", pa.string(), "`controlled` (shutdown), `fenced` (no shutdown), or `registered` (no more is known)"
        ),
        Column("outcome", pa.string(), "last state: `in_sync`, `unfenced`, `registered`, `away` or `unregistered`"),
        Column("stopping_ts", TIME, "when the node asked for a controlled shutdown; null: it did not"),
        Column("fenced_ts", TIME, "when the node was fenced"),
        Column("registered_ts", TIME, "when a new process registered; null: the same one came back, or none yet"),
        Column("unfenced_ts", TIME, "when the node was unfenced"),
        Column("in_sync_ts", TIME, "when the node was in the ISR of all partitions in whose ISR it was before"),
        Column("first_offset", pa.int64(), "offset of the first record of the row"),
        Column("first_node", pa.string(), "folder of the node whose copy has that record"),
        Column("first_file", pa.string(), "file in that folder"),
        Column("last_offset", pa.int64(), "offset of the last record of the row"),
        Column("away_ms", pa.int64(), "time until the node was unfenced; null: not known"),
        Column("duration_ms", pa.int64(), "time until the node was in sync; null: not known"),
        Column("concurrency", pa.int32(), "most nodes that were away at once in this time, including this one"),
        Column("from_features", RANGES, "supported ranges before the restart; null: not known"),
        Column("to_features", RANGES, "supported ranges of the new process; null: none registered, or not known"),
        Column("roll_from", TIME, "when the roll began"),
        Column("roll_to", TIME, "when the last node of the roll was back; null: the roll is not over, or not known"),
        Column("roll_nodes", pa.int32(), "number of nodes that were away in the roll"),
        Column("partitions_affected", pa.int64(), "partitions that lacked a replica or a leader; null: not known"),
        Column("without_leader_ms", pa.int64(), "sum over partitions of the time without a leader; null: not known"),
        Column("below_minimum_ms", pa.int64(), "the same for the time below min.insync.replicas; null: not known"),
        Column("under_replicated_ms", pa.int64(), "the same for the under-replicated time; null: not known"),
    ),
)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Pieces without a gap between them, and the state that they begin with; None: the beginning of the log."""

    pieces: tuple[Piece, ...]
    base: SnapshotFile | None


def table(history: History, between_ms: int = BETWEEN_ROLLS_MS) -> tuple[pa.Table, list[Note]]:
    """The table of one cluster, and notes about it. Reads the files once more."""
    rows: list[Row] = []
    notes: list[Note] = []
    for stretch in _stretches(history, notes):
        records = RollRecords(since_ms=-_ALL)
        end = stretch.pieces[-1].end
        try:
            _feed(stretch, records)
        except TooLargeError as error:
            notes.append(Note("rolls_not_known", f"rolls up to offset {end} are not known: {error}", end_offset=end))
            continue
        found = records.finish(_ALL)
        if found.unreadable:
            text = f"{found.unreadable} records up to offset {end} were not understood: rolls may be wrong"
            notes.append(Note("rolls_not_known", text, end_offset=end, count=found.unreadable))
        if len(found.absences) >= MAX_ABSENCES:
            text = f"only the last {MAX_ABSENCES} times that a node was away are in `rolls`"
            notes.append(Note("rolls_not_known", text, end_offset=end))
        times = _Times(found.strips)
        for roll in _rolls(found, between_ms):
            rows += _rows_of(history, found, times, roll)
    return TABLE.of(rows), notes


# --- the records of a stretch


def _stretches(history: History, notes: list[Note]) -> Iterator[_Stretch]:
    """Each stretch of the log without a gap, from where its state is known."""
    groups: list[list[Piece]] = []
    for piece in history.log.pieces:
        if groups and groups[-1][-1].end == piece.begin:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    for group in groups:
        begin, end = group[0].begin, group[-1].end
        base = next((one for one in history.log.snapshots if begin <= one.end < end), None)
        if begin == 0:
            yield _Stretch(tuple(group), None)
        elif base is not None:
            yield _Stretch(tuple(one for one in group if one.begin >= base.end), base)
        else:
            text = f"rolls in offsets {begin} to {end - 1} are not known: no snapshot says what was there before"
            notes.append(Note("rolls_not_known", text, offset=begin, end_offset=end))


def _feed(stretch: _Stretch, records: RollRecords) -> None:
    base = stretch.base
    if base is not None:
        at_ms = _header_ms(base)
        records.begin(Moment(at_ms, base.end))
        for row, data in _records(base.scan.source.rows(), 0, _ALL):
            _take(records, row, data, Moment(at_ms, base.end), base.end)
    for pieces in _of_one_file(stretch.pieces):
        position, batch_begins = -1, 0
        for row, data in _records(pieces[0].scan.source.rows(), pieces[0].begin, pieces[-1].end):
            if row["batch_position"] != position:  # of its records the first that is of interest
                position, batch_begins = row["batch_position"], row["offset"]
            _take(records, row, data, Moment(row["timestamp_ms"] or 0, row["offset"]), batch_begins)
    last = stretch.pieces[-1]
    records.ends(Moment(last.end_ms, last.end - 1))


def _take(
    records: RollRecords, row: Mapping[str, Any], data: Mapping[str, Any] | None, at: Moment, batch_begins: int
) -> None:
    if data is None:
        records.is_unreadable()
    else:
        records.take(row["api_key"], data, at, batch_begins)


def _of_one_file(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Neighbours that are read from the same file."""
    run: list[Piece] = []
    for piece in pieces:
        if run and run[-1].scan is not piece.scan:
            yield run
            run = []
        run.append(piece)
    yield run


def _header_ms(snapshot: SnapshotFile) -> int:
    body = snapshot.scan.small["body"][0].as_py()  # a whole snapshot begins with its header
    return max(0, int(json.loads(body)["lastContainedLogTimestamp"]))


_KEY_SET = pa.array(sorted(KEYS), pa.int16())
_COLUMNS = ["offset", "batch_position", "timestamp_ms", "api_key", "status", "body"]


def _records(
    batches: Iterable[pa.RecordBatch], begin: int, end: int
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """The records of a file between two offsets that rolls are made of; None for a record that was not decoded."""
    for rows in batches:
        offsets = rows["offset"]
        mask = pc.or_(pc.is_in(rows["api_key"], value_set=_KEY_SET), rows["api_key"].is_null())
        mask = pc.and_(mask, pc.invert(pc.fill_null(rows["is_control"], True)))
        mask = pc.and_(mask, pc.and_(pc.greater_equal(offsets, begin), pc.less(offsets, end)))
        few = rows.select(_COLUMNS).filter(mask, null_selection_behavior="drop")
        for at in range(0, few.num_rows, 4096):
            for row in few.slice(at, 4096).to_pylist():
                if row["status"] != DECODED:
                    yield row, None
                    continue
                data = json.loads(row["body"])
                if "topicId" in data:
                    data["topicId"] = _topic(data["topicId"])
                yield row, data


@lru_cache(maxsize=100_000)
def _topic(text: str) -> UUID:
    return parse_kafka_uuid(text)


# --- rolls of a stretch


def _end_of(one: Absence) -> Moment | None:
    """When it was back, as far as that is known."""
    if one.role == CONTROLLER:
        return one.registered
    return one.in_sync or one.unfenced


def _rolls(found: RollHistory, between_ms: int) -> Iterator[list[Absence]]:
    """Times that are near each other."""
    roll: list[Absence] = []
    until = 0
    for one in found.absences:
        if roll and one.first.at_ms - until > between_ms:
            yield roll
            roll = []
        ends = [moment.at_ms for moment in one.moments if moment is not None]
        if _end_of(one) is None and not one.unregistered:
            ends.append(found.end.at_ms)
        until = max([*ends, until] if roll else ends)
        roll.append(one)
    if roll:
        yield roll


def _rows_of(history: History, found: RollHistory, times: _Times, roll: Sequence[Absence]) -> Iterator[Row]:
    begin = roll[0].first
    ends = [_end_of(one) for one in roll]
    is_over = all(end is not None or one.unregistered for end, one in zip(ends, roll, strict=True))
    end_ms = max((end.at_ms for end in ends if end is not None), default=None) if is_over else None
    until_ms = end_ms if end_ms is not None else found.end.at_ms
    whole = {
        **history.cluster.as_columns(),
        "roll_id": begin.offset,
        "roll_from": begin.at_ms,
        "roll_to": end_ms,
        "roll_nodes": len({one.node_id for one in roll}),
        **times.within(begin.at_ms, until_ms),
    }
    for step in range(1, len(roll) + 1):
        yield {**whole, **_row(history, found, roll, step=step)}


def _row(history: History, found: RollHistory, roll: Sequence[Absence], *, step: int) -> Row:
    one = roll[step - 1]
    moments = zip(("stopping", "fenced", "registered", "unfenced", "in_sync"), one.moments, strict=True)
    node, file = _where(history, one.first.offset)
    before, after = _features(history, one)
    return {
        "step": step,
        "role": one.role,
        "node_id": one.node_id,
        "kind": "controlled" if one.stopping else "fenced" if one.fenced else "registered",
        "outcome": _outcome(one),
        **{f"{name}_ts": moment.at_ms if moment else None for name, moment in moments},
        "first_offset": one.first.offset,
        "first_node": node,
        "first_file": file,
        "last_offset": one.last.offset,
        "away_ms": one.unfenced.at_ms - one.first.at_ms if one.unfenced else None,
        "duration_ms": one.in_sync.at_ms - one.first.at_ms if one.in_sync else None,
        "concurrency": _concurrency(found, roll, one),
        "from_features": before,
        "to_features": after,
    }


def _outcome(one: Absence) -> str:
    if one.unregistered:
        return "unregistered"
    if one.in_sync:
        return "in_sync"
    if one.unfenced:
        return "unfenced"
    return "registered" if one.registered else "away"


def _where(history: History, offset: int) -> tuple[str | None, str | None]:
    """Which file a record was read from; of a snapshot, which has its end as its offset, that of the snapshot."""
    pieces = history.log.pieces
    at = bisect_right(pieces, offset, key=lambda piece: piece.begin) - 1
    if at >= 0 and offset < pieces[at].end:
        return pieces[at].scan.source.node, pieces[at].scan.source.file
    return None, None


def _concurrency(found: RollHistory, roll: Sequence[Absence], one: Absence) -> int:
    """The most nodes that were away at once while this one was, counted whenever another one of the roll went."""

    def until(each: Absence) -> int:
        end = _end_of(each) or (each.last if each.unregistered else None)
        return end.at_ms if end is not None else found.end.at_ms

    away = [each for each in roll if each.first.at_ms <= until(one) and until(each) >= one.first.at_ms]
    starts = [max(each.first.at_ms, one.first.at_ms) for each in away]
    return max(len({each.node_id for each in away if each.first.at_ms <= start <= until(each)}) for start in starts)


def _features(history: History, one: Absence) -> tuple[Any, Any]:
    """What the node supported before, and what its new process does."""
    role = CONTROLLER if one.role == CONTROLLER else BROKER
    new = one.registered
    until = new.offset if new else one.first.offset + 1
    before = after = None
    for version in history.nodes.of_key((role, one.node_id)):
        if version.begin.offset < until:
            before = version
        elif new is not None and version.begin.offset == new.offset:
            after = version
    return _ranges(before), _ranges(after)


def _ranges(version: Version[Registered] | None) -> Any:
    return None if version is None else ranges_of(version.value.registration.features)


class _Times:
    """When partitions were not as they should be, as columns: there may be many, and each roll looks at all of them."""

    def __init__(self, strips: Sequence[Strip]) -> None:
        self._all_kept = not any(strip.is_cut for strip in strips)
        found = [(number, strip, one) for number, strip in enumerate(strips) for one in strip.stretches]
        self._partition = np.array([number for number, _, _ in found], np.int64)
        self._begin = np.array([one.begin_ms for _, _, one in found], np.int64)
        self._end = np.array([one.end_ms for _, _, one in found], np.int64)
        self._leaderless = np.array([not one.has_leader for _, _, one in found], bool)
        self._under = np.array([one.in_sync < strip.replicas for _, strip, one in found], bool)
        self._below = np.array([bool(one.below_minimum) for _, _, one in found], bool)
        self._unknown = np.array([one.below_minimum is None for _, _, one in found], bool)

    def within(self, begin_ms: int, end_ms: int) -> Row:
        """Sums over the time that is within these. Unknown where not all of it was kept."""
        names = "partitions_affected", "without_leader_ms", "below_minimum_ms", "under_replicated_ms"
        if not self._all_kept:
            return dict.fromkeys(names)
        took = np.minimum(self._end, end_ms) - np.maximum(self._begin, begin_ms)
        had = took >= 0
        below = None if np.any(had & self._unknown) else int(took[had & self._below].sum())
        affected = len(np.unique(self._partition[had]))
        sums = int(took[had & self._leaderless].sum()), below, int(took[had & self._under].sum())
        return dict(zip(names, (affected, *sums), strict=True))
