"""Makes texts of many rows at once, as Arrow arrays: numbers, uuids, slices of a file, and joins of these.

The text of a row is joined from parts: a part is a string, which is equal in all rows, or an array with an item for
each row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kraftlog.edges import Positions
from kraftlog.partitions import Bytes

Bools = NDArray[np.bool_]
Parts = list["str | pa.Array"]

UUID = 16  # bytes
_QUOTED = 24  # bytes of its text: 22 characters and two quotes
_GROUPS = 18  # bytes of a uuid, filled up to whole groups of three, each of which makes four characters
_SMALL = 1 << 14  # smaller numbers have a text already: those of most nodes and partitions

_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_PAIRS = np.array([_CHARS[bits >> 6] | _CHARS[bits & 63] << 8 for bits in range(1 << 12)], dtype="<u2")
"""Two characters of base64 for twelve bits."""

_PLAIN = np.zeros(256, dtype=np.bool_)
"""Bytes that JSON does not escape."""
_PLAIN[0x20:0x7F] = True
_PLAIN[[ord('"'), ord("\\")]] = False


def joined(parts: Sequence[str | pa.Array], rows: int) -> pa.Array:
    """The parts of each row put together."""
    short: Parts = []
    for part in parts:
        if isinstance(part, str) and short and isinstance(short[-1], str):
            short[-1] += part
        else:
            short.append(part)
    if len(short) == 1:
        return pa.repeat(short[0], rows) if isinstance(short[0], str) else short[0]
    return pc.binary_join_element_wise(*short, "")


def numbers(values: NDArray[np.signedinteger]) -> pa.Array:
    """Numbers as decimal text."""
    if len(values) and values.min() >= 0 and values.max() < _SMALL:
        return _SMALL_TEXTS.take(pa.array(values))
    return pc.cast(pa.array(values), pa.string())


_SMALL_TEXTS = pc.cast(pa.array(np.arange(_SMALL, dtype=np.int32)), pa.string())


def quoted(content: NDArray[np.void]) -> pa.Array:
    """Uuids of 16 bytes as Kafka writes them (`Uuid.java`), in quotes; each different one is converted once."""
    uuids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(UUID), len(content), [None, pa.py_buffer(content)])
    encoded = uuids.dictionary_encode()
    distinct = np.frombuffer(encoded.dictionary.buffers()[1] or b"", dtype=np.uint8)[: len(encoded.dictionary) * UUID]
    return _quoted(distinct.reshape(-1, UUID)).take(encoded.indices)


def _quoted(content: Bytes) -> pa.Array:
    """Texts of rows of 16 bytes, in base64: three bytes are two numbers of twelve bits, and so two pairs."""
    rows = len(content)
    groups = np.zeros((rows, _GROUPS), dtype=np.uint8)
    groups[:, :UUID] = content
    first, second, third = (groups[:, at::3].astype(np.uint16) for at in range(3))
    pairs = np.empty((rows, 6, 2), dtype="<u2")
    pairs[:, :, 0] = _PAIRS[first << 4 | second >> 4]
    pairs[:, :, 1] = _PAIRS[(second & 0xF) << 8 | third]
    text = np.full((rows, _QUOTED), ord('"'), dtype=np.uint8)
    text[:, 1:-1] = pairs.view(np.uint8).reshape(rows, _QUOTED)[:, : _QUOTED - 2]
    return fixed(text)


def bare(texts: pa.Array) -> pa.Array:
    """Quoted uuids without their quotes."""
    content = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)[: len(texts) * _QUOTED].reshape(-1, _QUOTED)
    return fixed(np.ascontiguousarray(content[:, 1:-1]))


def fixed(content: Bytes) -> pa.Array:
    """A text for each row of bytes."""
    rows, width = content.shape
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(content))


def spans(view: Bytes, starts: Positions, sizes: Positions, kind: pa.DataType) -> pa.Array:
    """Copies of these pieces of the bytes, in their order."""
    # An array over all bytes, whose items are alternately a piece, and the bytes up to the next piece.
    offsets = np.empty(2 * len(starts) + 1, dtype=np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = starts + sizes
    offsets[-1] = offsets[-2] if len(starts) else 0
    with_between = pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(view)])
    return with_between.take(pa.array(np.arange(0, len(offsets) - 1, 2, dtype=np.int32)))


def are_plain(texts: pa.Array) -> Bools:
    """True for texts that JSON does not escape: printable ASCII without quotes and backslashes."""
    offsets = offsets_of(texts)
    content = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)[: offsets[-1]]
    escaped = np.flatnonzero(~_PLAIN[content])
    plain = np.ones(len(texts), dtype=np.bool_)
    plain[np.searchsorted(offsets, escaped, side="right") - 1] = False
    return plain


def offsets_of(array: pa.Array) -> NDArray[np.int32]:
    """Begin of each item in the data of a text array, and the end of the last one. The array must not be a slice."""
    return np.frombuffer(array.buffers()[1], dtype=np.int32)[: len(array) + 1]


def lists(offsets: Positions, items: pa.Array) -> pa.Array:
    """A list array: row i has the items from `offsets[i]` to `offsets[i + 1]`."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items)


def spread(texts: pa.Array, rows: Positions, count: int) -> pa.Array:
    """An array of `count` texts, with these texts at these rows; the others are empty."""
    if len(rows) == count:
        return texts
    sizes = np.zeros(count + 1, dtype=np.int32)
    sizes[rows + 1] = np.diff(offsets_of(texts))
    offsets = np.cumsum(sizes, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), texts.buffers()[2])


def placed(pieces: Sequence[tuple[Positions | None, pa.Array]], rows: int, kind: pa.DataType) -> pa.Array:
    """An array with the items of each piece (rows, items) at its rows; rows None: all. Later pieces replace earlier
    ones; other rows are null.
    """
    if not pieces:
        return pa.nulls(rows, kind)
    if len(pieces) == 1 and pieces[0][0] is None:
        return pieces[0][1]
    index, size = np.full(rows, -1, dtype=np.int64), 0
    for at, array in pieces:
        index[slice(None) if at is None else at] = np.arange(size, size + len(array))
        size += len(array)
    combined = pa.concat_arrays([array for _, array in pieces]) if len(pieces) > 1 else pieces[0][1]
    missing = index < 0
    return combined.take(pa.array(index, mask=missing) if missing.any() else pa.array(index))
