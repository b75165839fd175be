"""Where a large file is cut, so that several workers read it: at the boundaries of batches, and nowhere else.

What it decides: the ranges of a file. Called when a run is planned. A cut is made only where everything before it was
read, is in order up to the checksum, and goes on in order: a reader of the pieces then finds what a reader of the whole
finds, whatever the bytes are. From the first damage on a file is one piece.
"""

from __future__ import annotations

from kraftlog.batches import MAX_BATCH, Head, Pieces, head_at

PIECE = 16 * 1024 * 1024
"""Bytes that a piece has at least, unless it is the last one."""


def ranges(data: Pieces, start: int, piece: int = PIECE) -> list[tuple[int, int]]:
    """From `start`, where a batch begins, to the end of the data; what is less than two pieces is not looked at."""
    begun, position, size = start, start, len(data)
    found: list[tuple[int, int]] = []
    follows: tuple[int, int] | None = None
    while size - begun > 2 * piece:
        head = head_at(data, position) if position < size else None
        if not isinstance(head, Head) or head.size > MAX_BATCH:
            break
        if follows is not None and (head.base_offset != follows[0] or head.leader_epoch < follows[1]):
            break
        if position - begun >= piece:
            found.append((begun, position))
            begun = position
        follows = head.base_offset + head.last_offset_delta + 1, head.leader_epoch
        position += head.size
    return [*found, (begun, size)] if begun < size else found
