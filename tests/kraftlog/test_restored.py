"""The image at any offset, from the files of a node: it is exact, or the missing records are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from kraftlog import Image, Replay, encode_batch
from kraftlog.batches import HEADER_SIZE, Pieces
from kraftlog.replay import ONLY_NO_OP
from kraftlog.restored import PIECE, Restored, StateUnknown, image_at
from kraftlog.schema import table
from tests.kraftlog.build import (
    abort,
    batch,
    begin,
    broker,
    checkpoint,
    control_batch,
    end,
    level,
    log,
    no_op,
    segment,
    snapshot,
)
from tests.kraftlog.golden import CHANGES, MIGRATION, batches_of, name

FIRST = segment(0)
METADATA = "metadata.version"


def opener(files: Mapping[str, bytes]) -> Callable[[str], AbstractContextManager[Pieces]]:
    return lambda name: nullcontext(memoryview(files[name]))


def restore(files: Mapping[str, bytes], at: int | None = None) -> Restored:
    return image_at(files, opener(files), at=at)


def state_of(image: Image) -> tuple[Any, ...]:
    """The state of the cluster in an image, which does not depend on the files that it was made of."""
    voters = None if image.voters is None else tuple(sorted(voter.id for voter in image.voters))
    return (
        image.offset, dict(image.features), image.kraft_version, dict(image.brokers), dict(image.controllers), voters,
        image.zk_migration_state, image.in_transaction, image.unreadable,
    )  # fmt: skip


@pytest.mark.parametrize("path", [CHANGES, MIGRATION], ids=name)
def test_the_image_of_a_real_log_at_an_offset_has_exactly_the_records_below_the_offset(path: Path) -> None:
    files = {one.name: one.read_bytes() for one in path.parent.iterdir() if one.suffix in (".log", ".checkpoint")}
    one_by_one = Replay()
    assert state_of(restore(files, 0).image) == state_of(one_by_one.image())
    made_of = set()
    for whole in batches_of(path):
        for record in whole.records():
            alone = encode_batch([record], leader_epoch=whole.leader_epoch, control=whole.is_control)
            one_by_one.append(alone, below=record.offset + 1)
            if (record.offset + 1) % 5 and whole.data[HEADER_SIZE:] == ONLY_NO_OP:
                continue  # of no-op records, which are most of the log, each fifth is enough
            restored = restore(files, record.offset + 1)
            assert state_of(restored.image) == state_of(one_by_one.image())
            assert restored.image.epoch == whole.leader_epoch
            made_of.add(restored.made_of)
    assert len(made_of) == 3  # of the log alone, of the snapshot alone, and of both
    assert state_of(restore(files).image) == state_of(one_by_one.image())


def test_an_offset_inside_of_a_batch_has_the_records_before_it() -> None:
    files = {FIRST: batch(0, level(METADATA, 7), level(METADATA, 8), level(METADATA, 9))}
    assert [restore(files, at).image.features.get(METADATA) for at in range(4)] == [None, 7, 8, 9]


def test_the_changes_of_a_transaction_are_in_the_image_from_its_end_on() -> None:
    files = {FIRST: log([begin(), level(METADATA, 7)], [level("a", 1), end()], [begin(), level("b", 1), abort()])}
    restored = [restore(files, at).image for at in range(8)]
    assert [one.in_transaction for one in restored] == [False, True, True, True, False, True, True, False]
    assert [dict(one.features) for one in restored] == [{}] * 4 + [{METADATA: 7, "a": 1}] * 4


def test_a_log_of_many_segments_is_read_completely() -> None:
    large = broker(1, 1, rack="r" * 100_000)
    files = {FIRST: log(*([large] for _ in range(3 * PIECE // 100_000)), [level(METADATA, 9)])}
    assert len(files[FIRST]) > 2 * PIECE
    assert restore(files).image.features[METADATA] == 9


def test_an_image_begins_with_the_newest_complete_snapshot_before_the_offset_and_names_damaged_ones() -> None:
    files = {
        segment(2): log([no_op()], [no_op()], [level(METADATA, 9)], start=2),
        checkpoint(2): snapshot(level(METADATA, 7)),
        checkpoint(4): snapshot(level(METADATA, 8))[:-1],
    }
    restored = restore(files)
    assert restored.made_of == (checkpoint(2), segment(2))
    assert restored.image.features[METADATA] == 9
    assert restored.left_out == (f"{checkpoint(4)}: the last batch is cut, at byte 174 of the snapshot",)
    assert restore(files, 4).image.features[METADATA] == 7


def test_levels_that_a_directory_was_formatted_with_are_not_finalized_before_a_leader_writes_them() -> None:
    """Kafka 4.4 (KIP-1170) formats each controller with levels, also one that joins a cluster with other levels."""
    formatted = (
        control_batch(
            0,
            (table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": 0}),
            (table.KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}),
        )
        + batch(2, level(METADATA, 30), level("transaction.version", 2))
        + control_batch(4, (table.SNAPSHOT_FOOTER, {}))
    )
    files = {checkpoint(0, 0): formatted}
    assert (dict(restore(files).image.features), restore(files).image.kraft_version) == ({}, 1)
    joined = {**files, FIRST: log([level(METADATA, 25)], [level("group.version", 1)])}
    assert dict(restore(joined).image.features) == {METADATA: 25, "group.version": 1}
    assert restore(joined).made_of == (checkpoint(0, 0), FIRST)


GAP = {FIRST: log([level(METADATA, 7)], [no_op()]), segment(4): log([level(METADATA, 8)], start=4)}
WITHIN = {FIRST: batch(0, level(METADATA, 7)) + batch(3, no_op())}
DAMAGED = {FIRST: batch(0, level(METADATA, 7)) + batch(1, no_op())[:-1] + b"?" + batch(2, level(METADATA, 9))}
TWICE = {FIRST: log([level(METADATA, 7)], [no_op()]), segment(1): log([level(METADATA, 9)], [no_op()], start=1)}
CUT = {FIRST: log([level(METADATA, 7)], [no_op()])[:-5], segment(2): log([no_op()], start=2)}


@pytest.mark.parametrize(
    ("files", "known", "reason"),
    [
        (GAP, 2, f"offsets 2 to 3 are missing: {segment(4)} is the next file"),
        (WITHIN, 1, f"{FIRST}: offsets 1 to 2 are missing"),
        (DAMAGED, 1, f"{FIRST}: at byte 91: the CRC-32C of the batch is wrong (base offset 1)"),
        (CUT, 1, f"{FIRST}: at byte 91: the last batch is cut"),
        (TWICE, 2, f"{segment(1)}: begins at offset 1, which {FIRST} has already"),
    ],
    ids=["between files", "within a file", "damage", "cut", "overlap"],
)
def test_the_state_is_known_up_to_missing_records_and_unknown_after(
    files: Mapping[str, bytes], known: int, reason: str
) -> None:
    restored = restore(files)
    assert (restored.image.offset, restored.stop_reason) == (known, reason)
    assert restore(files, known).stop_reason == ""
    with pytest.raises(StateUnknown) as refused:
        restore(files, known + 1)
    assert (str(refused.value), refused.value.exact_until) == (reason, known)


def test_the_state_is_known_again_after_a_snapshot_behind_a_gap() -> None:
    files = GAP | {checkpoint(4): snapshot(level(METADATA, 6))}
    assert restore(files).image.features[METADATA] == 8
    assert restore(files, 4).image.features[METADATA] == 6
    with pytest.raises(StateUnknown):
        restore(files, 3)


@pytest.mark.parametrize(
    ("files", "at", "reason"),
    [
        ({segment(5): b""}, None, "the log begins at offset 5, and no whole snapshot is here to begin with"),
        (
            {segment(5): b"", checkpoint(5): snapshot()}, 3,
            "the log begins at offset 5, and the oldest snapshot is of offset 5: what was before is not known",
        ),
        ({checkpoint(5): snapshot()}, 6, "the log ends at offset 5"),
        ({FIRST: log([no_op()])}, 2, "the log ends at offset 1"),
        (
            {checkpoint(5): snapshot()[:-1]}, None,
            "no segment of the log is here, and no whole snapshot is here to begin with; "
            f"{checkpoint(5)}: the last batch is cut, at byte 83 of the snapshot",
        ),
    ],
    ids=["no snapshot", "before the snapshot", "behind a snapshot", "behind the log", "a cut snapshot"],
)  # fmt: skip
def test_an_offset_that_cannot_be_reached_is_refused_with_the_reason(
    files: Mapping[str, bytes], at: int | None, reason: str
) -> None:
    with pytest.raises(StateUnknown) as refused:
        restore(files, at)
    assert str(refused.value) == reason


@pytest.mark.parametrize("tail", [batch(1, no_op())[:-3], bytes(100_000), b"\x00"], ids=["cut", "zeros", "one byte"])
def test_an_incomplete_end_of_the_newest_segment_is_not_damage(tail: bytes) -> None:
    restored = restore({FIRST: log([level(METADATA, 7)]) + tail})
    assert (restored.image.offset, restored.stop_reason) == (1, "")


def test_a_record_that_is_not_understood_counts_as_unreadable() -> None:
    assert restore({FIRST: batch(0, bytes((1, 12, 99)) + b"?")}).image.unreadable == 1
