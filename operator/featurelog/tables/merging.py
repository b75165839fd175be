"""Merges the copies of a cluster's log into one log: which file to read for which offsets, and contradictions.

Copies are compared by offset and leader epoch. Where epochs differ, the higher one wins: its leader overwrote the
records that the other copy still has (KIP-595), and overwritten records are never read. Copies are not of one log if
they have different records at the same offset and epoch, or different epochs where they begin to overlap: the copy
whose node's name comes first stays, the others are left out, and no verdict is `ready`. No checksum covers an epoch, so
each epoch must be one that a leader can have made: it begins with a leader change, epochs never go back, and no record
has two of them. Called by `walk`. Records are only compared: apart from leader changes, their meaning does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from featurelog.tables.inputs import ClusterCopies
from featurelog.tables.scans import Scan, scan
from featurelog.tables.witnesses import Repeated, Witnesses, witnesses
from kraftlog import files


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of offsets of the merged log, and the file to read it from.

    begin, end: offsets, `end` exclusive. epoch: of the leader that wrote it. end_ms: time of its last record.
    """

    begin: int
    end: int
    epoch: int
    scan: Scan
    end_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A complete snapshot. end: its end offset, exclusive. epoch: of the last record in it."""

    end: int
    epoch: int
    scan: Scan


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two copies of which only one can be of this log. The folder `node` is left out for `other`, unless both are the
    same: then the copy contradicts itself. file: of `node`. offset: where the contradiction begins.
    """

    node: str
    other: str
    file: str
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Offsets of a copy that a later leader gave to other records. epoch: of the copy's own records."""

    node: str
    file: str
    begin: int
    end: int
    epoch: int


@dataclass(slots=True)
class Merged:
    """The merged log of a cluster.

    scans: of all files, those that were left out among them. pieces, snapshots: in the order of offsets.
    held_until: by folder, the offset below which its copy agrees with the merged log.
    """

    scans: list[Scan]
    witnesses: Witnesses
    pieces: list[Piece] = field(default_factory=list)
    snapshots: list[SnapshotFile] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    overwritten: list[Overwritten] = field(default_factory=list)
    held_until: dict[str, int] = field(default_factory=dict)

    def counted(self, voters: Collection[int]) -> tuple[str, ...]:
        """The largest set of folders that agree with the log and are surely of different nodes, voters first."""
        return self.witnesses.with_others(self.witnesses.most(self.held_until, voters), self.held_until)

    def copied(self, voters: Collection[int]) -> frozenset[int]:
        """Ids of the nodes of the folders in `counted`."""
        ids = map(self.witnesses.ids.__getitem__, self.counted(voters))
        return frozenset(id_ for id_ in ids if id_ is not None)

    def repeated(self, voters: Collection[int]) -> tuple[Repeated, ...]:
        """Folders that are not in `counted`, because their copies may be of the same node as another one."""
        return self.witnesses.repeated(self.witnesses.ids, self.counted(voters))

    @property
    def end(self) -> int:
        """The end offset of what was read, exclusive."""
        of_snapshots = max((snapshot.end for snapshot in self.snapshots), default=0)
        return max(of_snapshots, self.pieces[-1].end if self.pieces else 0)


def merged(cluster: ClusterCopies) -> Merged:
    """Read all files of a cluster once, and merge them. If a copy must be left out, merging is repeated without it."""
    scans = [scan(file) for file in cluster.files]
    whose = witnesses(cluster, scans)
    left_out: set[str] = set()
    contradictions: list[Contradiction] = []
    while True:
        attempt = _merge([file_scan for file_scan in scans if file_scan.source.node not in left_out], whose)
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


def _merge(scans: Sequence[Scan], whose: Witnesses) -> Merged:
    """Merge the scans by a sweep over all offsets at which a run begins or ends.

    `active` are the runs that cover the interval from one such offset to the next; `at` is the index of the next run.
    Of them, the run with the highest epoch wins and becomes a piece. `floor` is the epoch of the last winner: behind
    it, a run of a lower epoch was overwritten. Another active run either has the winner's epoch, and must have the same
    records; or a lower one, and must be one that a leader can have overwritten.
    """
    result = Merged(list(scans), whose)
    _snapshots(result)
    runs = sorted(
        (
            _Run(span.begin, span.end, span.epoch, span.end_ms, number)
            for number, file_scan in enumerate(scans)
            for span in file_scan.spans
        ),
        key=lambda run: (run.begin, run.number),
    )
    snapshot_ends = {snapshot.end for snapshot in result.snapshots}
    points = sorted({end for run in runs for end in (run.begin, run.end)} | snapshot_ends)
    for file_scan in scans:
        if file_scan.repeated is not None:
            result.contradictions.append(
                _contradiction(file_scan, file_scan, file_scan.repeated, "it has several records")
            )
    agreed: set[str] = set()  # folders that had the same records as the folder of another node
    pairs: set[frozenset[str]] = set()  # pairs of folders that had the same records as each other
    epochs: dict[str, int] = {}  # by folder, the epoch of its last records that are part of the merged log
    floor, at, active = -1, 0, list[_Run]()
    for begin, end in pairwise(points):
        active = [run for run in active if run.end > begin]
        while at < len(runs) and runs[at].begin <= begin:
            active.append(runs[at])
            at += 1
        if not active:
            continue
        best = min(active, key=lambda run: (-run.epoch, run.number))
        winner = scans[best.number]
        result.contradictions += _of_no_leader(result, active, max(best.epoch, floor), epochs, begin)
        if best.epoch < floor:
            result.overwritten += [_overwritten(scans[run.number], run, begin, end) for run in active]
            continue
        if best.epoch > floor and not _may_begin(result, best, begin):
            earlier = [scans[run.number] for run in active if run.epoch < best.epoch]
            other = next(
                (file_scan for file_scan in earlier if file_scan.source.node != winner.source.node),
                result.pieces[-1].scan,
            )
            result.contradictions.append(_unelected(winner, other, best.epoch, begin))
        floor = best.epoch
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
    return result


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


def _snapshots(result: Merged) -> None:
    """Add the complete snapshots to the result, by offset. Of snapshots of several nodes with the same content, only
    the first one is added.
    """
    snapshots = [
        SnapshotFile(file_scan.name.end_offset, file_scan.name.epoch, file_scan)
        for file_scan in result.scans
        if isinstance(file_scan.name, files.Snapshot) and not file_scan.incomplete
    ]
    last: pa.Table | None = None
    for snapshot in sorted(snapshots, key=lambda candidate: (candidate.end, candidate.epoch)):
        _holds(result, snapshot.scan, snapshot.end)
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
