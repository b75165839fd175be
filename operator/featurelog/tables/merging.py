"""Merges the copies of a cluster's log into one log: which file to read for which offsets, and contradictions.

Copies are compared by offset and leader epoch. Where epochs differ, the higher one wins: its leader overwrote the
records that the other copy still has (KIP-595), and overwritten records are never read. Copies are not of one log if
they have different records at the same offset and epoch, or different epochs where they begin to overlap: the copy
whose node's name comes first stays, the others are left out, and no verdict is `ready`. No checksum covers an epoch, so
each epoch must be one that a leader can have made: it begins with a leader change, epochs never go back, and no record
has two of them. Called by `walk`. Records are only compared: apart from leader changes, their meaning does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from featurelog.tables.checkpoint import (
    SETTLED_MS,
    Checkpoint,
    FileKey,
    OutdatedError,
    Premises,
    Recorder,
    key_of,
    offset_for,
)
from featurelog.tables.inputs import ClusterCopies
from featurelog.tables.merged_log import Contradiction, Merged, Overwritten, Piece, SnapshotFile
from featurelog.tables.scans import NO_FORMER, Scan, scan
from featurelog.tables.witnesses import Witnesses, witnesses
from kraftlog import files

STEP = "merging"


def merged(cluster: ClusterCopies, earlier: Checkpoint | None = None, settled_ms: int = SETTLED_MS) -> Merged:
    """Read all files of a cluster once, and merge them. If a copy must be left out, merging is repeated without it.

    earlier: only what is behind this checkpoint is read. settled_ms: see `checkpoint.SETTLED_MS`. Raises OutdatedError.
    """
    scans = [scan(file, earlier.former(file) if earlier is not None else NO_FORMER) for file in cluster.files]
    whose = witnesses(cluster, scans)
    premises = Premises(whose.apart, cluster.static_voters)
    if earlier is not None:
        earlier.check(scans, premises)
    end = offset_for(scans, earlier.end if earlier is not None else 0, settled_ms)
    recorder = Recorder(earlier, end, scans, premises)
    left_out: set[str] = set()
    contradictions: list[Contradiction] = []
    while True:
        attempt = _merge([each for each in scans if each.source.node not in left_out], whose, recorder)
        if attempt.contradictions:
            if earlier is not None:
                raise OutdatedError("a copy contradicts the log")
            recorder.end = None  # no checkpoint
        contradictions += attempt.contradictions
        worse = {
            contradiction.node for contradiction in attempt.contradictions if contradiction.node != contradiction.other
        }
        if not worse:
            break
        left_out.add(max(worse))  # one at a time: a copy that contradicted only this one may stay
        # Contradictions of the copies that are still in are found again by the next attempt.
        contradictions = [contradiction for contradiction in contradictions if contradiction.node in left_out]
    first: dict[tuple[str, str, str], Contradiction] = {}
    for contradiction in contradictions:
        first.setdefault((contradiction.node, contradiction.other, contradiction.file), contradiction)
    attempt.scans, attempt.contradictions = scans, list(first.values())
    return attempt


@dataclass(frozen=True, slots=True)
class _Run:
    """An `OffsetSpan` of one file. number: index of the file's scan, which decides between runs that are alike."""

    begin: int
    end: int
    epoch: int
    end_ms: int
    number: int


@dataclass(slots=True)
class _Sweep:
    """State of a merge at an offset. floor: epoch of the last winner. agreed: folders that had the same records as the
    folder of another node. pairs: of folders that had the same records as each other. epochs: by folder, of its last
    records that are part of the merged log. The rest is of `Merged`, with a file's key instead of its scan.
    """

    floor: int = -1
    agreed: set[str] = field(default_factory=set)
    pairs: set[frozenset[str]] = field(default_factory=set)
    epochs: dict[str, int] = field(default_factory=dict)
    held_until: dict[str, int] = field(default_factory=dict)
    overwritten: list[Overwritten] = field(default_factory=list)
    pieces: list[tuple[int, int, int, int, FileKey]] = field(default_factory=list)
    snapshots: list[tuple[int, int, FileKey]] = field(default_factory=list)


def _begun(scans: Sequence[Scan], whose: Witnesses, recorder: Recorder) -> tuple[Merged, _Sweep]:
    """The merge so far: up to the checkpoint, or an empty one; with all snapshots."""
    result, sweep = Merged(list(scans), whose, recorder), _Sweep()
    if recorder.earlier is not None:
        sweep = recorder.earlier.state(STEP)
        by_key = {key_of(each.source): each for each in scans}
        result.pieces = [
            Piece(begin, end, epoch, by_key[key], end_ms) for begin, end, epoch, end_ms, key in sweep.pieces
        ]
        result.snapshots = [SnapshotFile(end, epoch, by_key[key]) for end, epoch, key in sweep.snapshots]
        result.held_until, result.overwritten = sweep.held_until, sweep.overwritten
    _snapshots(result)
    return result, sweep


def _save(result: Merged, sweep: _Sweep, end: int) -> None:
    """Save the state of a merge at the offset of the new checkpoint."""
    sweep.held_until, sweep.overwritten = result.held_until, result.overwritten
    sweep.pieces = [(each.begin, each.end, each.epoch, each.end_ms, key_of(each.scan.source)) for each in result.pieces]
    sweep.snapshots = [(each.end, each.epoch, key_of(each.scan.source)) for each in result.snapshots if each.end < end]
    result.recorder.save(STEP, sweep)


def _merge(scans: Sequence[Scan], whose: Witnesses, recorder: Recorder) -> Merged:
    """Merge the scans by a sweep over all offsets at which a run begins or ends.

    `active` are the runs that cover the interval from one such offset to the next; `at` is the index of the next run.
    Of them, the run with the highest epoch wins and becomes a piece. `floor` is the epoch of the last winner: behind
    it, a run of a lower epoch was overwritten. Another active run either has the winner's epoch, and must have the same
    records; or a lower one, and must be one that a leader can have overwritten.
    """
    result, sweep = _begun(scans, whose, recorder)
    start = recorder.earlier.end if recorder.earlier is not None else 0
    runs = _runs(scans, start)
    snapshot_ends = {snapshot.end for snapshot in result.snapshots}
    points = sorted({at for run in runs for at in (run.begin, run.end)} | {at for at in snapshot_ends if at >= start})
    result.contradictions += [
        _contradiction(each, each, each.repeated, "it has several records")
        for each in scans
        if each.repeated is not None
    ]
    agreed, pairs, epochs = sweep.agreed, sweep.pairs, sweep.epochs
    at, active = 0, list[_Run]()
    for begin, end in pairwise(points):
        active = [run for run in active if run.end > begin]
        while at < len(runs) and runs[at].begin <= begin:
            active.append(runs[at])
            at += 1
        active.sort(key=lambda run: run.number)
        if recorder.is_due(STEP, begin):
            _save(result, sweep, begin)
        if not active:
            continue
        best = min(active, key=lambda run: (-run.epoch, run.number))
        winner = scans[best.number]
        result.contradictions += _of_no_leader(result, active, max(best.epoch, sweep.floor), epochs, begin)
        if best.epoch < sweep.floor:
            result.overwritten += [_overwritten(scans[run.number], run, begin, end) for run in active]
            continue
        if best.epoch > sweep.floor and not _may_begin(result, best, begin):
            earlier = [scans[run.number] for run in active if run.epoch < best.epoch]
            other = next(
                (file_scan for file_scan in earlier if file_scan.source.node != winner.source.node),
                result.pieces[-1].scan,
            )
            result.contradictions.append(_unelected(winner, other, best.epoch, begin))
        sweep.floor = best.epoch
        for run in active:
            file_scan = scans[run.number]
            if run.epoch != best.epoch:
                has_agreed = (
                    file_scan.source.node in agreed or frozenset((file_scan.source.node, winner.source.node)) in pairs
                )
                if reason := _why_not_overwritten(file_scan, winner, (begin, end), has_agreed=has_agreed):
                    result.contradictions.append(_contradiction(file_scan, winner, begin, reason))
                result.overwritten.append(_overwritten(file_scan, run, begin, end))
                continue
            if run is not best and not file_scan.between(begin, end).equals(winner.between(begin, end)):
                result.contradictions.append(_contradiction(file_scan, winner, begin, "their records differ"))
                continue
            if whose.are_two(file_scan.source.node, winner.source.node):
                agreed |= {file_scan.source.node, winner.source.node}
            pairs.add(frozenset((file_scan.source.node, winner.source.node)))
            epochs[file_scan.source.node] = best.epoch
            _holds(result, file_scan, end)
        _append(result.pieces, Piece(begin, end, best.epoch, winner, best.end_ms), snapshot_ends)
    for each in _complete_snapshots(scans):
        _holds(result, each.scan, each.end)
    return result


def _runs(scans: Sequence[Scan], start: int) -> list[_Run]:
    """The runs of all scans from the offset `start` on, in the order in which they begin."""
    runs = [
        _Run(max(span.begin, start), span.end, span.epoch, span.end_ms, number)
        for number, file_scan in enumerate(scans)
        for span in file_scan.spans
        if span.end > start
    ]
    return sorted(runs, key=lambda run: (run.begin, run.number))


def _why_not_overwritten(loser: Scan, winner: Scan, offsets: tuple[int, int], *, has_agreed: bool) -> str:
    """Reason why the winner cannot have overwritten the loser's records at these offsets: the copies never agreed
    before, or both have the same leader change there. Empty if it can have. has_agreed: the copies agreed before.
    """
    if loser is not winner and not has_agreed:
        return "their leader epochs differ"
    is_again = not loser.leader_changes(*offsets).isdisjoint(winner.leader_changes(*offsets))
    return "the same records have different leader epochs" if is_again else ""


def _may_begin(result: Merged, run: _Run, at: int) -> bool:
    """True if a leader's epoch can begin at this offset: at its leader change, behind a gap, or behind a snapshot that
    ends here with this epoch.
    """
    last = result.pieces[-1] if result.pieces else None
    if last is None or last.end < at or at in result.scans[run.number].leader_change_offsets:
        return True
    return any((each.end, each.epoch) == (at, run.epoch) for each in result.snapshots)


def _of_no_leader(
    result: Merged, active: Sequence[_Run], epoch: int, epochs: Mapping[str, int], at: int
) -> Iterator[Contradiction]:
    """Copies that contradict themselves at offset `at`: their epoch goes back, so no leader can have made it.

    epoch: the highest one of the log up to here. epochs: by folder, of its last records in the log. Older records that
    a node truncated, and that another file of its folder still has, are no contradiction.
    """
    for run in active:
        if run.epoch >= epoch:
            continue
        file_scan = result.scans[run.number]
        node, latest_epoch = file_scan.source.node, epochs.get(file_scan.source.node, run.epoch)
        # Another file of the folder has newer records here: the node truncated those of this file.
        replaced = any(result.scans[each.number].source.node == node and each.epoch >= latest_epoch for each in active)
        if file_scan.goes_back or (run.epoch < latest_epoch and not replaced):
            yield _alone(file_scan, run.epoch, at)


def _complete_snapshots(scans: Iterable[Scan]) -> list[SnapshotFile]:
    """All complete snapshots, by offset."""
    snapshots = [
        SnapshotFile(file_scan.name.end_offset, file_scan.name.epoch, file_scan)
        for file_scan in scans
        if isinstance(file_scan.name, files.Snapshot) and not file_scan.incomplete
    ]
    return sorted(snapshots, key=lambda snapshot: (snapshot.end, snapshot.epoch))


def _snapshots(result: Merged) -> None:
    """Add the complete snapshots that no checkpoint covers to the result, by offset. Of snapshots of several nodes with
    the same content, only the first one is added.
    """
    last: pa.Table | None = None
    for snapshot in _complete_snapshots(result.scans):
        if result.earlier is not None and snapshot.end < result.earlier.end:
            continue
        says = snapshot.scan.small.select(_OF_A_SNAPSHOT)
        is_other = not result.snapshots or (result.snapshots[-1].end, result.snapshots[-1].epoch) != (
            snapshot.end, snapshot.epoch,
        )  # fmt: skip
        if is_other or last is None or not says.equals(last):
            result.snapshots.append(snapshot)
            last = says


_OF_A_SNAPSHOT = ["offset", "is_control", "api_key", "status", "body"]  # when it was written differs from node to node


def _append(pieces: list[Piece], piece: Piece, cuts: Iterable[int]) -> None:
    """Append a piece, or extend the last one by it if both are of one file and epoch. No piece crosses a cut."""
    last = pieces[-1] if pieces else None
    if (
        last
        and last.end == piece.begin
        and last.scan is piece.scan
        and last.epoch == piece.epoch
        and last.end not in cuts
    ):
        pieces[-1] = Piece(last.begin, piece.end, piece.epoch, piece.scan, piece.end_ms)
    else:
        pieces.append(piece)


def _holds(result: Merged, file_scan: Scan, end: int) -> None:
    """Note that the copy in this folder agrees with the merged log below `end`."""
    node = file_scan.source.node
    result.held_until[node] = max(result.held_until.get(node, 0), end)


def _overwritten(file_scan: Scan, run: _Run, begin: int, end: int) -> Overwritten:
    return Overwritten(file_scan.source.node, file_scan.source.file, begin, end, run.epoch)


def _contradiction(file_scan: Scan, other: Scan, offset: int, reason: str) -> Contradiction:
    """A contradiction of two files. The one whose folder comes later by name is left out."""
    later, earlier = sorted((file_scan, other), key=lambda each: (each.source.node, each.source.file), reverse=True)
    text = f"{later.source.node} and {earlier.source.node} are no copies of one log: {reason} from offset {offset} on"
    if later.source.node == earlier.source.node:
        names = f"files {later.source.file} and {earlier.source.file} of {later.source.node}"
        text = f"{names}: {reason} from offset {offset} on"
    return Contradiction(later.source.node, earlier.source.node, later.source.file, offset, text)


def _unelected(file_scan: Scan, other: Scan, epoch: int, offset: int) -> Contradiction:
    """Contradiction of a copy whose epoch begins without a leader change. other: another node's file with an earlier
    epoch at this offset, or the file from which the log before this offset is read.
    """
    node, file = file_scan.source.node, file_scan.source.file
    text = f"{file} of {node}: leader epoch {epoch} begins at offset {offset} without a leader change"
    if other.source.node != node:
        text += f", where {other.source.node} has an earlier one"
    return Contradiction(node, other.source.node, file, offset, text)


def _alone(file_scan: Scan, epoch: int, offset: int) -> Contradiction:
    """Contradiction of a copy with itself: its leader epoch goes back."""
    node, file = file_scan.source.node, file_scan.source.file
    text = f"{file} of {node}: the leader epoch goes back to {epoch} at offset {offset}"
    return Contradiction(node, node, file, offset, text)
