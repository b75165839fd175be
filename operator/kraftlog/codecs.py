"""Decompresses record sections that are compressed with snappy, lz4 or zstd, with pyarrow if that is installed.

Called by `batches.inflate`, which limits the uncompressed size. Controllers do not compress, so pyarrow is an extra
(`kraftlog[arrow]`), and is imported with the first compressed batch. Kafka's snappy format is that of snappy-java
(`SnappyInputStream`): a header, and blocks with their lengths; a single block without a header is accepted as well.
Each block contains its uncompressed length, which is checked before memory is reserved.
"""

from __future__ import annotations

import struct

from kraftlog.errors import CodecMissing, MalformedError
from kraftlog.varints import read_unsigned

_SNAPPY_JAVA = b"\x82SNAPPY\x00"
_HEADER = len(_SNAPPY_JAVA) + 8  # bytes: behind the name come two versions of 4 bytes
_LENGTH = struct.Struct(">i")  # of a block


def inflated(section: bytes, name: str, most: int) -> bytes:
    """The uncompressed section. name: snappy, lz4 or zstd. Raises CodecMissing without pyarrow, MalformedError for
    invalid bytes, or for more than `most` bytes.
    """
    try:
        import pyarrow
    except ImportError:
        raise CodecMissing(f"compressed with {name}: to read it, install pyarrow (kraftlog[arrow])") from None
    try:
        if name == "snappy":
            return _snappy(section, most)
        with pyarrow.CompressedInputStream(pyarrow.py_buffer(section), name) as stream:
            plain: bytes = stream.read(most + 1)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        if isinstance(error, MalformedError):
            raise
        raise MalformedError(f"{name}: the section is cut or damaged") from None
    if len(plain) > most:
        raise MalformedError(f"{name}: more than {most} bytes uncompressed")
    return plain


def _snappy(section: bytes, most: int) -> bytes:
    """The blocks of a section, uncompressed, with at most `most` bytes together."""
    if not section.startswith(_SNAPPY_JAVA):
        return _block(section, most)
    parts, position = [], _HEADER
    while position < len(section):
        if position + _LENGTH.size > len(section):
            raise MalformedError("snappy: the section is cut")
        (size,) = _LENGTH.unpack_from(section, position)
        position += _LENGTH.size
        if not 0 < size <= len(section) - position:
            raise MalformedError(f"snappy: a block of {size} bytes at byte {position}")
        part = _block(section[position : position + size], most)
        most -= len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _block(block: bytes, most: int) -> bytes:
    import pyarrow

    size, _ = read_unsigned(block, 0)
    if size > most:
        raise MalformedError("snappy: too large uncompressed")
    plain: bytes = pyarrow.decompress(block, decompressed_size=size, codec="snappy", asbytes=True)
    return plain
