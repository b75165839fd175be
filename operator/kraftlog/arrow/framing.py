"""Finds the records in a run of batches, with numpy: first the first record of every batch, then the second, and so on.

Called by `kraftlog.arrow`. It decides which batches are usual: uncompressed data records, each with a value, but
without key and headers; in small batches the length of a record has at most two bytes. The caller reads other batches
record by record; the results would be the same. Values are not read here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from kraftlog.arrow.fields import PAD
from kraftlog.arrow.texts import Bools
from kraftlog.batches import CODEC_OR_CONTROL, HEADER_SIZE
from kraftlog.edges import Positions, edges
from kraftlog.errors import MalformedError
from kraftlog.partitions import Bytes
from kraftlog.walks import Run

_HEADER = np.dtype(
    [
        ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
        ("attributes", ">u2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"),
        ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("count", ">i4"),
    ]
)  # fmt: skip
_SHORTEST_RECORD = 10  # bytes of a record with a frame
_TOGETHER = 64  # most records of a batch whose records are found together with those of other batches
_FAR = 1 << 61  # offsets and times from here on are unusual: with a delta they may exceed 64 bits
_MORE = 0x80  # the bit of a byte after which a varint continues
_NULL_KEY = 1  # zigzag of -1
_BYTES_32, _BYTES_64 = 5, 9  # most bytes of a varint here; times with ten bytes are in no real log


@dataclass(frozen=True, slots=True)
class Records:
    """Records of usual batches, in order, as columns with an item for each record.

    view: the bytes of the run, and `PAD` more. start, end: of the record in `view`. value, value_end: of its value.
    batch_position: of its batch in the file. leader_epoch: of its batch.
    """

    view: Bytes
    start: Positions
    end: Positions
    value: Positions
    value_end: Positions
    offset: Positions
    timestamp: Positions
    batch_position: Positions
    leader_epoch: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.start)

    def part(self, first: int, end: int) -> Records:
        """A slice of the records."""
        return Records(self.view, *(getattr(self, each.name)[first:end] for each in fields(self)[1:]))


@dataclass(frozen=True, slots=True)
class Framed:
    """The records of a run's usual batches. usual: mask of the usual ones among all batches of the run. first: for each
    batch the index of its first record (of the next one, if it is unusual), and at last the number of records.
    """

    usual: Bools
    first: Positions
    records: Records


def framed(run: Run) -> Framed:
    """The records of a run."""
    view = np.frombuffer(run.data + bytes(PAD), dtype=np.uint8)
    starts = np.array(run.starts, dtype=np.int64)
    heads = np.ndarray((len(view) - HEADER_SIZE + 1,), dtype=_HEADER, buffer=view, strides=(1,))[starts[:-1]]
    offsets, times = (heads[name].astype(np.int64) for name in ("base_offset", "base_timestamp"))
    counts = heads["count"].astype(np.int64)
    sections, ends = starts[:-1] + HEADER_SIZE, starts[1:]
    usual = (heads["attributes"] & CODEC_OR_CONTROL == 0) & (counts * _SHORTEST_RECORD <= ends - sections)
    usual &= (np.abs(times) < _FAR) & (offsets < _FAR)
    all_starts, batches, all_ends = _starts(view, sections, ends, counts, usual)
    while True:  # at most twice: a second time without the batches that turned out to be unusual
        numbers = np.flatnonzero(usual)
        batch = np.repeat(numbers, counts[numbers])
        first = np.concatenate([[0], np.cumsum(np.where(usual, counts, 0))])
        start, end = all_starts[usual[batches]], all_ends[usual[batches]]
        deltas = _framing(view, start, end)
        if deltas.good.all():
            break
        usual[batch[~deltas.good]] = False
    epochs = heads["leader_epoch"].astype(np.int32)
    return Framed(
        usual, first,
        Records(
            view, start, end, deltas.value, end - 1, offsets[batch] + deltas.offset, times[batch] + deltas.timestamp,
            run.position + starts[batch], epochs[batch],
        ),
    )  # fmt: skip


def _starts(
    view: Bytes, sections: Positions, ends: Positions, counts: Positions, usual: Bools
) -> tuple[Positions, Positions, Positions]:
    """(begins of the records of usual batches, index of the batch of each, ends). Batches whose records do not end with
    the batch become unusual.
    """
    first = np.concatenate([[0], np.cumsum(np.where(usual, counts, 0))])
    start, end = np.zeros(first[-1], dtype=np.int64), np.zeros(first[-1], dtype=np.int64)
    batch = np.repeat(np.flatnonzero(usual), counts[usual])
    # Small batches: in each step the next record of every batch that has one. The largest batches come first, so those
    # with a next record are a prefix.
    few = np.flatnonzero(usual & (counts <= _TOGETHER))
    few = few[np.argsort(-counts[few], kind="stable")]
    steps, at = counts[few], sections[few].copy()
    good = np.ones(len(few), dtype=np.bool_)
    for step in range(int(steps.max(initial=0))):
        active = int(np.searchsorted(-steps, -step, side="left"))  # number of batches with more records than `step`
        current = at[:active]
        # The length is a zigzag varint. One of more than two bytes (a record over 8,191 bytes), or a negative one,
        # makes the batch unusual.
        length = view[current].astype(np.int64)
        high = view[current + 1].astype(np.int64)
        long = length >= _MORE
        size = np.where(long, 2 + ((length & 0x7F | high << 7) >> 1), 1 + (length >> 1))
        stop = current + size
        fits = (length & 1 == 0) & (~long | (high < _MORE)) & (stop <= ends[few[:active]])
        good[:active] &= fits
        stop = np.where(fits, stop, current)  # a batch that does not fit stays here, and becomes unusual below
        index = first[few[:active]] + step
        start[index], end[index] = current, stop
        at[:active] = stop
    usual[few[~(good & (at == ends[few]))]] = False
    # Large batches one by one, each from many positions at once.
    for number in np.flatnonzero(usual & (counts > _TOGETHER)).tolist():
        try:
            bounds = edges(memoryview(view[sections[number] : ends[number]].data), int(counts[number]))
        except MalformedError:
            bounds = None
        if bounds is None:
            usual[number] = False
            continue
        its = slice(first[number], first[number + 1])
        start[its], end[its] = bounds[:-1] + sections[number], bounds[1:] + sections[number]
    return start, batch, end


@dataclass(frozen=True, slots=True)
class _Framing:
    """By record: deltas of time and offset, the position of its value, and False if it is unusual."""

    timestamp: Positions
    offset: Positions
    value: Positions
    good: Bools


def _framing(view: Bytes, start: Positions, end: Positions) -> _Framing:
    """Read the bytes before the values: a length, attributes, two deltas, a null key, a length; and check that after
    the values come no headers.
    """
    _, at, good = _number(view, start, _BYTES_32)
    timestamp, at, fits = _number(view, at + 1, _BYTES_64)
    good &= fits
    offset, at, fits = _number(view, np.minimum(at, end), _BYTES_32)
    good &= fits & (np.abs(offset) < 1 << 31)
    at = np.minimum(at, end)
    good &= view[at] == _NULL_KEY
    size, value, fits = _number(view, at + 1, _BYTES_32)
    good &= fits & (size >= 0) & (value + size + 1 == end) & (view[end - 1] == 0)
    return _Framing(timestamp, offset, value, good)


def _number(view: Bytes, at: Positions, most: int) -> tuple[Positions, Positions, Bools]:
    """(zigzag numbers, positions after them, mask of those that have at most `most` bytes)."""
    raw = view[at].astype(np.int64)
    at, good, unfinished, shift = at + 1, np.ones(len(at), dtype=np.bool_), np.flatnonzero(raw >= _MORE), 7
    raw &= 0x7F
    while len(unfinished) and shift < 7 * most:
        byte = view[at[unfinished]]
        raw[unfinished] |= (byte & 0x7F).astype(np.int64) << shift
        at[unfinished] += 1
        unfinished, shift = unfinished[byte >= _MORE], shift + 7
    good[unfinished] = False
    return (raw >> 1) ^ -(raw & 1), at, good
