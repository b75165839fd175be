"""Several copies of one log as one log: which file has which offsets, and where copies contradict each other.

Copies agree by offset and leader epoch. Where they differ, the higher epoch has it: a leader overwrote what the other
copy still has (KIP-595); what is overwritten is never read. Copies that say different things at the same offset and
epoch, or that begin to overlap with different epochs, are not of one log: the first by the name of its node stays, the
others are left out, and no verdict is ready. No checksum covers an epoch, so none is believed that no leader can have
made: each begins with a leader change, none goes back, and no record has two. Called by `history`; looks at no other
record's meaning.
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
    """Offsets of the log, and the file they are read from."""

    begin: int
    end: int
    epoch: int
    scan: Scan
    end_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A whole snapshot."""

    end: int
    epoch: int
    scan: Scan


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two copies of which only one can be of this log; `node` is left out, unless it contradicts itself."""

    node: str
    other: str
    file: str
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Offsets of a copy that a later leader gave to other records."""

    node: str
    file: str
    begin: int
    end: int
    epoch: int


@dataclass(slots=True)
class Merged:
    """The log. pieces, snapshots: by offset. held_until: of each folder, up to where its copy agrees with the log."""

    scans: list[Scan]
    witnesses: Witnesses
    pieces: list[Piece] = field(default_factory=list)
    snapshots: list[SnapshotFile] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    overwritten: list[Overwritten] = field(default_factory=list)
    held_until: dict[str, int] = field(default_factory=dict)

    def counted(self, voters: Collection[int]) -> tuple[str, ...]:
        """Folders whose copies agree with the log, each of another node for sure; as many of voters as can be."""
        return self.witnesses.with_others(self.witnesses.most(self.held_until, voters), self.held_until)

    def copied(self, voters: Collection[int]) -> frozenset[int]:
        """The nodes of whose logs there is a copy that agrees with the log and counts."""
        ids = map(self.witnesses.ids.__getitem__, self.counted(voters))
        return frozenset(id_ for id_ in ids if id_ is not None)

    def repeated(self, voters: Collection[int]) -> tuple[Repeated, ...]:
        """Folders whose copies do not count by themselves."""
        return self.witnesses.repeated(self.witnesses.ids, self.counted(voters))

    @property
    def end(self) -> int:
        """The end offset of what was read, exclusive."""
        of_snapshots = max((snapshot.end for snapshot in self.snapshots), default=0)
        return max(of_snapshots, self.pieces[-1].end if self.pieces else 0)


def merged(cluster: ClusterCopies) -> Merged:
    """Read all files once, and merge them."""
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
        left_out.add(max(worse))  # one at a time: what contradicted only this one may stay
        contradictions = [contradiction for contradiction in contradictions if contradiction.node in left_out]
    first: dict[tuple[str, str, str], Contradiction] = {}
    for contradiction in contradictions:
        first.setdefault((contradiction.node, contradiction.other, contradiction.file), contradiction)
    attempt.scans, attempt.contradictions = scans, list(first.values())
    return attempt


@dataclass(frozen=True, slots=True)
class _Run:
    """A span, and whose it is. `number`: of the scan among all, which is the canonical order."""

    begin: int
    end: int
    epoch: int
    end_ms: int
    number: int


def _merge(scans: Sequence[Scan], whose: Witnesses) -> Merged:
    """Sweep over all offsets at which a run begins or ends. Of the runs that are active between two of them, that
    of the highest epoch wins; `floor` is the epoch of the last winner, below which nothing that follows is of the log.
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
    agreed: set[str] = set()  # folders that were seen to have the same as those of other nodes
    pairs: set[frozenset[str]] = set()  # folders that were seen to have the same as each other
    epochs: dict[str, int] = {}  # of each folder, that of the last records that are of the log
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
    """Reason why no leader can have overwritten these records: the logs never were the same, or the records are there
    again.
    """
    if loser is not winner and not has_agreed:
        return "their leader epochs differ"
    is_again = not loser.leader_changes(*offsets).isdisjoint(winner.leader_changes(*offsets))
    return "the same records have different leader epochs" if is_again else ""


def _may_begin(result: Merged, run: _Run, at: int) -> bool:
    """True if a leader's epoch can begin here: with its leader change, or behind what is missing."""
    last = result.pieces[-1] if result.pieces else None
    if last is None or last.end < at or at in result.scans[run.number].leader_change_offsets:
        return True
    return any((each.end, each.epoch) == (at, run.epoch) for each in result.snapshots)


def _of_no_leader(
    result: Merged, active: Sequence[_Run], epoch: int, epochs: Mapping[str, int], at: int
) -> Iterator[Contradiction]:
    """Copies that have an earlier leader's records behind those of a later one. What a node truncated, and a copy of
    another time still has, does not count.
    """
    for run in active:
        if run.epoch >= epoch:
            continue
        file_scan = result.scans[run.number]
        node, latest_epoch = file_scan.source.node, epochs.get(file_scan.source.node, run.epoch)
        replaced = any(result.scans[each.number].source.node == node and each.epoch >= latest_epoch for each in active)
        if file_scan.goes_back or (run.epoch < latest_epoch and not replaced):
            yield _alone(file_scan, run.epoch, at)


def _snapshots(result: Merged) -> None:
    """Whole ones by offset; those that say the same as another node's only once."""
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
    node = file_scan.source.node
    result.held_until[node] = max(result.held_until.get(node, 0), end)


def _overwritten(file_scan: Scan, run: _Run, begin: int, end: int) -> Overwritten:
    return Overwritten(file_scan.source.node, file_scan.source.file, begin, end, run.epoch)


def _contradiction(file_scan: Scan, other: Scan, offset: int, reason: str) -> Contradiction:
    later, earlier = sorted((file_scan, other), key=lambda each: (each.source.node, each.source.file), reverse=True)
    text = f"{later.source.node} and {earlier.source.node} are no copies of one log: {reason} from offset {offset} on"
    if later.source.node == earlier.source.node:
        names = f"files {later.source.file} and {earlier.source.file} of {later.source.node}"
        text = f"{names}: {reason} from offset {offset} on"
    return Contradiction(later.source.node, earlier.source.node, later.source.file, offset, text)


def _unelected(file_scan: Scan, other: Scan, epoch: int, offset: int) -> Contradiction:
    """A copy that may be left out, where another one has something else there."""
    node, file = file_scan.source.node, file_scan.source.file
    text = f"{file} of {node}: leader epoch {epoch} begins at offset {offset} without a leader change"
    if other.source.node != node:
        text += f", where {other.source.node} has an earlier one"
    return Contradiction(node, other.source.node, file, offset, text)


def _alone(file_scan: Scan, epoch: int, offset: int) -> Contradiction:
    node, file = file_scan.source.node, file_scan.source.file
    text = f"{file} of {node}: the leader epoch goes back to {epoch} at offset {offset}"
    return Contradiction(node, node, file, offset, text)
