"""Finds the complete, valid record batches in a leader's response, and in a file whose writer was killed.

Called by `kafka/recorder/recorded_log.py` before anything is appended, and when a recording is read again.
"""

from __future__ import annotations

import os
from pathlib import Path

from kafkafeatures.kafka.log.batch_heads import heads
from kafkafeatures.kafka.recorder.durable_files import open_file
from kafkafeatures.kafka.wire.messages import OffsetAndEpoch
from kraftlog.batches import Damage, DamageReason, head_at
from kraftlog.walks import Walk


class NotWhole(Exception):
    """These bytes are not the record batches that a leader serves; the text says which rule they break."""


class _Bytes:
    """The bytes of a file, read when they are needed: a slice of it is a read of the file."""

    def __init__(self, file: int) -> None:
        self._file, self._size = file, os.fstat(file).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, piece: slice) -> memoryview:
        start, end, _ = piece.indices(self._size)
        return memoryview(os.pread(self._file, max(0, end - start), start))


def whole_batches(data: bytes) -> bytes:
    """The complete batches at the beginning of `data`. Raises NotWhole for a damaged batch, or for offsets out of
    order.
    """
    walk, end = Walk(data), 0
    while walk.is_open and (run := walk.run()) is not None:  # a run: batches one after the other; breaks: its damages
        if run.breaks:
            raise NotWhole(next(iter(run.breaks.values()))[0].reason.value)
        end = walk.position
    if end < len(data):
        head = head_at(memoryview(data), end)
        if isinstance(head, Damage) and head.reason is not DamageReason.TRUNCATED:
            raise NotWhole(f"{head.reason.value} ({head.detail})")
    return data[:end]


def cut_below(data: bytes, below: int) -> tuple[bytes, int, OffsetAndEpoch | None]:
    """(batches that end at or before offset `below`, offset of the first one, position after the last one or None)."""
    end, last = 0, None
    for position, size, offset, epoch in heads(data):
        if offset >= below:
            break
        end, last = position + size, OffsetAndEpoch(offset + 1, epoch)
    return data[:end], int.from_bytes(data[:8]), last


def first_epoch(data: bytes) -> int:
    """The leader epoch of the first batch."""
    return next(epoch for _, _, _, epoch in heads(data))


def valid_end(path: Path) -> tuple[OffsetAndEpoch | None, int]:
    """The end of the valid batches at the beginning of a file: (position in the log or None if there is no valid batch,
    bytes from the beginning of the file).
    """
    file = open_file(path, os.O_RDONLY)
    try:
        walk, end, last = Walk(_Bytes(file)), 0, None
        while walk.is_open and (run := walk.run()) is not None:
            batch_count = min(run.breaks, default=len(run.starts) - 1)  # batches before the first damaged one
            if batch_count:
                batch = run.batch(batch_count - 1)
                end = run.position + run.starts[batch_count]
                last = OffsetAndEpoch(batch.last_offset + 1, batch.leader_epoch)
            if run.breaks:
                break
        return last, end
    finally:
        os.close(file)
