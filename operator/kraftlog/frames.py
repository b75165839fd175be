"""Finds the type and the position of the value of every record in a section, as numpy arrays.

For readers that asked for partitions, with large batches, after `edges` found where records begin. The bytes before a
value (lengths and deltas) are equal in most records of a section, so they are compared with those of a sample, eight
bytes at a time, instead of being parsed. Values are not read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kraftlog.edges import Positions
from kraftlog.partitions import Bytes
from kraftlog.records import FRAME_VERSION
from kraftlog.schema import table

_SHORTEST = 3  # bytes of a frame
_MAX_VARINT = 10
_CONTINUES = 0x80  # the bit of a byte after which a varint continues: smaller api keys are in one byte
BLOCK = 16384
"""Records in one block: two megabytes of partitions, which fit into the processor's cache."""

_HEAD = 16  # bytes that are compared: those before a value, and its frame
_ALL = 0xFF  # bits of a byte
_NULL = 1  # zigzag of -1, the length of a key that is not there
_WIDEST = 3  # bytes that the length of a value may have here: up to 1 MiB

_IS_COLLECTED = np.zeros(_CONTINUES, dtype=np.bool_)
"""By api key: True if its records are collected with others of their type, to be applied together."""
_IS_COLLECTED[[table.PARTITION.key, table.PARTITION_CHANGE.key]] = True


@dataclass(frozen=True, slots=True)
class Frames:
    """Records of a section. values, ends: positions of the value of each. api: api key of each. counts: number of
    records by api key. wanted: by api key, 1 if its records are applied, 0 if they are only counted.
    """

    values: Positions
    ends: Positions
    api: Bytes
    counts: list[int]
    wanted: bytes

    def has_any(self, keys: Iterable[int]) -> bool:
        """True if there is a record of one of these api keys."""
        return any(self.counts[key] for key in keys)

    @property
    def skipped(self) -> dict[int, int]:
        """Number of records of the keys that are only counted."""
        return {key: count for key, count in enumerate(self.counts) if count and not self.wanted[key]}

    def indexes(self, key: int) -> Positions:
        """The indexes of the records with this api key."""
        return np.flatnonzero(self.api == key)

    def single_records(self, done: Positions) -> Iterator[tuple[int, int, int, int]]:
        """(index, api key, start, end of the value) of the records that must be decoded one by one, in order: without
        those that are collected, and those with the indexes `done`.
        """
        selected = (np.frombuffer(self.wanted, dtype=np.bool_) & ~_IS_COLLECTED).take(self.api)
        selected[done] = False
        at = np.flatnonzero(selected)
        yield from zip(*(each.tolist() for each in (at, self.api[at], self.values[at], self.ends[at])), strict=True)

    def collected_runs(self, first: int, end: int) -> Iterator[tuple[int, Positions, Positions]]:
        """The collected records with indexes from `first` on and below `end`, in order: for each run of one type (api
        key, starts of values, ends of values).
        """
        at = first + np.flatnonzero(_IS_COLLECTED.take(self.api[first:end]))
        if not len(at):
            return
        kinds = self.api[at]
        for run in np.split(at, np.flatnonzero(kinds[1:] != kinds[:-1]) + 1):
            yield int(self.api[run[0]]), self.values[run], self.ends[run]


def frames(data: memoryview, edges: Positions, wanted: bytes) -> Frames | None:
    """Read the frames of the records between these edges. `wanted`: by api key.

    None if any record is unlike those that Kafka writes: with a record key, headers, or a longer frame.
    """
    view = np.frombuffer(data, dtype=np.uint8)
    starts, value_ends = edges[:-1], edges[1:] - 1  # after the value comes one byte, the number of headers
    middle = slice(len(starts) // 2, len(starts) // 2 + 1)
    sample = _heads(view, starts[middle], value_ends[middle])  # the first records have shorter deltas than most
    if sample is None or view.take(value_ends).any():
        return None
    values = starts + (sample.values - starts[middle])
    api = np.repeat(sample.api, len(starts))
    unlike = np.flatnonzero(~_alike(view, starts, int(starts[middle][0]), sample))
    heads = _heads(view, starts[unlike], value_ends[unlike])
    if heads is None:
        return None
    values[unlike], api[unlike] = heads.values, heads.api
    counts = np.bincount(heads.api, minlength=_CONTINUES)
    counts[sample.api] += len(starts) - len(unlike)
    return Frames(values, value_ends, api, counts.tolist(), wanted)


class _RecordHeads(NamedTuple):
    """Positions of the deltas, key lengths and values of records; and their api keys."""

    deltas: Positions
    keys: Positions
    values: Positions
    api: Bytes


def _heads(view: Bytes, starts: Positions, value_ends: Positions) -> _RecordHeads | None:
    """Parse the beginnings of records whose values end at `value_ends`: length, attributes, two deltas, a null key, the
    length of the value, its frame. None if any record is not like that.
    """
    last = len(view) - 1
    deltas = _behind_varints(view, starts) + 1
    keys = _behind_varints(view, _behind_varints(view, deltas))
    values = _behind_varints(view, keys + 1)
    size = np.zeros(len(values), dtype=np.int64)
    for byte in range(_WIDEST):
        at = keys + 1 + byte
        size += np.where(at < values, (view[np.minimum(at, last)] & 0x7F).astype(np.int64) << 7 * byte, 0)
    usual = (view[keys] == _NULL) & (values - keys <= 1 + _WIDEST) & (size == 2 * (value_ends - values))
    if not (usual & (value_ends - values >= _SHORTEST)).all():
        return None
    frame_version, api, version = (view[values + at] for at in range(_SHORTEST))
    if not ((frame_version == FRAME_VERSION) & (api < _CONTINUES) & (version < _CONTINUES)).all():
        return None
    return _RecordHeads(deltas, keys, values, api)


def _behind_varints(view: Bytes, at: Positions) -> Positions:
    """Positions after the varints at these positions, at most that of the last byte."""
    last = len(view) - 1
    for _ in range(_MAX_VARINT):
        continued = view[np.minimum(at, last)] >= _CONTINUES
        if not continued.any():
            break
        at = at + continued
    return np.minimum(at + 1, last)


def _alike(view: Bytes, starts: Positions, sample_start: int, sample: _RecordHeads) -> NDArray[np.bool_]:
    """Mask of the records whose length, sizes of deltas, and frame equal those of a sample. All of it is in 16 bytes,
    which are compared as two words.
    """
    delta, key, value = (int(each[0]) - sample_start for each in sample[:3])
    last = len(view) - _HEAD
    if value + _SHORTEST > _HEAD or sample_start > last:
        return np.zeros(len(starts), dtype=np.bool_)
    # The mask compares the length, everything from the key on, and the ends of the deltas; attributes do not matter.
    mask = bytes([_ALL] * (delta - 1) + [0] + [_CONTINUES] * (key - delta) + [_ALL] * (value + _SHORTEST - key))
    heads = np.ndarray((last + 1,), dtype=f"V{_HEAD}", buffer=view, strides=(1,))
    words = heads[np.minimum(starts, last)].view(np.uint64).reshape(-1, 2)
    masks = np.frombuffer(mask.ljust(_HEAD, b"\0"), dtype=np.uint64)
    differ = (words ^ words[np.searchsorted(starts, sample_start)]) & masks
    return np.asarray((starts <= last) & (differ[:, 0] | differ[:, 1] == 0))
