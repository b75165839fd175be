"""Partitions of a simulated world: replicas in sync and leaders while brokers stop, crash, return and catch up."""

from __future__ import annotations

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Failure, PartitionsReading, Role
from kafkasim.brokers import SESSION_MS
from kafkasim.connection import Access
from kafkasim.plan import Timing, TopicPlan
from kafkasim.ports import SimulatedCluster
from kafkasim.world import World
from kraftlog import Replay, Section, SnapshotReader
from kraftlog.partitions import Partition
from tests.kafkasim.clusters import plan, settle, world

BROKER = Role.BROKER
ORDERS = TopicPlan("orders", ((1, 2, 3), (2, 3, 1), (3, 1, 2)), min_insync_replicas=2)
LONELY = TopicPlan("lonely", ((2,),))
TIMING = Timing(fenced=600, shutdown=800, load=600, recovery=4_000, catch_up=(1_000, 2_000))
"""Milliseconds, as the second argument of `settle` is."""


def with_topics(seed: int = 0, **changes: object) -> World:
    made = replace(plan(), topics=(ORDERS, LONELY), timing=TIMING, min_insync_replicas=1)
    return world(replace(made, **changes), seed)  # type: ignore[arg-type]


def states(made: World) -> dict[tuple[str, int], Partition]:
    return {(name, number): state for name, number, state in made.image.partitions.rows()}


def in_sync(made: World, topic: str = "orders") -> list[set[int]]:
    return [set(state.in_sync) for (name, _), state in sorted(states(made).items()) if name == topic]


def led(made: World) -> list[int]:
    return [state.leader for (name, _), state in sorted(states(made).items()) if name == "orders"]


def replayed(made: World) -> Replay:
    replay = Replay(sections=Section)
    replay.append(made.log.read(0, max_bytes=1 << 40), below=made.log.high_watermark)
    return replay


def test_topics_start_in_sync_and_with_their_preferred_leaders() -> None:
    made = with_topics()
    assert in_sync(made) == [{1, 2, 3}] * 3
    assert led(made) == [1, 2, 3]
    assert made.image.partitions.min_insync_replicas.topics == {"orders": 2}
    assert made.image.unreadable == 0


def test_the_image_of_a_world_without_topics_has_no_partitions() -> None:
    assert world().image.partitioned is None


def test_a_controlled_shutdown_leaves_every_isr_and_moves_leaders_before_the_process_ends() -> None:
    made = with_topics()
    made.stop(BROKER, 2)
    settle(made, 20)
    assert in_sync(made) == [{1, 3}] * 3
    assert led(made) == [1, 3, 3]
    assert made.nodes[BROKER, 2].running
    assert made.image.brokers[2].in_controlled_shutdown
    assert not made.image.brokers[2].fenced
    settle(made, TIMING.shutdown)
    assert not made.nodes[BROKER, 2].running
    assert made.image.brokers[2].fenced


def test_the_last_replica_in_sync_stays_in_the_isr_and_the_partition_has_no_leader() -> None:
    made = with_topics()
    made.stop(BROKER, 2)
    settle(made, 20)
    alone = states(made)["lonely", 0]
    assert (alone.in_sync, alone.leader) == (frozenset({2}), -1)


def test_a_killed_broker_stays_in_sync_until_its_session_ends() -> None:
    made = with_topics()
    made.stop(BROKER, 2, kill=True)
    settle(made, SESSION_MS - 100)
    assert in_sync(made) == [{1, 2, 3}] * 3
    settle(made, 200)
    assert in_sync(made) == [{1, 3}] * 3
    assert made.image.brokers[2].fenced


def test_a_started_broker_is_fenced_then_leads_leaderless_partitions_then_catches_up() -> None:
    made = with_topics()
    before = made.image.brokers[2]
    made.stop(BROKER, 2)
    settle(made, 1_000)
    made.start(BROKER, 2)
    settle(made, TIMING.load - 100)
    registered = made.image.brokers[2]
    assert registered.fenced
    assert registered.incarnation != before.incarnation
    assert registered.epoch > before.epoch
    settle(made, 200)
    assert not made.image.brokers[2].fenced
    assert states(made)["lonely", 0].leader == 2
    assert in_sync(made) == [{1, 3}] * 3
    settle(made, TIMING.catch_up[1])
    assert in_sync(made) == [{1, 2, 3}] * 3
    assert led(made) == [1, 3, 3]


def test_a_broker_after_an_unclean_stop_recovers_its_logs_before_it_is_unfenced() -> None:
    made = with_topics()
    made.stop(BROKER, 2, kill=True)
    settle(made, SESSION_MS + 100)
    made.start(BROKER, 2)
    settle(made, TIMING.load + TIMING.recovery - 100)
    assert made.image.brokers[2].fenced
    settle(made, 200)
    assert not made.image.brokers[2].fenced


def test_a_broker_killed_in_its_controlled_shutdown_ends_at_once() -> None:
    made = with_topics()
    made.stop(BROKER, 2)
    made.stop(BROKER, 2, kill=True)
    assert not made.nodes[BROKER, 2].running
    settle(made, SESSION_MS + 100)
    assert made.image.brokers[2].fenced
    assert made.nodes[BROKER, 2].unclean


def test_a_shutdown_without_an_active_controller_waits_and_then_ends_without_a_handover() -> None:
    made = with_topics()
    for voter in made.voters:
        made.stop(Role.CONTROLLER, voter)
    made.stop(BROKER, 2)
    settle(made, 60_000)
    assert made.nodes[BROKER, 2].running
    settle(made, 300_000)  # a broker waits for five minutes
    assert not made.nodes[BROKER, 2].running
    assert in_sync(made) == [{1, 2, 3}] * 3
    for voter in made.voters:
        made.start(Role.CONTROLLER, voter)
    assert in_sync(settle(made, 30_000)) == [{1, 3}] * 3


def test_a_replica_that_falls_behind_is_removed_from_the_isr_and_added_again() -> None:
    made = with_topics()
    made.fall_behind(2, for_ms=5_000)
    settle(made, 100)
    assert in_sync(made) == [{1, 3}, {1, 2, 3}, {1, 3}]
    settle(made, 5_000 + TIMING.catch_up[1])
    assert in_sync(made) == [{1, 2, 3}] * 3


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    made = with_topics()
    made.reassign("lonely", 0, (3, 1))
    settle(made, 100)
    moving = states(made)["lonely", 0]
    assert (moving.replicas, moving.adding, moving.removing) == ((3, 1, 2), frozenset({3, 1}), frozenset({2}))
    settle(made, TIMING.catch_up[1])
    moved = states(made)["lonely", 0]
    assert (moved.replicas, moved.in_sync, moved.leader) == ((3, 1), frozenset({3, 1}), 3)
    assert not moved.adding
    assert not moved.removing


def test_an_unregistered_broker_is_removed_from_all_isrs() -> None:
    made = with_topics()
    made.stop(BROKER, 2, kill=True)
    assert made.active_node is not None
    made.unregister_broker(made.active_node, 2)
    assert in_sync(settle(made)) == [{1, 3}] * 3


# The versions of the records of partitions change at 17 and 23.
@pytest.mark.parametrize("metadata_version", [16, 17, 21, 23, 29])
def test_log_and_snapshot_replay_to_the_image_of_the_nodes(metadata_version: int) -> None:
    levels = {"metadata.version": metadata_version}
    nodes = plan({1: "3.9", 2: "3.9", 3: "3.9"}, {3001: "3.9"}).nodes if metadata_version < 21 else plan().nodes
    made = with_topics(nodes=nodes, levels=levels)
    made.configure(2)
    made.configure(3, broker_id=1)
    made.reassign("orders", 0, (2, 1))
    made.stop(BROKER, 2)
    settle(made, 20_000)
    assert made.image.unreadable == 0
    assert replayed(made).image() == made.image
    made.take_snapshot()
    assert made.log.snapshot is not None
    at = made.log.snapshot.id
    snapshot = SnapshotReader(end_offset=at.offset, epoch=at.epoch, sections=Section)
    snapshot.feed(made.log.snapshot.data)
    image = snapshot.finish().image()
    assert image.unreadable == 0
    assert sorted(image.partitions.rows()) == sorted(made.image.partitions.rows())
    assert image.partitions.min_insync_replicas == made.image.partitions.min_insync_replicas


async def test_a_reading_has_partitions_only_if_they_were_asked_for() -> None:
    made = with_topics()
    client = SimulatedCluster(made)
    without, reading = await client.read(), await client.read(partitions=True)
    assert not isinstance(without.log, Failure)
    assert without.log.image.partitioned is None
    assert isinstance(without.partitions, Failure)
    assert isinstance(reading.partitions, PartitionsReading)
    assert reading.partitions.partitions == made.image.partitions
    assert reading.partitions.offset == made.image.offset
    assert reading.partitions.default_min_insync_replicas == 1


async def test_the_default_of_min_insync_replicas_is_the_highest_of_all_brokers() -> None:
    made = with_topics()
    made.configure(3, broker_id=1)
    made.configure(2)
    reading = (await SimulatedCluster(settle(made)).read(partitions=True)).partitions
    assert isinstance(reading, PartitionsReading)
    assert reading.default_min_insync_replicas == 3


async def test_partitions_are_read_by_api_requests_where_the_log_may_not_be_read() -> None:
    made = with_topics()
    reading = (await SimulatedCluster(made, Access(cluster_action=False)).read(partitions=True)).partitions
    assert isinstance(reading, PartitionsReading)
    assert sorted(reading.partitions.rows()) == sorted(made.image.partitions.rows())
    assert reading.partitions.min_insync_replicas == made.image.partitions.min_insync_replicas
    assert reading.offset == -1  # not known without the log


async def test_hidden_topics_and_an_unreachable_broker_make_partitions_unknown() -> None:
    made = with_topics()
    by_requests, by_log = SimulatedCluster(made, Access(cluster_action=False)), SimulatedCluster(made)
    made.hidden_topics = frozenset({"orders"})
    assert isinstance((await by_requests.read(partitions=True)).partitions, Failure)
    assert isinstance((await by_log.read(partitions=True)).partitions, PartitionsReading)
    made.hidden_topics = frozenset()
    made.stop(BROKER, 2, kill=True)
    assert isinstance((await by_requests.read(partitions=True)).partitions, Failure)
    # The other client read the file of broker 2 before it stopped, and uses it.
    assert isinstance((await by_log.read(partitions=True)).partitions, PartitionsReading)
    assert isinstance((await SimulatedCluster(made).read(partitions=True)).partitions, Failure)


def test_a_restarted_controller_follows_the_leader_before_it_has_caught_up() -> None:
    made = with_topics()
    standby = next(each for each in made.voters if each != made.active)
    made.stop(Role.CONTROLLER, standby)
    settle(made, 1_000)
    made.start(Role.CONTROLLER, standby)
    node = made.nodes[Role.CONTROLLER, standby]
    assert made.progress(node)[2] == -1
    settle(made, 1_000)
    assert made.progress(node) == (made.log.high_watermark, made.now_ms, made.now_ms)


def test_a_plan_with_a_topic_on_an_unknown_broker_is_refused() -> None:
    with pytest.raises(ValueError, match="topic t has a partition"):
        replace(plan(), topics=(TopicPlan("t", ((1, 9),)),))
