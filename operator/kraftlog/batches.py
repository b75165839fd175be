"""Reads record batches (magic 2): headers, checksums (CRC-32C), and the records inside.

It decides whether the bytes at a position are a batch or damage; damage is a return value, not an exception. Called by
the modules of kraftlog that find the positions, such as `walks` and `replay`. `encoding` writes batches. It opens no
file, and does not decode the values of records.

A batch is a view of the caller's bytes, which are not copied: keeping a batch keeps these bytes in memory, and they
must not be changed. Values of records are copies.

The CRC covers the bytes from `attributes` on. It does not cover baseOffset, partitionLeaderEpoch and the length before
it, so that a broker can assign offsets without a new CRC. A flipped bit there is only visible as a break in the order
of offsets or epochs, and is reported as that. Layout: KIP-98, `DefaultRecordBatch.java`.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from mmap import mmap
from typing import NamedTuple, Protocol

import google_crc32c

from kraftlog.errors import MalformedError
from kraftlog.varints import read_signed, read_unsigned

Buffer = bytes | bytearray | memoryview | mmap
Bytes = bytes | memoryview


class Pieces(Protocol):
    """Bytes that are read when they are sliced, such as a file. A memoryview is one, too."""

    def __len__(self) -> int: ...

    def __getitem__(self, piece: slice, /) -> memoryview: ...


HEADER_SIZE = 61
LENGTH_END = 12  # batchLength counts the bytes behind itself
CRC_START = 21  # the checksum covers attributes and all that follows
MAGIC = 2
MAGIC_AT = 16

HEADER = struct.Struct(">qiibIhiqqqhii")  # baseOffset .. record count
_PIECE = 256 * 1024
"""Bytes that are copied at a time for functions that take no views: the CRC and the search."""

MAX_BATCH = 16 * 1024 * 1024
"""Bytes; a controller writes at most half of it (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`)."""

# Limits of decompression, so that hostile bytes do not take much more memory and time than their size: a controller
# writes at most 8 MiB per batch (KafkaRaftClient), and compresses none.
MAX_INFLATED = 16 * 1024 * 1024  # bytes of a section, uncompressed
MAX_RATIO = 8  # uncompressed bytes for each compressed one
ALWAYS_INFLATED = 4096  # bytes that are allowed in addition, whatever the ratio: small sections may compress well

_BEGIN = struct.Struct("5B")  # of a record: attributes, deltas of time and offset, lengths of key and value
_ONE_BYTE = 0x7F  # the largest number that is written in one byte
_NULL = 1  # zigzag of -1, the length of a key that is not there

MAX_HEADERS = 1000
"""Most headers of a record; a controller writes none. Each takes many times the memory of its two bytes."""


class Codec(enum.IntEnum):
    """Compression of the record section (attributes, bits 0-2). 5 to 7 are unassigned."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
    UNASSIGNED_5 = 5
    UNASSIGNED_6 = 6
    UNASSIGNED_7 = 7


class Attribute(enum.IntFlag):
    """The bits of the attributes above the codec."""

    LOG_APPEND_TIME = 1 << 3
    TRANSACTIONAL = 1 << 4
    CONTROL = 1 << 5
    DELETE_HORIZON = 1 << 6


# Plain integers, since these are tested for every batch, and an enum operation creates a new object each time.
_CODECS = tuple(Codec)
_CONTROL = int(Attribute.CONTROL)
CODEC_OR_CONTROL = 0b111 | _CONTROL
"""Attribute bits that are 0 in usual batches, which are neither compressed nor control batches."""


class DamageReason(enum.Enum):
    """Reasons why bytes were not read as a batch, and kinds of breaks in the order of batches."""

    TRUNCATED = "the last batch is cut"
    ZEROS = "zeros to the end, as in a preallocated file"
    LENGTH = "the length of the batch is impossible"
    MAGIC = "the batch has another magic than 2"
    CRC = "the CRC-32C of the batch is wrong"
    RECORDS = "the records of the batch do not follow their layout"
    CODEC = "the batch is compressed, and what reads its codec is not installed"
    OFFSET_ORDER = "the batch does not start where the one before it ended"
    EPOCH_ORDER = "the leader epoch goes back"


@dataclass(frozen=True, slots=True)
class Damage:
    """`size` bytes at `position` that were skipped because of `reason`. A break in the order skips nothing, and has
    size 0.
    """

    position: int
    size: int
    reason: DamageReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a record: key and value."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record of a batch. Pass `value` of a data record to `records.decode`, and key and value of a control record
    to `records.decode_control`.
    """

    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    attributes: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch whose CRC is correct. `data` is the whole batch with its header, as a view of the bytes that were
    walked over; `position` is where the batch starts in them.
    """

    position: int
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    crc: int
    data: memoryview = field(repr=False)

    @property
    def last_offset(self) -> int:
        """The offset of the last record, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def size(self) -> int:
        """Bytes, header included."""
        return len(self.data)

    @property
    def codec(self) -> Codec:
        """Compression of the record section."""
        return _CODECS[self.attributes & 0b111]

    @property
    def is_control(self) -> bool:
        """True for a control batch, whose records are those of the Raft quorum: leader change, snapshot header and
        footer, kraft.version, voters.
        """
        return self.attributes & _CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """True for a batch of a producer transaction. Metadata transactions (KIP-868) are something else: records mark
        them.
        """
        return bool(self.attributes & Attribute.TRANSACTIONAL)

    def record_section(self) -> Bytes:
        """The records uncompressed. Raises what `inflate` raises."""
        return inflate(self.data[HEADER_SIZE:], self.codec)

    def records(self) -> Iterator[Record]:
        """The records in order. Raises MalformedError at the first one that does not follow the layout; the records
        before it are yielded.
        """
        section = self.record_section()
        position = 0
        for _ in range(self.count):
            record, position = read_record(section, position, len(section), self.base_offset, self.base_timestamp)
            yield record
        if position != len(section):
            raise MalformedError(
                f"{len(section) - position} bytes behind the last record of the batch at offset {self.base_offset}"
            )


def inflate(section: Bytes, codec: Codec) -> Bytes:
    """The uncompressed record section. Raises MalformedError for invalid bytes, CodecMissing if the library is not
    installed.

    The Raft client itself compresses nothing (KafkaRaftClient).
    """
    if codec is Codec.NONE:
        return section
    most = min(MAX_INFLATED, ALWAYS_INFLATED + MAX_RATIO * len(section))
    if codec > Codec.ZSTD:
        raise MalformedError(f"compressed with codec {int(codec)}, which no release of Kafka has")
    if codec is not Codec.GZIP:
        from kraftlog.codecs import inflated

        return inflated(bytes(section), codec.name.lower(), most)
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(section, most)
    except zlib.error as error:
        raise MalformedError(f"gzip: {error}") from None
    if not inflater.eof or inflater.unused_data:
        raise MalformedError("gzip: the stream is cut, too large or followed by other bytes")
    return plain


def read_record(section: Bytes, position: int, limit: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """(record at `position` of an uncompressed section that ends at `limit`, position after it). Raises
    MalformedError.
    """
    usual = usual_record(section, position, limit)
    if usual:
        time_delta, offset_delta, start, end = usual
        return Record(base_offset + offset_delta, base_timestamp + time_delta, bytes(section[start : end - 1])), end
    length, start = read_signed(section, position)
    end = start + length
    if length < 0 or end > limit:
        raise MalformedError(f"a record of {length} bytes at byte {position} of {limit}")
    if start == end:
        raise MalformedError(f"an empty record at byte {position}")
    body = bytes(section[start:end])
    timestamp_delta, at = read_signed(body, 1, 64)
    offset_delta, at = read_signed(body, at)
    key, at = _read_bytes(body, at)
    value, at = _read_bytes(body, at)
    count, at = read_signed(body, at)
    if not 0 <= count <= min(len(body), MAX_HEADERS):
        raise MalformedError(f"a record with {count} headers at byte {position}")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(body, at)
        header, at = _read_bytes(body, at)
        try:
            headers.append(Header((name or b"").decode(), header))
        except UnicodeDecodeError:
            raise MalformedError(f"a header key that is not text at byte {position}") from None
    if at != len(body):
        raise MalformedError(f"{len(body) - at} bytes behind the headers of the record at byte {position}")
    attributes = body[0]
    return Record(
        base_offset + offset_delta, base_timestamp + timestamp_delta, value, key, tuple(headers), attributes
    ), end


def usual_record(section: Bytes, position: int, limit: int) -> tuple[int, int, int, int] | None:
    """Read a record without attributes, key and headers, like nearly all records of a metadata log.

    Returns (delta of time, delta of offset, position of the value, position of the next record); the value ends one
    byte before the next record. None for any other record.
    """
    try:
        size, start = section[position], position + 1
        if size > _ONE_BYTE:
            size, start = read_unsigned(section, position)
        attributes, timestamp, offset, key, length = _BEGIN.unpack_from(section, start)
        at, end = start + 5, start + (size >> 1)
        if timestamp > _ONE_BYTE or offset > _ONE_BYTE:
            timestamp, at = read_unsigned(section, start + 1, 64)
            offset, at = read_unsigned(section, at)
            key, length, at = section[at], section[at + 1], at + 2  # a null key has one byte
        if length > _ONE_BYTE:
            length, at = read_unsigned(section, at - 1)
    except (struct.error, IndexError, MalformedError):
        return None
    # In zigzag odd numbers are negative: the value is not null, and the lengths agree.
    if attributes or key != _NULL or (size | length) & 1 or at + (length >> 1) + 1 != end or end > limit:
        return None
    if section[end - 1]:  # it has headers
        return None
    return (timestamp >> 1) ^ -(timestamp & 1), (offset >> 1) ^ -(offset & 1), at, end


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = read_signed(body, position)
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(body):
        raise MalformedError(f"a field of {length} bytes in a record of {len(body)}")
    return body[start:end], end


def view_of(data: Buffer) -> memoryview:
    """A read-only view of the bytes."""
    return memoryview(data).toreadonly()


class Head(NamedTuple):
    """The header of a batch, in the order of its bytes: cheaper than a `Batch`, for readers that skip most batches."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def size(self) -> int:
        return LENGTH_END + self.length

    def batch(self, data: Pieces, position: int) -> Batch:
        """The batch that begins with this header, at `position`."""
        return Batch(
            position, self.base_offset, self.leader_epoch, self.attributes & 0xFFFF, self.last_offset_delta,
            self.base_timestamp, self.max_timestamp, self.producer_id, self.producer_epoch, self.base_sequence,
            self.records, self.crc, data[position : position + self.size],
        )  # fmt: skip


def head_at(data: Pieces, position: int) -> Head | Damage:
    """The header of the batch at `position`, if that is complete and has a correct CRC; else the damage.

    The reason is TRUNCATED if the batch may continue after the data, or LENGTH, MAGIC or CRC if it cannot be a batch.
    """
    head = claimed_at(data, position)
    return head if isinstance(head, Damage) else checked(data, position, head)


def claimed_at(data: Pieces, position: int) -> Head | Damage:
    """The header at `position` if its values are plausible, without a check of the CRC; else the damage."""
    remaining = len(data) - position
    if remaining < HEADER_SIZE:
        return Damage(position, remaining, DamageReason.TRUNCATED, f"{remaining} bytes of a header of {HEADER_SIZE}")
    head = Head._make(HEADER.unpack(data[position : position + HEADER_SIZE]))
    size, offset = LENGTH_END + head.length, head.base_offset
    if head.magic != MAGIC:
        return Damage(position, min(max(size, 0), remaining), DamageReason.MAGIC, f"magic {head.magic}")
    if size < HEADER_SIZE or offset < 0:
        return Damage(position, remaining, DamageReason.LENGTH, f"length {head.length}, base offset {offset}")
    if size > remaining:
        return Damage(position, remaining, DamageReason.TRUNCATED, f"{remaining} of {size} bytes")
    return head


def checked(data: Pieces, position: int, head: Head) -> Head | Damage:
    """The header, if its CRC is correct for the bytes of its batch; else the damage."""
    crc = 0
    for _, piece in pieces(data, position + CRC_START, position + head.size):  # the CRC function takes no views
        crc = google_crc32c.extend(crc, piece)
    if crc != head.crc:
        return Damage(position, head.size, DamageReason.CRC, f"base offset {head.base_offset}")
    if head.records < 0 or head.last_offset_delta < 0:
        detail = f"{head.records} records, last offset delta {head.last_offset_delta}"
        return Damage(position, head.size, DamageReason.LENGTH, detail)
    return head


def pieces(data: Pieces, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(position, copy) of each piece of the bytes from `start` to `end`."""
    for at in range(start, end, _PIECE):
        yield at, bytes(data[at : min(at + _PIECE, end)])
