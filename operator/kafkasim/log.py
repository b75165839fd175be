"""The metadata log of a simulated cluster: real batches, offsets, epochs, a high watermark and one snapshot.

Owned by `world`, which decides what is written; read by the answers to Fetch. Like `KafkaRaftClient` it serves records
up to the end of the log (also uncommitted ones), and tells where the log of a reader diverges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from kraftlog.batches import HEADER_SIZE, Record
from kraftlog.encoding import encode_batch, seal
from kraftlog.records import control, frame
from kraftlog.schema import RecordType, table


class Write(Struct, frozen=True):
    """A record to be written: its type, Kafka's field names, the version."""

    type: RecordType
    data: Mapping[str, Any]
    version: int = 0


class Position(Struct, frozen=True):
    """An end offset (exclusive) and the leader epoch of the record before it."""

    offset: int
    epoch: int


class Snapshot(Struct, frozen=True):
    """A checkpoint file: its id and its bytes."""

    id: Position
    data: bytes


class Piece(Protocol):
    """Bytes that were appended together: one batch, or many batches of an idle controller. `first_ms`: time of the
    first record.
    """

    @property
    def base_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def first_ms(self) -> int: ...

    @property
    def data(self) -> bytes: ...


class _Batch(Struct, frozen=True):
    base_offset: int
    end_offset: int
    epoch: int
    first_ms: int
    data: bytes


class MetadataLog:
    """The log, which is only appended to: nothing is truncated, as a new leader has everything that was appended."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._ends: list[int] = []
        self.high_watermark = 0
        self.snapshot: Snapshot | None = None

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self._pieces[-1].end_offset if self._pieces else 0

    def append(self, writes: Sequence[Write], *, epoch: int, timestamp_ms: int) -> bytes:
        """Write one batch (all control records or none) and return its bytes."""
        base = self.end_offset
        data = encode(writes, base_offset=base, epoch=epoch, timestamp_ms=timestamp_ms)
        self.append_piece(_Batch(base, base + len(writes), epoch, timestamp_ms, data))
        return data

    def append_piece(self, piece: Piece) -> None:
        """Appends what is encoded already; it begins where the log ends."""
        self._pieces.append(piece)
        self._ends.append(piece.end_offset)

    @property
    def pieces(self) -> Sequence[Piece]:
        """The pieces of the whole log, in order."""
        return self._pieces

    def commit(self, offset: int) -> None:
        """Move the high watermark up to `offset`."""
        self.high_watermark = max(self.high_watermark, min(offset, self.end_offset))

    def read(self, offset: int, *, max_bytes: int, below: int | None = None) -> bytes:
        """Whole batches from the one that holds `offset` on: at least one, then as many as fit into `max_bytes`.

        `below` leaves out batches that end behind it.
        """
        chosen: list[bytes] = []
        size = 0
        for piece in self._pieces[bisect_right(self._ends, offset) :]:
            if below is not None and piece.end_offset > below:
                break
            size += len(piece.data)
            if chosen and size > max_bytes:
                break
            chosen.append(piece.data)
        return b"".join(chosen)

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the record before `offset`; 0 at the start of the log."""
        index = bisect_right(self._ends, offset - 1) if offset > 0 else -1
        return self._pieces[min(index, len(self._pieces) - 1)].epoch if index >= 0 and self._pieces else 0

    def diverging(self, offset: int, last_epoch: int) -> Position | None:
        """The position at which a reader's log parts from this one; None if it does not. The reader's log ends at
        `offset` with a record of `last_epoch`.

        Source: `ReplicatedLog.validateOffsetAndEpoch`.
        """
        if offset == 0:
            return None
        count = bisect_right(self._pieces, last_epoch, key=lambda piece: piece.epoch)
        end = Position(self._pieces[count - 1].end_offset, self._pieces[count - 1].epoch) if count else Position(0, 0)
        return None if end.epoch == last_epoch and offset <= end.offset else end


_ONLY_NO_OP = encode_batch([Record(0, 0, frame(table.NO_OP, {}, 0))], leader_epoch=0)[HEADER_SIZE:]


def _idle(base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """A batch with a single NoOp, made fast: most batches of a log are that, and differ only in the header."""
    return seal(
        _ONLY_NO_OP, base_offset=base_offset, leader_epoch=epoch, attributes=0, last_offset_delta=0,
        base_timestamp=timestamp_ms, max_timestamp=timestamp_ms,
        count=1,
    )  # fmt: skip


def encode(writes: Sequence[Write], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """One batch of these records. Raises ValueError if control records and others are mixed."""
    if len(writes) == 1 and writes[0].type is table.NO_OP:
        return _idle(base_offset, epoch, timestamp_ms)
    is_control = writes[0].type.control
    if any(write.type.control is not is_control for write in writes):
        raise ValueError("control records have a batch of their own")
    records = []
    for offset, write in enumerate(writes, base_offset):
        if is_control:
            key, value = control(write.type, write.data, write.version)
            records.append(Record(offset, timestamp_ms, value, key))
        else:
            records.append(Record(offset, timestamp_ms, frame(write.type, write.data, write.version)))
    return encode_batch(records, leader_epoch=epoch, control=is_control)
