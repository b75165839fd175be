"""Copies of a log as successive runs find them, for tests of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from featurelog.tables import (
    CHECKPOINTS,
    NO_DOCUMENTS,
    ClusterCopies,
    FileRecords,
    Judging,
    NodeCopy,
    PartRecords,
    tables_of,
)
from kraftlog.arrow import DAMAGED
from tests.featurelog.tables.build import (
    VOTERS,
    batches,
    healthy,
    image_of,
    level,
    one,
    rows_of,
    segment_name,
    snapshot_name,
    snapshot_of,
)


@dataclass
class Copied:
    """The log of a node as runs find it.

    batches: of the log, one for each offset. begins: offsets at which segments begin. snapshots: content by end offset
    and epoch. hidden: snapshots that are not there. read_to: offsets up to which successive runs read the log.
    lost: offset at which a segment begins that is not there. version: of its rows; another one if the log was replaced.
    flipped: offsets of damaged batches. drops: damage makes no rows, as in the mode DROPMALFORMED.
    merged: parts of each file that are one now.
    """

    node: str
    batches: list[bytes] = field(repr=False)
    begins: Sequence[int]
    snapshots: dict[tuple[int, int], bytes] = field(default_factory=dict, repr=False)
    hidden: set[tuple[int, int]] = field(default_factory=set)
    read_to: list[int] = field(default_factory=list)
    lost: int | None = None
    version: int = 0
    flipped: set[int] = field(default_factory=set)
    drops: bool = False
    merged: int = 0

    def grow(self, until: int) -> None:
        """Let another run read up to this offset, if it is above that of the last one."""
        self.read_to.append(min(max([until, *self.read_to]), len(self.batches)))

    def copy(self) -> NodeCopy:
        """The copy that the last run reads."""
        end = min(self.read_to[-1], len(self.batches))
        segments = [each for each in pairwise([*self.begins, end]) if each[0] < end and each[0] != self.lost]
        files = [self._segment(begin, min(until, end)) for begin, until in segments]
        for id_, data in self.snapshots.items():
            if id_[0] <= end and id_ not in self.hidden:
                name = snapshot_name(*id_)
                files.append(FileRecords(self.node, name, (self._part(name, data, 0, len(data), 0),)))
        return NodeCopy("prod", self.node, "id", tuple(files), node_id=int(self.node), vote=(1, int(self.node), ""))

    def _segment(self, begin: int, until: int) -> FileRecords:
        content = bytearray(b"".join(self.batches[begin:until]))
        positions = [0]
        for offset in range(begin, until):
            positions.append(positions[-1] + len(self.batches[offset]))
            if offset in self.flipped:
                content[positions[-1] - 1] ^= 0xFF
        ends = sorted({begin, until, *(end for end in self.read_to if begin < end < until)})
        name = segment_name(begin)
        parts = [
            self._part(name, bytes(content), positions[start - begin], positions[end - begin], number)
            for number, (start, end) in enumerate(pairwise(ends))
        ]
        if 1 < self.merged <= len(parts):
            ids = tuple(part.id for part in parts[: self.merged])
            all_rows = [part.rows for part in parts[: self.merged]]
            one_part = PartRecords(f"{name}-{ids}", lambda: (rows for each in all_rows for rows in each()), ids)
            parts[: self.merged] = [one_part]
        return FileRecords(self.node, name, tuple(parts))

    def _part(self, name: str, data: bytes, start: int, end: int, number: int) -> PartRecords:
        def rows() -> Iterator[pa.RecordBatch]:
            all_rows = rows_of(name, data)
            at, is_damage = all_rows["batch_position"], pc.equal(all_rows["status"], DAMAGED)
            rows = pc.and_(pc.greater_equal(at, start), pc.less(at, end))
            yield from all_rows.filter(pc.and_not(rows, is_damage) if self.drops else rows).to_batches()

        return PartRecords(f"{name}-{number}-{end}-{self.version}", rows)


def made(copies: Iterable[NodeCopy], checkpoint: bytes | None, settled_ms: int = 0) -> tuple[dict[str, Any], Any]:
    """All tables, and the row with the next checkpoint."""
    cluster: ClusterCopies = one(copies)
    if checkpoint is not None:
        cluster = replace(cluster, checkpoint=lambda: checkpoint)
    tables = tables_of(cluster, NO_DOCUMENTS, Judging(0, valid_for_ms=0), settled_ms)
    (row,) = tables.pop(CHECKPOINTS).to_pylist()
    return {name: each.to_pylist() for name, each in tables.items()}, row


def grow(copies: Sequence[Copied], until: int, saved: bytes | None) -> tuple[dict[str, Any], Any]:
    """Let a run read up to an offset, and continue from a checkpoint. All tables, which are those of all records, and
    the row with the next checkpoint.
    """
    for copy in copies:
        copy.grow(until)
    nodes = [copy.copy() for copy in copies]
    continued, row = made(nodes, saved)
    assert continued == made(nodes, None)[0]
    return continued, row


def grown(*read_to: int, snapshots: Sequence[int] = (12, 16)) -> list[Copied]:
    """Three copies of a log that runs read up to these offsets, with snapshots at those."""
    whole = batches([*healthy(), *(level("group.version", number % 2) for number in range(15))])
    copies = [Copied(str(node), whole, [0, 10]) for node in VOTERS]
    for copy in copies:
        for end in snapshots:
            copy.snapshots[end, 1] = snapshot_of(image_of(b"".join(whole), end), at_ms=int(copy.node))
        for until in read_to:
            copy.grow(until)
    return copies


def checkpoint() -> bytes:
    """The checkpoint of a run that reads up to offset 20."""
    data: bytes = made([copy.copy() for copy in grown(14, 20)], None)[1]["checkpoint"]
    return data
