"""Replay of records to an image: the effect of each type of record, the time of the effect, and records refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest

from kraftlog import FormerLevels, Image, Replay
from kraftlog.batches import Record
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
    fence,
    level,
    log,
    no_op,
    snapshot,
    unfence,
    unregister,
)

ALL = 1 << 40
LEADER = {"leaderId": 3002, "voters": (), "grantingVoters": ()}
ENDPOINT = {"name": "CONTROLLER", "host": "c", "port": 9093}


def image_of(data: bytes, below: int = ALL) -> Image:
    replay = Replay()
    replay.append(data, below=below)
    return replay.image()


def test_the_image_of_an_empty_log_is_empty() -> None:
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
    ids=[
        "registered", "unfenced", "fenced", "unfenced by a change", "fenced by a change", "a change that keeps fenced",
        "a change of nothing", "unfenced and stopping", "stopping, and a change that keeps it",
        "registered third after stopping", "version 0 of the record", "version 4 of the record",
    ],
)  # fmt: skip
def test_the_last_registration_record_of_a_broker_wins(records: list[bytes], fenced: bool, shutdown: bool) -> None:
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
    ids=[
        "fenced with an older epoch", "unfenced, of an unknown broker", "changed with a later epoch",
        "unregistered with an older epoch", "unregistered, of an unknown broker", "an impossible code of fenced",
        "an impossible code of stopping",
    ],
)  # fmt: skip
def test_a_change_that_contradicts_the_registrations_of_brokers_counts_as_unreadable(record: bytes) -> None:
    earlier, later = image_of(log([broker(1, 5)])), image_of(log([broker(1, 5), record]))
    assert later.brokers == earlier.brokers
    assert later.unreadable == 1


def test_the_time_of_an_unregistration_is_kept_until_the_node_registers_again() -> None:
    remove = frame(table.UNREGISTER_CONTROLLER, {"controllerId": 3002})
    lost = [broker(1, 5), controller(3002)], [unregister(1, 5), remove]
    gone = image_of(log(*lost))
    assert gone.unregistered == dict.fromkeys((1, 3002), gone.timestamp_ms)
    assert image_of(log(*lost, [broker(1, 9), controller(3002)])).unregistered == {}


def test_the_time_of_the_last_registration_of_each_broker_is_known() -> None:
    """A BrokerRegistrationChange record, such as an unfencing, does not count as a registration."""
    first = image_of(log([broker(1, 5), broker(2, 6)]))
    assert first.registered == dict.fromkeys((1, 2), first.elapsed_ms)
    second = image_of(log([broker(1, 5), broker(2, 6)], [broker(1, 7), unfence(2, 6)]))
    assert second.registered == {1: second.elapsed_ms, 2: first.elapsed_ms}
    after_unregistration = image_of(
        log([broker(1, 5), broker(2, 6)], [broker(1, 7), unfence(2, 6)], [unregister(2, 6)])
    )
    assert set(after_unregistration.registered) == {1}

    # A snapshot has no times of registrations.
    replay = Replay()
    replay.load_snapshot(snapshot(broker(1, 5)), end_offset=50, epoch=1)
    assert replay.image().registered == replay.image().returned == {1: 0}


def test_the_time_of_the_last_return_is_known_for_brokers_and_controllers() -> None:
    """A registration and an unfencing count as a return; a fencing and a controlled shutdown do not."""
    begin = [broker(1, 5, fenced=True), broker(2, 6), controller(3001)]
    first = image_of(log(begin))
    assert first.returned == dict.fromkeys((1, 2, 3001), first.elapsed_ms)
    later = image_of(log(begin, [unfence(1, 5), change(2, 6, fenced=1)]))
    assert later.returned == {1: later.elapsed_ms, 2: first.elapsed_ms, 3001: first.elapsed_ms}
    third = image_of(log(begin, [change(2, 6, fenced=1)], [change(2, 6, fenced=-1), change(1, 5, fenced=0)]))
    assert third.returned == {1: first.elapsed_ms, 2: third.elapsed_ms, 3001: first.elapsed_ms}


SECOND, HOUR = 1000, 3_600_000


def timed(*batches: tuple[int, Iterable[bytes]]) -> bytes:
    """A log of batches; the number is the ms since the batch before, by the clock of the active controller."""
    out, offset, at_ms = b"", 0, NOW
    for later_ms, values in batches:
        at_ms += later_ms
        records = [Record(offset + place, at_ms, value) for place, value in enumerate(values)]
        out += encode_batch(records, leader_epoch=1)
        offset += len(records)
    return out


NO_OP, REGISTERED = [frame(table.NO_OP, {})], [broker(1, 5)]


@pytest.mark.parametrize(
    ("batches", "age"),
    [
        ([(0, REGISTERED), *[(500, NO_OP)] * 240], 120 * SECOND),
        ([(0, REGISTERED), (500, NO_OP), (HOUR, NO_OP), (500, NO_OP)], 61 * SECOND),
        ([(0, REGISTERED), (500, NO_OP), (-HOUR, NO_OP), (500, NO_OP)], 1 * SECOND),
        ([(0, REGISTERED), (500, NO_OP), (-HOUR, NO_OP), (HOUR, NO_OP)], 61 * SECOND - 500),
        ([(0, NO_OP), (HOUR, REGISTERED), (500, NO_OP)], 500),
        ([(0, REGISTERED), (500, [broker(2, 6)]), (HOUR, [broker(3, 7)])], 61 * SECOND - 500),
    ],
    ids=[
        "two minutes of batches every 500 ms", "set forward by an hour between two batches", "set back by an hour",
        "set back, and forward third", "set before the registration", "set between other registrations",
    ],
)  # fmt: skip
def test_a_clock_that_is_set_does_not_change_the_age_of_a_registration(
    batches: list[tuple[int, Iterable[bytes]]], age: int
) -> None:
    """Between two batches at most a minute counts, and nothing if the clock goes back."""
    data, one_by_one = timed(*batches), Replay()
    for below in range(len(batches) + 1):
        one_by_one.append(data, below=below)
    for image in (image_of(data), one_by_one.image()):
        assert (image.elapsed_ms - image.registered[1], image.elapsed_ms - image.returned[1]) == (age, age)


def test_the_time_of_an_image_counts_from_the_end_of_its_snapshot() -> None:
    replay = Replay()
    replay.load_snapshot(snapshot(broker(1, 5)), end_offset=50, epoch=1)
    replay.append(batch(50, *NO_OP), below=100)
    image = replay.image()
    assert image.elapsed_ms == image.timestamp_ms - (NOW - 5)  # the time in the header of `snapshot`
    assert image.registered == {1: 0}


def test_an_unregistered_node_stays_known_by_its_other_role() -> None:
    remove = frame(table.UNREGISTER_CONTROLLER, {"controllerId": 2})
    begin = [broker(1, 5), broker(2, 6), controller(2)]
    assert set(image_of(log(begin, [unregister(1, 5), unregister(2, 6)])).returned) == {2}
    assert set(image_of(log(begin, [remove])).returned) == {1, 2}
    assert set(image_of(log(begin, [unregister(2, 6), remove])).returned) == {1}


def test_an_unregistered_broker_or_controller_is_not_in_the_image() -> None:
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
    ids=[
        "two features", "set to 0", "0 from the start", "kraft.version, which has a field of its own",
        "kraft.version set to 0", "removed", "the layout of Kafka 3.0 to 3.2: the maximum is the level",
    ],
)  # fmt: skip
def test_the_last_record_of_a_feature_sets_its_level(
    records: list[bytes], features: dict[str, int], kraft: int | None
) -> None:
    image = image_of(log(records))
    assert (image.features, image.feature_record_kraft_version, image.kraft_version) == (features, kraft, 0)


def test_the_image_has_the_offset_of_the_last_level_change() -> None:
    data = log([no_op()], [level("a", 1), no_op()], [begin()], [level("a", 2)], [no_op()], [end()], [no_op()])
    assert [image_of(data, below=below).features_offset for below in (1, 3, 4, 5, 6, 7, 8)] == [0, 3, 3, 3, 3, 7, 7]
    replay = Replay()
    replay.load_snapshot(snapshot(level("a", 5)), end_offset=900, epoch=3)
    assert replay.image().features_offset == 900  # its end: a snapshot has no offsets of its records in the log


def test_the_image_has_former_levels_and_when_they_were_given_up() -> None:
    """Level 0 and a repeated level do not count. Levels before a snapshot are not known."""
    data = log([level("a", 1)], [level("a", 2)], [level("a", 2)], [level("a", 1)], [level("a", 0), level("b", 3)])
    former = image_of(data).former_levels
    assert (former.dropped, former.since_offset, former.since_ms) == ({("a", 1): NOW + 5, ("a", 2): NOW + 3}, 0, -1)
    replay = Replay()
    replay.load_snapshot(snapshot(level("a", 2)), end_offset=900, epoch=3)
    replay.append(log([level("a", 1)], start=900), below=ALL)
    former = replay.image().former_levels
    assert (set(former.dropped), former.since_offset) == ({("a", 2)}, 900)
    assert former.since_ms >= 0


def test_the_image_has_each_move_of_a_level_with_its_offset() -> None:
    data = log([level("a", 1)], [level("a", 1)], [level("a", 0), level("b", 3)], [no_op()], [level("a", 1)])
    data += control_batch(6, (table.KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}))
    image = image_of(data)
    moves = image.former_levels.moves
    assert dict(moves) == {"a": ((1, 1), (4, 0), (6, 1)), "b": ((4, 3),), "kraft.version": ((7, 1),)}
    assert image_of(data, below=6).former_levels.moves["a"][-1] == (6, 1)
    assert image_of(data, below=5).former_levels.moves["a"][-1] == (4, 0)
    often = image_of(log(*([level("a", 1 + n % 2)] for n in range(40)))).former_levels.moves["a"]
    assert [end for end, _ in often] == list(range(40 - MOST_MOVES + 1, 41))


def test_levels_of_a_snapshot_are_no_moves() -> None:
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


def test_records_of_a_metadata_transaction_take_effect_at_its_end() -> None:
    data = log([level("a", 1)], [begin()], [level("a", 2), broker(1, 5)], [end()], [no_op()])
    images = [image_of(data, below=below) for below in (2, 4, 5, 6)]
    assert [(i.features["a"], len(i.brokers), i.in_transaction) for i in images] == [
        (1, 0, True),
        (1, 0, True),
        (2, 1, False),
        (2, 1, False),
    ]


def test_an_aborted_transaction_changes_nothing_but_the_record_counts() -> None:
    image = image_of(log([level("a", 1), begin()], [level("a", 2), broker(1, 5)], [abort()], [level("b", 1)]))
    assert (image.features, dict(image.brokers), image.in_transaction) == ({"a": 1, "b": 1}, {}, False)
    assert image.counts == {12: 3, 23: 1, 0: 1, 25: 1}


def test_control_records_take_effect_inside_a_transaction_and_survive_its_abort() -> None:
    data = batch(0, begin(), level("a", 2)) + control_batch(2, (table.LEADER_CHANGE, LEADER), epoch=2)
    assert image_of(data).leader_id == 3002
    assert image_of(data).in_transaction
    image = image_of(data + batch(3, abort(), epoch=2))
    assert (image.leader_id, image.features, image.in_transaction) == (3002, {}, False)


@pytest.mark.parametrize(
    "records",
    [[end()], [abort()], [begin(), begin(), end()]],
    ids=["an End without Begin", "an Abort without Begin", "a Begin within a transaction"],
)
def test_an_unmatched_transaction_record_counts_as_unreadable(records: list[bytes]) -> None:
    image = image_of(log(records))
    assert (image.unreadable, image.in_transaction) == (1, False)


def test_the_quorum_is_read_from_control_records() -> None:
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
    ids=[
        "a type of another section", "an unknown type", "a later version of a registration", "a level that is cut",
        "another frame version", "empty", "a frame without key", "a frame without version",
        "a type of the section that does not follow its layout",
    ],
)  # fmt: skip
def test_only_records_that_could_change_the_image_count_as_unreadable(
    value: bytes, unreadable: int, counts: dict[int, int]
) -> None:
    image = image_of(log([value], [level("a", 1)]))
    assert (image.unreadable, image.features) == (unreadable, {"a": 1})
    assert image.counts == counts | {12: 1 + counts.get(12, 0)}


def test_a_record_without_a_value_counts_as_unreadable() -> None:
    data = encode_batch([Record(0, NOW, None)], leader_epoch=1)
    assert image_of(data).unreadable == 1


def test_a_data_record_with_a_key_is_read() -> None:
    data = encode_batch([Record(0, NOW, level("a", 1), b"key")], leader_epoch=1)
    assert image_of(data).features == {"a": 1}


def test_an_unknown_control_record_counts_as_unreadable() -> None:
    data = encode_batch([Record(0, NOW, b"\0\0x", b"\0\0\0\x63")], leader_epoch=1, control=True)
    assert image_of(data).unreadable == 1
