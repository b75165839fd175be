"""Where the records of a whole section are, and of which type each is, as arrays.

A record says how long it is, so one is found behind the other; those of one length that follow one another are found
together. What lies in front of a value (lengths and deltas, each of some bytes) is looked at eight bytes at a time.
Called by `replay` for readers that asked for partitions, with batches that are large enough. It never reads a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kraftlog.errors import MalformedError
from kraftlog.partitions import Bytes
from kraftlog.records import FRAME_VERSION
from kraftlog.schema import table
from kraftlog.varints import read_unsigned

Positions = NDArray[np.int64]
Words = NDArray[np.uint64]

_MAX_VARINT = 10
_SHORTEST = 3  # bytes of a frame
_SHORTEST_RECORD = 10  # and of a record with one
_MOST = 250_000  # records that are looked at at once: what 8 MiB of topics have, more than a controller writes
_CONTINUES = 0x80  # a varint goes on; and api keys below it are in one byte
BLOCK = 4096
"""Records that are looked at together: half a megabyte of partitions, which stays in the processor's cache."""

_RUN = 64  # records of one length that are looked for at once, and twice as many where all are
_TOPS = np.uint64(0x8080_8080_8080_8080)
_ONE, _BYTE = np.uint64(1), np.uint64(0xFF)
_WORD = 8

_WAITS = np.zeros(_CONTINUES, dtype=np.bool_)
"""Of each api key, whether its records are brought together with others of their kind."""
_WAITS[[table.PARTITION.key, table.PARTITION_CHANGE.key]] = True


@dataclass(frozen=True, slots=True)
class Frames:
    """Records of a section. values, ends: of the value of each. api: its key. times: how often each key is there.
    is_wanted: of each key, whether it is more than counted.
    """

    values: Positions
    ends: Positions
    api: Bytes
    times: list[int]
    is_wanted: bytes

    def has_any(self, keys: Iterable[int]) -> bool:
        """Whether one of these api keys is there."""
        return any(self.times[key] for key in keys)

    @property
    def skipped(self) -> dict[int, int]:
        """How many there are of the keys that are only counted."""
        return {key: times for key, times in enumerate(self.times) if times and not self.is_wanted[key]}

    def places(self, key: int) -> Positions:
        """Of the records with this api key."""
        return np.flatnonzero(self.api == key)

    def others(self, done: Positions) -> Iterator[tuple[int, int, int, int]]:
        """What is wanted beside those that wait for one another, and those at the places `done`, in order: place, key,
        and where the value is.
        """
        wanted = np.frombuffer(self.is_wanted, dtype=np.bool_)[self.api] & ~_WAITS[self.api]
        wanted[done] = False
        at = np.flatnonzero(wanted)
        yield from zip(*(each.tolist() for each in (at, self.api[at], self.values[at], self.ends[at])), strict=True)

    def waiting(self, first: int, end: int) -> Iterator[tuple[int, Positions, Positions]]:
        """Those between two places, in order: of each run of one kind its key, and where the values are."""
        at = first + np.flatnonzero(_WAITS[self.api[first:end]])
        if not len(at):
            return
        kinds = self.api[at]
        for run in np.split(at, np.flatnonzero(kinds[1:] != kinds[:-1]) + 1):
            yield int(self.api[run[0]]), self.values[run], self.ends[run]


@dataclass(frozen=True, slots=True)
class Edges:
    """Where records begin, one more than there are, and where their deltas do: behind length and attributes."""

    starts: Positions
    deltas: Positions


def edges(data: memoryview, count: int) -> Edges | None:
    """Of the `count` records of a section; None for too many. MalformedError when they do not end with the section."""
    limit = len(data)
    if count > _MOST or count * _SHORTEST_RECORD > limit:
        return None
    runs: list[tuple[int, int, int, int]] = []  # where, how long each, how long its length, how many
    position, left, ahead = 0, count, _RUN
    former = repeated = 0  # sizes: of the last record, and of those that were alike last
    while left:
        length, width, many = data[position], 1, 1
        if length < _CONTINUES:
            size = 1 + (length >> 1)
        elif (byte := data[position + 1]) < _CONTINUES:
            size, width = 2 + ((length & 0x7F | byte << 7) >> 1), 2
        else:
            value, end = read_unsigned(data, position)  # which is rare
            width = end - position
            size = width + (value >> 1)
        if size in (former, repeated) and width <= 2:  # and maybe those behind it
            many = min(left, ahead)
            for at in range(position, position + width):
                alike = bytes(data[at : at + many * size : size])
                many = len(alike) - len(alike.lstrip(alike[:1]))
            ahead = 2 * ahead if many == ahead else _RUN
            repeated = size if many > 1 else 0
        if length & 1:
            raise MalformedError(f"a record of a negative length at byte {position}")
        runs.append((position, size, width, many))
        position, left, former = position + many * size, left - many, size
        if position > limit:
            raise MalformedError(f"a record that is longer than its batch at byte {runs[-1][0]}")
    if position != limit:
        raise MalformedError(f"{limit - position} bytes behind the last record")
    first, sizes, widths, times = np.array(runs, dtype=np.int64).T
    place = np.arange(count) - np.repeat(np.cumsum(times) - times, times)
    starts = np.repeat(first, times) + place * np.repeat(sizes, times)
    return Edges(np.append(starts, limit), starts + np.repeat(widths, times) + 1)


def frames(data: memoryview, of: Edges, first: int, end: int, wanted: bytes) -> Frames | None:
    """What lies in the records between two places. `wanted`: by api key.

    None where one is not as Kafka writes all of them: with a record key, headers, or a longer frame.
    """
    view = np.frombuffer(data, dtype=np.uint8)
    deltas, behind = of.deltas[first:end], of.starts[first + 1 : end + 1] - 1  # behind a value, the count of headers
    values, usual = _values(view, deltas, behind)
    if not usual.all():
        slow = np.flatnonzero(~usual)
        values[slow], usual[slow] = _values_of_any_width(view, deltas[slow], behind[slow])
    usual &= behind - values >= _SHORTEST
    if not (usual & (view[behind] == 0)).all():
        return None
    version, key, third = (view[values + at] for at in range(_SHORTEST))
    if not ((version == FRAME_VERSION) & (key < _CONTINUES) & (third < _CONTINUES)).all():
        return None
    return Frames(values, behind, key, np.bincount(key, minlength=_CONTINUES).tolist(), wanted)


def _values(view: Bytes, deltas: Positions, behind: Positions) -> tuple[Positions, NDArray[np.bool_]]:
    """Where values begin, and where that is known: two deltas, a null key and a length, in eight bytes together."""
    last = len(view) - _WORD
    inside = deltas <= last
    at_each_byte: Words = np.ndarray((last + 1,), dtype="<u8", buffer=view, strides=(1,))
    words = at_each_byte[np.minimum(deltas, last)].astype(np.uint64, copy=False)
    lasts = ~words & _TOPS  # a bit for the last byte of each of them

    def pop() -> Words:
        """The place of the next last byte, 8 where there is none."""
        nonlocal lasts
        lowest = lasts & (~lasts + _ONE)
        lasts = lasts ^ lowest
        return np.bitwise_count(lowest - _ONE).astype(np.uint64) >> np.uint64(3)

    pop()
    offset, key, length = pop(), pop(), pop()
    known = inside & (length < _WORD) & (key == offset + _ONE)
    eight = np.uint64(8)
    known &= (words >> np.minimum(key, np.uint64(7)) * eight) & _BYTE == 1  # a null key
    said = words >> np.minimum(key + _ONE, np.uint64(7)) * eight
    width = length - key
    size = said & np.uint64(0x7F)
    size |= np.where(width > 1, said >> _ONE & np.uint64(0x3F80), np.uint64(0))
    size |= np.where(width > 2, said >> np.uint64(2) & np.uint64(0x1F_C000), np.uint64(0))
    values = deltas + length.astype(np.int64) + 1
    known &= (width <= 3) & (size == (behind - values).astype(np.uint64) << _ONE)
    return values, known


def _values_of_any_width(view: Bytes, deltas: Positions, behind: Positions) -> tuple[Positions, NDArray[np.bool_]]:
    """As `_values`, for numbers that are not written in a few bytes."""
    last = len(view) - 1

    def behind_varint(at: Positions) -> Positions:
        for _ in range(_MAX_VARINT):
            more = view[np.minimum(at, last)] >= _CONTINUES
            if not more.any():
                break
            at = at + more
        return np.minimum(at + 1, last)

    lengths = behind_varint(behind_varint(deltas))
    values = behind_varint(lengths + 1)
    known = (view[np.minimum(lengths, last)] == 1) & (values - lengths - 1 <= 3)
    size = np.zeros(len(values), dtype=np.int64)
    for byte in range(3):
        at = lengths + 1 + byte
        size += np.where(at < values, (view[np.minimum(at, last)] & 0x7F).astype(np.int64) << 7 * byte, 0)
    return values, known & (size == 2 * (behind - values))
