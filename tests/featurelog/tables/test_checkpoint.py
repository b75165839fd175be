"""Tables that continue from a checkpoint are those that are made of all records."""

from __future__ import annotations

import pickle
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
from featurelog.tables.checkpoint import SETTLED_MS, Checkpoint
from tests.amounts import share
from tests.featurelog.tables.build import (
    VOTERS,
    batches,
    healthy,
    image_of,
    leader,
    level,
    one,
    rows_of,
    segment_name,
    snapshot_name,
    snapshot_of,
)
from tests.featurelog.tables.test_properties import OF_A_LOST_LEADER, STEPS, story

EXAMPLES = settings(max_examples=share(500), deadline=None)


@dataclass
class Copied:
    """The log of a node as runs find it.

    batches: of the log, one for each offset. begins: offsets at which segments begin. snapshots: content by end offset
    and epoch. hidden: snapshots that are not there. read_to: offsets up to which successive runs read the log.
    lost: offset at which a segment begins that is not there. version: of its rows; another one if the log was replaced.
    flipped: offsets of damaged batches.
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
    shared = sorted({0, *draw(st.lists(st.integers(1, len(whole) - 1), max_size=3))})
    lost = draw(st.sampled_from([None, None, *shared]))  # in all copies
    copies = []
    for node in VOTERS:
        begins = sorted({0, *draw(st.lists(st.integers(1, len(whole) - 1), max_size=3))})
        copy = Copied(str(node), whole, begins if lost is None else shared, lost=lost)
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


def test_what_a_checkpoint_covers_is_not_read() -> None:
    assert Checkpoint.load(checkpoint()).end == 16
    read: list[str] = []

    def noted(node: str, file: FileRecords, part: PartRecords) -> PartRecords:
        def rows() -> Iterable[pa.RecordBatch]:
            read.append(f"{node} {part.id}")
            return part.rows()

        return replace(part, rows=rows)

    nodes = []
    for copy in (each.copy() for each in grown(14, 20, 24)):
        files = [replace(file, parts=tuple(noted(copy.node, file, part) for part in file.parts)) for file in copy.files]
        nodes.append(replace(copy, files=tuple(files)))
    _, row = made(nodes, checkpoint())
    assert not row["outdated"]
    first_parts = {f"{node} {segment_name(begin)}-0-{end}-0" for node in VOTERS for begin, end in ((0, 10), (10, 14))}
    snapshots = {f"{node} {snapshot_name(12)}-0-{len(grown(20)[0].snapshots[12, 1])}-0" for node in VOTERS}
    assert not (first_parts | snapshots) & set(read)


def test_no_checkpoint_covers_records_that_other_copies_may_still_lack() -> None:
    copies = [copy.copy() for copy in grown(14, 20)]
    assert made(copies, None, SETTLED_MS)[1]["checkpoint"] is None
    behind = [*copies[:2], *(copy.copy() for copy in grown(14)[2:])]
    assert Checkpoint.load(made(behind, None)[1]["checkpoint"]).end == 12


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the checkpoint cannot be read"),
        (b"\x80\x05", "the checkpoint cannot be read"),
        (pickle.dumps(print), "the checkpoint cannot be read"),
        (pickle.dumps(pytest.MonkeyPatch()), "the checkpoint cannot be read"),
        (pickle.dumps(((3, "0.0.1", (3, 11)), 5, {}, None, {})), "another release made the checkpoint"),
        (pickle.dumps(5), "another release made the checkpoint"),
    ],
)
def test_a_checkpoint_that_another_program_made_is_not_used(data: bytes, why: str) -> None:
    copies = [copy.copy() for copy in grown(14, 20)]
    continued, row = made(copies, data)
    assert row["outdated"] == why
    assert continued == made(copies, None)[0]


def test_a_checkpoint_that_is_cut_makes_the_same_tables() -> None:
    copies, data = [copy.copy() for copy in grown(14, 20, 24)], checkpoint()
    whole, _ = made(copies, None)
    for cut in range(0, len(data), 997):
        assert made(copies, data[:cut])[0] == whole


@pytest.mark.parametrize(
    "change", ["another voter", "a late snapshot", "a new copy", "no snapshot at its end", "a replaced log"]
)
def test_a_checkpoint_is_not_used_once_something_below_its_end_has_changed(change: str) -> None:
    copies = grown(14, 20, 24, snapshots=(12, 14, 16) if change == "a late snapshot" else (12, 16))
    if change == "no snapshot at its end":
        for copy in copies:
            copy.hidden.add((16, 1))
    copies[0].version = int(change == "a replaced log")
    nodes = [copy.copy() for copy in copies]
    if change == "another voter":
        nodes = [replace(node, voters=(*VOTERS, 3004)) for node in nodes]
    if change == "a new copy":
        nodes.append(replace(nodes[0], node="3004", node_id=3004))
    continued, row = made(nodes, checkpoint())
    assert row["outdated"]
    assert continued == made(nodes, None)[0]


def test_damage_and_records_that_were_not_decoded_are_counted_after_any_number_of_checkpoints() -> None:
    found = grown(14, snapshots=(12, 16, 19))
    for copy in found:
        copy.batches[9] = batches([bytes([1, 99, 0, 7, 0])], start=9)[0]
        copy.flipped.add(10)
    ends, data = [], None
    for until in (18, 21, 24):
        for copy in found:
            copy.grow(until)
        nodes = [copy.copy() for copy in found]
        continued, row = made(nodes, data)
        assert continued == made(nodes, None)[0]
        assert {"damaged", "not_decoded"} <= {note["kind"] for note in continued["data_quality"]}
        assert not row["outdated"]
        data = row["checkpoint"]
        ends.append(Checkpoint.load(data).end)
    assert ends == [16, 19, 19]
