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
        return frozenset(one for one in ids if one is not None)

    def repeated(self, voters: Collection[int]) -> tuple[Repeated, ...]:
        """Folders whose copies do not count by themselves."""
        return self.witnesses.repeated(self.witnesses.ids, self.counted(voters))

    @property
    def end(self) -> int:
        """The end offset of what was read, exclusive."""
        of_snapshots = max((one.end for one in self.snapshots), default=0)
        return max(of_snapshots, self.pieces[-1].end if self.pieces else 0)


def merged(cluster: ClusterCopies) -> Merged:
    """Read all files once, and merge them."""
    scans = [scan(one) for one in cluster.files]
    whose = witnesses(cluster, scans)
    left_out: set[str] = set()
    contradictions: list[Contradiction] = []
    while True:
        attempt = _merge([one for one in scans if one.source.node not in left_out], whose)
        contradictions += attempt.contradictions
        worse = {one.node for one in attempt.contradictions if one.node != one.other}
        if not worse:
            break
        left_out.add(max(worse))  # one at a time: what contradicted only this one may stay
        contradictions = [one for one in contradictions if one.node in left_out]
    first: dict[tuple[str, str, str], Contradiction] = {}
    for one in contradictions:
        first.setdefault((one.node, one.other, one.file), one)
    attempt.scans, attempt.contradictions = scans, list(first.values())
    return attempt


@dataclass(frozen=True, slots=True)
class _Run:
    """A span, and whose it is. `place`: of the scan among all, which is the canonical order."""

    begin: int
    end: int
    epoch: int
    end_ms: int
    place: int


def _merge(scans: Sequence[Scan], whose: Witnesses) -> Merged:
    found = Merged(list(scans), whose)
    _snapshots(found)
    runs = sorted(
        (
            _Run(span.begin, span.end, span.epoch, span.end_ms, place)
            for place, one in enumerate(scans)
            for span in one.spans
        ),
        key=lambda run: (run.begin, run.place),
    )
    snapshot_ends = {one.end for one in found.snapshots}
    points = sorted({end for run in runs for end in (run.begin, run.end)} | snapshot_ends)
    for one in scans:
        if one.repeated is not None:
            found.contradictions.append(_contradiction(one, one, one.repeated, "it has several records"))
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
        best = min(active, key=lambda run: (-run.epoch, run.place))
        winner = scans[best.place]
        found.contradictions += _of_no_leader(found, active, max(best.epoch, floor), epochs, begin)
        if best.epoch < floor:
            found.overwritten += [_overwritten(scans[run.place], run, begin, end) for run in active]
            continue
        if best.epoch > floor and not _may_begin(found, best, begin):
            earlier = [scans[run.place] for run in active if run.epoch < best.epoch]
            other = next((one for one in earlier if one.source.node != winner.source.node), found.pieces[-1].scan)
            found.contradictions.append(_unelected(winner, other, best.epoch, begin))
        floor = best.epoch
        for run in active:
            one = scans[run.place]
            if run.epoch != best.epoch:
                has_agreed = one.source.node in agreed or frozenset((one.source.node, winner.source.node)) in pairs
                if why := _why_not_overwritten(one, winner, (begin, end), has_agreed=has_agreed):
                    found.contradictions.append(_contradiction(one, winner, begin, why))
                found.overwritten.append(_overwritten(one, run, begin, end))
                continue
            if run is not best and not one.between(begin, end).equals(winner.between(begin, end)):
                found.contradictions.append(_contradiction(one, winner, begin, "their records differ"))
                continue
            if whose.are_two(one.source.node, winner.source.node):
                agreed |= {one.source.node, winner.source.node}
            pairs.add(frozenset((one.source.node, winner.source.node)))
            epochs[one.source.node] = best.epoch
            _holds(found, one, end)
        _append(found.pieces, Piece(begin, end, best.epoch, winner, best.end_ms), snapshot_ends)
    return found


def _why_not_overwritten(one: Scan, winner: Scan, offsets: tuple[int, int], *, has_agreed: bool) -> str:
    """What no leader can have overwritten: a log that never was the same, and what is there again."""
    if one is not winner and not has_agreed:
        return "their leader epochs differ"
    is_again = not one.leader_changes(*offsets).isdisjoint(winner.leader_changes(*offsets))
    return "the same records have different leader epochs" if is_again else ""


def _may_begin(found: Merged, run: _Run, at: int) -> bool:
    """Whether a leader's epoch can begin here: with its leader change, or behind what is missing."""
    last = found.pieces[-1] if found.pieces else None
    if last is None or last.end < at or at in found.scans[run.place].leader_change_offsets:
        return True
    return any((each.end, each.epoch) == (at, run.epoch) for each in found.snapshots)


def _of_no_leader(
    found: Merged, active: Sequence[_Run], epoch: int, epochs: Mapping[str, int], at: int
) -> Iterator[Contradiction]:
    """Copies that have an earlier leader's records behind those of a later one. What a node truncated, and a copy of
    another time still has, does not count.
    """
    for run in active:
        if run.epoch >= epoch:
            continue
        one = found.scans[run.place]
        node, before = one.source.node, epochs.get(one.source.node, run.epoch)
        replaced = any(found.scans[each.place].source.node == node and each.epoch >= before for each in active)
        if one.goes_back or (run.epoch < before and not replaced):
            yield _alone(one, run.epoch, at)


def _snapshots(found: Merged) -> None:
    """Whole ones by offset; those that say the same as another node's only once."""
    whole = [
        SnapshotFile(one.name.end_offset, one.name.epoch, one)
        for one in found.scans
        if isinstance(one.name, files.Snapshot) and not one.incomplete
    ]
    last: pa.Table | None = None
    for snapshot in sorted(whole, key=lambda one: (one.end, one.epoch)):
        _holds(found, snapshot.scan, snapshot.end)
        says = snapshot.scan.small.select(_OF_A_SNAPSHOT)
        is_other = not found.snapshots or (found.snapshots[-1].end, found.snapshots[-1].epoch) != (
            snapshot.end, snapshot.epoch,
        )  # fmt: skip
        if is_other or last is None or not says.equals(last):
            found.snapshots.append(snapshot)
            last = says


_OF_A_SNAPSHOT = ["offset", "is_control", "api_key", "status", "body"]  # when it was written differs from node to node


def _append(pieces: list[Piece], more: Piece, cuts: Iterable[int]) -> None:
    last = pieces[-1] if pieces else None
    if last and last.end == more.begin and last.scan is more.scan and last.epoch == more.epoch and last.end not in cuts:
        pieces[-1] = Piece(last.begin, more.end, more.epoch, more.scan, more.end_ms)
    else:
        pieces.append(more)


def _holds(found: Merged, one: Scan, end: int) -> None:
    node = one.source.node
    found.held_until[node] = max(found.held_until.get(node, 0), end)


def _overwritten(one: Scan, run: _Run, begin: int, end: int) -> Overwritten:
    return Overwritten(one.source.node, one.source.file, begin, end, run.epoch)


def _contradiction(one: Scan, other: Scan, offset: int, why: str) -> Contradiction:
    later, earlier = sorted((one, other), key=lambda each: (each.source.node, each.source.file), reverse=True)
    text = f"{later.source.node} and {earlier.source.node} are no copies of one log: {why} from offset {offset} on"
    if later.source.node == earlier.source.node:
        text = (
            f"files {later.source.file} and {earlier.source.file} of {later.source.node}: {why} from offset {offset} on"
        )
    return Contradiction(later.source.node, earlier.source.node, later.source.file, offset, text)


def _unelected(one: Scan, other: Scan, epoch: int, offset: int) -> Contradiction:
    """What one copy has may be left out where another one has something else there."""
    node, file = one.source.node, one.source.file
    text = f"{file} of {node}: leader epoch {epoch} begins at offset {offset} without a leader change"
    if other.source.node != node:
        text += f", where {other.source.node} has an earlier one"
    return Contradiction(node, other.source.node, file, offset, text)


def _alone(one: Scan, epoch: int, offset: int) -> Contradiction:
    node, file = one.source.node, one.source.file
    text = f"{file} of {node}: the leader epoch goes back to {epoch} at offset {offset}"
    return Contradiction(node, node, file, offset, text)
