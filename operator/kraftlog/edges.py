"""Finds the positions at which the records of a section begin.

The position of a record is only known from the length of the record before it, and following a million lengths one by
one in Python is slow. So a large section is followed from many positions at once with numpy: positions whose bytes look
like the beginning of a record. These are guesses: a chain of records from a guess counts only if the chain before it
ends exactly there. Parts between are followed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kraftlog.errors import MalformedError
from kraftlog.varints import read_unsigned

Positions = NDArray[np.int64]

_CONTINUES = 0x80  # a varint continues
_SHORTEST_RECORD = 10  # bytes of a record with a frame
_MOST = 250_000  # most records of a section: what 8 MiB of topics have, more than a controller writes

_SAMPLE = 32  # records at the start of a section, from which the usual size is taken
_LANE = 128  # records between two guesses, if they are as large as those of the sample
_STEPS = 160  # records that are followed from each guess: more than `_LANE`, as they may be smaller
_WINDOW = 4  # the beginning of a record is searched within the size of so many records
_FRAME = 3  # bytes of a frame
_BEFORE_KEY = np.arange(4, 17)  # possible numbers of bytes before the key: length, attributes, two deltas


def _sizes() -> Positions:
    """The size of a record by its first two bytes as one number; 0 if its length is negative or has more bytes."""
    words = np.arange(1 << 16, dtype=np.int64)
    low, high = words & 0xFF, words >> 8
    size = np.where(low < _CONTINUES, 1 + (low >> 1), 2 + ((low & 0x7F | high << 7) >> 1))
    size[(low & 1 == 1) | (low >= _CONTINUES) & (high >= _CONTINUES)] = 0
    return size


_SIZES = _sizes()


def edges(data: memoryview, count: int) -> Positions | None:
    """Positions at which the `count` records of a section begin, and its end. None if there are more than `_MOST`
    records, or more than the bytes of the section can hold.

    Raises MalformedError if the records do not end with the section.
    """
    if count > _MOST or count * _SHORTEST_RECORD > len(data):
        return None
    return _starts(data, count, len(data))


def _starts(data: memoryview, count: int, limit: int) -> Positions:
    """The edges of `count` records: the first ones by a walk, then those that guesses have found, and walks between."""
    first, position = _walk(data, 0, limit, _SAMPLE if count > _SAMPLE * _LANE else count)
    starts, remaining = [np.array(first, dtype=np.int64)], count - len(first)
    for lane in _lanes(data, first, position, count) if remaining else ():
        between, position = _walk(data, position, int(lane[0]), remaining)
        starts.append(np.array(between, dtype=np.int64))
        remaining -= len(between)
        if position == lane[0]:
            starts.append(lane[:-1])
            position = int(lane[-1])
            remaining -= len(lane) - 1
    last, position = _walk(data, position, limit, remaining)
    if position != limit or len(last) != remaining:
        missing = remaining - len(last)
        raise MalformedError(f"{limit - position} bytes behind the last record, and {missing} records too few")
    return np.concatenate([*starts, np.array([*last, limit], dtype=np.int64)])


def _walk(data: memoryview, position: int, until: int, most: int) -> tuple[list[int], int]:
    """(positions of up to `most` successive records, position after the last one), until that is at or after
    `until`.
    """
    limit, starts = len(data), list[int]()
    while position < until and len(starts) < most:
        starts.append(position)
        length = data[position]
        if length < _CONTINUES:
            end = position + 1 + (length >> 1)
        elif position + 1 < limit and (byte := data[position + 1]) < _CONTINUES:
            end = position + 2 + ((length & 0x7F | byte << 7) >> 1)
        else:
            value, end = read_unsigned(data, position)  # rare: a longer length, or the end of the data
            end += value >> 1
        if length & 1:
            raise MalformedError(f"a record of a negative length at byte {position}")
        if end > limit:
            raise MalformedError(f"a record that is longer than its batch at byte {position}")
        position = end
    return starts, position


def _lanes(data: memoryview, first: list[int], position: int, count: int) -> Iterator[Positions]:
    """Follow records from all guesses at once. Yields, for each part in which every chain of records ends at the next
    guess, the positions of its records and of its end.
    """
    guesses = _guesses(data, first, position, len(data) * _LANE // count)
    starts, ends = guesses[:-1], guesses[1:]
    low = np.frombuffer(data, dtype=np.uint8)
    high = low[1:]
    places = np.empty((_STEPS + 1, len(starts)), dtype=np.int64)
    places[0] = starts
    for step in range(_STEPS):
        at = places[step]
        # Behind the end the last byte is read again, and stays the last. Two bytes are quicker than a word.
        word = high.take(at, mode="clip").astype(np.int64) << 8 | low.take(at, mode="clip")
        places[step + 1] = at + _SIZES.take(word)
    arrived = places == ends
    complete, steps = np.flatnonzero(arrived.any(axis=0)), arrived.argmax(axis=0)
    # Chains that end at the next guess, and follow each other, are one part.
    for run in np.split(complete, np.flatnonzero(np.diff(complete) != 1) + 1):
        if len(run):
            used = np.arange(_STEPS + 1) < steps[run, None]
            yield np.append(places[:, run].T[used], ends[run[-1]])


def _guesses(data: memoryview, first: list[int], position: int, distance: int) -> Positions:
    """Positions at which records may begin, about `distance` apart: their null key, length of the value, and frame
    equal those of one of the first records, of the most frequent size.
    """
    sizes = [end - start for start, end in zip(first, [*first[1:], position], strict=True)]
    size = max(sizes, key=sizes.count)
    sample = first[sizes.index(size)]
    try:
        _, timestamp = read_unsigned(data, sample)
        _, offset = read_unsigned(data, timestamp + 1, 64)
        _, key = read_unsigned(data, offset)
        length, value = read_unsigned(data, key + 1)
    except MalformedError:
        return np.empty(0, dtype=np.int64)
    like, tail = bytes(data[key : value + _FRAME]), value - key + (length >> 1) + 1
    window = min(_WINDOW * size, distance)  # so that all together are no more than the section, whatever its sizes are
    hits = ((at, bytes(data[at : at + window]).find(like)) for at in range(position, len(data), distance))
    keys = np.array([at + hit for at, hit in hits if hit >= 0], dtype=np.int64)
    words = np.ndarray((len(data) - 1,), dtype="<u2", buffer=data, strides=(1,))
    # Between 4 and 16 bytes lie before the key: so many that the record, by its length, ends where its value ends.
    starts = np.maximum(keys[:, None] - _BEFORE_KEY, 0)
    fits = _SIZES[words[starts]] == _BEFORE_KEY + tail
    guesses: Positions = starts[np.arange(len(keys)), fits.argmax(axis=1)][fits.any(axis=1)]
    return guesses
