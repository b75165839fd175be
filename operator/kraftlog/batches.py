"""Record batches (magic 2): a walk over the bytes of a log or snapshot, the records inside, and the way back.

What it decides: where a batch starts and ends, whether it is what was written (CRC-32C), and what to say about bytes
that are no batch. A walk never stops at damage and never hides it: each damage is a value with its position, and the
walk goes on at the next batch whose CRC holds. Called by `replay`, by tools that read files, and by whoever writes a
log. It never opens a file and never decodes a record's value.

The CRC covers the bytes from `attributes` on. baseOffset, partitionLeaderEpoch and the length lie before it (so that a
broker can assign offsets without touching the rest): a flipped bit there can only show as a break in the order of
offsets or epochs, and is reported as such. Layout: KIP-98, `DefaultRecordBatch.java`.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import google_crc32c

from kraftlog.errors import MalformedError
from kraftlog.varints import read_signed, signed

Buffer = bytes | bytearray | memoryview

HEADER_SIZE = 61
LENGTH_END = 12  # batchLength counts the bytes behind itself
CRC_START = 21  # the checksum covers attributes and all that follows
MAGIC = 2
MAGIC_AT = 16

HEADER = struct.Struct(">qiibIhiqqqhii")  # baseOffset .. record count
_CRC = struct.Struct(">I")

# A controller writes at most 8 MiB per batch (KafkaRaftClient), and none of them compressed: whoever does may not take
# much more memory and time with it than with the same bytes as they are.
MAX_INFLATED = 16 * 1024 * 1024
MAX_RATIO = 8
ALWAYS_INFLATED = 4096

# Of one record; a controller writes none. Each takes many times the memory of its two bytes.
MAX_HEADERS = 1000


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


# Asked of every batch, a hundred of them in a minute of an idle log: enums make a new value for each question.
_CODECS = tuple(Codec)
_CONTROL = int(Attribute.CONTROL)


class DamageReason(enum.Enum):
    """Why bytes were not given out as a batch, or what breaks the order."""

    TRUNCATED = "the last batch is cut"
    ZEROS = "zeros to the end, as in a preallocated file"
    LENGTH = "the length of the batch is impossible"
    MAGIC = "the batch has another magic than 2"
    CRC = "the CRC-32C of the batch is wrong"
    OFFSET_ORDER = "the batch does not start where the one before it ended"
    EPOCH_ORDER = "the leader epoch goes back"


@dataclass(frozen=True, slots=True)
class Damage:
    """`size` bytes at `position` that were skipped for `reason`; size 0 for a break in the order, where nothing was
    skipped.
    """

    position: int
    size: int
    reason: DamageReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """One header of a record."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the batch frames it; `value` of a data record is a frame for `records.decode`, key and value of a
    control record too.
    """

    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    attributes: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch whose CRC holds. `data` is the whole of it, header included; `position` is where it starts in what was
    walked over.
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
    data: bytes

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
        """Whether its records are the quorum's own: leader change, snapshot header, footer, kraft.version, voters."""
        return self.attributes & _CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        """Whether a producer transaction wrote it; not the metadata transactions of KIP-868, which are records."""
        return bool(self.attributes & Attribute.TRANSACTIONAL)

    def record_section(self) -> bytes:
        """The records uncompressed. Raises MalformedError for a codec other than none and gzip, or a gzip stream that
        is none.
        """
        return inflate(self.data[HEADER_SIZE:], self.codec)

    def records(self) -> Iterator[Record]:
        """The records in order. Raises MalformedError where the section does not follow its layout, after those before
        that point.
        """
        section = self.record_section()
        position = 0
        for _ in range(self.count):
            record, position = read_record(section, position, self.base_offset, self.base_timestamp)
            yield record
        if position != len(section):
            raise MalformedError(
                f"{len(section) - position} bytes behind the last record of the batch at offset {self.base_offset}"
            )


def inflate(section: bytes, codec: Codec) -> bytes:
    """A record section uncompressed; MalformedError for codecs this package does not carry. The Raft client itself
    writes none (KafkaRaftClient).
    """
    if codec is Codec.NONE:
        return section
    if codec is not Codec.GZIP:
        raise MalformedError(f"compressed with {codec.name.lower()}, which is not read here")
    inflater = zlib.decompressobj(wbits=31)
    most = min(MAX_INFLATED, ALWAYS_INFLATED + MAX_RATIO * len(section))
    try:
        plain = inflater.decompress(section, most)
    except zlib.error as error:
        raise MalformedError(f"gzip: {error}") from None
    if not inflater.eof or inflater.unused_data:
        raise MalformedError("gzip: the stream is cut, too large or followed by other bytes")
    return plain


def read_record(section: bytes, position: int, base_offset: int, base_timestamp: int) -> tuple[Record, int]:
    """One record at `position` of an uncompressed section and the position behind it. Raises MalformedError."""
    length, start = read_signed(section, position)
    end = start + length
    if length < 0 or end > len(section):
        raise MalformedError(f"a record of {length} bytes at byte {position} of {len(section)}")
    if start == end:
        raise MalformedError(f"an empty record at byte {position}")
    body = section[start:end]
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
            raise MalformedError(f"a header key that is no text at byte {position}") from None
    if at != len(body):
        raise MalformedError(f"{len(body) - at} bytes behind the headers of the record at byte {position}")
    attributes = body[0]
    return Record(
        base_offset + offset_delta, base_timestamp + timestamp_delta, value, key, tuple(headers), attributes
    ), end


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = read_signed(body, position)
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(body):
        raise MalformedError(f"a field of {length} bytes in a record of {len(body)}")
    return body[start:end], end


def batch_at(data: bytes, position: int) -> Batch | Damage:
    """The batch at `position`, or what is wrong there: TRUNCATED when it may go on behind the data, LENGTH, MAGIC or
    CRC when it is none.
    """
    left = len(data) - position
    if left < HEADER_SIZE:
        return Damage(position, left, DamageReason.TRUNCATED, f"{left} bytes of a header of {HEADER_SIZE}")
    base_offset, length, epoch, magic, crc, *rest = HEADER.unpack_from(data, position)
    size = LENGTH_END + length
    if magic != MAGIC:
        return Damage(position, min(max(size, 0), left), DamageReason.MAGIC, f"magic {magic}")
    if size < HEADER_SIZE or base_offset < 0:
        return Damage(position, left, DamageReason.LENGTH, f"length {length}, base offset {base_offset}")
    if size > left:
        return Damage(position, left, DamageReason.TRUNCATED, f"{left} of {size} bytes")
    if google_crc32c.value(data[position + CRC_START : position + size]) != crc:
        return Damage(position, size, DamageReason.CRC, f"base offset {base_offset}")
    attributes, last_delta, base_time, max_time, producer, producer_epoch, sequence, count = rest
    if count < 0 or last_delta < 0:
        return Damage(position, size, DamageReason.LENGTH, f"{count} records, last offset delta {last_delta}")
    return Batch(
        position, base_offset, epoch, attributes & 0xFFFF, last_delta, base_time, max_time,
        producer, producer_epoch, sequence, count, crc, data[position : position + size],
    )  # fmt: skip


def walk(data: Buffer) -> Iterator[Batch | Damage]:
    """Every batch of a file in order, and every damage where it was met.

    Behind damaged bytes the walk goes on at the next position at which a batch holds its CRC; a cut or zero tail ends
    it. A break in the order of offsets or epochs is told before the batch that breaks it.
    """
    buffer = bytes(data)
    position, end_offset, epoch = 0, None, -1
    while position < len(buffer):
        found = batch_at(buffer, position)
        if isinstance(found, Damage):
            found = _measure(buffer, found)
            yield found
            position += found.size
            continue
        if end_offset is not None and found.base_offset != end_offset:
            detail = f"base offset {found.base_offset}, expected {end_offset}"
            yield Damage(position, 0, DamageReason.OFFSET_ORDER, detail)
        if found.leader_epoch < epoch:
            detail = f"leader epoch {found.leader_epoch} after {epoch}"
            yield Damage(position, 0, DamageReason.EPOCH_ORDER, detail)
        yield found
        position += found.size
        end_offset, epoch = found.last_offset + 1, found.leader_epoch


def _measure(data: bytes, damage: Damage) -> Damage:
    """The damage with its true size: up to the next batch whose CRC holds, or to the end.

    The length of a damaged batch may itself be the damage, so it is not trusted: the search looks at every byte that
    could be a magic.
    """
    start = damage.position
    at = data.find(MAGIC, start + MAGIC_AT + 1)
    while at != -1:
        candidate = at - MAGIC_AT
        if isinstance(batch_at(data, candidate), Batch):
            reason = DamageReason.LENGTH if damage.reason is DamageReason.TRUNCATED else damage.reason
            return Damage(start, candidate - start, reason, damage.detail)
        at = data.find(MAGIC, at + 1)
    if data.count(0, start) == len(data) - start:
        return Damage(start, len(data) - start, DamageReason.ZEROS)
    return Damage(start, len(data) - start, damage.reason, damage.detail)


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """One record with its length in front, as it stands in an uncompressed section."""
    out = bytearray([record.attributes])
    out += signed(record.timestamp_ms - base_timestamp)
    out += signed(record.offset - base_offset)
    for field in (record.key, record.value):
        out += _encode_bytes(field)
    out += signed(len(record.headers))
    for header in record.headers:
        out += _encode_bytes(header.key.encode())
        out += _encode_bytes(header.value)
    return signed(len(out)) + bytes(out)


def _encode_bytes(field: bytes | None) -> bytes:
    return signed(-1) if field is None else signed(len(field)) + field


def encode_batch(
    records: Sequence[Record],
    *,
    leader_epoch: int,
    control: bool = False,
    base_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A batch of at least one record, offsets ascending. What is not given is taken from the records; codec none or
    gzip by `attributes`.
    """
    if not records:
        raise ValueError("a batch holds at least one record")
    first = records[0].offset if base_offset is None else base_offset
    time = records[0].timestamp_ms if base_timestamp is None else base_timestamp
    section = b"".join(encode_record(record, first, time) for record in records)
    flags = attributes | (Attribute.CONTROL if control else 0)
    codec = Codec(flags & 0b111)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(wbits=31)
        section = packer.compress(section) + packer.flush()
    elif codec is not Codec.NONE:
        raise ValueError(f"batches are not written with {codec.name.lower()} here")
    return seal(
        section,
        base_offset=first,
        leader_epoch=leader_epoch,
        attributes=flags,
        last_offset_delta=records[-1].offset - first if last_offset_delta is None else last_offset_delta,
        base_timestamp=time,
        max_timestamp=max(r.timestamp_ms for r in records) if max_timestamp is None else max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(records),
    )


def seal(
    section: bytes,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """Header, length and CRC in front of a record section that is ready (compressed, if the attributes say so)."""
    batch = bytearray(HEADER_SIZE) + section
    signed_attributes = attributes - 0x10000 if attributes > 0x7FFF else attributes
    HEADER.pack_into(
        batch, 0, base_offset, len(batch) - LENGTH_END, leader_epoch, MAGIC, 0, signed_attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    _CRC.pack_into(batch, CRC_START - _CRC.size, google_crc32c.value(bytes(batch[CRC_START:])))
    return bytes(batch)


def reencode(batch: Batch) -> bytes:
    """The batch built anew from its parts. Uncompressed ones come out bit for bit; a gzip section is kept as it came,
    its making is not unique.
    """
    if batch.codec is Codec.NONE:
        section = b"".join(encode_record(r, batch.base_offset, batch.base_timestamp) for r in batch.records())
    else:
        section = batch.data[HEADER_SIZE:]
    return seal(
        section,
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=batch.count,
    )
