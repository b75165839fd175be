"""Tables that continue from a checkpoint are those that are made of all records."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

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
from featurelog.tables import checkpoint as checkpoints
from featurelog.tables.checkpoint import SETTLED_MS, Checkpoint
from kraftlog import known, strips
from kraftlog.arrow import DAMAGED
from kraftlog.records import frame
from kraftlog.schema import table
from tests.amounts import share
from tests.featurelog.tables.build import (
    VOTERS,
    batches,
    changed,
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


@st.composite
def logs(draw: st.DrawFn) -> list[Copied]:
    """Logs of three nodes with segments of their own, and snapshots."""
    items = story([*draw(STEPS), *draw(STEPS)])
    elected = draw(st.integers(9, len(items)))
    whole = batches(items[:elected]) + batches([leader(3002), *items[elected:]], start=elected, epoch=2)
    data = b"".join(whole)
    shared = sorted({0, *draw(st.lists(st.integers(1, len(whole) - 1), max_size=3))})
    lost = draw(st.sampled_from([None, None, *shared]))  # in all copies
    copies, drops = [], draw(st.booleans())
    for node in VOTERS:
        begins = sorted({0, *draw(st.lists(st.integers(1, len(whole) - 1), max_size=3))})
        copy = Copied(str(node), whole, begins if lost is None else shared, lost=lost, drops=drops)
        for end in draw(st.lists(st.integers(9, len(whole)), min_size=1, max_size=4)):
            image = image_of(data, end)
            if not image.in_transaction and not image.unreadable:
                copy.snapshots[end, image.epoch] = snapshot_of(image, at_ms=node)
        copies.append(copy)
    return copies


def upset(copy: Copied, data: st.DataObject) -> None:
    """Let something happen to a copy between two runs."""
    what = data.draw(st.sampled_from(["damaged", "mended", "replaced", "hidden", "lost leader", "filled", "merged"]))
    event(what)
    offset = data.draw(st.integers(0, len(copy.batches) - 1))
    if what == "damaged":
        copy.flipped.add(offset)
    elif what == "mended":
        copy.flipped.clear()
    elif what == "merged":
        copy.merged = len(copy.read_to)
    elif what == "filled":
        copy.lost = None
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


def sealed(data: bytes) -> bytes:
    """A checkpoint of these pickled bytes, as somebody forges it."""
    return hashlib.sha256(data).digest() + data


def call(module: str, name: str, *arguments: str) -> bytes:
    """Pickled bytes that call a type, or a function, when they are read."""
    names = b"".join(b"\x8c" + bytes([len(each)]) + each.encode() for each in (module, name))
    return b"\x80\x04" + names + b"\x93" + pickle.dumps(arguments, 2)[2:-1] + b"R."


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the checkpoint is damaged"),
        (pickle.dumps(5), "the checkpoint is damaged"),
        (sealed(b"\x80\x05"), "the checkpoint cannot be read"),
        (sealed(pickle.dumps(print)), "the checkpoint cannot be read"),
        (sealed(pickle.dumps(pytest.MonkeyPatch())), "the checkpoint cannot be read"),
        (sealed(call("kraftlog.topics", "attrgetter", "name")), "the checkpoint cannot be read"),
        (sealed(call("kraftlog.arrow.lines", "chain")), "the checkpoint cannot be read"),
        (sealed(call("kraftlog.maps", "_Items", "")), "the checkpoint cannot be read"),
        (sealed(call("featurelog.tables.checkpoint", "files.Segment", "", "")), "the checkpoint cannot be read"),
        (sealed(pickle.dumps(((3, "0.0.1", (3, 11)), 5, {}, None, {}))), "another release made the checkpoint"),
        (sealed(pickle.dumps(5)), "another release made the checkpoint"),
    ],
)
def test_a_checkpoint_that_another_program_made_is_not_used(data: bytes, why: str) -> None:
    copies = [copy.copy() for copy in grown(14, 20)]
    continued, row = made(copies, data)
    assert row["outdated"] == why
    assert continued == made(copies, None)[0]


def test_a_checkpoint_cannot_reach_what_the_modules_of_the_log_import(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    data = sealed(call("featurelog.tables.checkpoint", "io.FileIO", str(precious), "w"))
    assert made([copy.copy() for copy in grown(14, 20)], data)[1]["outdated"] == "the checkpoint cannot be read"
    assert precious.read_text() == "data"


def test_a_checkpoint_that_is_cut_or_damaged_makes_the_same_tables() -> None:
    copies, data = [copy.copy() for copy in grown(14, 20, 24)], checkpoint()
    whole, _ = made(copies, None)
    for at in range(0, len(data), 997):
        assert made(copies, data[:at])[0] == whole
        continued, row = made(copies, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert (continued, row["outdated"]) == (whole, "the checkpoint is damaged")


@pytest.mark.parametrize(
    "change",
    [
        "another voter",
        "a late snapshot",
        "a new copy",
        "no snapshot at its end",
        "a replaced log",
        "a replaced segment",
        "a file twice",
    ],
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
    if change == "a replaced segment":
        files = nodes[0].files
        parts = tuple(replace(part, id=f"other {part.id}") for part in files[1].parts)
        nodes[0] = replace(nodes[0], files=(files[0], replace(files[1], parts=parts), *files[2:]))
    if change == "a file twice":
        other = batches([*healthy(), level("group.version", 1)])
        nodes.insert(0, Copied("3001", other, [0], read_to=[10]).copy())
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


def test_no_checkpoint_is_made_where_a_gap_begins_that_may_be_filled() -> None:
    found = grown(24, snapshots=(16,))
    for copy in found:
        copy.batches = batches([*healthy(), *FENCED[:15]])
        copy.begins, copy.lost = [0, 10, 16, 20], 16
    continued, row = made([copy.copy() for copy in found], None)
    assert [note["offset"] for note in continued["data_quality"] if note["kind"] == "gap"] == [16]
    data = row["checkpoint"]
    for copy in found:
        copy.lost = None
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, data)
    assert continued == made(nodes, None)[0]
    assert Checkpoint.load(row["checkpoint"]).end == 16


FENCED = [changed(1, 101, fenced=number % 2 or -1) for number in range(20)]


def test_no_checkpoint_is_made_in_a_stretch_whose_rolls_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "MAX_PARTITIONS", 1)
    topic = UUID(int=7)
    nodes_of = {"replicas": [1], "isr": [1], "leader": 1, "removingReplicas": [], "addingReplicas": []}
    of_topic = [frame(table.TOPIC, {"name": "t", "topicId": topic})]
    for number in range(2):
        data = {"partitionId": number, "topicId": topic, "leaderEpoch": 0, "partitionEpoch": 0, **nodes_of}
        of_topic.append(frame(table.PARTITION, data))
    whole = batches([*healthy(), *of_topic, *FENCED])
    found = [Copied(str(node), whole, [0, 20, 22], lost=20) for node in VOTERS]
    for copy in found:
        copy.snapshots[18, 1] = snapshot_of(image_of(b"".join(whole), 18), at_ms=int(copy.node))
        copy.grow(13)
    saved = None
    for until in (26, 29):
        for copy in found:
            copy.grow(until)
        nodes = [copy.copy() for copy in found]
        continued, row = made(nodes, saved)
        assert continued == made(nodes, None)[0]
        saved = row["checkpoint"]


def test_damage_that_is_left_out_behind_a_checkpoint_makes_no_gap() -> None:
    found = grown(16, 20, snapshots=(16,))
    for copy in found:
        copy.flipped.add(16)
        copy.drops = True
    data = made([copy.copy() for copy in found], None)[1]["checkpoint"]
    assert Checkpoint.load(data).end == 16
    for copy in found:
        copy.grow(24)
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, data)
    assert continued == made(nodes, None)[0]
    assert not row["outdated"]


def test_damage_that_is_left_out_where_a_copy_goes_on_makes_its_records_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LIVE_MS", 0)  # the last copy is not waited for
    found = [*grown(20, snapshots=(16,))[:2], *grown(16, snapshots=(16,))[2:]]
    found[2].flipped.add(16)
    found[2].drops = True
    data = made([copy.copy() for copy in found], None)[1]["checkpoint"]
    assert Checkpoint.load(data).end == 16
    for copy in found:
        copy.grow(24)
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, data)
    assert continued == made(nodes, None)[0]
    assert row["outdated"] == f"3003/{segment_name(10)} has no record at offset 16"


def test_a_snapshot_that_is_too_large_takes_no_finding_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MAX_KNOWN", 12)
    whole = batches([*healthy(), *FENCED[:2], changed(9, 5, fenced=1), *FENCED])
    large = image_of(b"".join(batches(healthy(brokers=12))), 29)
    found = [Copied(str(node), whole, [0]) for node in VOTERS]
    for copy in found:
        copy.snapshots[16, 1] = snapshot_of(image_of(b"".join(whole), 16), at_ms=int(copy.node))
        copy.snapshots[26, 1] = snapshot_of(large, at_ms=int(copy.node))
    data = None
    for until in (24, 29):
        for copy in found:
            copy.grow(until)
        nodes = [copy.copy() for copy in found]
        continued, row = made(nodes, data)
        assert continued == made(nodes, None)[0]
        assert any(note["offset"] == 11 for note in continued["data_quality"])
        data = row["checkpoint"]
    assert not row["outdated"]


def test_parts_that_were_merged_are_those_of_before() -> None:
    found = grown(14, 20, 22, snapshots=(12, 16, 21))
    for copy in found:
        copy.merged = 3
    nodes = [copy.copy() for copy in found]
    assert [len(file.parts[0].merged) for file in nodes[0].files[:2]] == [0, 3]
    continued, row = made(nodes, checkpoint())
    assert continued == made(nodes, None)[0]
    assert not row["outdated"]
    for copy in found:
        copy.grow(24)
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, row["checkpoint"])
    assert continued == made(nodes, None)[0]
    assert not row["outdated"]


def test_parts_that_were_merged_with_new_records_below_the_checkpoint_are_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "LIVE_MS", 0)  # the last copy is not waited for
    found = [*grown(20, snapshots=(16,))[:2], *grown(12, 14, snapshots=(16,))[2:]]
    data = made([copy.copy() for copy in found], None)[1]["checkpoint"]
    for copy in found:
        copy.grow(24)
    found[2].merged = 3
    nodes = [copy.copy() for copy in found]
    continued, row = made(nodes, data)
    assert continued == made(nodes, None)[0]
    assert row["outdated"] == f"3003/{segment_name(10)} may have new records below offset 16"
