"""What a leader serves of its metadata log: parts of it, and its snapshots, over a connection that is there.

Called by `history.py`, `level_history.py` and `kafka/recorder/recorder.py`, which go over the log from where they are;
`follower.py` follows its end. It judges answers and keeps nothing.

Who asks for offset 0 is given the newest snapshot, which may be of a minute ago, by most releases also where the log
still begins there. What it really begins with is had otherwise (`RaftLog.validateOffsetAndEpoch`):

- The log is whole: it is read from offset 1 on. What is at 0 is the first leader's announcement of itself.
- Its beginning was cut off: the oldest snapshot lies where it begins now, and is served as well. Of which epoch that
  is, the leader shows: asked for a position with a lower epoch, it names a snapshot instead.

Positions behind that are asked for with the epoch of the leader itself, which has all of its log behind it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container

from kafkafeatures.kafka.base.errors import ErrorCode, NoLeader, ResponseTooLarge, ServerError
from kafkafeatures.kafka.base.memory_budget import CHECK
from kafkafeatures.kafka.log.leaders import ATTEMPT, MOVED, VANISHED, refused
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
"""Bytes that are asked for at once. A batch that is larger (up to 8 MiB) comes whole, and alone."""

MAX_SNAPSHOT = 4 * 1024 * 1024 * 1024
"""Bytes: some thirty million partitions, and more than there is time for."""


class LogSource:
    """`link`: to the leader of this epoch. `timeout` in seconds: of a request. `until`: what is committed for certain
    ends there.
    """

    def __init__(
        self, link: Connection, leader_epoch: int, *, cluster_id: str | None, timeout: float, until: int
    ) -> None:
        self._link, self.leader_epoch, self._cluster_id = link, leader_epoch, cluster_id
        self._timeout = min(ATTEMPT, timeout)
        self.until = until

    async def fetch(self, offset: int, epoch: int, *, most: int = PART) -> FetchResponse:
        """Fetch what follows this position, so many bytes of it. Raises KafkaError."""
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
        """The snapshot at the beginning of the log: the lowest epoch with which its next record can be asked for."""
        if not 0 < start < newest.offset:
            return newest
        low, high = 0, newest.epoch
        while low < high:
            middle = (low + high) // 2
            if (await self.fetch(start + 1, middle)).snapshot_id is None:
                high = middle
            else:
                low = middle + 1
        return OffsetAndEpoch(start, low)

    async def snapshot(self, snapshot: OffsetAndEpoch) -> AsyncIterator[FetchSnapshotResponse]:
        """The parts of a snapshot, in order; none, or an end too soon, where there is none of this id, or no longer."""
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
    """The parts of a snapshot in order, each of `most` bytes; an end too soon where it was deleted meanwhile.

    `never_had`: error codes with which this leader answers for a snapshot whose epoch was guessed. Raises KafkaError.
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
    """Tell whether it is the next part, of a file of that size, and not more than was asked for."""
    length = len(part.data)
    return (part.position, part.size) == (position, size) and 0 < length <= min(most_bytes, size - position)


def _judge(reply: FetchResponse | FetchSnapshotResponse) -> None:
    refused(reply.error_code)
    if reply.partition_error_code in MOVED:
        raise NoLeader(reply.partition_error_code, "the leader has changed")
    refused(reply.partition_error_code)
