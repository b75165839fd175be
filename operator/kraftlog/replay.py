"""Builds an image from a snapshot and the log behind it, batch by batch.

What it decides: which batches count (whole, undamaged, in order, below the bound it is given). What they hold is taken
in by `image_builder`. Called with bytes: by a follower with fetched chunks, a command with files. It reads
nothing itself and never skips damage in a stream.

Speed: an idle controller writes the same batch twice a second; it is known by its bytes.
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

ONLY_NO_OP = bytes((20, 0, 0, 0, 1, 8, FRAME_VERSION, _NO_OP, 0, 0, 0))  # the only record of a batch
_IDLE = HEADER_SIZE + len(ONLY_NO_OP)
_LENGTH = struct.Struct(">i")
_LENGTH_AT = LENGTH_END - _LENGTH.size


class Replay(ImageBuilder):
    """Applies a log in order, and gives its image at any time. Begins empty at offset 0; not thread-safe.

    `sections`: what its images hold; by default all but partitions, clients and configs. Records of other
    sections are counted and skipped.
    `limit`: of `weight`; None: none. `at`: where it begins, if what lies before that is not to be known.
    """

    __slots__ = ()

    def load_snapshot(self, data: Buffer, *, end_offset: int, epoch: int) -> None:
        """Discard everything and take the state of a whole snapshot file, of which (end_offset, epoch) is the id.

        Raises what a SnapshotReader raises, the former state untouched.
        """
        reader = SnapshotReader(end_offset=end_offset, epoch=epoch, sections=self._sections, limit=self._limit)
        reader.feed(data)
        fresh = reader.finish()
        for name in ImageBuilder.__slots__:
            setattr(self, name, getattr(fresh, name))

    def append(self, data: Buffer, *, below: int) -> int:
        """Apply the whole batches of a piece of log whose last offset is below `below`, in order; the new end offset.

        Records that are in already are left out. A batch that is cut, or reaches `below`, is left for the next call.
        Raises GapError when a batch starts beyond the end offset and DamagedError when one is not what was written;
        what came before it is applied in both cases. TooLargeError: some of a batch may be in.
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
        """Take the batches of an idle controller, a NoOp each, one every 500 ms; where the first other one begins.

        Whatever is not exactly as expected is left to `append`.
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
            gap_ms = timestamp_ms - last_ms
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
    """Time that has certainly passed between two batches."""
    return min(max(now_ms - before_ms, 0), MOST_ELAPSED_MS) if before_ms >= 0 else 0


class SnapshotReader:
    """Reads the snapshot file with the id (end_offset, epoch) in parts of any size, as they arrive.

    It keeps the image and the batch that is not whole yet, and nothing else. `sections`, `limit`: as of Replay.

    Of the one that ends at offset 0, with which a directory was formatted, Raft takes the voters and kraft.version. Its
    other records are no state until a leader of Kafka 4.4 begins an empty log with them (KIP-1170).
    """

    __slots__ = ("_buffer", "_footer", "_header", "_held", "_id", "_needed", "_position", "_replay")

    def __init__(
        self, *, end_offset: int, epoch: int, sections: Iterable[Section] = SMALL, limit: int | None = None
    ) -> None:
        self._id = end_offset, epoch
        self._replay = Replay(sections=sections, limit=limit)
        if end_offset == 0:
            self._replay._rules, self._replay._wanted = rules_of(())
        self._buffer = bytearray()  # used again for each batch: fresh memory costs more than what is written to it
        self._held = 0  # bytes at its start, which are the rest
        self._needed = HEADER_SIZE  # bytes of the rest, until there is something to do
        self._position = 0  # of the rest in the file
        self._header = self._footer = False

    @property
    def weight(self) -> int:
        """Bytes of memory that it holds, roughly."""
        return self._replay.weight + 2 * len(self._buffer)

    def feed(self, part: Buffer) -> None:
        """Take the next bytes. Raises SnapshotIncomplete for damage or a gap, TooLargeError; then it is of no use."""
        data = memoryview(part)
        if self._held:
            self._hold(data)
            data = memoryview(self._buffer)[: self._held]
        if len(data) < self._needed:
            if not self._held:
                self._hold(data)
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
        self._held = 0
        self._hold(view[position:])
        self._position += position

    def finish(self) -> Replay:
        """The log up to the end of the snapshot. Raises SnapshotIncomplete where something is missing."""
        if self._held:
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

    def _hold(self, data: memoryview) -> None:
        """Keep these bytes behind those that are held, or in their place where none are."""
        size = self._held + len(data)
        if size > len(self._buffer):
            most = self._needed + len(data)  # that is held before there is something to do
            larger = bytearray(max(size, min(most, 2 * len(self._buffer))))
            memoryview(larger)[: self._held] = memoryview(self._buffer)[: self._held]
            self._buffer = larger
        memoryview(self._buffer)[self._held : size] = data
        self._held = size

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
