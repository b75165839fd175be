"""A follower of a real quorum, held against the log that a controller has on disk."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import MAJORITY_WITHIN_MS, LogReading
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import KafkaError
from kafkafeatures.kafka.base.settings import Address, Security, parse_addresses
from kafkafeatures.kafka.log.follower import MetadataLog
from kafkafeatures.kafka.log.source import PART
from kafkafeatures.kafka.wire.connection import Connection, connect
from kraftlog import Image, Quorum, Replay
from tests.e2e.kafka.wire import send
from tests.e2e.rig.cluster import Cluster, Node
from tests.e2e.rig.process import wait_until

ORACLE = 3003
FETCH_SNAPSHOT = 59
POLL = 0.05
REQUEST_TIMEOUT = 2.0

SAID_WITHIN = 5.0
"""Seconds that a look takes at most until it says that there is no majority, or no answer."""

SEEN_FOR = MAJORITY_WITHIN_MS / 1000
"""Seconds that a leader has a majority after the others stopped fetching from it."""


class Snapshots:
    """A recorder that counts FetchSnapshot requests."""

    def __init__(self) -> None:
        self.requests = 0

    def sent(self, address: Address, frame: bytes) -> None:
        self.requests += int.from_bytes(frame[4:6], "big") == FETCH_SNAPSHOT

    def received(self, address: Address, frame: bytes) -> None:
        """Not of interest."""


class Refused(NamedTuple):
    """A look that gave no reading: when it began and ended (monotonic), and what it said."""

    began: float
    ended: float
    error: KafkaError


class Follower:
    """Keeps the image of every offset it was shown, when the last one was shown, and every look that was refused."""

    def __init__(self, cluster: Cluster) -> None:
        self.recorder = Snapshots()
        self.images: dict[int, Image] = {}
        self.shown_at = 0.0
        self.refused: list[Refused] = []
        self.log = follower_of(cluster, self.recorder)

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self.keep(await self.log.catch_up())
                self.shown_at = time.monotonic()
                await asyncio.sleep(POLL)
            except KafkaError as error:
                self.refused.append(Refused(began, time.monotonic(), error))

    def first_refused(self, *, since: float) -> Refused | None:
        """The first look that was refused among those that began after this moment."""
        return next((one for one in self.refused if one.began > since), None)

    def keep(self, reading: LogReading) -> None:
        image = reading.image
        assert image.offset <= reading.high_watermark
        assert meaning(self.images.setdefault(image.offset, image)) == meaning(image)

    @property
    def newest(self) -> Image:
        return self.images[max(self.images)]


def meaning(image: Image) -> Image:
    """Without what an image that began with a snapshot cannot know."""
    return replace(image, quorum=Quorum(image.voters, None), counts={})


def follower_of(cluster: Cluster, recorder: Snapshots, *, part: int = PART) -> MetadataLog:
    async def to(address: Address) -> Connection:
        return await connect(
            address, Security(), timeout=REQUEST_TIMEOUT, client_id="follower", recorder=recorder, environment=SYSTEM
        )

    controllers = parse_addresses(cluster.bootstrap_controllers, "")
    return MetadataLog(
        connect=to, controllers=controllers, request_timeout=REQUEST_TIMEOUT, part=part, environment=SYSTEM
    )


# --- what happens to the cluster ---


async def soon(what: str, holds: Callable[[], object], seconds: float = 60.0) -> None:
    """`wait_until`, while the follower continues."""
    await asyncio.to_thread(wait_until, what, holds, seconds)


async def new_leader(cluster: Cluster, other_than: int | None = None) -> Node:
    id_ = await asyncio.to_thread(cluster.leader, other_than=other_than)
    return cluster.nodes[id_]


async def first_refused(follower: Follower, *, since: float) -> Refused:
    """What the first look says that began without a majority; in time, and no reading is shown any more."""
    await soon("a look is refused", lambda: follower.first_refused(since=since))
    found = follower.first_refused(since=since)
    assert found is not None
    assert found.ended - found.began < SAID_WITHIN
    assert follower.shown_at - since < SEEN_FOR + POLL + 1
    return found


async def toggle(cluster: Cluster, follower: Follower, feature: str) -> int:
    """Move the feature between 0 and 1, and wait until the follower has seen it."""
    level = 1 - follower.newest.features.get(feature, 0)

    async def done() -> bool:
        with contextlib.suppress(KafkaError):
            response = await send(await new_leader(cluster), feature, level, timeout=3.0)
            return response.error_code == 0
        return False

    loop = asyncio.get_running_loop()
    await soon(f"{feature} {level} is taken", lambda: asyncio.run_coroutine_threadsafe(done(), loop).result())
    await soon(f"{feature} {level} is followed", lambda: follower.newest.features.get(feature, 0) == level)
    return level


async def appended(leader: Node, feature: str, level: int) -> Image:
    """All that the leader has, once this change is a part of it. No answer comes while no other node confirms the
    record.
    """

    def has_it() -> bool:
        return at_the_end(leader).features.get(feature, 0) == level

    sending = asyncio.create_task(send(leader, feature, level))
    await soon(f"the leader has written {feature} {level}", lambda: has_it() or sending.done())
    assert has_it(), sending
    sending.cancel()
    await asyncio.wait([sending])
    return at_the_end(leader)


def written(node: Node) -> bytes:
    """All there is in the segments of a node, committed or not."""
    return b"".join(path.read_bytes() for path in sorted(node.metadata_dir.glob("*.log")))


def replayed(node: Node, offsets: Iterable[int]) -> dict[int, Image]:
    """The images at these offsets, from the node's segments alone."""
    data, replay, found = written(node), Replay(), {}
    for offset in sorted(offsets):
        replay.append(data, below=offset)
        found[offset] = replay.image()
    return found


def snapshots_of(node: Node) -> dict[int, Image]:
    """What Kafka itself made of its log, by the offset at which it did. Of a node that deletes none of them."""
    found = {}
    for path in node.metadata_dir.glob("*.checkpoint"):
        offset, epoch = (int(part) for part in path.stem.split("-"))
        if offset:
            replay = Replay()
            replay.load_snapshot(path.read_bytes(), end_offset=offset, epoch=epoch)
            found[offset] = replay.image()
    return found


def at_the_end(node: Node) -> Image:
    replay = Replay()
    replay.append(written(node), below=2**62)
    return replay.image()


def dated_as(snapshot: Image, image: Image) -> Image:
    """A leader may date its snapshot too late.

    `KafkaRaftClient.appendBatch` gives the buffer of a batch back before the batch is committed, and asks it for the
    batch's time afterwards, when a later batch, or one of a snapshot, may have been built there.
    """
    assert snapshot.timestamp_ms >= image.timestamp_ms
    return replace(snapshot, timestamp_ms=image.timestamp_ms)


async def everything_is_equal(cluster: Cluster, follower: Follower) -> None:
    """Every image so far against the files of the oracle, once it holds all of it."""
    oracle, newest = cluster.nodes[ORACLE], max(follower.images)
    await soon("the oracle has it all", lambda: at_the_end(oracle).offset >= newest)
    snapshots = snapshots_of(oracle)
    for offset, image in replayed(oracle, {*follower.images, *snapshots}).items():
        assert image.offset == offset
        assert image.unreadable == 0
        for other in (follower.images.get(offset), snapshots.get(offset)):
            assert other is None or meaning(dated_as(other, image)) == meaning(image)
