"""From records to an image: what takes effect when, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog import DamagedError, FormerLevels, GapError, Image, Replay, SnapshotIncomplete, SnapshotReader
from kraftlog import replay as replay_module
from kraftlog.batches import Codec, Record, head_at
from kraftlog.encoding import encode_batch
from kraftlog.image import MOST_MOVES
from kraftlog.records import Decoded, encode, frame
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
)

ALL = 1 << 40
LEADER = {"leaderId": 3002, "voters": (), "grantingVoters": ()}
ENDPOINT = {"name": "CONTROLLER", "host": "c", "port": 9093}


def image_of(data: bytes, below: int = ALL) -> Image:
    replay = Replay()
    replay.append(data, below=below)
    return replay.image()


def fence(number: int, epoch: int) -> bytes:
    return frame(table.FENCE_BROKER, {"id": number, "epoch": epoch})


def unfence(number: int, epoch: int) -> bytes:
    return frame(table.UNFENCE_BROKER, {"id": number, "epoch": epoch})


def unregister(number: int, epoch: int) -> bytes:
    return frame(table.UNREGISTER_BROKER, {"brokerId": number, "brokerEpoch": epoch})


def test_an_empty_log_says_nothing() -> None:
    image = image_of(b"")
    assert (image.offset, image.epoch, image.timestamp_ms, image.leader_id) == (0, -1, -1, None)
    assert (dict(image.brokers), dict(image.features), image.voters, image.unreadable) == ({}, {}, None, 0)


@pytest.mark.parametrize(
    ("records", "fenced", "shutdown"),
    [
        ([broker(1, 5)], True, False),
        ([broker(1, 5), unfence(1, 5)], False, False),
        ([broker(1, 5, fenced=False), fence(1, 5)], True, False),
        ([broker(1, 5), change(1, 5, fenced=-1)], False, False),
        ([broker(1, 5, fenced=False), change(1, 5, fenced=1)], True, False),
        ([broker(1, 5), change(1, 5, fenced=0)], True, False),
        ([broker(1, 5), change(1, 5)], True, False),
        ([broker(1, 5), change(1, 5, fenced=-1, inControlledShutdown=1)], False, True),
        ([broker(1, 5), change(1, 5, inControlledShutdown=1), change(1, 5, inControlledShutdown=0)], True, True),
        ([broker(1, 4), change(1, 4, inControlledShutdown=1), broker(1, 5)], True, False),
        ([broker(1, 5, version=0)], True, False),
        ([broker(1, 5, version=4, cordonedLogDirs=None, inControlledShutdown=True)], True, True),
    ],
)
def test_the_last_word_on_a_broker_counts(records: list[bytes], fenced: bool, shutdown: bool) -> None:
    image = image_of(log(records))
    found = image.brokers[1]
    assert (found.epoch, found.incarnation) == (5, uuid.UUID(int=5))
    assert (found.fenced, found.in_controlled_shutdown, image.unreadable) == (fenced, shutdown, 0)
    assert found.features == {"metadata.version": (7, 29)}


@pytest.mark.parametrize(
    "record",
    [
        fence(1, 4),
        unfence(2, 5),
        change(1, 6, fenced=-1),
        unregister(1, 4),
        unregister(9, 1),
        change(1, 5, fenced=7),
        change(1, 5, inControlledShutdown=-1),
    ],
)
def test_a_change_to_a_broker_that_is_not_registered_so_changes_nothing_and_is_counted(record: bytes) -> None:
    before, after = image_of(log([broker(1, 5)])), image_of(log([broker(1, 5), record]))
    assert after.brokers == before.brokers
    assert after.unreadable == 1


def test_when_a_node_was_unregistered_is_known_until_it_comes_again() -> None:
    remove = frame(table.UNREGISTER_CONTROLLER, {"controllerId": 3002})
    lost = [broker(1, 5), controller(3002)], [unregister(1, 5), remove]
    gone = image_of(log(*lost))
    assert gone.unregistered == dict.fromkeys((1, 3002), gone.timestamp_ms)
    assert image_of(log(*lost, [broker(1, 9), controller(3002)])).unregistered == {}


def test_brokers_and_controllers_go_when_they_are_unregistered() -> None:
    remove = frame(table.UNREGISTER_CONTROLLER, {"controllerId": 3001})
    image = image_of(log([broker(1, 5), controller(3001), controller(3002)], [unregister(1, 5), remove, remove]))
    assert (list(image.brokers), list(image.controllers), image.unreadable) == ([], [3002], 0)
    assert image.controllers[3002].endpoints[0].security_protocol == 3


@pytest.mark.parametrize(
    ("records", "features", "kraft"),
    [
        ([level("a", 1), level("b", 2)], {"a": 1, "b": 2}, None),
        ([level("a", 1), level("a", 0)], {}, None),
        ([level("a", 0)], {}, None),
        ([level("kraft.version", 1)], {}, 1),
        ([level("kraft.version", 1), level("kraft.version", 0)], {}, None),
        ([level("a", 1), frame(table.REMOVE_FEATURE_LEVEL, {"name": "a"})], {}, None),
        ([encode(Decoded(table.FEATURE_LEVEL, 0, {"name": "a", "minFeatureLevel": 1, "maxFeatureLevel": 3},
                         "3.0-3.2"))], {"a": 3}, None),
    ],
)  # fmt: skip
def test_levels_are_what_the_last_record_says(
    records: list[bytes], features: dict[str, int], kraft: int | None
) -> None:
    image = image_of(log(records))
    assert (image.features, image.feature_record_kraft_version, image.kraft_version) == (features, kraft, 0)


def test_the_image_says_up_to_where_levels_were_moved() -> None:
    data = log([no_op()], [level("a", 1), no_op()], [begin()], [level("a", 2)], [no_op()], [end()], [no_op()])
    assert [image_of(data, below=below).features_offset for below in (1, 3, 4, 5, 6, 7, 8)] == [0, 3, 3, 3, 3, 7, 7]
    replay = Replay()
    replay.load_snapshot(snapshot(level("a", 5)), end_offset=900, epoch=3)
    assert replay.image().features_offset == 900  # which of its records came when, a snapshot does not say


def test_the_image_says_which_levels_were_given_up_and_when() -> None:
    """Not level 0, nor one that was only confirmed; what was before a snapshot is not known."""
    data = log([level("a", 1)], [level("a", 2)], [level("a", 2)], [level("a", 1)], [level("a", 0), level("b", 3)])
    former = image_of(data).former_levels
    assert (former.left, former.since_offset, former.since_ms) == ({("a", 1): NOW + 5, ("a", 2): NOW + 3}, 0, -1)
    replay = Replay()
    replay.load_snapshot(snapshot(level("a", 2)), end_offset=900, epoch=3)
    replay.append(log([level("a", 1)], start=900), below=ALL)
    former = replay.image().former_levels
    assert (set(former.left), former.since_offset) == ({("a", 2)}, 900)
    assert former.since_ms >= 0


def test_the_image_says_where_each_level_was_moved_and_to_which_level() -> None:
    data = log([level("a", 1)], [level("a", 1)], [level("a", 0), level("b", 3)], [no_op()], [level("a", 1)])
    data += control_batch(6, (table.KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}))
    image = image_of(data)
    moves = image.former_levels.moves
    assert dict(moves) == {"a": ((1, 1), (4, 0), (6, 1)), "b": ((4, 3),), "kraft.version": ((7, 1),)}
    assert image_of(data, below=6).former_levels.moves["a"][-1] == (6, 1)
    assert image_of(data, below=5).former_levels.moves["a"][-1] == (4, 0)
    often = image_of(log(*([level("a", 1 + n % 2)] for n in range(40)))).former_levels.moves["a"]
    assert [end for end, _ in often] == list(range(40 - MOST_MOVES + 1, 41))


def test_what_a_snapshot_holds_was_not_moved_there() -> None:
    replay = Replay()
    replay.load_snapshot(snapshot(level("a", 5)), end_offset=900, epoch=3)
    assert dict(replay.image().former_levels.moves) == {}
    replay.append(log([level("a", 5)], [level("a", 4)], start=900), below=ALL)
    assert dict(replay.image().former_levels.moves) == {"a": ((902, 4),)}


def test_former_levels_are_joined_where_two_readings_leave_no_gap() -> None:
    earlier = FormerLevels({("a", 2): 50, ("a", 3): 60}, 100, 40, {"a": ((120, 3), (250, 2)), "b": ((130, 1),)})
    later = FormerLevels({("a", 2): 90}, 200, 70, {"a": ((250, 2), (260, 3))})
    moves = {"a": ((120, 3), (250, 2), (260, 3)), "b": ((130, 1),)}
    assert later.with_earlier(earlier, 255) == FormerLevels({("a", 2): 90, ("a", 3): 60}, 100, 40, moves)
    assert later.with_earlier(earlier, 200).since_offset == 100
    assert later.with_earlier(earlier, 199) == later
    assert earlier.with_earlier(later, 300) == earlier


def test_records_of_a_transaction_take_effect_at_its_end() -> None:
    data = log([level("a", 1)], [begin()], [level("a", 2), broker(1, 5)], [end()], [no_op()])
    images = [image_of(data, below=below) for below in (2, 4, 5, 6)]
    assert [(i.features["a"], len(i.brokers), i.in_transaction) for i in images] == [
        (1, 0, True),
        (1, 0, True),
        (2, 1, False),
        (2, 1, False),
    ]


def test_an_aborted_transaction_never_was_but_its_records_are_counted() -> None:
    image = image_of(log([level("a", 1), begin()], [level("a", 2), broker(1, 5)], [abort()], [level("b", 1)]))
    assert (image.features, dict(image.brokers), image.in_transaction) == ({"a": 1, "b": 1}, {}, False)
    assert image.counts == {12: 3, 23: 1, 0: 1, 25: 1}


def test_control_records_take_effect_inside_a_transaction_and_survive_its_abort() -> None:
    data = batch(0, begin(), level("a", 2)) + control_batch(2, (table.LEADER_CHANGE, LEADER), epoch=2)
    assert image_of(data).leader_id == 3002
    assert image_of(data).in_transaction
    image = image_of(data + batch(3, abort(), epoch=2))
    assert (image.leader_id, image.features, image.in_transaction) == (3002, {}, False)


@pytest.mark.parametrize("records", [[end()], [abort()], [begin(), begin(), end()]])
def test_a_transaction_that_does_not_fit_is_counted(records: list[bytes]) -> None:
    image = image_of(log(records))
    assert (image.unreadable, image.in_transaction) == (1, False)


def test_the_quorum_is_what_control_records_say() -> None:
    voter = {
        "voterId": 3001,
        "voterDirectoryId": uuid.UUID(int=7),
        "endpoints": (ENDPOINT,),
        "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
    }
    version = (table.KRAFT_VERSION, {"kRaftVersion": 1})
    image = image_of(control_batch(0, version, (table.KRAFT_VOTERS, {"voters": (voter,)})))
    assert image.kraft_version == 1
    assert image.voters is not None
    assert (image.voters[0].directory_id, image.voters[0].endpoints[0].security_protocol) == (uuid.UUID(int=7), -1)
    assert image.counts == {}


@pytest.mark.parametrize(
    ("value", "unreadable", "counts"),
    [
        (bytes((1, 3, 9)) + b"anything", 0, {3: 1}),
        (b"\1\xc8\1\0anything", 0, {200: 1}),
        (bytes((1, 0, 9)) + b"a broker of a later release", 1, {0: 1}),
        (bytes((1, 12, 0)) + b"\xff", 1, {12: 1}),
        (bytes((0, 12, 0)), 1, {}),
        (b"", 1, {}),
        (b"\1", 1, {}),
        (b"\1\3", 1, {3: 1}),
        (bytes((1, 29, 0)) + b"\x17" + bytes(22) + b"\0", 1, {29: 1}),
    ],
)
def test_only_what_could_have_changed_the_image_counts_against_it(
    value: bytes, unreadable: int, counts: dict[int, int]
) -> None:
    image = image_of(log([value], [level("a", 1)]))
    assert (image.unreadable, image.features) == (unreadable, {"a": 1})
    assert image.counts == counts | {12: 1 + counts.get(12, 0)}


def test_a_record_without_a_value_counts_against_the_image() -> None:
    data = encode_batch([Record(0, NOW, None)], leader_epoch=1)
    assert image_of(data).unreadable == 1


def test_a_data_record_with_key_and_headers_is_read_too() -> None:
    data = encode_batch([Record(0, NOW, level("a", 1), b"key")], leader_epoch=1)
    assert image_of(data).features == {"a": 1}


def test_an_unknown_control_record_counts_against_the_image() -> None:
    data = encode_batch([Record(0, NOW, b"\0\0x", b"\0\0\0\x63")], leader_epoch=1, control=True)
    assert image_of(data).unreadable == 1


def test_a_gzip_batch_is_read_and_another_codec_counts_against_the_image() -> None:
    assert image_of(batch(0, level("a", 1), attributes=Codec.GZIP)).features == {"a": 1}
    plain = bytearray(batch(0, level("a", 1), attributes=Codec.GZIP))
    plain[61:] = b"no gzip at all, whatever it is"[: len(plain) - 61].ljust(len(plain) - 61)
    image = image_of(_with_good_crc(plain))
    assert (image.offset, image.unreadable) == (1, 1)


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_batch_whose_records_are_cut_within_a_good_crc_counts_against_the_image(cut: int) -> None:
    data = bytearray(batch(0, no_op(), level("metadata.version", 21)))
    data = data[:-cut]
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    image = image_of(_with_good_crc(data))
    assert (image.offset, image.unreadable, image.features) == (2, 1, {})


def _with_good_crc(data: bytearray) -> bytes:
    import google_crc32c

    data[17:21] = google_crc32c.value(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("more", [1, 2, 100])
def test_a_batch_that_claims_more_records_than_it_holds_takes_none_of_the_next_one(more: int) -> None:
    data = bytearray(batch(0, no_op(), level("a", 1)))
    data[57:61] = (2 + more).to_bytes(4, "big")
    image = image_of(_with_good_crc(data) + batch(2, level("b", 1)))
    assert (image.features, image.counts, image.unreadable) == ({"a": 1, "b": 1}, {20: 1, 12: 2}, 1)


@pytest.mark.parametrize("at", [3, 8, 16, 17, 21, 40, 61, 70])
def test_a_batch_of_nothing_but_a_tick_is_judged_as_any_other(at: int) -> None:
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


def test_of_the_batches_of_an_idle_controller_no_header_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 a minute and cluster: most of what a cluster at rest costs."""
    made: list[int] = []

    def counted(view: memoryview, position: int) -> object:
        made.append(position)
        return head_at(view, position)

    monkeypatch.setattr(replay_module, "head_at", counted)
    data = log([level("a", 1)], *[[no_op()]] * 120, [level("a", 2)])
    replay = Replay()
    replay.append(data, below=ALL)
    image = replay.image()
    assert (image.offset, image.features, image.counts) == (122, {"a": 2}, {12: 2, 20: 120})
    assert len(made) == 2


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_any_buffer_is_replayed_and_not_held(view: type) -> None:
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


def test_append_takes_whole_batches_below_the_bound_only() -> None:
    data = log([level("a", 1)], [level("a", 2), no_op()], [level("a", 3)])
    replay = Replay()
    seen = []
    for below in range(6):
        replay.append(data, below=below)
        seen.append((replay.offset, replay.image().features.get("a")))
    assert seen == [(0, None), (1, 1), (1, 1), (3, 2), (4, 3), (4, 3)]


@pytest.mark.parametrize("step", [1, 7, 61, 80, 1000])
def test_a_log_in_pieces_gives_the_image_of_the_whole(step: int) -> None:
    data = log([level("a", 1)], [begin(), broker(1, 5)], [end()], [level("a", 2), no_op()])
    replay = Replay()
    for stop in range(0, len(data) + step, step):
        replay.append(data[:stop], below=ALL)  # a cut batch is left, what is in is ignored
    assert replay.image() == image_of(data)


def test_a_batch_that_ends_behind_the_snapshot_is_taken_from_its_end_on() -> None:
    replay = Replay()
    replay.load_snapshot(snapshot(level("a", 5)), end_offset=2, epoch=1)
    replay.append(batch(0, level("a", 1), level("a", 2), level("b", 3)), below=ALL)
    assert (replay.offset, replay.image().features) == (3, {"a": 5, "b": 3})


def test_a_gap_is_refused_and_what_came_before_is_in() -> None:
    replay = Replay()
    with pytest.raises(GapError, match="offset 5, expected 1") as caught:
        replay.append(batch(0, level("a", 1)) + batch(5, no_op()), below=ALL)
    assert (caught.value.expected, caught.value.found) == (1, 5)
    assert (replay.offset, replay.image().features) == (1, {"a": 1})


@pytest.mark.parametrize("at", [8, 16, 17, 21, 40, 61, 70])
def test_a_damaged_batch_is_refused_and_what_came_before_is_in(at: int) -> None:
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
    before = replay.image()
    replay.append(batch(3, level("a", 0), unregister(1, 5), controller(3002)), below=ALL)
    assert (before.features, list(before.brokers), list(before.controllers)) == ({"a": 1}, [1], [3001])
    assert before.counts == {12: 1, 0: 1, 27: 1}
    with pytest.raises(TypeError):
        before.features["a"] = 2  # type: ignore[index] # what it refuses is what is tested


def test_a_snapshot_replaces_everything() -> None:
    replay = Replay()
    replay.append(batch(0, level("old", 1), begin()), below=ALL)
    replay.load_snapshot(snapshot(level("a", 5), broker(1, 5), epoch=3), end_offset=900, epoch=3)
    image = replay.image()
    assert (image.offset, image.epoch, image.timestamp_ms) == (900, 3, NOW - 5)
    assert (image.features, list(image.brokers), image.in_transaction) == ({"a": 5}, [1], False)
    assert image.counts == {12: 1, 0: 1}


WHOLE = snapshot(level("a", 5), broker(1, 5))


@pytest.mark.parametrize("end_of_file", range(len(WHOLE)))
def test_a_snapshot_cut_at_any_byte_is_refused_and_the_state_stays(end_of_file: int) -> None:
    replay = Replay()
    replay.append(batch(0, level("old", 1)), below=ALL)
    before = replay.image()
    with pytest.raises(SnapshotIncomplete):
        replay.load_snapshot(WHOLE[:end_of_file], end_offset=900, epoch=3)
    assert replay.image() == before


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (batch(0, level("a", 5)) + control_batch(1, (table.SNAPSHOT_FOOTER, {})), "header"),
        (WHOLE + batch(4, no_op()), "behind the footer"),
        (WHOLE[: len(snapshot()) // 2 - 30] + WHOLE, "bytes?|byte"),
        (snapshot()[:83] + control_batch(2, (table.SNAPSHOT_FOOTER, {})), "offset 1 of the snapshot is missing"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(SnapshotIncomplete, match=why):
        Replay().load_snapshot(data, end_offset=900, epoch=3)


steps = st.one_of(
    st.sampled_from([level("a", 1), level("a", 2), level("b", 0), level("b", 1), no_op()]),
    st.sampled_from([broker(1, 5), broker(1, 6), broker(2, 7), change(1, 5, fenced=-1), unregister(1, 6)]),
    st.sampled_from([controller(3001), controller(3001, 2), begin(), end(), abort()]),
    st.sampled_from([bytes((1, 3, 1)) + bytes(100), frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": 2})]),
)


@settings(max_examples=200)
@given(st.lists(st.lists(steps, min_size=1, max_size=4), max_size=8), st.data())
def test_the_fast_loop_agrees_with_records_read_one_by_one(groups: list[list[bytes]], data: Any) -> None:
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
