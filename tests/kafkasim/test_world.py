"""Registrations, the quorum, the log and time in a world without a network."""

import pytest

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.api_names import API_NAMES
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkasim.brokers import SESSION_MS
from kafkasim.log import Position, Write, encode
from kafkasim.plan import NOOP_MS
from kafkasim.quorum import ELECTION_MS
from kafkasim.releases import RELEASES, release_named
from kafkasim.rules import FeatureUpdate
from kafkasim.world import RESTART_MS, NoActiveControllerError, World
from kraftlog import Replay
from kraftlog.batches import Batch, Record
from kraftlog.encoding import encode_batch
from kraftlog.records import frame
from kraftlog.schema import table
from kraftlog.walks import walk
from tests.kafkasim.clusters import batches, plan, settle, world

EVERYTHING = 1 << 40
BROKER, CONTROLLER = Role.BROKER, Role.CONTROLLER


def replayed(made: World, below: int | None = None) -> Replay:
    replay = Replay()
    replay.append(made.log.read(0, max_bytes=EVERYTHING), below=below or made.log.high_watermark)
    return replay


def a_busy_day(seed: int) -> World:
    """A world in which a level was raised, a broker upgraded, a ghost unregistered, and two nodes stopped."""
    made = world(plan(ghosts=((BROKER, 4, "4.2"),)), seed)
    active = made.active_node
    assert active is not None
    made.update_features(active, [FeatureUpdate("metadata.version", 25)], validate_only=False)
    settle(made)
    made.upgrade(BROKER, 2, release_named("4.3"))
    settle(made, 2000)
    made.unregister_broker(active, 4)
    made.stop(CONTROLLER, active.id)
    made.stop(BROKER, 1, kill=True)
    return settle(made, 20_000)


def test_the_same_plan_seed_and_calls_give_the_same_bytes() -> None:
    first, second, other = a_busy_day(1), a_busy_day(1), a_busy_day(2)
    assert first.log.read(0, max_bytes=EVERYTHING) == second.log.read(0, max_bytes=EVERYTHING)
    assert first.log.read(0, max_bytes=EVERYTHING) != other.log.read(0, max_bytes=EVERYTHING)


def test_the_log_has_complete_batches_without_damage() -> None:
    assert all(isinstance(each, Batch) for each in walk(a_busy_day(0).log.read(0, max_bytes=EVERYTHING)))


def test_the_image_of_the_nodes_is_the_replay_of_the_log() -> None:
    made = a_busy_day(0)
    assert replayed(made).image() == made.image
    assert made.image.unreadable == 0
    assert made.image.epoch == 2


def test_an_idle_leader_writes_and_commits_a_no_op_every_half_second() -> None:
    made = world()
    end = made.log.end_offset
    made.advance(made.now_ms + NOOP_MS)
    assert (made.log.end_offset, made.log.high_watermark) == (end + 1, end)
    settle(made, 10)
    assert made.log.high_watermark == end + 1
    settle(made, 10 * NOOP_MS)
    assert made.log.end_offset == end + 11


def test_the_no_op_of_an_idle_leader_has_the_bytes_of_the_encoder() -> None:
    record = Record(70, 1_800_000_000_123, frame(table.NO_OP, {}))
    written = encode([Write(table.NO_OP, {})], base_offset=70, epoch=3, timestamp_ms=1_800_000_000_123)
    assert written == encode_batch([record], leader_epoch=3)


def test_ghosts_are_registered_but_do_not_run_and_a_ghost_controller_is_no_voter() -> None:
    made = world(plan(ghosts=((BROKER, 4, "4.1"), (CONTROLLER, 3004, "4.0"))))
    assert made.image.brokers[4].fenced
    assert made.image.brokers[4].features["metadata.version"] == (7, 27)
    assert 3004 in made.image.controllers
    assert 3004 not in made.voters
    assert not made.nodes[BROKER, 4].running
    assert not made.nodes[CONTROLLER, 3004].running


def test_a_broker_that_does_not_support_a_finalized_level_is_refused_until_it_is_upgraded() -> None:
    made = world(plan({1: "4.2", 2: "4.0"}, metadata_version=29))
    assert made.nodes[BROKER, 2].refused
    assert 2 not in settle(made, 10_000).image.brokers
    made.upgrade(BROKER, 2, release_named("4.2"))
    assert not settle(made, RESTART_MS + 100).image.brokers[2].fenced


def test_a_stopped_broker_is_fenced_at_once_and_a_killed_broker_when_its_session_ends() -> None:
    made = world()
    made.stop(BROKER, 1)
    made.stop(BROKER, 2, kill=True)
    settle(made)
    assert made.image.brokers[1].fenced
    assert not made.image.brokers[2].fenced
    assert settle(made, SESSION_MS).image.brokers[2].fenced


def test_a_broker_restarted_before_its_session_ends_registers_after_the_session() -> None:
    made = world()
    dead = made.image.brokers[2].incarnation
    made.stop(BROKER, 2, kill=True)
    settle(made)
    made.start(BROKER, 2)
    assert settle(made, SESSION_MS // 2).image.brokers[2].incarnation == dead
    assert not made.nodes[BROKER, 2].listening
    back = settle(made, SESSION_MS).image.brokers[2]
    assert (back.incarnation != dead, back.fenced) == (True, False)
    assert made.nodes[BROKER, 2].listening


def test_an_upgraded_broker_registers_again_with_its_new_ranges() -> None:
    made = world(plan({1: "4.0", 2: "4.2"}))
    before = made.image.brokers[1]
    made.upgrade(BROKER, 1, release_named("4.2"))
    settle(made, RESTART_MS + 100)
    after = made.image.brokers[1]
    assert (before.features["metadata.version"], after.features["metadata.version"]) == ((7, 25), (7, 29))
    assert after.epoch > before.epoch
    assert after.incarnation != before.incarnation


def test_a_new_controller_leads_in_a_new_epoch_after_the_active_one_stopped() -> None:
    made = world()
    gone = made.active
    assert gone is not None
    made.stop(CONTROLLER, gone)
    assert made.active is None
    settle(made, ELECTION_MS + 100)
    assert made.active not in (None, gone)
    assert (made.epoch, made.image.epoch, made.image.leader_id) == (2, 2, made.active)


def test_no_node_leads_and_no_record_is_written_without_a_majority() -> None:
    made = world()
    for voter in made.voters[:2]:
        made.stop(CONTROLLER, voter)
    end = made.log.end_offset
    settle(made, 60_000)
    assert (made.active, made.log.end_offset) == (None, end)
    outcome = made.update_features(made.nodes[CONTROLLER, 3003], [], validate_only=True)
    assert (outcome.verdict.error_code, outcome.verdict.error_message) == (
        ErrorCode.NOT_CONTROLLER, "No controller appears to be active.",
    )  # fmt: skip
    with pytest.raises(NoActiveControllerError):
        made.update_features(made.nodes[BROKER, 1], [], validate_only=True)
    made.start(CONTROLLER, 3001)
    assert settle(made, ELECTION_MS + 100).active is not None


def test_a_running_broker_that_is_unregistered_registers_again() -> None:
    made = world()
    assert made.active_node is not None
    made.unregister_broker(made.active_node, 1)
    assert 1 not in settle(made).image.brokers
    assert 1 in settle(made, 3000).image.brokers


def test_a_running_controller_that_is_unregistered_registers_again_and_a_ghost_does_not() -> None:
    ghosts = ((CONTROLLER, 3009, "4.4"),)
    made = world(plan({1: "4.4"}, {3001: "4.4", 3002: "4.4"}, ghosts=ghosts, metadata_version=33, leader=3001))
    assert made.active_node is not None
    for gone in (3002, 3009):
        made.unregister_controller(made.active_node, gone)
    assert set(settle(made, 10).image.controllers) == {3001}
    assert set(settle(made, NOOP_MS).image.controllers) == {3001, 3002}


def test_the_features_epoch_of_a_controller_grows_with_features_and_of_a_broker_with_records() -> None:
    made = world()
    controller, broker = made.nodes[CONTROLLER, 3001], made.nodes[BROKER, 1]
    before = made.finalized(controller)[1], made.finalized(broker)[1]
    settle(made, 10 * NOOP_MS)
    assert made.finalized(controller)[1] == before[0] == 3  # the offset of the End of the bootstrap records
    assert made.finalized(broker)[1] > before[1]


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_snapshot_equals_the_replay_of_the_log(kraft_version: int) -> None:
    made = world(plan(metadata_version=29, kraft_version=kraft_version, group_version=1))
    settle(made, 3 * NOOP_MS)
    made.take_snapshot()
    snapshot = made.log.snapshot
    assert snapshot is not None
    replay = Replay()
    replay.load_snapshot(snapshot.data, end_offset=snapshot.id.offset, epoch=snapshot.id.epoch)
    left, right = replay.image(), made.image
    for name in ("offset", "epoch", "brokers", "controllers", "features", "kraft_version", "voters"):
        assert getattr(left, name) == getattr(right, name), name


def test_a_log_gives_the_offset_at_which_a_reader_diverged() -> None:
    made = a_busy_day(0)
    log = made.log
    epoch_2 = next(b.base_offset for b in batches(log.read(0, max_bytes=EVERYTHING)) if b.leader_epoch == 2)
    assert log.diverging(epoch_2, 1) is None
    assert log.diverging(epoch_2 + 3, 1) == Position(epoch_2, 1)
    assert log.diverging(log.end_offset + 1, 2) == Position(log.end_offset, 2)
    assert log.diverging(0, 0) is None
    assert (log.epoch_before(0), log.epoch_before(epoch_2), log.epoch_before(epoch_2 + 1)) == (0, 1, 2)


def test_a_read_gives_at_least_one_complete_batch() -> None:
    log = world().log
    first = log.read(2, max_bytes=1)  # offset 2 is in the batch that begins at 1
    assert [each.base_offset for each in batches(first)] == [1]
    assert [each.base_offset for each in batches(log.read(4, max_bytes=EVERYTHING, below=6))] == [4, 5]


@pytest.mark.parametrize(
    ("release", "metadata"),
    [("3.9", (1, 21)), ("4.0", (7, 25)), ("4.1", (7, 27)), ("4.2", (7, 29)), ("4.3", (7, 30)), ("4.4", (7, 33))],
)
def test_simulated_releases_have_the_ranges_of_real_releases(release: str, metadata: tuple[int, int]) -> None:
    found = RELEASES[release].features["metadata.version"]
    assert (found.min, found.max) == metadata
    assert release_named(f"{release}.1") is RELEASES[release]


def test_every_api_of_a_release_has_a_name() -> None:
    assert not {
        key for each in RELEASES.values() for key in (*each.broker_apis, *each.controller_apis) if key not in API_NAMES
    }


def test_a_level_that_a_planned_ghost_does_not_support_and_an_unknown_release_are_refused() -> None:
    with pytest.raises(ValueError, match=r"metadata\.version 29 cannot be finalized with broker 9 of Kafka 4\.0"):
        plan(metadata_version=29, ghosts=((BROKER, 9, "4.0"),))
    with pytest.raises(ValueError, match="expected one of"):
        release_named("2.8")


def test_a_broker_with_two_pending_attempts_registers_once() -> None:
    made = world(plan({1: "4.2", 2: "4.0"}, metadata_version=29))
    made.upgrade(BROKER, 2, release_named("4.2"))  # the refused process had a next attempt pending
    first = settle(made, RESTART_MS + 100).image.brokers[2]
    assert settle(made, 20_000).image.brokers[2] == first
