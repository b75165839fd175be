"""Persistent mappings for images: `VersionedMap` can be changed, and gives an immutable `FrozenMap` at any time.

Both keep their keys in buckets of up to about a thousand keys, and share them (copy on write): a change copies one
bucket and the list of buckets, never the whole mapping. So a change among a million keys costs as much as among a
thousand, and an image that was returned does not change.

Up to a thousand keys are iterated in the order of insertion, like in a dict; more in no order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

FULL = 1024
"""Average number of keys in a bucket at which the number of buckets is multiplied by `_MORE`. Copying a bucket takes
microseconds.
"""
_MORE = 16
_NEAR = 0xFF  # numbers that differ only in these bits share a bucket: changes of consecutive ids copy only one


class FrozenMap(Mapping[K, V]):
    """An immutable mapping. It can be pickled."""

    __slots__ = ("_buckets", "_size")

    def __init__(self, items: Mapping[K, V]) -> None:
        self._buckets, self._size = _spread([dict(items)], len(items)), len(items)

    def __getitem__(self, key: K) -> V:
        buckets = self._buckets
        return (buckets[0] if len(buckets) == 1 else buckets[_place(key, buckets)])[key]

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...

    @overload
    def get(self, key: K, default: T, /) -> V | T: ...

    def get(self, key: K, default: Any = None, /) -> Any:
        buckets = self._buckets
        return (buckets[0] if len(buckets) == 1 else buckets[_place(key, buckets)]).get(key, default)

    def __contains__(self, key: object) -> bool:
        buckets = self._buckets
        return key in (buckets[0] if len(buckets) == 1 else buckets[_place(key, buckets)])

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._buckets)

    def __len__(self) -> int:
        return self._size

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap) and len(other._buckets) == len(self._buckets):
            return self._buckets == other._buckets  # fast: a bucket that both share is equal without a comparison
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # like a dict: its values may not be hashable

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMap, (dict(self),)  # hashes of strings, and so their buckets, differ between processes


class _Items(ItemsView[K, V]):
    _mapping: FrozenMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(bucket.items() for bucket in self._mapping._buckets)


class _Values(ValuesView[V]):
    _mapping: FrozenMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(bucket.values() for bucket in self._mapping._buckets)


class VersionedMap(Generic[K, V]):
    """A mutable mapping. `weight`: the sum of `weigh` (bytes of an entry) over all entries. It can be pickled if
    `weigh` can be.
    """

    __slots__ = ("_buckets", "_is_list_shared", "_own", "_size", "_weigh", "weight")

    def __init__(self, weigh: Callable[[K, V], int]) -> None:
        self._buckets: list[dict[K, V]] = [{}]
        self._is_list_shared = False  # True if a view shares the list of buckets
        self._own = {0}  # indexes of buckets that no view shares
        self._size = 0
        self._weigh = weigh
        self.weight = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Keys are put again: hashes of strings, and so their buckets, differ between processes.
        return VersionedMap, (self._weigh,), dict(self.view())

    def __setstate__(self, items: Mapping[K, V]) -> None:
        for key, value in items.items():
            self.put(key, value)

    def view(self) -> FrozenMap[K, V]:
        """An immutable view of the current content; later changes have no effect on it. It takes constant time."""
        view: FrozenMap[K, V] = FrozenMap.__new__(FrozenMap)
        view._buckets, view._size = self._buckets, self._size
        self._is_list_shared = True
        self._own.clear()
        return view

    def get(self, key: K) -> V | None:
        """The value, or None."""
        return self._buckets[_place(key, self._buckets)].get(key)

    def put(self, key: K, value: V) -> None:
        """Set one key."""
        bucket = self._writable(_place(key, self._buckets))
        size = len(bucket)
        if key in bucket:
            self.weight -= self._weigh(key, bucket[key])
        bucket[key] = value
        self.weight += self._weigh(key, value)
        self._grow(len(bucket) - size)

    def drop(self, key: K) -> None:
        """Remove a key, if it is there."""
        index = _place(key, self._buckets)
        if key in self._buckets[index]:
            self.weight -= self._weigh(key, self._writable(index).pop(key))
            self._size -= 1

    def _grow(self, added: int) -> None:
        self._size += added
        if self._size > FULL * len(self._buckets):
            self._buckets = _spread(self._buckets, self._size)
            self._is_list_shared, self._own = False, set(range(len(self._buckets)))

    def _writable(self, index: int) -> dict[K, V]:
        """A bucket that no view shares, copied if necessary."""
        if self._is_list_shared:
            self._buckets, self._is_list_shared = self._buckets.copy(), False
        if index not in self._own:
            self._buckets[index] = self._buckets[index].copy()
            self._own.add(index)
        return self._buckets[index]


def _place(key: object, buckets: list[Any]) -> int:
    """The index of a key's bucket; numbers that differ only in `_NEAR` share one. They are hashed in a tuple, since the
    hash of a number is the number itself, and ids may ascend in steps of a thousand.
    """
    return hash((key | _NEAR if isinstance(key, int) else key,)) % len(buckets)


def _spread(buckets: list[dict[K, V]], size: int) -> list[dict[K, V]]:
    """Distribute the keys over as many buckets as `size` keys need; never over fewer than before."""
    if size <= FULL:  # most maps
        return buckets
    count = len(buckets)
    while size > FULL * count:
        count *= _MORE
    spread: list[dict[K, V]] = [{} for _ in range(count)]
    for key, value in chain.from_iterable(bucket.items() for bucket in buckets):
        spread[_place(key, spread)][key] = value
    return spread
