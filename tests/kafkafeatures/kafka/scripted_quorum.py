"""A scripted quorum with a clock of its own, for following the log where real nodes cannot be made to do it on demand.

It holds real batches and judges a reader's position as Kafka's leader does; only its answers are scripted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Host
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import Disconnected, ErrorCode, KafkaError, Unreachable
from kafkafeatures.kafka.base.memory_budget import Share
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.log.follower import MetadataLog
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
from tests.kraftlog.build import batch, no_op

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def levels(image: Image) -> dict[str, int]:
    """The levels that are finalized in an image."""
    return dict(image.features)


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
    cuts: int = 0  # so many connections end before the answer
    refuses: KafkaError | None = None  # why there is no connection
    grows: bool = False  # a NoOp, committed, before every answer to Fetch
    code: int = 0
    quorum_code: int = 0
    diverging: OffsetAndEpoch | None = None
    snapshots: list[tuple[OffsetAndEpoch, bytes]] = field(default_factory=list)
    vanish: int = 0  # so many FetchSnapshot requests beyond the first part are answered with 98
    per_reply: int = 1000  # batches
    quorum_epoch: int | None = None  # what DescribeQuorum says, where it is another
    spoil: Callable[[FetchSnapshotResponse], FetchSnapshotResponse] | None = None  # what becomes of the next part
    out_of_range: bool = False  # the next Fetch beyond the start is refused
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
        epoch = self.epoch if self.quorum_epoch is None else self.quorum_epoch
        return DescribeQuorumResponse(
            self.quorum_code, None, 0, None, self.leader, epoch, self.high_watermark, voters, (), (), 2
        )

    def _contradicts(self, offset: int, epoch: int) -> OffsetAndEpoch | None:
        """What a leader answers to the reader's position where they differ: the end of the newest epoch not above its
        own, if that is less.

        An epoch above all of the leader's gets the end of the log (KafkaMetadataLog.endOffsetForEpoch).
        """
        ends = {int.from_bytes(data[12:16], "big"): last + 1 for last, data in self.log}
        known = [one for one in ends if one <= epoch]
        if not offset or not known:
            return None
        newest = max(known)
        found = OffsetAndEpoch(ends[newest], newest)
        return found if newest < epoch or found.offset < offset else None

    def _fetch(self, message: FetchRequest) -> FetchResponse:
        here = LeaderAndEpoch(self.leader, self.epoch)
        nothing = FetchResponse(0, 0, self.high_watermark, 0, here, None, None, b"")
        if self.code:
            return replace(nothing, partition_error_code=self.code)
        if message.current_leader_epoch < self.epoch:
            return replace(nothing, partition_error_code=ErrorCode.FENCED_LEADER_EPOCH, nodes=HOSTS)
        if self.id != self.leader:
            return replace(nothing, partition_error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, nodes=HOSTS)
        if message.current_leader_epoch > self.epoch:
            return replace(nothing, partition_error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
        if message.last_fetched_epoch > message.current_leader_epoch:
            return replace(nothing, partition_error_code=ErrorCode.INVALID_REQUEST)
        if self.out_of_range and message.fetch_offset:
            self.out_of_range = False
            return replace(nothing, partition_error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.diverging is not None:
            found, self.diverging = self.diverging, None
            return replace(nothing, diverging=found)
        if contradiction := self._contradicts(message.fetch_offset, message.last_fetched_epoch):
            return replace(nothing, diverging=contradiction)
        if self.snapshots and message.fetch_offset < self.snapshots[0][0].offset:
            return replace(nothing, snapshot_id=self.snapshots[0][0])
        if self.grows:
            self.append(no_op())
        batches = [data for last, data in self.log if last >= message.fetch_offset][: self.per_reply]
        return FetchResponse(0, 0, self.high_watermark, 0, here, None, None, b"".join(batches))

    def _snapshot(self, message: FetchSnapshotRequest) -> FetchSnapshotResponse:
        if self.vanish and message.position:
            self.vanish -= 1
            self.snapshots = self.snapshots[1:]
            return FetchSnapshotResponse(0, ErrorCode.SNAPSHOT_NOT_FOUND, None, None, 0, 0, b"")
        id_, data = self.snapshots[0]
        part = data[message.position : message.position + message.max_bytes]
        response = FetchSnapshotResponse(0, 0, None, id_, len(data), message.position, part)
        if self.spoil is not None and message.position:
            spoil, self.spoil = self.spoil, None
            return spoil(response)
        return response


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
        if self.controller.cuts:
            self.controller.cuts -= 1
            self.closed = True
            raise Disconnected("the connection ended before the answer", sent=True)
        return self.controller.answer(message)

    async def close(self) -> None:
        self.closed = True


class Quorum:
    """Three controllers, and a clock that moves a fifth of a second with every request."""

    def __init__(self) -> None:
        self.controllers = {i: Controller(i) for i in (1, 2, 3)}
        self.time = 0.0
        self.requests = 0
        self.connects = 0
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._then: dict[int, Callable[[], None]] = {}

    @property
    def leader(self) -> Controller:
        return self.controllers[1]

    def log(self, *, part: int = 1 << 20, share: Share | None = None) -> MetadataLog:
        return MetadataLog(
            connect=self._connect,  # type: ignore[arg-type]
            controllers=[Address("h", i) for i in self.controllers],
            request_timeout=30.0,
            environment=Environment(clock=lambda: NOW, monotonic=lambda: self.time, sleep=self._sleep),
            part=part,
            share=share,
        )

    async def _connect(self, address: Address) -> Link:
        self.connects += 1
        controller = self.controllers[address.port]
        if not controller.up:
            raise Unreachable(f"{address}: connection refused")
        if controller.refuses is not None:
            raise controller.refuses
        return Link(controller, self._tick)

    async def _sleep(self, seconds: float) -> None:
        self.time += seconds

    def at_time(self, time: float, act: Callable[[], None]) -> None:
        """Do this before the first request at or after that time is answered."""
        self._later.append((time, act))

    def on_request(self, number: int, act: Callable[..., None], *arguments: Any) -> None:
        """Do this before the request of that number (from 1 on) is answered."""
        self._then[number] = functools.partial(act, *arguments)

    def _tick(self) -> None:
        self.time += 0.2
        self.requests += 1
        if act := self._then.pop(self.requests, None):
            act()
        for due in [one for one in self._later if one[0] <= self.time]:
            self._later.remove(due)
            due[1]()
