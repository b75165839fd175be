"""The followed image is exact: at every offset it equals the one replayed afterwards from a controller's own files.

All tests of this file use one cluster, in their order, and a follower reads its log all the time: brokers stop and
start, records remain uncommitted, controllers freeze, a leader is cut off, leaders change often, and snapshots replace
the log that is being read.

Controller 3003 keeps its whole log, and its files are what is compared. Only for the test of snapshots, 3001 and 3002
keep as little of their logs as Kafka allows: earlier, a controller that comes back with an epoch older than the oldest
snapshot of the leader would get that snapshot and lose its own log. The same code replays both sides, so they are also
compared with the snapshots that 3003 wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from kafkafeatures.core.facts.readings import LogReading
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import NoLeader, Stale
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from kafkafeatures.kafka.wire.connection import connect
from kafkafeatures.kafka.wire.unregister_codec import UnregisterBrokerRequest
from kraftlog.rolls import RollReader
from tests.amounts import SOAK
from tests.e2e.kafka.followed import (
    ORACLE,
    Follower,
    Snapshots,
    appended,
    at_the_end,
    everything_is_equal,
    first_refused,
    follower_of,
    new_leader,
    snapshots_of,
    soon,
    toggle,
    written,
)
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.releases import NEWEST

pytestmark = pytest.mark.asyncio(loop_scope="module")
LEADER_CHANGES = 100 if SOAK else 10

FAST_ELECTIONS = {
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "200",
}
FORGETFUL = {
    "metadata.max.retention.bytes": "1000"
}  # Kafka checks it once a minute (KafkaMetadataLog, KafkaRaftClient)
SHORT_SESSIONS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
SNAPSHOT_OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "1000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("followed")
    made = Cluster(
        root, NEWEST, controllers=3, brokers=1, release_version="4.0",
        properties={**FAST_ELECTIONS, **SNAPSHOT_OFTEN, **SHORT_SESSIONS},
    )  # fmt: skip
    with made as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def follower(cluster: Cluster) -> AsyncIterator[Follower]:
    following = Follower(cluster)
    task = asyncio.create_task(following.run())
    try:
        yield following
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await following.log.close()


# --- the tests, which depend on their order ---


async def test_a_followed_log_shows_a_broker_that_stops_and_starts(cluster: Cluster, follower: Follower) -> None:
    broker = cluster.brokers[0]

    def serves() -> bool:
        return broker.id in follower.newest.brokers and not follower.newest.brokers[broker.id].fenced

    await soon("the broker is in the image", lambda: follower.images and serves())
    first = follower.newest.brokers[broker.id]
    await asyncio.to_thread(broker.stop)
    await soon("the broker is fenced in the image", lambda: follower.newest.brokers[broker.id].fenced)
    await asyncio.to_thread(broker.start)
    await soon("the broker is unfenced again", serves)
    assert follower.newest.brokers[broker.id].incarnation != first.incarnation
    broker.kill()
    await soon("the broker is fenced after its session", lambda: follower.newest.brokers[broker.id].fenced)
    leader = await new_leader(cluster)
    async with await connect(
        Address("127.0.0.1", leader.port), Security(), timeout=10.0, client_id="t", environment=SYSTEM
    ) as link:
        assert (await link.request(UnregisterBrokerRequest(broker.id))).error_code == 0
    await soon("the broker is no longer in the image", lambda: broker.id not in follower.newest.brokers)
    await asyncio.to_thread(broker.start)
    await soon("the broker is in the image again", serves)
    await everything_is_equal(cluster, follower)


async def test_uncommitted_records_are_never_shown_and_a_stale_log_is_reported(
    cluster: Cluster, follower: Follower
) -> None:
    await soon("the log is followed", lambda: follower.images)
    leader = await new_leader(cluster)
    standbys = [node for node in cluster.controllers if node is not leader]
    for node in standbys:
        node.freeze()
    frozen = time.monotonic()
    uncommitted = await appended(leader, "group.version", 0)
    refused = await first_refused(follower, since=frozen)
    assert isinstance(refused.error, Stale | NoLeader)  # a leader that no majority fetches from resigns after a while
    assert follower.newest.offset < uncommitted.offset
    assert all(image.features["group.version"] == 1 for image in follower.images.values() if image.features)
    for node in standbys:
        node.thaw()
    await toggle(cluster, follower, "share.version")
    await everything_is_equal(cluster, follower)


async def test_a_stale_log_is_reported_when_no_controller_answers(cluster: Cluster, follower: Follower) -> None:
    for node in cluster.controllers:
        node.freeze()
    frozen = time.monotonic()
    await first_refused(follower, since=frozen)
    for node in cluster.controllers:
        node.thaw()
    await toggle(cluster, follower, "share.version")
    await everything_is_equal(cluster, follower)


async def test_the_tail_of_a_leader_that_was_cut_off_is_never_shown(cluster: Cluster, follower: Follower) -> None:
    leader = await new_leader(cluster)
    standbys = [node for node in cluster.controllers if node is not leader]
    for node in standbys:
        node.freeze()
    # The leader answers fetches that wait with its next record, a NoOp. After that, no record reaches frozen standbys.
    answered = at_the_end(leader).offset + 1
    await soon("the last fetches are answered", lambda: at_the_end(leader).offset > answered)
    before = follower.newest.features.get("streams.version", 0)
    await appended(leader, "streams.version", 1 - before)
    leader.freeze()
    for node in standbys:
        node.thaw()
    await new_leader(cluster, other_than=leader.id)
    await toggle(cluster, follower, "share.version")
    leader.thaw()
    await soon("the old leader has truncated", lambda: at_the_end(leader).features.get("streams.version", 0) == before)
    await toggle(cluster, follower, "share.version")
    assert all(image.features.get("streams.version", 0) == before for image in follower.images.values())
    await everything_is_equal(cluster, follower)


async def test_no_record_is_lost_or_added_by_several_leader_changes(cluster: Cluster, follower: Follower) -> None:
    epochs = {image.epoch for image in follower.images.values()}
    for _ in range(LEADER_CHANGES):
        leader = await new_leader(cluster)
        if leader.id == ORACLE:
            leader.kill()
            await new_leader(cluster, other_than=leader.id)
            await asyncio.to_thread(leader.start)
        else:
            leader.freeze()
            await new_leader(cluster, other_than=leader.id)
            leader.thaw()
    await toggle(cluster, follower, "share.version")
    assert follower.newest.epoch >= max(epochs) + LEADER_CHANGES
    await everything_is_equal(cluster, follower)


async def test_an_image_stays_equal_when_snapshots_replace_the_log_that_a_follower_reads(
    cluster: Cluster, follower: Follower
) -> None:
    forgetful = [node for node in cluster.controllers if node.id != ORACLE]
    for node in forgetful:
        await asyncio.to_thread(node.stop)
        node.extra = dict(FORGETFUL)
        await asyncio.to_thread(node.start)
    late_seen, paused_seen = Snapshots(), Snapshots()
    paused = follower_of(cluster, paused_seen)
    before = (await paused.catch_up()).image.offset
    await toggle(cluster, follower, "share.version")
    await soon("both forgot what came before", lambda: all(begins_after(node, before) for node in forgetful), 120)
    while (leader := await new_leader(cluster)).id == ORACLE:
        leader.freeze()
        await new_leader(cluster, other_than=leader.id)
        leader.thaw()

    # One reader begins now and reads small parts. The other one paused while the log that it had read was removed.
    late = follower_of(cluster, late_seen, part=300)
    before_it_went_on = paused_seen.requests
    for reader in (late, paused):
        follower.keep(await reader.catch_up())
        await reader.close()
    assert late_seen.requests > 1
    assert paused_seen.requests > before_it_went_on
    await toggle(cluster, follower, "share.version")
    await everything_is_equal(cluster, follower)
    assert len(snapshots_of(cluster.nodes[ORACLE]).keys() & follower.images.keys()) > 1
    await the_past_is_read_from_the_oldest_snapshot(cluster, leader)


async def the_past_is_read_from_the_oldest_snapshot(cluster: Cluster, leader: Node) -> None:
    """Not from the newest snapshot, which is the one that a leader offers to a reader without any records."""
    await soon("there are two snapshots", lambda: len(snapshot_ends(leader)) > 1)
    before = snapshot_ends(leader)
    reader, oracle = RollReader(since_ms=0), RollReader(since_ms=0)
    async with Client(
        ClusterSettings((), parse_addresses(cluster.bootstrap_controllers, "")), environment=SYSTEM
    ) as client:
        assert isinstance((await client.read()).log, LogReading)
        assert await client.read_history(reader) is None
    oracle.append(written(cluster.nodes[ORACLE]), below=reader.offset)
    read, whole = reader.finish(50), oracle.finish(50)
    assert read.known_from is not None
    assert read.known_from.offset in (min(before), min(snapshot_ends(leader)))  # it may have cut its log meanwhile
    assert (read.end.offset, read.unreadable) == (whole.end.offset, 0)
    later = [absence for absence in whole.absences if absence.first.offset >= read.known_from.offset]
    assert [absence for absence in read.absences if absence.first != read.known_from] == later


def snapshot_ends(node: Node) -> list[int]:
    return sorted(int(path.name[:20]) for path in node.metadata_dir.glob("*.checkpoint"))


def begins_after(node: Node, offset: int) -> bool:
    """True if the node has snapshots, and all of them are beyond the offset."""
    ends = snapshot_ends(node)
    return bool(ends) and min(ends) > offset
