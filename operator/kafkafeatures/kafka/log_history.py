"""Read the metadata log from the oldest record that its leader still has, for what it tells of the past.

Called by `cluster.py` once it has read the log as it is now, with evidence of a majority. It asks the same leader for
no more than was committed then, and keeps nothing.

Who asks for offset 0 is given the newest snapshot, which may be of a minute ago, by most releases also where the log
still begins there. What it really begins with is had otherwise (`RaftLog.validateOffsetAndEpoch`):

- The log is whole: it is read from offset 1 on. What is at 0 is the first leader's announcement of itself.
- Its beginning was cut off: the oldest snapshot lies where it begins now, and is served as well. Of which epoch that
  is, the leader shows: asked for a position with a lower epoch, it names a snapshot instead.

Positions behind that are asked for with the epoch of the leader itself, which has all of its log behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkafeatures.kafka.errors import ErrorCode, NoLeader, ServerError, TimedOut, TooLarge
from kafkafeatures.kafka.leaders import ATTEMPT, MOVED, VANISHED, Leaders, refused
from kafkafeatures.kafka.memory_budget import CHECK
from kafkafeatures.kafka.metadata_log import MAX_SNAPSHOT, PART, follows
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderAndEpoch,
    OffsetAndEpoch,
    R,
    Request,
)
from kraftlog import KraftLogError, TooLargeError

WITHIN = 12
"""Request timeouts for all of it: by default a controller keeps some hundred megabytes."""


class LogReader(Protocol):
    """Who is given the bytes: see `kraftlog.rolls`."""

    @property
    def offset(self) -> int:
        """Where the next batch starts."""

    def skip_first(self) -> None:
        """Begin at offset 1."""

    def load_snapshot(self, data: bytes, *, end_offset: int, epoch: int) -> None:
        """Begin with it."""

    def append(self, data: bytes, *, below: int) -> int:
        """Take what is committed."""


class LogHistory:
    """One reading. `timeout` in seconds: of a request. `monotonic`: the clock."""

    def __init__(self, leaders: Leaders, reader: LogReader, *, timeout: float, monotonic: Callable[[], float]) -> None:
        self._leaders, self._reader = leaders, reader
        self._timeout = timeout
        self._monotonic = monotonic
        self._link: Connection | None = None
        self._leader = LeaderAndEpoch(-1, 0)
        self._snapshot_id = OffsetAndEpoch(-1, 0)  # that it began with

    async def read(self, *, until: int, epoch: int) -> None:
        """Give the reader everything below `until`, of a leader of this epoch or a later one.

        Raises KafkaError; then the reader was given a part, or nothing.
        """
        self._leaders.begin()
        self._link, self._leader = await self._leaders.find(at_least=epoch, ask_all=False)
        try:
            await self._read(until)
        except KraftLogError as error:
            if isinstance(error, TooLargeError):
                raise TooLarge(f"it holds {error}", remedy=CHECK) from None
            raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"it does not read: {error}") from None
        finally:
            await self._link.close()

    async def _read(self, until: int) -> None:
        deadline = self._monotonic() + WITHIN * self._timeout
        first = await self._fetch(0, 0)
        if first.snapshot_id is not None and first.log_start_offset == 0:
            self._reader.skip_first()
        elif first.snapshot_id is not None:
            await self._begin_with_snapshot(first.snapshot_id, first.log_start_offset)
        while (before := self._reader.offset) < until:
            known = before == self._snapshot_id.offset
            reply = await self._fetch(before, self._snapshot_id.epoch if known else self._leader.epoch)
            self._reader.append(reply.records, below=min(until, reply.high_watermark))
            if reply.snapshot_id is not None or reply.diverging is not None or self._reader.offset == before:
                raise NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log changed while it was read; run it again")
            if self._monotonic() >= deadline:
                raise TimedOut(
                    f"{self._reader.offset} of {until} records were read within {WITHIN * self._timeout:g} s",
                    remedy="allow a longer request timeout",
                )

    async def _begin_with_snapshot(self, newest: OffsetAndEpoch, start: int) -> None:
        for snapshot in (await self._oldest(newest, start), newest):
            data = await self._snapshot(snapshot)
            if data is not None:
                self._snapshot_id = snapshot
                self._reader.load_snapshot(data, end_offset=snapshot.offset, epoch=snapshot.epoch)
                return
        raise NoLeader(ErrorCode.SNAPSHOT_NOT_FOUND, "the snapshot was replaced while it was read; run it again")

    async def _oldest(self, newest: OffsetAndEpoch, start: int) -> OffsetAndEpoch:
        """The snapshot at the beginning of the log: the lowest epoch with which its next record can be asked for."""
        if not 0 < start < newest.offset:
            return newest
        low, high = 0, newest.epoch
        while low < high:
            middle = (low + high) // 2
            if (await self._fetch(start + 1, middle)).snapshot_id is None:
                high = middle
            else:
                low = middle + 1
        return OffsetAndEpoch(start, low)

    async def _fetch(self, offset: int, epoch: int) -> FetchResponse:
        reply: FetchResponse = await self._request(
            FetchRequest(
                cluster_id=self._leaders.cluster_id,
                fetch_offset=offset,
                last_fetched_epoch=epoch,
                current_leader_epoch=self._leader.epoch,
                max_wait_ms=0,
                max_bytes=PART,
            )
        )
        _judge(reply)
        return reply

    async def _snapshot(self, snapshot: OffsetAndEpoch) -> bytes | None:
        """All of it; None where there is none of this id (any more)."""
        data = bytearray()
        while True:
            reply: FetchSnapshotResponse = await self._request(
                FetchSnapshotRequest(
                    self._leaders.cluster_id, snapshot, self._leader.epoch, position=len(data), max_bytes=PART
                )
            )
            if reply.partition_error_code in VANISHED or reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
                return None  # the second for an epoch that never had one
            _judge(reply)
            if not follows(reply, len(data), reply.size, PART):
                raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, "a part of the snapshot is not the one asked for")
            if reply.size > MAX_SNAPSHOT:
                raise TooLarge(f"a snapshot of {reply.size} bytes; at most {MAX_SNAPSHOT} are read", remedy=CHECK)
            data += reply.data
            if len(data) >= reply.size:
                return bytes(data)

    async def _request(self, message: Request[R]) -> R:
        assert self._link is not None  # noqa: S101 - `read` has found it
        return await self._link.request(message, timeout=min(ATTEMPT, self._timeout))


def _judge(reply: FetchResponse | FetchSnapshotResponse) -> None:
    refused(reply.error_code)
    if reply.partition_error_code in MOVED:
        raise NoLeader(reply.partition_error_code, "the leader has changed; run it again")
    refused(reply.partition_error_code)
