"""The table `rolls`: each absence of a node, the roll that it belongs to, and its effect on partitions.

`kraftlog.rolls` finds the absences, here as well as for the page of `report`; `roll_stretches` reads their records, and
returns a history for each part of the log without a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from featurelog.tables.history import BROKER, CONTROLLER, History, Note, Registered
from featurelog.tables.roll_stretches import histories_of
from featurelog.tables.table import RANGES, TIME, WHERE, Column, Row, Table, ranges_of
from featurelog.tables.tracks import Version
from kraftlog.rolls import Absence, RollHistory
from kraftlog.strips import Moment, Strip

BETWEEN_ROLLS_MS = 15 * 60 * 1000
"""Most milliseconds between absences of one roll; after more, another roll begins."""

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


def rows_and_notes(history: History) -> tuple[list[Row], list[Note]]:
    """The rows of one cluster, and notes about them. Reads the files once more, without what a checkpoint covers."""
    histories, notes = histories_of(history)
    rows: list[Row] = []
    for roll_history in histories:
        times = _Times(roll_history.strips)
        for roll in _rolls(roll_history):
            rows += _rows_of(history, roll_history, times, roll)
    return rows, notes


# --- rolls of a part of the log without a gap


def _end_of(absence: Absence) -> Moment | None:
    """The moment at which the node was back: in sync, else unfenced; for a controller, registered. None: not known."""
    if absence.role == CONTROLLER:
        return absence.registered
    return absence.in_sync or absence.unfenced


def _rolls(roll_history: RollHistory) -> Iterator[list[Absence]]:
    """Group absences into rolls. An absence belongs to a roll if it begins at most `BETWEEN_ROLLS_MS` after all earlier
    ones of the roll were over; one that is not over lasts until the end of what was read.
    """
    roll: list[Absence] = []
    until = 0
    for absence in roll_history.absences:
        if roll and absence.first.at_ms - until > BETWEEN_ROLLS_MS:
            yield roll
            roll = []
        ends = [moment.at_ms for moment in absence.moments if moment is not None]
        if _end_of(absence) is None and not absence.unregistered:
            ends.append(roll_history.end.at_ms)
        until = max([*ends, until] if roll else ends)
        roll.append(absence)
    if roll:
        yield roll


def _rows_of(history: History, roll_history: RollHistory, times: _Times, roll: Sequence[Absence]) -> Iterator[Row]:
    begin = roll[0].first
    ends = [_end_of(absence) for absence in roll]
    is_over = all(end is not None or absence.unregistered for end, absence in zip(ends, roll, strict=True))
    end_ms = max((end.at_ms for end in ends if end is not None), default=None) if is_over else None
    until_ms = end_ms if end_ms is not None else roll_history.end.at_ms
    columns_of_roll = {
        "roll_id": begin.offset,
        "roll_from": begin.at_ms,
        "roll_to": end_ms,
        "roll_nodes": len({absence.node_id for absence in roll}),
        **times.within(begin.at_ms, until_ms),
    }
    for step in range(1, len(roll) + 1):
        yield {**columns_of_roll, **_row(history, roll_history, roll, step=step)}


def _row(history: History, roll_history: RollHistory, roll: Sequence[Absence], *, step: int) -> Row:
    absence = roll[step - 1]
    moments = zip(("stopping", "fenced", "registered", "unfenced", "in_sync"), absence.moments, strict=True)
    node, file = _where(history, absence.first.offset)
    old_features, new_features = _features(history, absence)
    return {
        "step": step,
        "role": absence.role,
        "node_id": absence.node_id,
        "kind": "controlled" if absence.stopping else "fenced" if absence.fenced else "registered",
        "outcome": _outcome(absence),
        **{f"{name}_ts": moment.at_ms if moment else None for name, moment in moments},
        "first_offset": absence.first.offset,
        "first_node": node,
        "first_file": file,
        "last_offset": absence.last.offset,
        "away_ms": absence.unfenced.at_ms - absence.first.at_ms if absence.unfenced else None,
        "duration_ms": absence.in_sync.at_ms - absence.first.at_ms if absence.in_sync else None,
        "concurrency": _concurrency(roll_history, roll, absence),
        "from_features": old_features,
        "to_features": new_features,
    }


def _outcome(absence: Absence) -> str:
    if absence.unregistered:
        return "unregistered"
    if absence.in_sync:
        return "in_sync"
    if absence.unfenced:
        return "unfenced"
    return "registered" if absence.registered else "away"


def _where(history: History, offset: int) -> tuple[str | None, str | None]:
    """The node and file that a record at this offset was read from; None, None for a record of a snapshot, whose offset
    is the snapshot's end.
    """
    pieces = history.log.pieces
    at = bisect_right(pieces, offset, key=lambda piece: piece.begin) - 1
    if at >= 0 and offset < pieces[at].end:
        return pieces[at].scan.source.node, pieces[at].scan.source.file
    return None, None


def _concurrency(roll_history: RollHistory, roll: Sequence[Absence], absence: Absence) -> int:
    """The largest number of nodes of the roll that were away at once during this absence. It is reached when an absence
    begins, so nodes are counted only at these times.
    """

    def until(each: Absence) -> int:
        end = _end_of(each) or (each.last if each.unregistered else None)
        return end.at_ms if end is not None else roll_history.end.at_ms

    away = [each for each in roll if each.first.at_ms <= until(absence) and until(each) >= absence.first.at_ms]
    starts = [max(each.first.at_ms, absence.first.at_ms) for each in away]
    return max(len({each.node_id for each in away if each.first.at_ms <= start <= until(each)}) for start in starts)


def _features(history: History, absence: Absence) -> tuple[Any, Any]:
    """The supported ranges of the node before the absence, and those of its new process; None: not known."""
    role = CONTROLLER if absence.role == CONTROLLER else BROKER
    new = absence.registered
    until = new.offset if new else absence.first.offset + 1
    old_version = new_version = None
    for version in history.nodes.of_key((role, absence.node_id)):
        if version.begin.offset < until:
            old_version = version
        elif new is not None and version.begin.offset == new.offset:
            new_version = version
    return _ranges(old_version), _ranges(new_version)


def _ranges(version: Version[Registered] | None) -> Any:
    return None if version is None else ranges_of(version.value.registration.features)


class _Times:
    """All times (`Strip.stretches`) in which partitions lacked a replica or a leader, as arrays with an item for each,
    because every roll sums over all of them.
    """

    def __init__(self, strips: Sequence[Strip]) -> None:
        self._all_kept = not any(strip.is_cut for strip in strips)
        stretches = [(number, strip, stretch) for number, strip in enumerate(strips) for stretch in strip.stretches]
        self._partition = np.array([number for number, _, _ in stretches], np.int64)
        self._begin = np.array([stretch.begin_ms for _, _, stretch in stretches], np.int64)
        self._end = np.array([stretch.end_ms for _, _, stretch in stretches], np.int64)
        self._leaderless = np.array([not stretch.has_leader for _, _, stretch in stretches], bool)
        self._under = np.array([stretch.in_sync < strip.replicas for _, strip, stretch in stretches], bool)
        self._below = np.array([bool(stretch.below_minimum) for _, _, stretch in stretches], bool)
        self._unknown = np.array([stretch.below_minimum is None for _, _, stretch in stretches], bool)

    def within(self, begin_ms: int, end_ms: int) -> Row:
        """Values of the columns about partitions, for this period. All are None if some stretches were dropped."""
        names = "partitions_affected", "without_leader_ms", "below_minimum_ms", "under_replicated_ms"
        if not self._all_kept:
            return dict.fromkeys(names)
        duration = np.minimum(self._end, end_ms) - np.maximum(self._begin, begin_ms)  # within the period
        overlaps = duration >= 0
        below = None if np.any(overlaps & self._unknown) else int(duration[overlaps & self._below].sum())
        affected = len(np.unique(self._partition[overlaps]))
        sums = int(duration[overlaps & self._leaderless].sum()), below, int(duration[overlaps & self._under].sum())
        return dict(zip(names, (affected, *sums), strict=True))
