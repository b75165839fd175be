"""Builds an image from a snapshot and the log behind it, batch by batch.

It decides which batches count: complete, undamaged, in order, and below the caller's limit. Its base class in
`image_builder` applies their records. Called with bytes: by a follower with fetched chunks, by commands with files. It
reads nothing itself, and never skips damage in a stream.

Speed: an idle controller writes the same batch (a NoOp) twice a second, which is recognised by its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import google_crc32c

from kraftlog.batches import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    Buffer,
    Damage,
    DamageReason,
    Head,
    head_at,
    view_of,
)
from kraftlog.errors import DamagedError, GapError, SnapshotIncomplete
from kraftlog.image import MOST_ELAPSED_MS, SMALL, Section
from kraftlog.image_builder import ImageBuilder, judge_size, rules_of
from kraftlog.records import FRAME_VERSION
from kraftlog.schema import table

_NO_OP = table.NO_OP.key

# Bytes behind the header of a batch that an idle controller writes: one NoOp.
ONLY_NO_OP = bytes((20, 0, 0, 0, 1, 8, FRAME_VERSION, _NO_OP, 0, 0, 0))  # the only record of a batch
_IDLE = HEADER_SIZE + len(ONLY_NO_OP)
_LENGTH = struct.Struct(">i")
_LENGTH_AT = LENGTH_END - _LENGTH.size


class Replay(ImageBuilder):
    """Applies a log in order, and returns its image at any time. It begins empty; not thread-safe.

    sections: those that its images have; by default all but partitions, clients and configs. Records of other sections
    are counted and skipped. limit: most bytes of `weight`; None: no limit. at: the offset at which to begin; above 0 if
    earlier records are not needed.
    """

    __slots__ = ()

    def load_snapshot(self, data: Buffer, *, end_offset: int, epoch: int) -> None:
        """Replace the state by that of a complete snapshot file with the id (end_offset, epoch).

        Raises what a SnapshotReader raises; then the state is unchanged.
        """
        reader = SnapshotReader(end_offset=end_offset, epoch=epoch, sections=self._sections, limit=self._limit)
        reader.feed(data)
        fresh = reader.finish()
        for name in ImageBuilder.__slots__:
            setattr(self, name, getattr(fresh, name))

    def append(self, data: Buffer, *, below: int) -> int:
        """Apply the complete batches of a piece of log that end below offset `below`, in order. Returns the new end
        offset.

        Records that were applied before are skipped. An incomplete batch, or one that reaches `below`, is left for the
        next call. Raises GapError if a batch starts after the end offset, and DamagedError for a damaged one; the
        batches before it are applied then. After TooLargeError a part of a batch may be applied.
        """
        view = view_of(data)
        position = 0
        while (position := self._idle(view, position, below)) < len(view):
            head = head_at(view, position)
            if isinstance(head, Damage):
                if head.reason is DamageReason.TRUNCATED:
                    break
                raise DamagedError(position, f"{head.reason.value} ({head.detail})")
            start, position = position, position + head.size
            end = head.base_offset + head.last_offset_delta + 1
            if end <= self._offset:
                continue
            if end > below:
                break
            if head.base_offset > self._offset:
                raise GapError(self._offset, head.base_offset)
            self._state.offset, self._state.timestamp_ms, self._shown = end, head.max_timestamp, None
            self._state.elapsed_ms += _elapsed(self._timestamp_ms, head.max_timestamp)
            self._batch(head, view, start)
            self._offset, self._epoch, self._timestamp_ms = end, head.leader_epoch, head.max_timestamp
        return self._offset

    def _idle(self, view: memoryview, position: int, below: int) -> int:
        """Apply batches with a single NoOp, which an idle controller writes every 500 ms. Returns the position of the
        first other batch, which is left to `append`.
        """
        offset, count, elapsed_ms, last_ms, leader_epoch = self._offset, 0, 0, self._timestamp_ms, self._epoch
        while offset < below and view[position + HEADER_SIZE : position + _IDLE] == ONLY_NO_OP:
            base, length, epoch, magic, crc, attributes, delta, _, timestamp_ms, *_, records = HEADER.unpack_from(
                view, position
            )
            if (base, length, magic, attributes, delta, records) != (offset, _IDLE - LENGTH_END, MAGIC, 0, 0, 1):
                break
            if google_crc32c.value(view[position + CRC_START : position + _IDLE].tobytes()) != crc:
                break
            position, offset, count = position + _IDLE, offset + 1, count + 1
            gap_ms = timestamp_ms - last_ms  # the usual gap is counted without a call, for speed
            elapsed_ms += gap_ms if 0 <= gap_ms <= MOST_ELAPSED_MS else _elapsed(last_ms, timestamp_ms)
            leader_epoch, last_ms = epoch, timestamp_ms
        if count:
            self._offset = self._state.offset = offset
            self._epoch, self._timestamp_ms = leader_epoch, last_ms
            self._state.timestamp_ms = last_ms
            self._state.elapsed_ms += elapsed_ms
            self._count(_NO_OP, count)
        return position


def _elapsed(before_ms: int, now_ms: int) -> int:
    """Time in ms that has certainly passed between two batches, whose timestamps may be from clocks that differ.
    before_ms: -1 if there was no batch.
    """
    return min(max(now_ms - before_ms, 0), MOST_ELAPSED_MS) if before_ms >= 0 else 0


class SnapshotReader:
    """Reads the snapshot file with the id (end_offset, epoch) in parts of any size, as they arrive.

    It keeps only the image and an incomplete batch in memory. `sections`, `limit`: see `Replay`.

    From a snapshot that ends at offset 0, which is written when a directory is formatted, only voters and kraft.version
    are used. Its other records count only if a leader of Kafka 4.4 begins an empty log with them (KIP-1170).
    """

    __slots__ = ("_buffer", "_footer", "_header", "_id", "_needed", "_pending", "_position", "_replay")

    def __init__(
        self, *, end_offset: int, epoch: int, sections: Iterable[Section] = SMALL, limit: int | None = None
    ) -> None:
        self._id = end_offset, epoch
        self._replay = Replay(sections=sections, limit=limit)
        if end_offset == 0:
            self._replay._rules, self._replay._wanted = rules_of(())  # only control records; `finish` undoes this
        self._buffer = bytearray()  # reused for each batch, which is faster than new memory
        self._pending = 0  # number of bytes at the start of `_buffer` that were not applied yet
        self._needed = HEADER_SIZE  # bytes that must be there before the next step
        self._position = 0  # position in the file of the bytes in the buffer
        self._header = self._footer = False  # True once they were read

    @property
    def weight(self) -> int:
        """Bytes of memory that it holds, roughly."""
        return self._replay.weight + 2 * len(self._buffer)

    def feed(self, part: Buffer) -> None:
        """Take the next bytes. Raises SnapshotIncomplete for damage or a gap, TooLargeError; then the reader cannot be
        used any more.
        """
        data = memoryview(part)
        if self._pending:
            self._append_bytes(data)
            data = memoryview(self._buffer)[: self._pending]
        if len(data) < self._needed:
            if not self._pending:  # else these bytes were buffered above
                self._append_bytes(data)
            return
        view, position = view_of(data), 0
        while position < len(view):
            head = head_at(view, position)
            if isinstance(head, Damage):
                if head.reason is DamageReason.TRUNCATED:
                    break
                raise SnapshotIncomplete(f"{head.reason.value} at byte {self._position + position} of the snapshot")
            self._take(head, view, position)
            position += head.size
        self._needed = HEADER_SIZE
        if len(view) - position >= HEADER_SIZE:
            self._needed = LENGTH_END + int(_LENGTH.unpack_from(view, position + _LENGTH_AT)[0])
            judge_size(self._needed)  # before memory is taken for it
        self._pending = 0
        self._append_bytes(view[position:])
        self._position += position

    def finish(self) -> Replay:
        """A Replay with the state of the snapshot, which continues at its end. Raises SnapshotIncomplete if a part is
        missing.
        """
        if self._pending:
            raise SnapshotIncomplete(f"the last batch is cut, at byte {self._position} of the snapshot")
        if not self._header or not self._footer:
            raise SnapshotIncomplete(f"the snapshot has no {'footer' if self._header else 'header'}")
        self._buffer = bytearray()
        replay, state = self._replay, self._replay._state
        replay._rules, replay._wanted = rules_of(replay._sections)
        replay._offset, replay._epoch = self._id
        replay._timestamp_ms = state.snapshot_timestamp_ms
        state.begin_with_snapshot(replay._offset)
        return replay

    def _append_bytes(self, data: memoryview) -> None:
        """Append bytes to the `_pending` ones in the buffer. If nothing is pending, they may be the end of this same
        buffer, and are moved to its start.
        """
        size = self._pending + len(data)
        if size > len(self._buffer):
            most = self._needed + len(data)  # with more, a batch is complete
            larger = bytearray(max(size, min(most, 2 * len(self._buffer))))
            memoryview(larger)[: self._pending] = memoryview(self._buffer)[: self._pending]
            self._buffer = larger
        memoryview(self._buffer)[self._pending : size] = data
        self._pending = size

    def _take(self, head: Head, view: memoryview, start: int) -> None:
        replay, position = self._replay, self._position + start
        if head.base_offset != replay._offset:
            raise SnapshotIncomplete(f"offset {replay._offset} of the snapshot is missing")
        if self._footer:
            raise SnapshotIncomplete(f"batches behind the footer, at byte {position} of the snapshot")
        types = replay._batch(head, view, start)
        if position == 0:
            self._header = types[:1] == [table.SNAPSHOT_HEADER.key]
        self._footer = types[-1:] == [table.SNAPSHOT_FOOTER.key]
        replay._offset = head.base_offset + head.last_offset_delta + 1
