"""Tables that continue from a checkpoint are those that are made of all records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

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
from tests.featurelog.tables.build import (
    VOTERS,
    batches,
    image_of,
    leader,
    one,
    rows_of,
    segment_name,
    snapshot_name,
    snapshot_of,
)
from tests.featurelog.tables.test_properties import OF_A_LOST_LEADER, STEPS, story

EXAMPLES = settings(max_examples=60, deadline=None)


@dataclass
class Copied:
    """The log of a node as runs find it.

    batches: of the log, one for each offset. begins: offsets at which segments begin. snapshots: content by end offset
    and epoch. hidden: snapshots that are not there. read_to: offsets up to which successive runs read the log.
    version: of its rows; another one if the log was replaced. flipped: offsets of damaged batches.
    """

    node: str
    batches: list[bytes] = field(repr=False)
    begins: Sequence[int]
    snapshots: dict[tuple[int, int], bytes] = field(default_factory=dict, repr=False)
    hidden: set[tuple[int, int]] = field(default_factory=set)
    read_to: list[int] = field(default_factory=list)
    version: int = 0
    flipped: set[int] = field(default_factory=set)

    def grow(self, until: int) -> None:
        """Let another run read up to this offset, if it is above that of the last one."""
        self.read_to.append(min(max([until, *self.read_to]), len(self.batches)))

    def copy(self) -> NodeCopy:
        """The copy that the last run reads."""
        end = min(self.read_to[-1], len(self.batches))
        files = [self._segment(begin, min(until, end)) for begin, until in pairwise([*self.begins, end]) if begin < end]
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
        return FileRecords(self.node, name, tuple(parts))

    def _part(self, name: str, data: bytes, start: int, end: int, number: int) -> PartRecords:
        def rows() -> Iterator[pa.RecordBatch]:
            table = rows_of(name, data)
            at = table["batch_position"]
            yield from table.filter(pc.and_(pc.greater_equal(at, start), pc.less(at, end))).to_batches()

        return PartRecords(f"{name}-{number}-{end}-{self.version}", rows)


def made(copies: Iterable[NodeCopy], checkpoint: bytes | None, settled_ms: int = 0) -> tuple[dict[str, Any], Any]:
    """All tables, and the row with the next checkpoint."""
    cluster: ClusterCopies = one(copies)
    if checkpoint is not None:
        cluster = replace(cluster, checkpoint=lambda: checkpoint)
    tables = tables_of(cluster, NO_DOCUMENTS, Judging(0, valid_for_ms=0), settled_ms)
    (row,) = tables.pop(CHECKPOINTS).to_pylist()
    return {name: table.to_pylist() for name, table in tables.items()}, row


@st.composite
def logs(draw: st.DrawFn) -> list[Copied]:
    """Logs of three nodes with segments of their own, and snapshots."""
    items = story([*draw(STEPS), *draw(STEPS)])
    elected = draw(st.integers(9, len(items)))
    whole = batches(items[:elected]) + batches([leader(3002), *items[elected:]], start=elected, epoch=2)
    data = b"".join(whole)
    copies = []
    for node in VOTERS:
        begins = sorted({0, *draw(st.lists(st.integers(1, len(whole) - 1), max_size=3))})
        copy = Copied(str(node), whole, begins)
        for end in draw(st.lists(st.integers(9, len(whole)), min_size=1, max_size=4)):
            image = image_of(data, end)
            if not image.in_transaction and not image.unreadable:
                copy.snapshots[end, image.epoch] = snapshot_of(image, at_ms=node)
        copies.append(copy)
    return copies


def upset(copy: Copied, data: st.DataObject) -> None:
    """Let something happen to a copy between two runs."""
    what = data.draw(st.sampled_from(["damaged", "mended", "replaced", "hidden", "lost leader"]))
    event(what)
    offset = data.draw(st.integers(0, len(copy.batches) - 1))
    if what == "damaged":
        copy.flipped.add(offset)
    elif what == "mended":
        copy.flipped.clear()
    elif what == "hidden" and copy.snapshots:
        copy.hidden ^= {data.draw(st.sampled_from(sorted(copy.snapshots)))}
    elif what == "lost leader":
        alone = data.draw(st.lists(st.sampled_from(OF_A_LOST_LEADER), min_size=1, max_size=3))
        copy.batches = copy.batches[:offset] + batches(alone, start=offset)
        copy.snapshots = {id_: content for id_, content in copy.snapshots.items() if id_[0] <= offset}
    copy.version += what in ("damaged", "mended", "replaced", "lost leader")


def runs(copies: list[Copied], data: st.DataObject, *, upsets: int) -> Iterator[list[NodeCopy]]:
    """The copies that each of several runs finds. upsets: things that happen between them."""
    count = data.draw(st.integers(2, 4))
    at = {data.draw(st.integers(0, count - 1)) for _ in range(upsets)}
    for number in range(count):
        for copy in copies:
            least = min(9 + number * len(copy.batches) // count, len(copy.batches))
            copy.grow(data.draw(st.integers(least, len(copy.batches))))
        if number in at:
            upset(data.draw(st.sampled_from(copies)), data)
        yield [copy.copy() for copy in copies]


@pytest.mark.parametrize("upsets", [0, 1, 3])
@EXAMPLES
@given(logs(), st.data())
def test_tables_are_the_same_whether_they_continue_from_a_checkpoint_or_not(
    upsets: int, copies: list[Copied], data: st.DataObject
) -> None:
    checkpoint: bytes | None = None
    for nodes in runs(copies, data, upsets=upsets):
        continued, row = made(nodes, checkpoint)
        whole, _ = made(nodes, None)
        assert continued == whole
        if checkpoint is not None:
            event("read again" if row["outdated"] else "continued")
            event(row["outdated"][:25])
        checkpoint = row["checkpoint"]
