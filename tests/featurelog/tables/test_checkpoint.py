"""Tables that continue from a checkpoint are those that are made of all records."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from featurelog.tables import (
    FileRecords,
    NodeCopy,
    PartRecords,
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
    segment_name,
    snapshot_name,
    snapshot_of,
)
from tests.featurelog.tables.copied import Copied, checkpoint, grown, made
from tests.featurelog.tables.test_properties import OF_A_LOST_LEADER, STEPS, story

EXAMPLES = settings(max_examples=share(500), deadline=None)


@st.composite
def logs(draw: st.DrawFn) -> list[Copied]:
    """The log of a cluster on three nodes, with other segments and snapshots on each."""
    items = story([*draw(STEPS), *draw(STEPS)])
    elected = draw(st.integers(9, len(items)))
    whole = batches(items[:elected]) + batches([leader(3002), *items[elected:]], start=elected, epoch=2)
    data = b"".join(whole)
    shared = sorted({0, *draw(st.lists(st.integers(1, len(whole) - 1), max_size=3))})
    lost = draw(st.sampled_from([None, None, *shared]))  # a segment that is missing in all copies
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


def test_records_that_a_checkpoint_covers_are_not_read() -> None:
    """Runs read up to offsets 14, 20 and 24. The copies have snapshots at 12 and 16, and segments from 0 and from 10
    on. So the parts before offset 14 are covered by the checkpoint, as is the first snapshot.
    """
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
    assert made(copies, None, SETTLED_MS)[1]["checkpoint"] is None  # all records are younger than SETTLED_MS
    # The third copy goes up to offset 14, so the checkpoint ends at the snapshot before that, not at 16.
    behind = [*copies[:2], *(copy.copy() for copy in grown(14)[2:])]
    assert Checkpoint.load(made(behind, None)[1]["checkpoint"]).end == 12


def sealed(data: bytes) -> bytes:
    """A forged checkpoint: pickled bytes with their correct digest."""
    return hashlib.sha256(data).digest() + data


def call(module: str, name: str, *arguments: str) -> bytes:
    """Pickled bytes that call a type, or a function, when they are read."""
    names = b"".join(b"\x8c" + bytes([len(each)]) + each.encode() for each in (module, name))
    return b"\x80\x04" + names + b"\x93" + pickle.dumps(arguments, 2)[2:-1] + b"R."


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "the checkpoint is damaged", id="empty"),
        pytest.param(pickle.dumps(5), "the checkpoint is damaged", id="without a digest"),
        pytest.param(sealed(b"\x80\x05"), "the checkpoint cannot be read", id="no pickle"),
        pytest.param(sealed(pickle.dumps(print)), "the checkpoint cannot be read", id="a built-in function"),
        pytest.param(sealed(pickle.dumps(pytest.MonkeyPatch())), "the checkpoint cannot be read", id="another type"),
        # names that modules of ours import, or that begin with an underscore
        *(
            pytest.param(sealed(call(*names)), "the checkpoint cannot be read", id=f"a call of {names[0]}.{names[1]}")
            for names in (
                ("kraftlog.topics", "attrgetter", "name"),
                ("kraftlog.arrow.lines", "chain"),
                ("kraftlog.maps", "_Items", ""),
                ("featurelog.tables.checkpoint", "files.Segment", "", ""),
            )
        ),
        pytest.param(
            sealed(pickle.dumps(((3, "0.0.1", (3, 11)), 5, {}, None, {}))), "another release made the checkpoint",
            id="of another version",
        ),
        pytest.param(sealed(pickle.dumps(5)), "another release made the checkpoint", id="of another form"),
    ],
)  # fmt: skip
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
