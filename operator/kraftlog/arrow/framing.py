"""Finds the records in a run of batches, with numpy: first the first record of every batch, then the second, and so on.

Called by `kraftlog.arrow`. It decides which batches are usual: uncompressed data records that are all framed as Kafka
frames them. The caller reads other batches record by record; the results would be the same. Values are not read here.
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
_SHORTEST_RECORD = 10
_TOGETHER = 64  # records of a batch that is walked over with others
_FAR = 1 << 61  # offsets and times to which no delta can be added
_MORE = 0x80
_NULL_KEY = 1


@dataclass(frozen=True, slots=True)
class Records:
    """Records of usual batches, in order. start, end: of each in `view`; value, value_end: of its value.
    batch_position, leader_epoch: of its batch, the former in the file.
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
    """The records of a run's usual batches. usual: for each batch of the run, whether it is usual. first: the index of
    each batch's first record, and one more, the number of records.
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
    at = _starts(view, sections, ends, counts, usual)
    while True:
        numbers = np.flatnonzero(usual)
        batch = np.repeat(numbers, counts[numbers])
        first = np.concatenate([[0], np.cumsum(np.where(usual, counts, 0))])
        start, end = at[0][usual[at[1]]], at[2][usual[at[1]]]
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
    few = np.flatnonzero(usual & (counts <= _TOGETHER))
    few = few[np.argsort(-counts[few], kind="stable")]
    steps, at = counts[few], sections[few].copy()
    good = np.ones(len(few), dtype=np.bool_)
    for step in range(int(steps.max(initial=0))):
        active = int(np.searchsorted(-steps, -step, side="left"))  # those with more records than that
        current = at[:active]
        length = view[current].astype(np.int64)
        high = view[current + 1].astype(np.int64)
        long = length >= _MORE
        size = np.where(long, 2 + ((length & 0x7F | high << 7) >> 1), 1 + (length >> 1))
        stop = current + size
        fits = (length & 1 == 0) & (~long | (high < _MORE)) & (stop <= ends[few[:active]])
        good[:active] &= fits
        stop = np.where(fits, stop, current)
        index = first[few[:active]] + step
        start[index], end[index] = current, stop
        at[:active] = stop
    usual[few[~(good & (at == ends[few]))]] = False
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
    timestamp: Positions
    offset: Positions
    value: Positions
    good: Bools


def _framing(view: Bytes, start: Positions, end: Positions) -> _Framing:
    """Read the bytes in front of the values: a length, attributes, two deltas, no key, a length. Behind them: no
    headers.
    """
    _, at, good = _number(view, start, 5)
    timestamp, at, fits = _number(view, at + 1, 9)  # a time of more bytes is not in any real log
    good &= fits
    offset, at, fits = _number(view, np.minimum(at, end), 5)
    good &= fits & (np.abs(offset) < 1 << 31)
    at = np.minimum(at, end)
    good &= view[at] == _NULL_KEY
    size, value, fits = _number(view, at + 1, 5)
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
