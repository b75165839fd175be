"""Following the log where real nodes cannot be made to do it on demand: a scripted quorum, with a clock of our own.

The quorum holds real batches; only its answers are scripted. Real nodes are followed in tests/e2e.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from kafkafeatures.core.levels import VersionRange
from kafkafeatures.core.survey import Host
from kafkafeatures.kafka.errors import (
    ErrorCode,
    KafkaError,
    NoLeader,
    NotAuthorized,
    Stale,
    Unreachable,
    UnsupportedApi,
)
from kafkafeatures.kafka.metadata_log import PATIENCE, MetadataLog
from kafkafeatures.kafka.settings import Address
from kafkafeatures.kafka.wire.messages import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderAndEpoch,
    OffsetAndEpoch,
    ReplicaState,
)
from kraftlog import Image
from tests.kraftlog.build import batch, level, no_op, snapshot

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass
class Controller:
    """One of the quorum. `log`: (last offset, bytes) in order; `fetched`: ms ago that each voter fetched."""

    id: int
    leader: int = 1
    epoch: int = 5
    log: list[tuple[int, bytes]] = field(default_factory=list)
    high_watermark: int = 0
    fetched: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 100, 3: 100})
    up: bool = True
    grows: bool = False  # a NoOp, committed, before every answer to Fetch
    code: int = 0
    quorum_code: int = 0
    diverging: OffsetAndEpoch | None = None
    snapshots: list[tuple[OffsetAndEpoch, bytes]] = field(default_factory=list)
    vanish: int = 0  # so many FetchSnapshot requests are answered with 98
    asked: list[Any] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.log[-1][0] + 1 if self.log else 0

    def append(self, *values: bytes, committed: bool = True) -> None:
        first = self.end
        self.log.append((first + len(values) - 1, batch(first, *values, epoch=self.epoch)))
        if committed:
            self.high_watermark = self.end

    def answer(self, message: Any) -> Any:
        self.asked.append(message)
        if isinstance(message, FetchRequest):
            return self._fetch(message)
        if isinstance(message, FetchSnapshotRequest):
            return self._snapshot(message)
        assert isinstance(message, DescribeQuorumRequest)
        voters = tuple(ReplicaState(i, None, 0, -1 if ago < 0 else 10_000 - ago) for i, ago in self.fetched.items())
        return DescribeQuorumResponse(
            self.quorum_code, None, 0, None, self.leader, self.epoch, self.high_watermark, voters, (), (), 2
        )

    def _fetch(self, message: FetchRequest) -> FetchResponse:
        here = LeaderAndEpoch(self.leader, self.epoch)
        nothing = FetchResponse(0, 0, self.high_watermark, 0, here, None, None, b"")
        if self.code:
            return dataclasses.replace(nothing, partition_error_code=self.code)
        if message.current_leader_epoch < self.epoch:
            return dataclasses.replace(nothing, partition_error_code=ErrorCode.FENCED_LEADER_EPOCH, nodes=HOSTS)
        if self.id != self.leader:
            return dataclasses.replace(nothing, partition_error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, nodes=HOSTS)
        if self.diverging is not None:
            found, self.diverging = self.diverging, None
            return dataclasses.replace(nothing, diverging=found)
        if self.snapshots and message.fetch_offset < self.snapshots[0][0].offset:
            return dataclasses.replace(nothing, snapshot_id=self.snapshots[0][0])
        if self.grows:
            self.append(no_op())
        found = b"".join(data for last, data in self.log if last >= message.fetch_offset)
        return FetchResponse(0, 0, self.high_watermark, 0, here, None, None, found)

    def _snapshot(self, message: FetchSnapshotRequest) -> FetchSnapshotResponse:
        if self.vanish:
            self.vanish -= 1
            self.snapshots = self.snapshots[1:]
            return FetchSnapshotResponse(0, ErrorCode.SNAPSHOT_NOT_FOUND, None, None, 0, 0, b"")
        id_, data = self.snapshots[0]
        part = data[message.position : message.position + message.max_bytes]
        return FetchSnapshotResponse(0, 0, None, id_, len(data), message.position, part)


HOSTS = tuple(Host(i, "h", i) for i in (1, 2, 3))


class Link:
    def __init__(self, controller: Controller, before: Callable[[], None]) -> None:
        self.controller, self.before = controller, before
        self.address = Address("h", controller.id)
        self.closed = False
        self.api_versions = SimpleNamespace(api_keys={55: VersionRange(0, 2)})

    async def request(self, message: Any, *, timeout: float) -> Any:
        self.before()
        if not self.controller.up:
            self.closed = True
            raise Unreachable("gone")
        return self.controller.answer(message)

    async def close(self) -> None:
        self.closed = True


class Quorum:
    """Three controllers, and a clock that moves a fifth of a second with every request."""

    def __init__(self) -> None:
        self.controllers = {i: Controller(i) for i in (1, 2, 3)}
        self.time = 0.0

    @property
    def leader(self) -> Controller:
        return self.controllers[1]

    def log(self, *, part: int = 1 << 20) -> MetadataLog:
        return MetadataLog(
            connect=self._connect,  # type: ignore[arg-type]
            controllers=[Address("h", i) for i in self.controllers],
            request_timeout=30.0,
            clock=lambda: self.time,
            now=lambda: NOW,
            sleep=self._sleep,
            part=part,
        )

    async def _connect(self, address: Address) -> Link:
        controller = self.controllers[address.port]
        if not controller.up:
            raise Unreachable(f"{address}: connection refused")
        return Link(controller, self._tick)

    async def _sleep(self, seconds: float) -> None:
        self.time += seconds

    def _tick(self) -> None:
        self.time += 0.2


def levels(image: Image) -> dict[str, int]:
    return dict(image.features)


@pytest.fixture
def quorum() -> Quorum:
    made = Quorum()
    made.leader.append(level("metadata.version", 20))
    made.leader.append(level("group.version", 1))
    return made


async def test_what_is_committed_is_read_with_where_and_when(quorum: Quorum) -> None:
    reading = await quorum.log().catch_up()
    assert levels(reading.image) == {"metadata.version": 20, "group.version": 1}
    assert (reading.image.offset, reading.high_watermark, reading.leader_id, reading.leader_epoch) == (2, 2, 1, 5)
    assert reading.at == NOW


async def test_a_tail_is_kept_aside_until_the_high_watermark_covers_it(quorum: Quorum) -> None:
    quorum.leader.append(level("metadata.version", 21), committed=False)
    log = quorum.log()
    assert (await log.catch_up()).image.features["metadata.version"] == 20
    quorum.leader.high_watermark = 3
    assert (await log.catch_up()).image.features["metadata.version"] == 21
    asked = [one.fetch_offset for one in quorum.leader.asked if isinstance(one, FetchRequest)]
    assert asked[-1] == 3  # it was not fetched twice


async def test_a_truncated_tail_is_forgotten(quorum: Quorum) -> None:
    quorum.leader.append(level("metadata.version", 21), committed=False)
    log = quorum.log()
    await log.catch_up()
    quorum.leader.log.pop()
    quorum.leader.diverging = OffsetAndEpoch(2, 5)
    quorum.leader.append(level("metadata.version", 22))
    assert (await log.catch_up()).image.features["metadata.version"] == 22


async def test_a_log_truncated_below_what_was_applied_is_read_anew(quorum: Quorum) -> None:
    """It contradicts Raft, so nothing of before is believed."""
    log = quorum.log()
    await log.catch_up()
    quorum.leader.log = []
    quorum.leader.append(level("metadata.version", 7))
    quorum.leader.diverging = OffsetAndEpoch(0, 0)
    assert levels((await log.catch_up()).image) == {"metadata.version": 7}


async def test_a_high_watermark_that_stands_still_without_a_majority_is_stale(quorum: Quorum) -> None:
    quorum.leader.fetched = {1: 0, 2: 2001, 3: 9000}
    with pytest.raises(Stale, match="no sign of a majority"):
        await quorum.log().catch_up()
    assert PATIENCE <= quorum.time < 5  # seconds until it is said


@pytest.mark.parametrize(
    ("fetched", "fresh"),
    [
        ({1: 0, 2: 1999, 3: 9000}, True),
        ({1: 0, 2: 2001, 3: 2001}, False),
        ({1: 0}, True),  # a voter that is alone is its own majority
        ({1: -1, 2: 0, 3: 0}, False),  # without the leader's own clock nobody can tell how old a fetch is
        ({1: 0, 2: -1, 3: -1}, False),
        ({1: 0, 2: 100, 3: 9000, 4: 9000}, False),
    ],
)
async def test_a_majority_is_one_that_fetched_within_two_seconds_of_the_leaders_clock(
    quorum: Quorum, fetched: dict[int, int], fresh: bool
) -> None:
    quorum.leader.fetched = fetched
    try:
        await quorum.log().catch_up()
    except Stale:
        assert not fresh
    else:
        assert fresh


async def test_a_moving_high_watermark_is_evidence_where_describe_quorum_is_denied(quorum: Quorum) -> None:
    quorum.leader.quorum_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    quorum.leader.grows = True
    assert (await quorum.log().catch_up()).image.offset > 2


async def test_an_old_leader_that_was_cut_off_does_not_hide_the_new_one(quorum: Quorum) -> None:
    old, new = quorum.controllers[1], quorum.controllers[2]
    old.fetched = {1: 0, 2: 60_000, 3: 60_000}
    for controller in (new, quorum.controllers[3]):
        controller.leader, controller.epoch, controller.log = 2, 6, list(old.log)
        controller.append(level("metadata.version", 21))
    reading = await quorum.log().catch_up()
    assert (reading.leader_id, reading.leader_epoch) == (2, 6)
    assert reading.image.features["metadata.version"] == 21


async def test_an_epoch_once_heard_of_is_not_gone_back_on_by_a_leader_alone(quorum: Quorum) -> None:
    new = quorum.controllers[2]
    for controller in (new, quorum.controllers[3]):
        controller.leader, controller.epoch, controller.log = 2, 6, list(quorum.leader.log)
        controller.append(level("metadata.version", 21))
    quorum.leader.up = False
    log = quorum.log()
    assert (await log.catch_up()).leader_epoch == 6
    quorum.leader.up, new.up = True, False
    quorum.controllers[3].up = False
    quorum.leader.fetched = {1: 0, 2: 60_000, 3: 60_000}
    with pytest.raises(KafkaError):
        await log.catch_up()


async def test_a_leader_that_moved_is_followed(quorum: Quorum) -> None:
    log = quorum.log()
    await log.catch_up()
    for controller in quorum.controllers.values():
        controller.leader, controller.epoch = 3, 7
        controller.log = list(quorum.leader.log)
    quorum.controllers[3].append(level("metadata.version", 25))
    reading = await log.catch_up()
    assert (reading.leader_id, reading.image.features["metadata.version"]) == (3, 25)


async def test_without_any_leader_that_is_said(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.leader = -1
    with pytest.raises(NoLeader, match="no active controller is known"):
        await quorum.log().catch_up()


async def test_a_snapshot_comes_in_parts_and_one_that_vanishes_is_replaced(quorum: Quorum) -> None:
    small = snapshot(level("metadata.version", 20), level("group.version", 1))
    quorum.leader.snapshots = [(OffsetAndEpoch(2, 5), small), (OffsetAndEpoch(3, 5), small)]
    quorum.leader.append(level("share.version", 1))
    quorum.leader.vanish = 1
    reading = await quorum.log(part=64).catch_up()
    assert levels(reading.image)["metadata.version"] == 20
    parts = [one for one in quorum.leader.asked if isinstance(one, FetchSnapshotRequest)]
    assert [one.snapshot_id.offset for one in parts[:2]] == [2, 3]
    assert [one.position for one in parts[1:]] == list(range(0, len(small), 64))


async def test_a_missing_right_is_told_at_once_with_the_line_that_grants_it(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(NotAuthorized, match="needs CLUSTER_ACTION") as caught:
        await quorum.log().catch_up()
    assert "--operation ClusterAction --cluster" in caught.value.remedy
    assert quorum.time < 5


async def test_a_broker_under_the_controllers_is_told(quorum: Quorum) -> None:
    for controller in quorum.controllers.values():
        controller.code = ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(UnsupportedApi, match="it is a broker"):
        await quorum.log().catch_up()


async def test_a_damaged_batch_is_not_applied_and_the_log_is_read_anew(quorum: Quorum) -> None:
    log = quorum.log()
    await log.catch_up()
    quorum.leader.append(level("metadata.version", 21))
    last, data = quorum.leader.log[-1]
    quorum.leader.log[-1] = (last, data[:-3] + b"\xff" + data[-2:])
    with pytest.raises(KafkaError, match="the log does not read"):
        await log.catch_up()
    quorum.leader.log[-1] = (last, data)
    assert (await log.catch_up()).image.features["metadata.version"] == 21


async def test_a_high_watermark_beyond_what_is_served_does_not_hang(quorum: Quorum) -> None:
    quorum.leader.high_watermark = 99
    with pytest.raises(Stale):
        await quorum.log().catch_up()


async def test_following_shows_each_image_and_says_when_the_majority_is_gone(quorum: Quorum) -> None:
    quorum.leader.grows = True
    seen = []

    async def follow() -> None:
        async for reading in quorum.log().follow():
            seen.append(reading.image.offset)
            if len(seen) == 5:
                quorum.leader.grows = False
                quorum.leader.fetched = {1: 0, 2: 5000, 3: 5000}

    with pytest.raises(Stale):
        await follow()
    assert seen == sorted(set(seen))
    assert len(seen) == 5


async def test_nobody_to_ask_is_told() -> None:
    log = MetadataLog(connect=None, controllers=(), request_timeout=1.0)  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="no address of a controller is known"):
        await log.catch_up()
