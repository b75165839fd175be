"""Walks over the batches of a file, to its last byte.

It decides where batches start and end. A walk does not end at damage and does not hide it: each damage is returned with
its position, and the walk continues at the next batch with a correct CRC. It opens no file, and reads no records.

Batches are views of the caller's bytes, such as a mapped file (`mmap`); a file that may be truncated meanwhile must be
read in pieces instead (`Pieces`). Fast readers take many batches at once, as runs, which are copies.

For any bytes, a walk takes no more memory than the largest batch, and time proportional to the length of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from mmap import mmap

import google_crc32c

from kraftlog.batches import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    MAX_BATCH,
    Batch,
    Buffer,
    Damage,
    DamageReason,
    Head,
    Pieces,
    checked,
    claimed_at,
    pieces,
    view_of,
)

_FACTS = struct.Struct(">qiibI2xi30xi")  # of a header: base offset, length, epoch, magic, CRC, last delta, count
_LENGTH = struct.Struct(">i")

# Bytes of a run. It grows while nothing is damaged, so that a file with much damage does not cause many large copies.
_MIN_RUN, _MAX_RUN = 64 * 1024, 4 * 1024 * 1024

_CLAIM = struct.Struct(">qi5xI")  # of a header: base offset, length, CRC
_LENGTH_AT = 8
_SEARCHED = 128 * 1024  # bytes that are searched for batches at a time
_MANY = 32  # bytes: if more than one in so many may begin a batch, more bytes of the header are compared

_IS_MAGIC, _IS_ZERO, _IS_MORE, _IS_LONG, _IS_POSITIVE = (
    bytes(map(fits, range(256)))
    for fits in (MAGIC.__eq__, (0).__eq__, (0).__ne__, (HEADER_SIZE - LENGTH_END).__le__, (0x80).__gt__)
)
"""Tables for `bytes.translate`: they turn a byte that a header may have at a position into 1, and any other into 0. In
order: the magic; the first byte of a length below 16 MiB; its second and third byte, if that is not 0; its last byte,
if the others are 0; the first byte of an offset that is not negative.
"""

_CHECKED = 16
"""A walk computes CRCs over at most this many times the bytes of the file: a hostile file may look like a batch at
every position.
"""


def walk(data: Buffer | Pieces) -> Iterator[Batch | Damage]:
    """Yield every batch of a file in order, and damage at its position.

    After damaged bytes the walk continues at the next batch with a correct CRC; an incomplete batch or zeros at the end
    of the file end it. A break in the order of offsets or epochs comes before the batch that causes it.
    """
    steps = Walk(data)
    while steps.is_open:
        yield from steps.next()


@dataclass(frozen=True, slots=True)
class Run:
    """Successive batches with correct CRCs, in a copy of their bytes.

    position: of the first batch in the file. data: the copy; bytes of the next batch may follow. starts: position of
    each batch in `data`, and then the end of the last one. breaks: breaks in the order of offsets or epochs, by the
    index of the batch that causes them.
    """

    position: int
    data: bytes = field(repr=False)
    starts: list[int] = field(repr=False)
    breaks: dict[int, list[Damage]]

    def batch(self, number: int) -> Batch:
        """The batch with this index."""
        start, end = self.starts[number], self.starts[number + 1]
        head = Head._make(HEADER.unpack_from(self.data, start))
        batch = head.batch(memoryview(self.data)[start:end], 0)
        return replace(batch, position=self.position + start)


class Walk:
    """A walk in steps: to the next batch or damage, or over a run of batches. position: the current one in the file."""

    def __init__(self, data: Buffer | Pieces, position: int = 0) -> None:
        self._data: Pieces = view_of(data) if isinstance(data, bytes | bytearray | memoryview | mmap) else data
        self._heads = _BatchHeads(self._data, position)
        self._end_offset: int | None = None  # of the batch before; None: the first one may have any offset
        self._epoch = -1  # of the batch before
        self._run_size = _MIN_RUN
        self.position = position

    @property
    def is_open(self) -> bool:
        """True while there are bytes left."""
        return self.position < len(self._data)

    def next(self) -> Iterator[Batch | Damage]:
        """Move on by one damage, which is yielded, or by one batch, which is yielded after the breaks that it
        causes.
        """
        head = self._heads.at(self.position)
        if isinstance(head, Damage):
            damage = _measure(self._data, head, self._heads)
            yield damage
            self.position += damage.size
            self._run_size = _MIN_RUN
            return
        batch = head.batch(self._data, self.position)
        yield from self._breaks(self.position, head.base_offset, head.leader_epoch)
        yield batch
        self.position += batch.size
        self._end_offset, self._epoch = batch.last_offset + 1, batch.leader_epoch

    def _breaks(self, position: int, base_offset: int, epoch: int) -> Iterator[Damage]:
        if self._end_offset is not None and base_offset != self._end_offset:
            detail = f"base offset {base_offset}, expected {self._end_offset}"
            yield Damage(position, 0, DamageReason.OFFSET_ORDER, detail)
        if epoch < self._epoch:
            yield Damage(position, 0, DamageReason.EPOCH_ORDER, f"leader epoch {epoch} after {self._epoch}")

    def run(self) -> Run | None:
        """Move on over the batches at the current position, up to a few megabytes. None, without a move, at damage or
        at the end: then call `next`.
        """
        data, began = self._piece(), self.position
        starts, breaks = list[int](), dict[int, list[Damage]]()
        at, last, budget = 0, len(data) - HEADER_SIZE, self._heads.budget
        unpack, crc_of = _FACTS.unpack_from, google_crc32c.value
        end_offset, last_epoch = self._end_offset, self._epoch  # as locals, which are faster in this loop
        while at <= last:
            offset, length, epoch, magic, crc, delta, records = unpack(data, at)
            end = at + LENGTH_END + length
            if not (
                magic == MAGIC and HEADER_SIZE <= end - at <= MAX_BATCH and end <= len(data) and offset >= 0
                and records >= 0 and delta >= 0 and crc_of(data[at + CRC_START : end]) == crc
            ):  # fmt: skip
                break
            if offset != end_offset or epoch < last_epoch:
                self._end_offset, self._epoch = end_offset, last_epoch
                if damages := list(self._breaks(began + at, offset, epoch)):
                    breaks[len(starts)] = damages
            starts.append(at)
            at, end_offset, last_epoch = end, offset + delta + 1, epoch
        self._end_offset, self._epoch = end_offset, last_epoch
        self._heads.budget = budget - at  # CRCs were computed over all these bytes
        self.position += at
        self._run_size = min(self._run_size * 2, _MAX_RUN)
        return Run(began, data, [*starts, at], breaks) if starts else None

    def _piece(self) -> bytes:
        """A copy of the bytes from the current position on: as many as a run has, or all of a first batch that is
        larger.
        """
        remaining = len(self._data) - self.position
        data = bytes(self._data[self.position : self.position + min(self._run_size, remaining)])
        if len(data) >= LENGTH_END:
            size = LENGTH_END + _LENGTH.unpack_from(data, LENGTH_END - _LENGTH.size)[0]
            if len(data) < size <= min(remaining, MAX_BATCH):
                return bytes(self._data[self.position : self.position + size])
        return data


class _BatchHeads:
    """Reads headers for one walk. budget: bytes over which CRCs may still be computed; a search ends below 0."""

    def __init__(self, data: Pieces, position: int) -> None:
        self._data = data
        self.budget = max(_CHECKED * (len(data) - position), MAX_BATCH)
        self.looked_until = position
        """Position after the last one that a search has checked."""

    def at(self, position: int) -> Head | Damage:
        """The header of the batch at this position, if its CRC is correct; else the damage."""
        head = claimed_at(self._data, position)
        if isinstance(head, Damage):
            return head
        if head.size > MAX_BATCH:
            detail = f"a batch of {head.size} bytes; at most {MAX_BATCH} are read"
            return Damage(position, head.size, DamageReason.LENGTH, detail)
        self.budget -= head.size
        return checked(self._data, position, head)


def _measure(data: Pieces, damage: Damage, heads: _BatchHeads) -> Damage:
    """The damage with its real size: up to the next batch with a correct CRC, or to the end.

    The length field of a damaged batch may be damaged too, so every position at which a header may begin is tried,
    within the limit of `_CHECKED`.
    """
    start = damage.position
    # Only the last batch of a file can be truncated: if batches follow, its length is wrong.
    inner = DamageReason.LENGTH if damage.reason is DamageReason.TRUNCATED else damage.reason
    next_start = _next_batch(data, start + 1, heads)
    if next_start is not None:
        return Damage(start, next_start - start, inner, damage.detail)
    if heads.budget < 0:
        candidate = next(_magics(data, heads.looked_until + MAGIC_AT), None)
        if candidate is not None:
            detail = f"{damage.detail}; not searched from byte {candidate} on: too much there looks like batches"
            return Damage(start, len(data) - start, inner, detail)
    if all(piece.count(0) == len(piece) for _, piece in pieces(data, start, len(data))):
        return Damage(start, len(data) - start, DamageReason.ZEROS)
    return Damage(start, len(data) - start, damage.reason, damage.detail)


def _next_batch(data: Pieces, start: int, heads: _BatchHeads) -> int | None:
    """Position of the next batch; None if there is none, or the limit is reached."""
    heads.looked_until, end, unpack = start, len(data), _CLAIM.unpack_from
    for begin in range(start, end - HEADER_SIZE + 1, _SEARCHED):
        piece = bytes(data[begin : min(begin + _SEARCHED + HEADER_SIZE - 1, end)])
        for at in _possible(piece):
            if heads.budget < 0:
                return None
            offset, length, crc = unpack(piece, at)
            size = LENGTH_END + length
            if offset < 0 or not HEADER_SIZE <= size <= min(MAX_BATCH, end - begin - at):
                continue
            heads.looked_until = begin + at + 1
            # Within the piece a wrong CRC is found without another copy of these bytes.
            if at + size <= len(piece) and google_crc32c.value(piece[at + CRC_START : at + size]) != crc:
                heads.budget -= size
            elif not isinstance(heads.at(begin + at), Damage):
                return begin + at
    return None


def _possible(piece: bytes) -> Iterator[int]:
    """Positions in `piece` at which a complete header may begin: all real ones, and few others. For speed all positions
    are tested at once, by arithmetic on long integers (`_fitting`), which have a byte for each position.
    """
    count = len(piece) - HEADER_SIZE + 1
    if count <= 0 or MAGIC not in piece:
        return
    fits = _fitting(piece, _IS_MAGIC, MAGIC_AT, count) & _fitting(piece, _IS_ZERO, _LENGTH_AT, count)
    marks = fits.to_bytes(count, "little")
    if marks.count(1) > count // _MANY:
        fits &= (
            _fitting(piece, _IS_MORE, _LENGTH_AT + 1, count)
            | _fitting(piece, _IS_MORE, _LENGTH_AT + 2, count)
            | _fitting(piece, _IS_LONG, _LENGTH_AT + 3, count)
        )
        marks = (fits & _fitting(piece, _IS_POSITIVE, 0, count)).to_bytes(count, "little")
    at = marks.find(1)
    while at != -1:
        yield at
        at = marks.find(1, at + 1)


def _fitting(piece: bytes, table: bytes, shift: int, count: int) -> int:
    """A number whose byte n is 1 if the byte n + `shift` of the piece fits the table, else 0."""
    return int.from_bytes(piece[shift : shift + count].translate(table), "little")


def _magics(data: Pieces, start: int) -> Iterator[int]:
    """Positions at which a batch may begin, judged by the magic alone. start: position of the first magic."""
    for begin, piece in pieces(data, start, len(data)):
        at = piece.find(MAGIC)
        while at != -1:
            yield begin + at - MAGIC_AT
            at = piece.find(MAGIC, at + 1)
