"""Variable-length integers, as record batches and flexible messages write them.

Two families share one byte format (seven bits per byte, the lowest group first): zigzag for the signed fields of a
record (`ByteUtils`, KIP-98) and plain unsigned for compact lengths, tags and frames (KIP-482). Called by the readers
and writers of batches and records, such as `batches`, `records` and `encoding`. All readers take a buffer and a
position, and return (value, position after it). They raise MalformedError for a number that is incomplete or too large.
"""

from __future__ import annotations

from kraftlog.errors import MalformedError

_MAX_BYTES = {32: 5, 64: 10}


def read_unsigned(buffer: bytes | memoryview, position: int, bits: int = 32) -> tuple[int, int]:
    """An unsigned varint of at most `bits` bits: (value, position behind it). Raises MalformedError when cut or too
    large.
    """
    if position < len(buffer) and (byte := buffer[position]) < 0x80:  # nearly all are small
        return byte, position + 1
    value = shift = 0
    for at in range(position, position + _MAX_BYTES[bits]):
        if at >= len(buffer):
            raise MalformedError(f"cut variable-length integer at byte {position}")
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return value, at + 1
        shift += 7
    raise MalformedError(f"variable-length integer at byte {position} does not fit in {bits} bits")


def read_signed(buffer: bytes | memoryview, position: int, bits: int = 32) -> tuple[int, int]:
    """A zigzag varint (32 bits) or varlong (64 bits): (value, position behind it)."""
    raw, position = read_unsigned(buffer, position, bits)
    return (raw >> 1) ^ -(raw & 1), position


_SHORT = tuple(bytes([value]) for value in range(0x80))  # most numbers of a log


def unsigned(value: int) -> bytes:
    """The shortest form of a number from 0 to 2**64 - 1, which is the one Kafka writes."""
    if 0 <= value <= 0x7F:
        return _SHORT[value]
    if value < 0 or value >> 64:
        raise ValueError(f"{value} is not an unsigned 64-bit number")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """The zigzag form of a signed 64-bit number; a 32-bit one has the same bytes."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} is not a signed 64-bit number")
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)
