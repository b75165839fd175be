"""Lost, cut, copied or damaged files never make a verdict ready; names and order of files do not matter."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelog.tables import History, Judging, NodeCopy, history_of, tables_of, upgrade_readiness
from featurelog.tables.documents import NO_DOCUMENTS
from kraftlog.batches import LENGTH_END, Batch
from kraftlog.walks import walk
from tests.featurelog.tables.build import (
    LATEST,
    OF_3_9,
    VOTERS,
    Item,
    batches,
    changed,
    copy,
    healthy,
    image_of,
    leader,
    level,
    migration,
    one,
    registered_broker,
    registered_controller,
    segment_name,
    snapshot_name,
    snapshot_of,
    unregistered_broker,
)
from tests.kraftlog.build import abort, begin, end, no_op

T = TypeVar("T")
Files = Mapping[str, Mapping[str, bytes]]
"""The files of each node, by their names."""

DAY_MS = 86_400_000
EXAMPLES = settings(max_examples=40, deadline=None)
STEPS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.booleans()), max_size=12)


def story(steps: Sequence[tuple[int, int, bool]]) -> list[Item]:
    """A log without contradictions. Each step: kind of record, id or level, and which of two forms."""
    items: list[Item] = healthy()
    registered: dict[int, int] = {1: 101, 2: 102}
    in_transaction = False
    for kind, number, flag in steps:
        offset = len(items)
        if kind <= 1:
            registered[number] = 1000 + offset
            items.append(registered_broker(number, 1000 + offset, supports=OF_3_9 if flag else LATEST))
        elif kind <= 3 and number in registered:
            items.append(unregistered_broker(number, registered.pop(number)))
        elif kind == 4 and number in registered:
            items.append(changed(number, registered[number], fenced=1 if flag else -1))
        elif kind == 5:
            items.append(registered_controller(3001 + number, 50 + offset, supports=OF_3_9 if flag else LATEST))
        elif kind == 6:
            items.append(level("metadata.version", 27 + number))
        elif kind == 7:
            items.append(level("group.version", number % 2))
        elif kind == 8 and not in_transaction:
            items.append(leader(3001 + number % 3))
        elif kind == 9:
            items.append(migration(number))
        elif kind == 10:
            items.append((abort() if flag else end()) if in_transaction else begin())
            in_transaction = not in_transaction
        elif kind == 11 and flag:
            items.append(bytes([1, 99, 0, number, 0]))
        else:
            items.append(no_op())
    return [*items, end()] if in_transaction else items


@dataclass(frozen=True)
class Inputs:
    """Copies of the nodes. `end_ms`: the time at which they are judged, that of their last record."""

    files: Files
    end_ms: int


@st.composite
def inputs(draw: st.DrawFn) -> Inputs:
    """Copies of different lengths, in segments and with snapshots. One may be of a leader that was replaced, and end
    with records that no other node has.
    """
    items = story(draw(STEPS))
    elected = draw(st.integers(9, len(items)))
    made = batches(items[:elected]) + batches([leader(3002), *items[elected:]], start=elected, epoch=2)
    whole = b"".join(made)
    lengths = [draw(st.integers(max(9, len(made) - 4), len(made))) for _ in VOTERS]
    lengths[draw(st.integers(0, 2))] = len(made)
    lost = draw(st.sampled_from([None, *VOTERS]))
    files = {}
    for node, length in zip(VOTERS, lengths, strict=True):
        own = made
        if node == lost and length < len(made) and length > elected:
            alone = draw(
                st.lists(st.sampled_from(OF_A_LOST_LEADER), min_size=length - elected, max_size=length - elected)
            )
            own = batches([*items[:elected], *alone])
        cuts = sorted({0, *draw(st.lists(st.integers(1, length - 1), max_size=2))})
        of_node = {
            segment_name(begin_at): b"".join(own[begin_at:until])
            for begin_at, until in zip(cuts, [*cuts[1:], length], strict=True)
        }
        for at in draw(st.lists(st.integers(9, elected if own is not made else length), max_size=1)):
            image = image_of(whole, at)
            if not image.in_transaction and not image.unreadable:
                of_node[snapshot_name(at, image.epoch)] = snapshot_of(image)
        if draw(st.booleans()) and any(name.endswith(".checkpoint") for name in of_node):
            del of_node[segment_name(0)]
        files[str(node)] = of_node
    found = history_of(one(copies(files)))
    assert found.end_ms is not None
    return Inputs(files, found.end_ms)


OF_A_LOST_LEADER: tuple[Item, ...] = (
    no_op(),
    unregistered_broker(2, 102),
    level("metadata.version", 33),
    registered_broker(9, 900, supports=OF_3_9),
    registered_controller(3003, 99, supports=OF_3_9),
    end(),
    begin(),
)


def copies(files: Files) -> list[NodeCopy]:
    return [copy(node, of_node) for node, of_node in files.items()]


def derived(found: Sequence[NodeCopy], end_ms: int) -> dict[str, pa.Table]:
    return tables_of(one(found), NO_DOCUMENTS, Judging(end_ms, valid_for_ms=0))


def not_ready(found: Sequence[NodeCopy], end_ms: int, valid_for_ms: int = 0) -> set[str]:
    rows = upgrade_readiness.rows(history_of(one(found)), Judging(end_ms, valid_for_ms))
    return {row["target"] for row in rows if row["verdict"] != "ready"}


def assert_none_becomes_ready(before: Inputs, after: Files, valid_for_ms: int = 0) -> None:
    """Assert that each target that is not ready before is not ready with the files `after` either."""
    was, now = (not_ready(copies(files), before.end_ms, valid_for_ms) for files in (before.files, after))
    assert was <= now, sorted(was - now)


@EXAMPLES
@given(inputs(), st.data())
def test_removing_a_file_never_makes_a_verdict_ready(before: Inputs, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(sorted(before.files)))
    name = data.draw(st.sampled_from(sorted(before.files[node])))
    less = {key: value for key, value in before.files[node].items() if key != name}
    assert_none_becomes_ready(before, {**before.files, node: less})


@EXAMPLES
@given(inputs(), st.data())
def test_removing_a_node_never_makes_a_verdict_ready(before: Inputs, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(sorted(before.files)))
    assert_none_becomes_ready(
        before, {key: value for key, value in before.files.items() if key != node} or {"3001": {}}
    )


@EXAMPLES
@given(STEPS, st.data())
def test_removing_the_same_offsets_of_all_nodes_never_makes_a_verdict_ready(
    steps: Sequence[tuple[int, int, bool]], data: st.DataObject
) -> None:
    made = batches([*story(steps), leader(3002)])  # the last record names the voters, so they are known behind any gap
    cuts = sorted({0, *data.draw(st.lists(st.integers(9, len(made) - 1), min_size=1, max_size=3))})
    files = {
        segment_name(begin_at): b"".join(made[begin_at:until])
        for begin_at, until in zip(cuts, [*cuts[1:], len(made)], strict=True)
    }
    gone = data.draw(st.sampled_from(sorted(files)))
    less = {name: content for name, content in files.items() if name != gone}
    before = {str(node): files for node in VOTERS}
    end_ms = end_ms_of(history_of(one(copies(before))))
    assert_none_becomes_ready(Inputs(before, end_ms), {str(node): less for node in VOTERS})


@EXAMPLES
@given(inputs(), st.data())
def test_truncating_a_file_never_makes_a_verdict_ready(before: Inputs, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(sorted(before.files)))
    name = data.draw(st.sampled_from(sorted(before.files[node])))
    content = before.files[node][name]
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    assert_none_becomes_ready(before, {**before.files, node: {**before.files[node], name: cut}})


@EXAMPLES
@given(inputs(), st.data())
def test_a_duplicate_file_changes_no_table(before: Inputs, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(sorted(before.files)))
    found = copies(before.files)
    twice = [
        replace(each, files=(*each.files, data.draw(st.sampled_from(each.files)))) if each.node == node else each
        for each in found
    ]
    assert without_files(derived(twice, before.end_ms)) == without_files(derived(found, before.end_ms))


@EXAMPLES
@given(inputs(), st.data())
def test_a_copy_under_another_name_never_makes_a_verdict_ready(before: Inputs, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(sorted(before.files)))
    left = {one: files for one, files in before.files.items() if one == node or data.draw(st.booleans())}
    found, name = copies(left), data.draw(st.sampled_from(["1", "backup", "4001", *map(str, VOTERS)]))
    again = copy(name, before.files[node], node_id=data.draw(st.sampled_from([None, int(node)])))
    # It has its own node id or none: a false id would be another defect.
    again = again if name.isdecimal() and again.node_id == int(node) else replace(again, node_id=None)
    more = [*(one for one in found if one.node != name), again]
    was, now = (not_ready(each, before.end_ms) for each in (found, more))
    assert was <= now, sorted(was - now)


@EXAMPLES
@given(inputs(), st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(before: Inputs, random: Random) -> None:
    found = copies(before.files)
    shuffled = [replace(one, files=_shuffled(one.files, random)) for one in found]
    shuffled = list(_shuffled(shuffled, random))
    assert derived(shuffled, before.end_ms) == derived(found, before.end_ms)


def _shuffled(items: Sequence[T], random: Random) -> tuple[T, ...]:
    return tuple(random.sample(items, len(items)))


@EXAMPLES
@given(STEPS, st.data())
def test_a_file_that_is_split_at_a_batch_gives_the_same_tables(
    steps: Sequence[tuple[int, int, bool]], data: st.DataObject
) -> None:
    made = batches(story(steps))
    cut = data.draw(st.integers(1, len(made) - 1))
    whole = {segment_name(0): b"".join(made)}
    parts = {segment_name(0): b"".join(made[:cut]), segment_name(cut): b"".join(made[cut:])}
    end_ms = end_ms_of(history_of(one(copies({"3001": whole}))))
    assert without_files(derived(copies({"3001": parts}), end_ms)) == without_files(
        derived(copies({"3001": whole}), end_ms)
    )


def end_ms_of(history: History) -> int:
    assert history.end_ms is not None
    return history.end_ms


def without_files(tables: Mapping[str, pa.Table]) -> dict[str, list[object]]:
    """The rows of all tables without their fields that name a file."""
    return {name: [_without_files(row) for row in table.to_pylist()] for name, table in tables.items()}


def _without_files(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_files(each) for key, each in value.items() if not key.endswith("file")}
    return [_without_files(each) for each in value] if isinstance(value, list) else value


@EXAMPLES
@given(inputs(), st.data())
def test_other_epochs_in_the_last_batches_of_a_copy_never_make_a_verdict_ready(
    before: Inputs, data: st.DataObject
) -> None:
    """The checksum of a batch does not cover its epoch, and records of a higher epoch replace those of other copies.
    `DAY_MS`: verdicts are valid for a day, so that data which ends earlier is not too old.
    """
    segments = [(node, name) for node, of_node in before.files.items() for name in of_node if name.endswith(".log")]
    node, name = data.draw(st.sampled_from(segments))
    content = bytearray(before.files[node][name])
    found = [each for each in walk(bytes(content)) if isinstance(each, Batch)]
    epoch = data.draw(st.sampled_from([0, 1, 2, 3, 9]))
    for each in found[-data.draw(st.integers(1, len(found))) :]:
        struct.pack_into(">i", content, each.position + LENGTH_END, epoch)
    assert_none_becomes_ready(before, {**before.files, node: {**before.files[node], name: bytes(content)}}, DAY_MS)
