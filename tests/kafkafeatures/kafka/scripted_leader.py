"""A leader that is its own connection, and answers for a log as Kafka's does: only what it has is scripted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.log import batch_heads
from kafkafeatures.kafka.wire.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderAndEpoch,
    OffsetAndEpoch,
)
from tests.kraftlog.build import batch, broker, change, no_op, snapshot

EPOCHS = (3, 5, 9)
SNAPSHOTS = {
    OffsetAndEpoch(100, 5): snapshot(broker(1, 1, fenced=False)),
    OffsetAndEpoch(104, 9): snapshot(broker(1, 1, fenced=False), broker(2, 2, fenced=False)),
}
LATER = (
    batch(100, change(1, 1, inControlledShutdown=1), epoch=5)
    + batch(101, change(1, 1, fenced=1), broker(1, 102), epoch=9)
    + batch(103, change(1, 102, fenced=-1), epoch=9)
    + batch(104, no_op(), epoch=9)
)
"""Records with offsets 100 to 104: the epoch of the oldest snapshot is 5, which the log itself does not say."""


@dataclass
class Leader:
    """Judges positions as `RaftLog.validateOffsetAndEpoch` does."""

    start: int = 100
    data: bytes = LATER
    high_watermark: int = 105
    snapshots: dict[OffsetAndEpoch, bytes] = field(default_factory=lambda: dict(SNAPSHOTS))
    code: int = 0
    epochs: tuple[int, ...] = EPOCHS
    prefers_snapshots: bool = True  # since Kafka 3.9: a reader that has nothing gets one, also where the log is whole
    per_reply: int = 1 << 20
    asked: list[Any] = field(default_factory=list)
    spoil: Callable[[FetchSnapshotResponse], FetchSnapshotResponse] = lambda reply: reply
    closed: bool = False
    address = Address("h", 1)

    async def request(self, message: Any, *, timeout: float) -> Any:
        self.asked.append(message)
        here = LeaderAndEpoch(1, 9)
        if isinstance(message, FetchSnapshotRequest):
            found = self.snapshots.get(message.snapshot_id)
            if found is None:
                return FetchSnapshotResponse(ErrorCode.UNKNOWN_SERVER_ERROR, 0, None, None, 0, 0, b"")
            part = found[message.position : message.position + 100]
            return self.spoil(
                FetchSnapshotResponse(0, 0, here, message.snapshot_id, len(found), message.position, part)
            )
        assert isinstance(message, FetchRequest)
        reply = FetchResponse(self.code, 0, self.high_watermark, self.start, here, None, None, b"")
        if message.current_leader_epoch < 9:
            return replace(reply, partition_error_code=ErrorCode.FENCED_LEADER_EPOCH)
        offset, epoch = message.fetch_offset, message.last_fetched_epoch
        if self.start == 0 and offset == 0 and not (self.prefers_snapshots and self.snapshots):
            return replace(reply, records=self.data[: self.per_reply])
        oldest = min(self.snapshots, key=lambda one: one.offset, default=OffsetAndEpoch(0, 0))
        at_the_start = offset == self.start and epoch != oldest.epoch
        if (offset == 0 and self.snapshots) or offset < self.start or at_the_start or epoch < oldest.epoch:
            return replace(reply, snapshot_id=max(self.snapshots, key=lambda one: one.offset))
        if epoch not in (oldest.epoch, *self.epochs):
            return replace(reply, diverging=OffsetAndEpoch(offset, 5))
        starts = (at for at, _, last, _ in batch_heads.heads(self.data) if last >= offset)
        at = next(starts, len(self.data))
        return replace(reply, records=self.data[at : at + self.per_reply])

    async def close(self) -> None:
        self.closed = True
