"""Builds an image from a snapshot and the log behind it, record by record.

What it decides: which batches count (whole, undamaged, in order, below the bound it is given), which records must be
decoded at all, and when records of a metadata transaction take effect (KIP-868: at End; Abort voids them; control
records do not take part). Called by whoever holds the bytes: a follower with fetched chunks, a command with files. It
reads nothing itself and never skips damage in a stream.

What it takes is bounded, whoever wrote the log: the image by a limit that is given, batches, and records that must be
decoded, by what no cluster comes near. Beyond that it raises TooLargeError, and what was applied so far is of no use.

Speed: most records of a large cluster are of no section that was asked for, so the loop looks at two bytes of a
record's frame and continues; the batch of an idle controller is known by its bytes. Only that loop, the one in `edges`
and the decoders read varints by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import google_crc32c

from kraftlog.batches import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MAX_BATCH,
    Attribute,
    Batch,
    Buffer,
    Bytes,
    Damage,
    DamageReason,
    Head,
    head_at,
    read_record,
    view_of,
)
from kraftlog.errors import (
    ContradictionError,
    DamagedError,
    GapError,
    ImageTooLargeError,
    MalformedError,
    SnapshotIncomplete,
    TooLargeError,
)
from kraftlog.image import SMALL, Image, Section
from kraftlog.maps import FrozenMap
from kraftlog.partition_records import MIN_INSYNC_REPLICAS
from kraftlog.records import FRAME_VERSION, MAX_RECORD, Decoded, decode, decode_control, key_of
from kraftlog.schema import table
from kraftlog.state import CONTROL_RULES, METADATA_RULES, Rules, State

MAX_DECODED = 20_000
"""Records of a batch that are looked into: one for each node of the largest cluster, many times over. 10,000 are what a
controller writes at once (`QuorumController.MAX_RECORDS_PER_BATCH`), of all types."""
MAX_OF_CLIENTS = 400_000
"""The same with rights and quotas among them: so many of the smallest fit in the largest batch of a snapshot."""

_DECODED = 64  # times the bytes of a record, which its values may take
_COUNT = 200  # bytes of a number that counts records

_BEGIN, _END, _ABORT = table.BEGIN_TRANSACTION.key, table.END_TRANSACTION.key, table.ABORT_TRANSACTION.key
_NO_OP = table.NO_OP.key
_CONFIG = table.CONFIG.key
_MINIMUM = MIN_INSYNC_REPLICAS.encode()

_MANY = 32  # records, from which on a batch is read at once
ONLY_NO_OP = bytes((20, 0, 0, 0, 1, 8, FRAME_VERSION, _NO_OP, 0, 0, 0))  # the only record of a batch
_IDLE = HEADER_SIZE + len(ONLY_NO_OP)
_KEYS = 128  # api keys that fit in one varint byte; a larger one goes the slow way
_CONTINUES = 0x80  # a varint continues
_NULL_KEY = 1  # zigzag of -1
_CODEC, _CONTROL = 0b111, int(Attribute.CONTROL)  # of the attributes of a batch
_LENGTH = struct.Struct(">i")
_LENGTH_AT = LENGTH_END - _LENGTH.size


class Replay:
    """A log as far as it was read. Empty at offset 0; not thread-safe.

    `sections`: what its images hold, all but the partitions unless told; records of others are counted and skipped.
    `limit`: of `weight`; None: none. `at`: where it begins, if what lies before that is not to be known.
    """

    __slots__ = (
        "_counts",
        "_decoded_of_batch",
        "_epoch",
        "_limit",
        "_offset",
        "_pending",
        "_pending_weight",
        "_rules",
        "_sections",
        "_shown",
        "_state",
        "_timestamp_ms",
        "_unreadable",
        "_wanted",
    )

    def __init__(self, *, sections: Iterable[Section] = SMALL, limit: int | None = None, at: int = 0) -> None:
        self._sections = frozenset(sections)
        self._rules, self._wanted = _rules_of(self._sections)
        self._limit = limit
        self._state = State(self._sections)
        self._state.began_anywhere = at > 0
        self._shown: dict[str, Any] | None = None  # the sections of the last image, until one may have changed
        self._offset = at
        self._epoch = -1
        self._timestamp_ms = -1
        self._pending: list[Decoded] | None = None  # None outside of a transaction
        self._pending_weight = 0
        self._decoded_of_batch = 0
        self._counts: dict[int, int] = {}
        self._unreadable = 0

    @property
    def offset(self) -> int:
        """End offset, exclusive: where the next batch starts."""
        return self._offset

    @property
    def epoch(self) -> int:
        """Leader epoch of the last batch, -1 before any."""
        return self._epoch

    @property
    def weight(self) -> int:
        """Bytes of memory that the state and an open transaction take, rather too many than too few."""
        return self._state.weight + self._pending_weight + _COUNT * len(self._counts)

    def load_snapshot(self, data: Buffer, *, end_offset: int, epoch: int) -> None:
        """Forget everything and take the state of a whole snapshot file, of which (end_offset, epoch) is the id.

        Raises what a SnapshotReader raises, the former state untouched.
        """
        reader = SnapshotReader(end_offset=end_offset, epoch=epoch, sections=self._sections, limit=self._limit)
        reader.feed(data)
        fresh = reader.finish()
        for name in Replay.__slots__:
            setattr(self, name, getattr(fresh, name))

    def leave_out(self, section: Section) -> None:
        """Without this section from now on, and without the memory that it takes."""
        self._sections, self._shown = self._sections - {section}, None
        self._rules, self._wanted = _rules_of(self._sections)
        if self._pending is not None:
            self._pending = [each for each in self._pending if each.type.key in self._rules]
        if section is Section.PARTITIONS:
            self._state.partitions = None

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
            self._batch(head, view, start)
            self._offset, self._epoch, self._timestamp_ms = end, head.leader_epoch, head.max_timestamp
        return self._offset

    def _idle(self, view: memoryview, position: int, below: int) -> int:
        """Take the batches of an idle controller, a NoOp each, one every 500 ms; where the first other one begins.

        Whatever is not exactly as expected is left to `append`.
        """
        offset, taken = self._offset, 0
        while offset < below and view[position + HEADER_SIZE : position + _IDLE] == ONLY_NO_OP:
            base, length, epoch, magic, crc, attributes, delta, _, timestamp_ms, *_, records = HEADER.unpack_from(
                view, position
            )
            if (base, length, magic, attributes, delta, records) != (offset, _IDLE - LENGTH_END, MAGIC, 0, 0, 1):
                break
            if google_crc32c.value(view[position + CRC_START : position + _IDLE].tobytes()) != crc:
                break
            position, offset, taken = position + _IDLE, offset + 1, taken + 1
            self._epoch, self._timestamp_ms = epoch, timestamp_ms
        if taken:
            self._offset = self._state.offset = offset
            self._state.timestamp_ms = self._timestamp_ms
            self._count(_NO_OP, taken)
        return position

    def image(self) -> Image:
        """The state now. Cheap; later calls do not change it."""
        if self._shown is None:
            self._shown = {one.value: self._state.section(one) for one in self._sections}
        return Image(
            offset=self._offset,
            epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            in_transaction=self._pending is not None,
            counts=FrozenMap(self._counts),
            unreadable=self._unreadable,
            **self._shown,
        )

    def _batch(self, head: Head, view: memoryview, start: int) -> list[int]:
        """Apply the batch at `start`; of a control batch the type numbers of its records."""
        _judge(head.size)
        end = start + head.size
        self._decoded_of_batch = 0
        try:
            if head.attributes & _CONTROL:
                return self._control(head.batch(view, start))
            if head.base_offset < self._offset:  # the snapshot ended inside this batch
                for record in head.batch(view, start).records():
                    if record.offset >= self._offset:
                        self._value(record.value)
            elif head.attributes & _CODEC:
                section = head.batch(view, start).record_section()
                self._section(section, 0, len(section), head.records)
            else:
                self._section(view, start + HEADER_SIZE, end, head.records)
        except (MalformedError, IndexError):  # IndexError: the loop below ran over the end of a section
            self._unreadable += 1
        return []

    def _control(self, batch: Batch) -> list[int]:
        """Apply a control batch at once, also inside a transaction; the type numbers of its records."""
        types = []
        try:
            for record in batch.records():
                self._about_to_decode(record.value)
                if record.offset < self._offset:
                    continue
                found = decode_control(record.key, record.value)
                if not isinstance(found, Decoded):
                    # An unknown type of control record could be anything about the quorum: it counts against the image.
                    self._unreadable += 1
                    continue
                CONTROL_RULES[found.type.key](self._state, found.data)
                types.append(found.type.key)
        except MalformedError:
            self._unreadable += 1
        self._judge_weight()
        return types

    def _section(self, data: Bytes, position: int, limit: int, count: int) -> None:
        """Apply the records of an uncompressed section, which ends at `limit`."""
        if count < _MANY or self._pending is not None or not self._at_once(data, position, limit, count):
            self._scan(data, position, limit, count)

    def _at_once(self, data: Bytes, position: int, limit: int, count: int) -> bool:
        """As `_scan`, with records of partitions as columns; False, and nothing done, for a section that needs `_scan`.

        What is not as usual takes `_scan` for a block of records, or for all behind it where a transaction begins.
        """
        if self._state.partitions is None:
            return False
        from kraftlog import frames  # numpy, which most readers do without
        from kraftlog.blocks import Sink, take_block
        from kraftlog.edges import edges

        section = memoryview(data)[position:limit]
        places = edges(section, count)
        if places is None:
            return False
        sink = Sink(self._value, self._count, self._judge_weight, self._is_unreadable)
        # The first is half as long: behind it the offset deltas take three bytes.
        for first, end in pairwise([0, *range(frames.BLOCK // 2, count, frames.BLOCK), count]):
            block = places[first : end + 1]
            found = frames.frames(section, block, self._wanted) if self._pending is None else None
            if found is None or found.has_any((_BEGIN, _END, _ABORT)):
                self._scan(section, int(block[0]), int(block[-1]), end - first)
            else:
                take_block(section, found, self._state.partitions, sink)
        return True

    def _is_unreadable(self, times: int) -> None:
        self._unreadable += times

    def _count(self, key: int, times: int) -> None:
        if times:
            self._counts[key] = self._counts.get(key, 0) + times

    def _scan(self, data: Bytes, position: int, limit: int, count: int) -> None:
        """Look at every record of an uncompressed section, which ends at `limit`; decode those the image needs."""
        counts, wanted = self._counts, self._wanted
        for _ in range(count):
            start = position
            byte = data[position]
            position += 1
            length, shift = byte & 0x7F, 7
            while byte & _CONTINUES:
                byte = data[position]
                position += 1
                length |= (byte & 0x7F) << shift
                shift += 7
            end = position + (length >> 1)
            if length & 1 or end > limit:
                raise MalformedError(f"a record that is longer than its batch at byte {start}")
            position += 1  # attributes
            while data[position] & _CONTINUES:  # timestamp delta
                position += 1
            position += 1
            while data[position] & _CONTINUES:  # offset delta
                position += 1
            position += 1
            if data[position] == _NULL_KEY:
                position += 1
                while data[position] & _CONTINUES:  # value length
                    position += 1
                key = data[position + 2]
                # A frame has three bytes at least and the header count follows: shorter ones go the slow way.
                if data[position + 1] == FRAME_VERSION and key < _KEYS and not wanted[key] and position + 4 < end:
                    counts[key] = counts.get(key, 0) + 1
                    position = end
                    continue
            record, position = read_record(data, start, limit, 0, 0)
            self._value(record.value)
        if position != limit:
            raise MalformedError(f"{limit - position} bytes behind the last record")

    def _about_to_decode(self, value: bytes | None) -> None:
        self._decoded_of_batch += 1
        most = MAX_OF_CLIENTS if Section.CLIENTS in self._sections else MAX_DECODED
        if self._decoded_of_batch > most:
            raise TooLargeError(f"more than {most} registrations and levels in one batch")
        if value is not None and len(value) > MAX_RECORD:
            raise TooLargeError(f"a registration or level of {len(value)} bytes; at most {MAX_RECORD} are read")

    def _judge_weight(self) -> None:
        if self._limit is not None and self.weight > self._limit:
            raise ImageTooLargeError(f"registrations and levels take more than {self._limit} bytes of memory")

    def _value(self, value: bytes | None) -> None:
        """A record that the loop above did not skip. It may yet be of no interest: its key may be written longer."""
        key = key_of(value)
        skipped = key >= 0 and not (key < _KEYS and self._wanted[key])
        skipped = skipped or (key == _CONFIG and _MINIMUM not in (value or b""))
        self._about_to_decode(None if skipped else value)
        if not skipped:
            found = decode(value)
            if isinstance(found, Decoded):
                self._decoded(found, len(value or b""))
            else:  # it could have changed the image
                key = found.key
                self._unreadable += 1
        if key >= 0:
            self._count(key, 1)
        self._judge_weight()

    def _decoded(self, record: Decoded, size: int) -> None:
        key = record.type.key
        if key == _BEGIN:
            if self._pending is not None:  # Kafka's controller stops at this; the records so far stay open
                self._unreadable += 1
            else:
                self._pending = []
        elif key in (_END, _ABORT):
            pending, self._pending = self._pending, None
            self._pending_weight = 0
            if pending is None:
                self._unreadable += 1
            elif key == _END:
                for each in pending:
                    self._apply(each)
        elif self._pending is not None:
            self._pending.append(record)
            self._pending_weight += _DECODED * (size + 16)
        else:
            self._apply(record)

    def _apply(self, record: Decoded) -> None:
        try:
            self._rules[record.type.key](self._state, record.data)
        except ContradictionError:
            self._unreadable += 1


def _rules_of(sections: Iterable[Section]) -> tuple[Rules, bytes]:
    """What is done with records that are asked for, and of each api key, whether it is looked into."""
    rules = {key: rule for one in sections for key, rule in METADATA_RULES[one].items()}
    return rules, bytes(key in rules or key in (_BEGIN, _END, _ABORT) for key in range(_KEYS))


class SnapshotReader:
    """A snapshot file, of which (end_offset, epoch) is the id, read as it arrives: in parts, cut anywhere.

    It keeps the image and the batch that is not whole yet, and nothing else. `sections`, `limit`: as of Replay.

    Of the one that ends at offset 0, with which a directory was formatted, Raft takes the voters and kraft.version. Its
    other records are nobody's state until a leader of Kafka 4.4 begins an empty log with them (KIP-1170).
    """

    __slots__ = ("_buffer", "_footer", "_header", "_held", "_id", "_needed", "_position", "_replay")

    def __init__(
        self, *, end_offset: int, epoch: int, sections: Iterable[Section] = SMALL, limit: int | None = None
    ) -> None:
        self._id = end_offset, epoch
        self._replay = Replay(sections=sections, limit=limit)
        if end_offset == 0:
            self._replay._rules, self._replay._wanted = _rules_of(())
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
            _judge(self._needed)  # before memory is taken for it
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
        replay._rules, replay._wanted = _rules_of(replay._sections)
        replay._offset, replay._epoch = self._id
        replay._timestamp_ms = state.snapshot_timestamp_ms
        state.begin_with_snapshot(replay._offset)
        return replay

    def _hold(self, more: memoryview) -> None:
        """Keep these bytes behind those that are held, or in their place where none are."""
        held = self._held + len(more)
        if held > len(self._buffer):
            most = self._needed + len(more)  # that is held before there is something to do
            larger = bytearray(max(held, min(most, 2 * len(self._buffer))))
            memoryview(larger)[: self._held] = memoryview(self._buffer)[: self._held]
            self._buffer = larger
        memoryview(self._buffer)[self._held : held] = more
        self._held = held

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


def _judge(size: int) -> None:
    if size > MAX_BATCH:
        raise TooLargeError(f"a batch of {size} bytes; at most {MAX_BATCH} are read")
