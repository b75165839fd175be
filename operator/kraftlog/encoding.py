"""Writes record batches in the form in which Kafka writes them, uncompressed or with gzip.

`batches` reads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import google_crc32c

from kraftlog.batches import CRC_START, HEADER, HEADER_SIZE, LENGTH_END, MAGIC, Attribute, Codec, Record
from kraftlog.varints import signed

_CRC = struct.Struct(">I")


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """A record with its length, as in an uncompressed record section."""
    out = bytearray([record.attributes])
    out += signed(record.timestamp_ms - base_timestamp)
    out += signed(record.offset - base_offset)
    for part in (record.key, record.value):
        out += _encode_bytes(part)
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
) -> bytes:
    """Make a batch of at least one record, with ascending offsets. Values that are not given are taken from the
    records. `attributes` choose the codec: none or gzip. Raises ValueError without records, or for another codec.
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
    count: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Put a header with length and CRC before a record section, which the caller has compressed if the attributes name
    a codec.
    """
    batch = bytearray(HEADER_SIZE) + section
    signed_attributes = attributes - 0x10000 if attributes > 0x7FFF else attributes
    HEADER.pack_into(
        batch, 0, base_offset, len(batch) - LENGTH_END, leader_epoch, MAGIC, 0, signed_attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip
    _CRC.pack_into(batch, CRC_START - _CRC.size, google_crc32c.value(bytes(batch[CRC_START:])))
    return bytes(batch)
