"""Fetches parts of the metadata log and its snapshots from a leader, over an open connection.

Called by `history.py`, `level_history.py` and `kafka/recorder/recorder.py`, which read the log from a position in the
past; `follower.py`, which follows the end of the log, uses `snapshot_parts`. Answers are checked here, and not kept.

To read a log from its beginning is not obvious. Most releases answer a Fetch at offset 0 with the newest snapshot, even
if the log still begins at 0. Two ways lead to the beginning (`RaftLog.validateOffsetAndEpoch`):

- The log is whole: it is read from offset 1 on. Offset 0 only has the first leader's LeaderChange record.
- Its beginning was removed: the oldest snapshot ends where the log begins now. Its epoch is found by trying: with a
  lower epoch than that of the position, the leader names a snapshot instead of serving records.

Later positions are asked for with the leader's own epoch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container

from kafkafeatures.kafka.base.errors import ErrorCode, NoLeader, ResponseTooLarge, ServerError
from kafkafeatures.kafka.base.memory_budget import CHECK
from kafkafeatures.kafka.log.leaders import ATTEMPT, MOVED, VANISHED, raise_for_code
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    R,
    Request,
)

PART = 2 * 1024 * 1024
"""Bytes that are requested at once. A larger batch (up to 8 MiB) comes whole, and alone."""

MAX_SNAPSHOT = 4 * 1024 * 1024 * 1024
"""Bytes of the largest snapshot that is read: some thirty million partitions, more than can be fetched in time."""


class LogSource:
    """The log of a leader, over the connection `link`. `leader_epoch`: the epoch that it leads in. `timeout`: seconds
    for each request. `until`: the offset up to which the log is certainly committed, exclusive.
    """

    def __init__(
        self, link: Connection, leader_epoch: int, *, cluster_id: str | None, timeout: float, until: int
    ) -> None:
        self._link, self.leader_epoch, self._cluster_id = link, leader_epoch, cluster_id
        self._timeout = min(ATTEMPT, timeout)
        self.until = until

    async def fetch(self, offset: int, epoch: int, *, most: int = PART) -> FetchResponse:
        """Fetch records from this position on, about `most` bytes. Raises KafkaError."""
        reply: FetchResponse = await self._request(
            FetchRequest(
                cluster_id=self._cluster_id,
                fetch_offset=offset,
                last_fetched_epoch=epoch,
                current_leader_epoch=self.leader_epoch,
                max_wait_ms=0,
                max_bytes=most,
            )
        )
        _judge(reply)
        return reply

    async def oldest_snapshot(self, newest: OffsetAndEpoch, start: int) -> OffsetAndEpoch:
        """The snapshot at offset `start`, where the log begins. Its epoch is the lowest one with which the leader still
        serves records from the next offset on. At `start` itself it cannot be searched for: there the leader answers
        every other epoch, also a higher one, with a snapshot.
        """
        if not 0 < start < newest.offset:
            return newest  # no older one is left, or none is needed
        low, high = 0, newest.epoch
        while low < high:
            middle = (low + high) // 2
            if (await self.fetch(start + 1, middle)).snapshot_id is None:
                high = middle
            else:
                low = middle + 1
        return OffsetAndEpoch(start, low)

    async def snapshot(self, snapshot: OffsetAndEpoch) -> AsyncIterator[FetchSnapshotResponse]:
        """The parts of a snapshot, in order. They end early, or there are none, if the leader does not have the
        snapshot, or has just deleted it.
        """
        async for part in snapshot_parts(
            self._link,
            snapshot,
            cluster_id=self._cluster_id,
            leader_epoch=self.leader_epoch,
            timeout=self._timeout,
            never_had=(ErrorCode.UNKNOWN_SERVER_ERROR,),
        ):
            yield part

    async def _request(self, message: Request[R]) -> R:
        return await self._link.request(message, timeout=self._timeout)


async def snapshot_parts(
    link: Connection,
    snapshot: OffsetAndEpoch,
    *,
    cluster_id: str | None,
    leader_epoch: int,
    timeout: float,
    most: int = PART,
    never_had: Container[int] = (),
) -> AsyncIterator[FetchSnapshotResponse]:
    """The parts of a snapshot in order, each of up to `most` bytes. They end early if the leader deletes the snapshot
    meanwhile, so callers compare the bytes with `size`.

    `never_had`: error codes that also mean that the leader does not have it, for a snapshot whose epoch was searched
    for. Raises KafkaError.
    """
    position, size = 0, -1
    while position != size:
        request = FetchSnapshotRequest(cluster_id, snapshot, leader_epoch, position=position, max_bytes=most)
        reply: FetchSnapshotResponse = await link.request(request, timeout=timeout)
        if reply.partition_error_code in VANISHED or reply.error_code in never_had:
            return
        _judge(reply)
        size = reply.size if size < 0 else size
        if reply.snapshot_id != snapshot or not _follows(reply, position, size, most):
            raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, "a part of the snapshot is not the one asked for")
        if size > MAX_SNAPSHOT:
            raise ResponseTooLarge(f"a snapshot of {size} bytes; at most {MAX_SNAPSHOT} are read", remedy=CHECK)
        yield reply
        position += len(reply.data)


def _follows(part: FetchSnapshotResponse, position: int, size: int, most_bytes: int) -> bool:
    """True if this is the next part of a snapshot of that size, and not larger than was requested."""
    length = len(part.data)
    return (part.position, part.size) == (position, size) and 0 < length <= min(most_bytes, size - position)


def _judge(reply: FetchResponse | FetchSnapshotResponse) -> None:
    raise_for_code(reply.error_code)
    if reply.partition_error_code in MOVED:
        raise NoLeader(reply.partition_error_code, "the leader has changed")
    raise_for_code(reply.partition_error_code)
