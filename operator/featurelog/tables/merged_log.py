"""The merged log of a cluster, as `merging` makes it: which file to read for which offsets, and contradictions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from featurelog.tables.checkpoint import Checkpoint, Recorder
from featurelog.tables.scans import Scan
from featurelog.tables.witnesses import Repeated, Witnesses


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
    recorder: has the checkpoint from which this log continues (what an earlier run saved: no snapshot of Kafka), and
        records the next one.
    """

    scans: list[Scan]
    witnesses: Witnesses
    recorder: Recorder = field(default_factory=Recorder)
    pieces: list[Piece] = field(default_factory=list)
    snapshots: list[SnapshotFile] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    overwritten: list[Overwritten] = field(default_factory=list)
    held_until: dict[str, int] = field(default_factory=dict)

    @property
    def earlier(self) -> Checkpoint | None:
        """The checkpoint from which this log continues; None: everything is read."""
        return self.recorder.earlier

    @property
    def new_pieces(self) -> list[Piece]:
        """The pieces that no checkpoint covers."""
        return [piece for piece in self.pieces if self.earlier is None or piece.begin >= self.earlier.end]

    @property
    def new_snapshots(self) -> list[SnapshotFile]:
        """The snapshots that no checkpoint covers."""
        return [each for each in self.snapshots if self.earlier is None or each.end >= self.earlier.end]

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
