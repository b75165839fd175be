"""Tables with the rows of partitions, and an index to find them, for `partition_state`.

A table has the rows with one number of replicas, in chunks. A chunk that an image shares is copied before it is written
to. The index maps a key (topic and partition in one number) to a location (table and row in one number). It consists of
a sorted array, a dict with keys that were added since it was sorted, and whole blocks of keys that `sort` adds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kraftlog.partitions import Columns, Int32s

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

CHUNK = 4096
"""Rows of a chunk, which a change copies at most: 140 KB with three replicas each."""

GONE = -1
"""The location of a key that does not exist."""

ROW_BITS = 40  # low bits of a location with the row; the bits above are the width of the table
ROW_MASK = (1 << ROW_BITS) - 1

_SORTED_AT = 4096  # keys in the dict at which they are sorted into the array
_NUMBERS = 5  # int32 columns of a row besides its replicas
_INT32 = 4
_KEY, _RECENT = 16, 200  # bytes of an entry, as measured (CPython 3.11, 64 bits), and a little more
_PAIRWISE = 6  # replicas that are compared each with each; more are sorted


def key_of(topic: int, partition: int) -> int:
    """The key of a partition in the index."""
    return topic << 32 | partition


def marks(replicas: Int32s, brokers: Int32s) -> tuple[Bools, Bools]:
    """(mask of the replicas that are among the brokers in the same row, mask of the rows in which all of these brokers
    have a replica).
    """
    marked, has_all = np.zeros(replicas.shape, dtype=bool), np.ones(len(replicas), dtype=bool)
    if np.array_equal(replicas, brokers):  # all are in sync, as in most blocks
        return ~marked, has_all
    for each in range(brokers.shape[1]):
        matches = replicas == brokers[:, each : each + 1]
        marked |= matches
        has_all &= matches.any(axis=1)
    return marked, has_all


def distinct(replicas: Int32s) -> Bools:
    """Mark the rows in which no replica is twice."""
    is_distinct = np.ones(len(replicas), dtype=bool)
    width = replicas.shape[1]
    if width > _PAIRWISE:
        ordered = np.sort(replicas, axis=1)
        is_distinct &= (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        return is_distinct
    for column in range(width):
        for other in range(column):
            is_distinct &= replicas[:, column] != replicas[:, other]
    return is_distinct


class Table:
    """Rows with the same number of replicas (`width`), in chunks. A chunk that an image shares is copied before a
    write.
    """

    __slots__ = ("_own", "chunks", "count", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.chunks: list[Columns] = []  # all are full but the last, which may have unused rows
        self.count = 0
        self._own: set[int] = set()  # indexes of chunks that no image shares

    @property
    def weight(self) -> int:
        """Bytes of the columns."""
        return sum(len(chunk.topic) for chunk in self.chunks) * (_INT32 * _NUMBERS + (_INT32 + 1) * self.width)

    def view(self) -> list[Columns]:
        """The chunks, without the unused rows of the last one."""
        self._own.clear()
        used = self.count - CHUNK * (len(self.chunks) - 1)
        return [*self.chunks[:-1], self.chunks[-1].each(lambda column: column[:used])] if self.count else []

    def writable(self, at: int) -> Columns:
        """The chunk with this index, copied if an image shares it."""
        if at not in self._own:
            self.chunks[at] = self.chunks[at].each(np.copy)
            self._own.add(at)
        return self.chunks[at]

    def row(self, row: int) -> Columns:
        """A copy of one row."""
        index = row % CHUNK
        return self.chunks[row // CHUNK].each(lambda column: column[index : index + 1].copy())

    def write(self, row: int, content: Columns) -> None:
        self.writable(row // CHUNK).fill(row % CHUNK, content, 0)

    def gather(self, rows: Int64s) -> Columns:
        """A copy of these rows, in this order."""
        gathered = _empty(self.width, len(rows))
        for chunk, at, indexes in _by_chunk(rows):
            gathered.fill(indexes, self.chunks[chunk], at)
        return gathered

    def scatter(self, rows: Int64s, content: Columns) -> None:
        """Write these rows, which must be different ones."""
        for chunk, at, indexes in _by_chunk(rows):
            self.writable(chunk).fill(at, content, indexes)

    def append(self, rows: Columns) -> None:
        copied, total = 0, len(rows.topic)
        while copied < total:
            used = self.count % CHUNK
            size = min(CHUNK - used, total - copied)
            last = self._with_room(used, size)
            last.fill(slice(used, used + size), rows, slice(copied, copied + size))
            copied += size
            self.count += size

    def shorten(self) -> None:
        """Remove the last row."""
        self.count -= 1
        if self.count % CHUNK == 0:
            self._own.discard(len(self.chunks) - 1)
            self.chunks.pop()

    def _with_room(self, used: int, added: int) -> Columns:
        """The last chunk, writable, with room for `added` rows behind the `used` ones; a new one if the last is full
        (`used` is 0). It grows by doubling.
        """
        if not used:
            self.chunks.append(_empty(self.width, added))
            self._own.add(len(self.chunks) - 1)
            return self.chunks[-1]
        at = len(self.chunks) - 1
        if len(self.chunks[at].topic) < used + added:
            larger = _empty(self.width, min(CHUNK, max(used + added, 2 * used)))
            larger.fill(slice(used), self.chunks[at], slice(used))
            self.chunks[at] = larger
            self._own.add(at)
        return self.writable(at)


def _by_chunk(rows: Int64s) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Group rows by chunk. For each chunk: (its index, indexes of the rows in the chunk, their indexes in `rows`)."""
    order = np.argsort(rows, kind="stable")
    chunks = rows[order] // CHUNK
    for indexes in np.split(order, np.flatnonzero(chunks[1:] != chunks[:-1]) + 1):
        if len(indexes):
            yield int(rows[indexes[0]]) // CHUNK, rows[indexes] % CHUNK, indexes


def _empty(width: int, rows: int) -> Columns:
    numbers = [np.empty(rows, dtype=np.int32) for _ in range(_NUMBERS)]
    return Columns._make([*numbers, np.empty((rows, width), dtype=np.int32), np.empty((rows, width), dtype=np.uint8)])


class Index:
    """Locations of rows by key. Keys that `extend` adds are found only after `sort`."""

    __slots__ = ("_fresh", "_keys", "_locations", "_recent", "_recent_count")

    def __init__(self) -> None:
        self._keys: Int64s = np.empty(0, dtype=np.int64)  # ascending
        self._locations: Int64s = np.empty(0, dtype=np.int64)  # of `_keys`; `GONE` for a key that was dropped
        self._recent: dict[int, dict[int, int]] = {}  # topic -> key -> location, of keys that are not in the array
        self._recent_count = 0  # keys in `_recent`
        self._fresh: list[tuple[Int64s, Int64s]] = []  # (keys, locations) that `extend` added since the last `sort`

    @property
    def weight(self) -> int:
        """Bytes of the keys and their locations."""
        return _KEY * (len(self._keys) + sum(len(keys) for keys, _ in self._fresh)) + _RECENT * self._recent_count

    def get(self, key: int) -> int:
        """The location; GONE if the key is not known."""
        if (at := self._at(key)) is not None:
            return int(self._locations[at])
        return self._recent.get(key >> 32, _NO_KEYS).get(key, GONE)

    def locations(self, keys: Int64s) -> Int64s:
        """The location of each key; GONE where the key is not known."""
        locations = np.full(len(keys), GONE, dtype=np.int64)
        present = np.zeros(len(keys), dtype=bool)
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            present = self._keys[at] == keys
            locations[present] = self._locations[at[present]]
        if self._recent_count:
            for at_key in np.flatnonzero(~present).tolist():
                locations[at_key] = self.get(int(keys[at_key]))
        return locations

    def put(self, key: int, location: int) -> None:
        if (at := self._at(key)) is not None:
            self._locations[at] = location
        else:
            recent = self._recent.setdefault(key >> 32, {})
            self._recent_count += key not in recent
            recent[key] = location

    def drop(self, key: int) -> None:
        if (at := self._at(key)) is not None:
            self._locations[at] = GONE
        elif self._recent.get(key >> 32, _NO_KEYS).pop(key, None) is not None:
            self._recent_count -= 1

    def keys_of(self, topic: int) -> list[int]:
        """All keys of a topic."""
        low, high = np.searchsorted(self._keys, (key_of(topic, 0), key_of(topic + 1, 0)))
        sorted_keys = self._keys[low:high][self._locations[low:high] != GONE].tolist()
        return [*sorted_keys, *self._recent.get(topic, ())]

    def extend(self, keys: Int64s, locations: Int64s) -> None:
        self._fresh.append((keys, locations))

    def sort(self) -> list[int]:
        """Make all keys findable. Returns the locations that a later entry with the same key has replaced."""
        fresh, self._fresh = self._fresh, []
        replaced: list[int] = []
        if self._recent_count + sum(len(keys) for keys, _ in fresh) < _SORTED_AT:  # one by one, so that few cost little
            for keys, locations in fresh:
                for key, location in zip(keys.tolist(), locations.tolist(), strict=True):
                    replaced.append(self.get(key))
                    self.put(key, location)
            return [location for location in replaced if location != GONE]
        present = self._locations != GONE
        recent = [pair for of_topic in self._recent.values() for pair in of_topic.items()]
        pairs = np.array(recent, dtype=np.int64).reshape(-1, 2)
        keys = np.concatenate([self._keys[present], pairs[:, 0], *(keys for keys, _ in fresh)])
        locations = np.concatenate([self._locations[present], pairs[:, 1], *(locations for _, locations in fresh)])
        self._recent, self._recent_count = {}, 0
        if (keys[1:] > keys[:-1]).all():  # as in a snapshot; then nothing more is copied
            self._keys, self._locations = keys, locations
            return []
        order = np.argsort(keys, kind="stable")  # stable: of equal keys the last entry is the latest
        keys, locations = keys[order], locations[order]
        is_replaced = np.zeros(len(keys), dtype=bool)
        is_replaced[:-1] = keys[1:] == keys[:-1]
        self._keys, self._locations = keys[~is_replaced], locations[~is_replaced]
        return [int(location) for location in locations[is_replaced]]

    def _at(self, key: int) -> int | None:
        """The index of the key in the array; None if it is not there."""
        at = int(self._keys.searchsorted(key))
        return at if at < len(self._keys) and self._keys[at] == key else None


_NO_KEYS: dict[int, int] = {}
