"""The metadata log as a follower keeps it: an image of the committed records, and a tail of uncommitted ones.

Called by `follower.py` with the answers of a leader. The leader also serves records that are not committed yet and may
be truncated: only records below the high watermark are applied, and the tail waits until a later answer covers it.

**Bounded.** A server may send without end. A snapshot is applied as it arrives, and only its image is kept. The memory
of image and tail is counted (`kafka/base/memory_budget.py`), and large pieces are applied in slices, so that the rest
of the operator can run in between.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable

from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, ResponseTooLarge, ServerError
from kafkafeatures.kafka.base.memory_budget import CHECK, Share
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.log.batch_heads import SLICE, end_of, from_offset, pieces
from kafkafeatures.kafka.wire.messages import FetchSnapshotResponse, OffsetAndEpoch
from kraftlog import Image, ImageTooLargeError, KraftLogError, Replay, Section, SnapshotReader, TooLargeError

MAX_TAIL = 8 * 1024 * 1024
"""Bytes of the tail, after which nothing new is fetched until its records are committed."""

OBSERVED = frozenset({Section.REGISTRATIONS, Section.FEATURES, Section.QUORUM, Section.MIGRATION})
"""Sections that an observation is made of. Whatever else the log holds is skipped: it takes neither time nor memory."""


class HeldLog:
    """The log of one cluster, as far as it was read. `high_watermark` is that of the last answer, or -1 if there was
    none since the log was last dropped.

    `share` counts its memory; the owner of the share calls `give_up` to get that back. `sections`: those of the log
    that the image has; the others are skipped.
    """

    def __init__(self, share: Share, sections: frozenset[Section] = OBSERVED) -> None:
        self._share = share
        self._sections = sections
        self._replay = self._nothing()
        self._tail = b""  # batches after the high watermark; they begin where the applied records end
        self._given_up = False  # the memory was taken back since `begin`: the reading that is under way has to fail
        self.high_watermark = -1

    @property
    def offset(self) -> int:
        """The offset at which the applied records end."""
        return self._replay.offset

    @property
    def end(self) -> OffsetAndEpoch:
        """The position at which the next records begin: the end of the tail."""
        return end_of(self._tail) or OffsetAndEpoch(self._replay.offset, max(self._replay.epoch, 0))  # -1: no record

    @property
    def is_full(self) -> bool:
        """True if nothing new may be fetched until records of the tail are committed."""
        return len(self._tail) >= MAX_TAIL

    def image(self) -> Image:
        """The state of the cluster by all committed records."""
        return self._replay.image()

    def hold_partitions(self, hold: bool) -> None:
        """Hold partitions as well from now on, and read the log anew for them; or, if `hold` is False, release them."""
        if hold == (Section.PARTITIONS in self._sections):
            return
        self._sections = OBSERVED | {Section.PARTITIONS} if hold else OBSERVED
        if hold:
            self.drop()
        else:
            self._replay.leave_out(Section.PARTITIONS)
            self._share.keep(self._replay.weight + len(self._tail))

    def begin(self) -> None:
        """Note that a reading begins: if the memory has to be given up from now on, this reading fails."""
        self._given_up = False

    def give_up(self) -> None:
        """Release everything and its memory. A reading that is under way raises ResponseTooLarge, the next one begins
        anew.
        """
        self.drop()
        self._given_up = True

    def drop(self) -> None:
        """Release everything; the next reading begins anew."""
        self._replay, self._tail, self.high_watermark = self._nothing(), b"", -1
        self._share.keep(0)

    def truncate(self, offset: int) -> None:
        """Follow a leader that truncated its log at `offset`: drop the tail, and if `offset` is below the end of the
        applied records, everything. Without a tail everything is dropped, whatever `offset` is: the record that the
        leader does not have is then an applied one.
        """
        offset = offset if self._tail else 0
        self._tail = b""
        if offset < self._replay.offset:
            self.drop()

    async def append(self, records: bytes, high_watermark: int) -> None:
        """Apply the committed records, and keep the others as the tail. Raises KafkaError and drops everything then."""
        self.high_watermark = high_watermark
        data = self._tail + records  # a copy, so its bytes are counted twice as long as both exist
        try:
            self._keep(2 * len(data))
            for piece in pieces(data):
                await self._apply(functools.partial(self._replay.append, below=high_watermark), piece)
                self._keep(2 * len(data))
        except KraftLogError as error:
            self.drop()
            raise self._unreadable("log", error) from None
        self._tail = from_offset(data, self._replay.offset)
        self._keep(len(self._tail))

    async def take_snapshot(self, snapshot: OffsetAndEpoch, parts: AsyncIterator[FetchSnapshotResponse]) -> None:
        """Replace everything by a snapshot; nothing changes if its parts end too soon. Raises KafkaError."""
        try:
            replay = await self._read_snapshot(snapshot, parts)
        except KraftLogError as error:
            raise self._unreadable("snapshot", error) from None
        finally:  # the memory of a snapshot that was not read to its end is free again
            if not self._given_up:
                self._share.keep(self._replay.weight + len(self._tail))
        if replay is not None:
            self._replay, self._tail = replay, b""
            self._keep(0)

    async def _read_snapshot(
        self, snapshot: OffsetAndEpoch, parts: AsyncIterator[FetchSnapshotResponse]
    ) -> Replay | None:
        limit = self._share.memory.limits.per_cluster
        reader = SnapshotReader(end_offset=snapshot.offset, epoch=snapshot.epoch, sections=self._sections, limit=limit)
        remaining = -1  # bytes of the snapshot that did not arrive; -1: not even one part did
        async for part in parts:
            view = memoryview(part.data)
            step = len(view) if Section.PARTITIONS in self._sections else SLICE  # a thread needs no slices
            for start in range(0, len(view), step):
                await self._apply(reader.feed, view[start : start + step])
                self._keep(reader.weight + len(self._tail) + 2 * len(part.data))
            remaining = part.size - part.position - len(part.data)
        if remaining:
            return None
        replay = reader.finish()
        if Section.PARTITIONS in self._sections:
            await run_in_thread(replay.image)  # the first image sorts the partitions
        return replay

    async def _apply(self, take: Callable[[memoryview], object], piece: memoryview) -> None:
        """Apply a piece of batches. Only one cluster at a time applies a large piece, and the event loop runs between
        two pieces. If partitions are kept, a thread does it: then a batch has megabytes.
        """
        if len(piece) < SLICE // 2:  # done sooner than the turn is handed over
            take(piece)
            return
        async with self._share.memory.turn:
            if self._given_up:
                return  # the caller calls `_keep` next, which raises
            if Section.PARTITIONS not in self._sections:
                take(piece)
                await asyncio.sleep(0)
                return
            try:
                await run_in_thread(lambda: take(piece))
            except asyncio.CancelledError:
                self.drop()  # the thread continues with the replay that is dropped here
                raise

    def _keep(self, count: int) -> None:
        """Count the memory of the image and of `count` bytes more. Raises ResponseTooLarge if that is too much, or if
        the memory was given up while the leader's answer was awaited; then everything is dropped.
        """
        if self._given_up:
            raise self._share.lost()
        try:
            self._share.keep(self._replay.weight + count)
        except ResponseTooLarge:
            self.drop()
            raise

    def _nothing(self) -> Replay:
        return Replay(sections=self._sections, limit=self._share.memory.limits.per_cluster)

    def _unreadable(self, subject: str, error: KraftLogError) -> KafkaError:
        if isinstance(error, ImageTooLargeError):
            return self._share.too_large()
        if isinstance(error, TooLargeError):
            return ResponseTooLarge(f"the {subject} holds {error}", remedy=CHECK)
        return ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the {subject} does not read: {error}")
