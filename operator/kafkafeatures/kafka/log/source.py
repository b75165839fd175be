"""What a leader serves of its metadata log: parts of it, and its snapshots, over a connection that is there.

Called by `log_history.py` and `recorder.py`, which go over the log from where they are; `metadata_log.py` follows its
end. It judges answers and keeps nothing.

Who asks for offset 0 is given the newest snapshot, which may be of a minute ago, by most releases also where the log
still begins there. What it really begins with is had otherwise (`RaftLog.validateOffsetAndEpoch`):

- The log is whole: it is read from offset 1 on. What is at 0 is the first leader's announcement of itself.
- Its beginning was cut off: the oldest snapshot lies where it begins now, and is served as well. Of which epoch that
  is, the leader shows: asked for a position with a lower epoch, it names a snapshot instead.

Positions behind that are asked for with the epoch of the leader itself, which has all of its log behind it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from kafkafeatures.kafka.base.errors import ErrorCode, NoLeader, ServerError, TooLarge
from kafkafeatures.kafka.base.memory_budget import CHECK
from kafkafeatures.kafka.log.follower import MAX_SNAPSHOT, PART, follows
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
        """What follows this position, so many bytes of it. Raises KafkaError."""
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
        """Its parts, in order; none, or an end too soon, where there is none of this id (any more)."""
        position = 0
        while True:
            reply: FetchSnapshotResponse = await self._request(
                FetchSnapshotRequest(self._cluster_id, snapshot, self.leader_epoch, position=position, max_bytes=PART)
            )
            if reply.partition_error_code in VANISHED or reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
                return  # the second for an epoch that never had one
            _judge(reply)
            if not follows(reply, position, reply.size, PART):
                raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, "a part of the snapshot is not the one asked for")
            if reply.size > MAX_SNAPSHOT:
                raise TooLarge(f"a snapshot of {reply.size} bytes; at most {MAX_SNAPSHOT} are read", remedy=CHECK)
            yield reply
            position += len(reply.data)
            if position >= reply.size:
                return

    async def _request(self, message: Request[R]) -> R:
        return await self._link.request(message, timeout=self._timeout)


def _judge(reply: FetchResponse | FetchSnapshotResponse) -> None:
    refused(reply.error_code)
    if reply.partition_error_code in MOVED:
        raise NoLeader(reply.partition_error_code, "the leader has changed; run it again")
    refused(reply.partition_error_code)
