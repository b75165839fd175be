"""Reads the metadata log from the oldest record that its leader still has, for reports about the past.

Called by `cluster.py` after a normal reading, which proved that the leader has a majority, and up to which offset the
log is committed. Records go to a `LogReader`, and nothing is kept here. `source.py` finds where the log begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkafeatures.kafka.base.errors import ErrorCode, NoLeader, ResponseTooLarge, ServerError, TimedOut
from kafkafeatures.kafka.base.memory_budget import CHECK
from kafkafeatures.kafka.log.leaders import Leaders
from kafkafeatures.kafka.log.source import LogSource
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog import KraftLogError, TooLargeError

WITHIN = 12
"""Time for reading the whole log, in request timeouts: by default a controller keeps some hundred megabytes."""


class LogReader(Protocol):
    """The consumer of the bytes, such as `kraftlog.rolls`."""

    @property
    def offset(self) -> int:
        """The offset at which the next batch starts."""

    def skip_first(self) -> None:
        """Begin at offset 1."""

    def load_snapshot(self, data: bytes, *, end_offset: int, epoch: int) -> None:
        """Begin with the bytes of a snapshot, whose name gives the end offset and the epoch."""

    def append(self, data: bytes, *, below: int) -> int:
        """Take the batches of `data` that end at or below offset `below`, which is committed."""


class LogHistory:
    """A single pass over the log. `timeout`: seconds for each request."""

    def __init__(self, leaders: Leaders, reader: LogReader, *, timeout: float, monotonic: Callable[[], float]) -> None:
        self._leaders, self._reader = leaders, reader
        self._timeout = timeout
        self._monotonic = monotonic
        self._snapshot_id = OffsetAndEpoch(-1, 0)  # the snapshot that the reader began with

    async def read(self, *, until: int, epoch: int) -> None:
        """Feed the reader all records below offset `until`, from the leader of this epoch or a later one.

        Raises KafkaError; the reader may have got a part of the log by then.
        """
        self._leaders.begin()
        link, leader = await self._leaders.find(at_least=epoch, ask_all=False)
        cluster_id = self._leaders.cluster_id
        try:
            await self._read(LogSource(link, leader.epoch, cluster_id=cluster_id, timeout=self._timeout, until=until))
        except KraftLogError as error:
            if isinstance(error, TooLargeError):
                raise ResponseTooLarge(f"it holds {error}", remedy=CHECK) from None
            raise ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"it does not read: {error}") from None
        finally:
            await link.close()

    async def _read(self, source: LogSource) -> None:
        until = source.until
        deadline = self._monotonic() + WITHIN * self._timeout
        first = await source.fetch(0, 0)  # `source.py` says how the beginning is found
        if first.snapshot_id is not None and first.log_start_offset == 0:
            self._reader.skip_first()
        elif first.snapshot_id is not None:
            await self._begin_with_snapshot(source, first.snapshot_id, first.log_start_offset)
        while (offset := self._reader.offset) < until:
            is_snapshot_end = offset == self._snapshot_id.offset  # there the leader accepts only the snapshot's epoch
            reply = await source.fetch(offset, self._snapshot_id.epoch if is_snapshot_end else source.leader_epoch)
            self._reader.append(reply.records, below=min(until, reply.high_watermark))
            if reply.snapshot_id is not None or reply.diverging is not None or self._reader.offset == offset:
                raise NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log changed while it was read; run it again")
            if self._monotonic() >= deadline:
                raise TimedOut(
                    f"{self._reader.offset} of {until} records were read within {WITHIN * self._timeout:g} s",
                    remedy="allow a longer request timeout",
                )

    async def _begin_with_snapshot(self, source: LogSource, newest: OffsetAndEpoch, start: int) -> None:
        for snapshot in (await source.oldest_snapshot(newest, start), newest):  # the oldest one is deleted first
            data, size = bytearray(), -1
            async for part in source.snapshot(snapshot):
                data += part.data
                size = part.size
            if len(data) == size:
                self._snapshot_id = snapshot
                self._reader.load_snapshot(bytes(data), end_offset=snapshot.offset, epoch=snapshot.epoch)
                return
        raise NoLeader(ErrorCode.SNAPSHOT_NOT_FOUND, "the snapshot was replaced while it was read; run it again")
