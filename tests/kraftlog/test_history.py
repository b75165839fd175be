"""The history in a log: the records that are changes, the time when each took effect, and the state before it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from uuid import UUID

import pytest

from kraftlog import Batch, Image, Replay, walk
from kraftlog.encoding import seal
from kraftlog.history import (
    AbortedTransaction,
    Change,
    Event,
    FencingChange,
    HistoryReader,
    LeaderElection,
    LevelChange,
    MigrationChange,
    NotUnderstood,
    Registration,
    Unregistration,
    VotersChange,
)
from kraftlog.records import Decoded, encode, frame
from kraftlog.restored import image_at
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
from tests.kraftlog.golden import SEGMENTS, batches_of, name

METADATA = "metadata.version"


def read(data: bytes, reader: HistoryReader | None = None) -> list[Event]:
    reader = reader or HistoryReader(begins_at=0)
    return [event for found in walk(data) if isinstance(found, Batch) for event in reader.take(found)]


def changes(data: bytes, reader: HistoryReader | None = None) -> list[Change]:
    return [event.change for event in read(data, reader)]


def image_of(*values: bytes) -> Image:
    """The image of a snapshot with these records."""
    replay = Replay()
    replay.load_snapshot(snapshot(*values), end_offset=9, epoch=1)
    return replay.image()


def voters(*ids: int) -> dict[str, object]:
    ranges = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
    each = {"voterDirectoryId": UUID(int=1), "endpoints": (), "kRaftVersionFeature": ranges}
    return {"voters": tuple({"voterId": id_, **each} for id_ in ids)}


@pytest.mark.parametrize("path", SEGMENTS, ids=name)
def test_the_changes_of_a_real_log_lead_to_every_state_of_its_images(path: Path) -> None:
    reader, levels, migration = HistoryReader(begins_at=0), dict[str, int](), 0
    nodes: dict[tuple[str, int], bool | None] = {}
    data = path.read_bytes()
    for complete in batches_of(path):
        events = list(reader.take(complete))
        for event in events:
            match event.change:
                case LevelChange(feature=feature, level=after, previous=before, takes_effect=True):
                    assert levels.get(feature, 0) == before
                    levels[feature] = after
                case MigrationChange(state=state, previous=before):
                    assert migration == before
                    migration = state
                case Registration(role=role, node_id=id_, fenced=fenced):
                    nodes[role, id_] = fenced
                case FencingChange(node_id=id_, fenced=bool(fenced)):
                    nodes["broker", id_] = fenced
                case Unregistration(role=role, node_id=id_):
                    del nodes[role, id_]
                case _:
                    pass
        if events:
            image = image_at([path.name], lambda _: nullcontext(memoryview(data)), at=complete.last_offset + 1).image
            assert image.unreadable == 0
            kraft = {"kraft.version": image.kraft_version} if image.kraft_version else {}
            assert {one: at for one, at in levels.items() if at} == dict(image.features) | kraft
            assert migration == (image.zk_migration_state or 0)
            brokers = {("broker", one.id): one.fenced for one in image.brokers.values()}
            assert nodes == brokers | {("controller", id_): None for id_ in image.controllers}


def test_levels_are_read_in_both_layouts_and_a_repeated_level_is_no_change() -> None:
    data = {"name": METADATA, "minFeatureLevel": 1, "maxFeatureLevel": 5}
    old = encode(Decoded(table.FEATURE_LEVEL, 0, data, "3.0-3.2"))
    removed = frame(table.REMOVE_FEATURE_LEVEL, {"name": METADATA})
    assert changes(log([old], [level(METADATA, 5)], [level(METADATA, 7)], [removed])) == [
        LevelChange(METADATA, 5, 0, layout="3.0-3.2"),
        LevelChange(METADATA, 7, 5),
        LevelChange(METADATA, 0, 7),
    ]


def test_the_quorum_follows_its_own_records_and_a_level_record_of_kraft_version_has_no_effect() -> None:
    first = control_batch(0, (table.KRAFT_VERSION, {"kRaftVersion": 1}), (table.KRAFT_VOTERS, voters(2, 1)))
    later = control_batch(3, (table.KRAFT_VOTERS, voters(1, 2)), (table.KRAFT_VOTERS, voters(1, 2, 3)))
    assert changes(first + log([level("kraft.version", 1)], start=2) + later) == [
        LevelChange("kraft.version", 1, 0),
        VotersChange((1, 2), ()),
        LevelChange("kraft.version", 1, 1, takes_effect=False),
        VotersChange((1, 2, 3), (1, 2)),
    ]


def test_a_transaction_takes_effect_at_its_end_or_never_and_control_records_at_once() -> None:
    data = (
        log([begin(), level(METADATA, 7)])
        + control_batch(2, (table.KRAFT_VERSION, {"kRaftVersion": 1}))
        + log(
            [level("a", 1), end()], [begin(), level("a", 2), abort()], [level("a", 3), begin(), level("a", 4)], start=3
        )
    )
    reader = HistoryReader(begins_at=0)
    found = [(one.offset, one.effective_offset, one.effective_ms - NOW, one.change) for one in read(data, reader)]
    # Offset of the record, offset and time (ms after NOW) at which it took effect, and the change.
    assert found == [
        (2, 2, 2, LevelChange("kraft.version", 1, 0)),
        (1, 4, 4, LevelChange(METADATA, 7, 0)),
        (3, 4, 4, LevelChange("a", 1, 0)),
        (7, 7, 7, AbortedTransaction(5, 1)),
        (8, 8, 8, LevelChange("a", 3, 1)),
    ]
    assert reader.open_transaction == 9


def test_registrations_fencing_and_unregistrations_of_nodes_are_events() -> None:
    ranges = {METADATA: (7, 29)}
    data = log(
        [broker(1, 10, fenced=True), controller(3)],
        [change(1, 10, fenced=-1), change(1, 10, inControlledShutdown=1), change(1, 10, fenced=1)],
        [frame(table.UNFENCE_BROKER, {"id": 1, "epoch": 10}), frame(table.FENCE_BROKER, {"id": 1, "epoch": 10})],
        [frame(table.UNREGISTER_BROKER, {"brokerId": 1, "brokerEpoch": 10})],
        [frame(table.UNREGISTER_CONTROLLER, {"controllerId": 3})],
    )
    assert changes(data) == [
        Registration("broker", 1, UUID(int=10), 10, True, ranges),
        Registration("controller", 3, UUID(int=1), -1, None, ranges),
        FencingChange(1, False),
        FencingChange(1, None, stopping=True),
        FencingChange(1, True),
        FencingChange(1, False),
        FencingChange(1, True),
        Unregistration("broker", 1),
        Unregistration("controller", 3),
    ]


def test_a_state_of_the_migration_that_kafka_3_4_may_have_written_is_marked() -> None:
    """Kafka 3.4, whose highest level is 8, wrote states 1 and 2 with each other's meaning."""

    def state(code: int) -> bytes:
        return frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": code})

    data = log([level(METADATA, 8), state(1), state(3)], [level(METADATA, 9), state(2), state(2)])
    assert [one for one in changes(data) if isinstance(one, MigrationChange)] == [
        MigrationChange(1, 0, by_3_4=True),
        MigrationChange(3, 1, by_3_4=False),
        MigrationChange(2, 3, by_3_4=False),
    ]


def test_the_record_of_a_leader_change_gives_the_voters_of_a_static_quorum() -> None:
    data = {"leaderId": 2, "voters": tuple({"voterId": one} for one in (2, 1)), "grantingVoters": ()}
    assert changes(control_batch(0, (table.LEADER_CHANGE, data), epoch=7)) == [LeaderElection(2, 7, (1, 2))]


def test_the_previous_level_is_unknown_without_the_begin_of_the_log_until_a_snapshot_has_it() -> None:
    reader = HistoryReader(begins_at=5)
    assert changes(log([level(METADATA, 7)], start=5), reader) == [LevelChange(METADATA, 7, None)]
    reader.pass_snapshot(image_of(level(METADATA, 7), level("a", 1)))
    assert changes(log([level("a", 2), level("b", 1)], start=6), reader) == [
        LevelChange("a", 2, 1),
        LevelChange("b", 1, 0),
    ]
    reader.miss()  # a gap
    (event,) = read(log([level("a", 3)], start=9), reader)
    assert (event.change, event.after_gap) == (LevelChange("a", 3, None), True)
    reader.pass_snapshot(image_of(level("a", 3)))
    (event,) = read(log([level("a", 4)], start=10), reader)
    assert (event.change, event.after_gap) == (LevelChange("a", 4, 3), False)


def test_a_snapshot_does_not_change_a_known_level() -> None:
    reader = HistoryReader(begins_at=0)
    assert len(changes(log([level("a", 1)]), reader)) == 1
    reader.pass_snapshot(image_of(level("a", 9)))
    assert changes(log([level("a", 2)], start=1), reader) == [LevelChange("a", 2, 1)]


def test_a_record_that_is_not_understood_is_an_event_of_its_own() -> None:
    cut = frame(table.FEATURE_LEVEL, {"name": "a", "featureLevel": 1})[:-2]
    future = bytes((1, 12, 99)) + b"?"
    unknown = bytes((1, 77, 0)) + b"?"
    found = changes(batch(0, cut, no_op(), future, unknown, level("a", 1)))
    assert [type(one) for one in found] == [NotUnderstood, NotUnderstood, NotUnderstood, LevelChange]
    assert [one.subject for one in found if isinstance(one, NotUnderstood)] == [
        "FEATURE_LEVEL_RECORD", "FEATURE_LEVEL_RECORD", "record 77",
    ]  # fmt: skip


UNREAD = bytes((1, 77, 0)) + b"?"


@pytest.mark.parametrize(
    "between",
    [
        log([UNREAD], start=1),
        log([begin(), UNREAD, end()], start=1),
        log([begin(), level("a", 1), UNREAD, end()], start=1),  # which takes effect after the level
        seal(
            b"?",
            base_offset=1,
            leader_epoch=1,
            attributes=0,
            last_offset_delta=0,
            base_timestamp=NOW,
            max_timestamp=NOW,
            count=1,
        ),
    ],
    ids=["record", "transaction", "transaction-after-a-level", "batch"],
)
def test_no_value_is_known_after_a_record_that_is_not_understood_until_a_snapshot_has_it(between: bytes) -> None:
    reader = HistoryReader(begins_at=0)
    changes(log([level("a", 1), level("b", 1)]), reader)
    changes(between, reader)
    assert (reader.is_complete, reader.levels) == (False, None)
    again = read(log([level("a", 1), level("b", 2)], start=9), reader)
    assert [event.change for event in again] == [LevelChange("a", 1, None), LevelChange("b", 2, None)]
    assert not any(event.after_gap for event in again)
    reader.pass_snapshot(image_of(level("a", 1), level("b", 2)))
    assert changes(log([level("b", 3)], start=11), reader) == [LevelChange("b", 3, 2)]
