"""Batches and snapshots of a replay: which are read how, where one begins or ends, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import DamagedError, GapError, Replay, SnapshotIncomplete, SnapshotReader
from kraftlog import replay as replay_module
from kraftlog.batches import Codec, Record, head_at
from kraftlog.encoding import encode_batch
from kraftlog.records import frame
from kraftlog.schema import table
from tests.kraftlog.build import (
    NOW,
    abort,
    batch,
    begin,
    broker,
    change,
    control_batch,
    controller,
    end,
    level,
    log,
    no_op,
    snapshot,
    unregister,
)
from tests.kraftlog.test_replay import ALL, image_of


def test_a_gzip_batch_is_read_and_an_invalid_one_counts_as_unreadable() -> None:
    assert image_of(batch(0, level("a", 1), attributes=Codec.GZIP)).features == {"a": 1}
    plain = bytearray(batch(0, level("a", 1), attributes=Codec.GZIP))
    plain[61:] = b"no gzip at all, whatever it is"[: len(plain) - 61].ljust(len(plain) - 61)
    image = image_of(_with_good_crc(plain))
    assert (image.offset, image.unreadable) == (1, 1)


@pytest.mark.parametrize("cut", range(1, 20))
def test_truncated_records_within_a_valid_crc_count_as_unreadable(cut: int) -> None:
    data = bytearray(batch(0, no_op(), level("metadata.version", 21)))
    data = data[:-cut]
    data[8:12] = (len(data) - 12).to_bytes(4, "big")  # the length in the header
    image = image_of(_with_good_crc(data))
    assert (image.offset, image.unreadable, image.features) == (2, 1, {})


def _with_good_crc(data: bytearray) -> bytes:
    """The batch with the CRC that its bytes from the attributes on have now."""
    import google_crc32c

    data[17:21] = google_crc32c.value(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("more", [1, 2, 100])
def test_a_batch_that_claims_too_many_records_reads_none_of_the_next_batch(more: int) -> None:
    data = bytearray(batch(0, no_op(), level("a", 1)))
    data[57:61] = (2 + more).to_bytes(4, "big")  # the number of records in the header
    image = image_of(_with_good_crc(data) + batch(2, level("b", 1)))
    assert (image.features, image.counts, image.unreadable) == ({"a": 1, "b": 1}, {20: 1, 12: 2}, 1)


# Positions in the offset, length, magic, CRC, attributes, times, and records of a batch.
@pytest.mark.parametrize("at", [3, 8, 16, 17, 21, 40, 61, 70])
def test_a_batch_with_only_a_no_op_record_is_checked_like_any_batch(at: int) -> None:
    tick = batch(1, no_op(), epoch=4)
    replay = Replay()
    replay.append(batch(0, level("a", 1)), below=ALL)
    assert replay.append(tick, below=1) == 1
    assert replay.append(tick[:-1], below=ALL) == 1
    damaged = bytearray(tick)
    damaged[at] ^= 0x80
    with pytest.raises((DamagedError, GapError)):
        replay.append(damaged, below=ALL)
    assert replay.append(tick, below=ALL) == 2
    image = replay.image()
    assert (image.offset, image.epoch, image.timestamp_ms) == (2, 4, NOW + 1)
    assert (image.counts, image.unreadable, image.features_offset) == ({12: 1, 20: 1}, 0, 1)


def test_no_header_is_created_for_batches_of_an_idle_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 a minute and cluster: most of what a cluster at rest costs."""
    header_positions: list[int] = []

    def counted(view: memoryview, position: int) -> object:
        header_positions.append(position)
        return head_at(view, position)

    monkeypatch.setattr(replay_module, "head_at", counted)
    data = log([level("a", 1)], *[[no_op()]] * 120, [level("a", 2)])
    replay = Replay()
    replay.append(data, below=ALL)
    image = replay.image()
    assert (image.offset, image.features, image.counts) == (122, {"a": 2}, {12: 2, 20: 120})
    assert len(header_positions) == 2


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_a_replay_accepts_any_buffer_and_does_not_keep_it(view: type) -> None:
    data = view(log([level("a", 1)], [no_op()], [broker(1, 5), level("b", 2)]))
    whole = view(snapshot(level("a", 1), broker(1, 5)))
    replay, reader = Replay(), SnapshotReader(end_offset=9, epoch=1)
    replay.append(data, below=ALL)
    reader.feed(whole)
    assert replay.image().features == {"a": 1, "b": 2}
    assert reader.finish().image().features == {"a": 1}
    for buffer in (data, whole):
        if isinstance(buffer, bytearray):
            buffer.clear()  # a bytearray with a view of it cannot be resized
    assert replay.image().features == {"a": 1, "b": 2}


def test_append_reads_only_complete_batches_below_the_bound() -> None:
    data = log([level("a", 1)], [level("a", 2), no_op()], [level("a", 3)])
    replay = Replay()
    states = []
    for below in range(6):
        replay.append(data, below=below)
        states.append((replay.offset, replay.image().features.get("a")))
    assert states == [(0, None), (1, 1), (1, 1), (3, 2), (4, 3), (4, 3)]


@pytest.mark.parametrize("step", [1, 7, 61, 80, 1000])
def test_a_log_in_pieces_gives_the_image_of_the_whole(step: int) -> None:
    data = log([level("a", 1)], [begin(), broker(1, 5)], [end()], [level("a", 2), no_op()])
    replay = Replay()
    for stop in range(0, len(data) + step, step):
        replay.append(data[:stop], below=ALL)  # a cut batch is left for later, applied ones are skipped
    assert replay.image() == image_of(data)


def test_a_batch_across_the_end_of_the_snapshot_is_read_from_that_offset() -> None:
    replay = Replay()
    replay.load_snapshot(snapshot(level("a", 5)), end_offset=2, epoch=1)
    replay.append(batch(0, level("a", 1), level("a", 2), level("b", 3)), below=ALL)
    assert (replay.offset, replay.image().features) == (3, {"a": 5, "b": 3})


def test_a_gap_is_refused_after_the_batches_before_the_gap_are_applied() -> None:
    replay = Replay()
    with pytest.raises(GapError, match="offset 5, expected 1") as caught:
        replay.append(batch(0, level("a", 1)) + batch(5, no_op()), below=ALL)
    assert (caught.value.expected, caught.value.actual) == (1, 5)
    assert (replay.offset, replay.image().features) == (1, {"a": 1})


# Positions in the length, magic, CRC, attributes, times, and records of a batch.
@pytest.mark.parametrize("at", [8, 16, 17, 21, 40, 61, 70])
def test_a_damaged_batch_is_refused_after_the_batches_before_are_applied(at: int) -> None:
    first, second = batch(0, level("a", 1)), bytearray(batch(1, level("a", 2)))
    second[at] ^= 0x80
    replay = Replay()
    with pytest.raises(DamagedError) as caught:
        replay.append(first + bytes(second) + batch(2, level("a", 3)), below=ALL)
    assert caught.value.position == len(first)
    assert (replay.offset, replay.image().features) == (1, {"a": 1})


def test_an_image_does_not_change_when_the_log_continues() -> None:
    replay = Replay()
    replay.append(batch(0, level("a", 1), broker(1, 5), controller(3001)), below=ALL)
    earlier = replay.image()
    replay.append(batch(3, level("a", 0), unregister(1, 5), controller(3002)), below=ALL)
    assert (earlier.features, list(earlier.brokers), list(earlier.controllers)) == ({"a": 1}, [1], [3001])
    assert earlier.counts == {12: 1, 0: 1, 27: 1}
    with pytest.raises(TypeError):
        earlier.features["a"] = 2  # type: ignore[index] # what it refuses is what is tested


def test_a_snapshot_replaces_the_whole_state() -> None:
    replay = Replay()
    replay.append(batch(0, level("old", 1), begin()), below=ALL)
    replay.load_snapshot(snapshot(level("a", 5), broker(1, 5), epoch=3), end_offset=900, epoch=3)
    image = replay.image()
    assert (image.offset, image.epoch, image.timestamp_ms) == (900, 3, NOW - 5)
    assert (image.features, list(image.brokers), image.in_transaction) == ({"a": 5}, [1], False)
    assert image.counts == {12: 1, 0: 1}


WHOLE = snapshot(level("a", 5), broker(1, 5))


def test_a_snapshot_cut_at_any_byte_is_refused_and_the_state_stays() -> None:
    for end_of_file in range(len(WHOLE)):
        replay = Replay()
        replay.append(batch(0, level("old", 1)), below=ALL)
        earlier = replay.image()
        with pytest.raises(SnapshotIncomplete):
            replay.load_snapshot(WHOLE[:end_of_file], end_offset=900, epoch=3)
        assert replay.image() == earlier, end_of_file


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (batch(0, level("a", 5)) + control_batch(1, (table.SNAPSHOT_FOOTER, {})), "header"),
        (WHOLE + batch(4, no_op()), "behind the footer"),
        (WHOLE[: len(snapshot()) // 2 - 30] + WHOLE, "bytes?|byte"),
        (snapshot()[:83] + control_batch(2, (table.SNAPSHOT_FOOTER, {})), "offset 1 of the snapshot is missing"),
    ],
    ids=["no header", "a batch behind the footer", "a part of a batch before the header", "a gap before the footer"],
)
def test_an_incomplete_snapshot_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(SnapshotIncomplete, match=reason):
        Replay().load_snapshot(data, end_offset=900, epoch=3)


steps = st.one_of(
    st.sampled_from([level("a", 1), level("a", 2), level("b", 0), level("b", 1), no_op()]),
    st.sampled_from([broker(1, 5), broker(1, 6), broker(2, 7), change(1, 5, fenced=-1), unregister(1, 6)]),
    st.sampled_from([controller(3001), controller(3001, 2), begin(), end(), abort()]),
    st.sampled_from([bytes((1, 3, 1)) + bytes(100), frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": 2})]),
)


@settings(max_examples=200)
@given(st.lists(st.lists(steps, min_size=1, max_size=4), max_size=8), st.data())
def test_the_fast_loop_gives_the_image_of_records_read_one_by_one(groups: list[list[bytes]], data: Any) -> None:
    plain = log(*groups)
    packed, offset = b"", 0
    for values in groups:
        attributes = data.draw(st.sampled_from([0, int(Codec.GZIP)]))
        keyed = data.draw(st.booleans())
        packed += encode_batch(
            [Record(offset + at, NOW + offset + at, v, b"k" if keyed else None) for at, v in enumerate(values)],
            leader_epoch=1,
            attributes=attributes,
        )
        offset += len(values)
    assert image_of(packed) == image_of(plain)
    assert sum(image_of(plain).counts.values()) == sum(map(len, groups))
