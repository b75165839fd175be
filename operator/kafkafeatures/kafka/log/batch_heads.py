"""Finds the boundaries of record batches in bytes of a log by their headers alone; no CRC is checked, no record
decoded.

Called by `held.py` and by the modules of `kafka/recorder/`. Decoding is done by `kraftlog`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kafkafeatures.kafka.wire.messages import OffsetAndEpoch

SLICE = 128 * 1024
"""Bytes of batches that are applied between two turns of the event loop: a few milliseconds. A batch is never cut."""

_BATCH = struct.Struct(">qii")  # base offset, length, leader epoch: the head of a record batch (magic 2)
_LAST_DELTA = struct.Struct(">i")


def heads(data: bytes) -> Iterable[tuple[int, int, int, int]]:
    """(position, size, last offset, epoch) of every whole batch. A head has 61 bytes, with the last offset delta at 23;
    its length field counts neither the base offset nor itself, which are 12 bytes.
    """
    position = 0
    while position + 61 <= len(data):
        base, length, epoch = _BATCH.unpack_from(data, position)
        size = length + 12
        if size < 61 or position + size > len(data):
            return
        (delta,) = _LAST_DELTA.unpack_from(data, position + 23)
        yield position, size, base + delta, epoch
        position += size


def pieces(data: bytes) -> Iterable[memoryview]:
    """The data in pieces of about `SLICE` bytes, cut between batches; the last piece has any incomplete batch at the
    end. The pieces are views of `data`: nothing is copied.
    """
    start, view = 0, memoryview(data)
    if len(data) < SLICE:  # the usual case: a cluster in which nothing happens
        yield view
        return
    for position, size, _, _ in heads(data):
        end = position + size
        if end - start >= SLICE:
            yield view[start:end]
            start = end
    yield view[start:]


def from_offset(data: bytes, offset: int) -> bytes:
    """The batches from the one that contains `offset` on, without an incomplete one at the end."""
    begin = end = None
    for position, size, last, _ in heads(data):
        if last >= offset and begin is None:
            begin = position
        end = position + size
    return b"" if begin is None else data[begin:end]


def end_of(data: bytes) -> OffsetAndEpoch | None:
    """The position after the last complete batch; None where there is none."""
    last: OffsetAndEpoch | None = None
    for _, _, offset, epoch in heads(data):
        last = OffsetAndEpoch(offset + 1, epoch)
    return last
