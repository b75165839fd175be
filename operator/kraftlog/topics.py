"""Topics by number: `TopicTable` is the mutable table of `partition_state`, `Topics` an immutable view in images.
The number is this reader's own, since rows of partitions need a key that is shorter than a topic id.

A snapshot may have 50,000 topics, of which few are ever looked up. So topics that are added together are kept as a
`TopicRun`, with the joined bytes of their ids and a joined text of their names, and a `Topic` object is made when one
is looked up. Topics that are added one by one are kept as objects. A `TopicRun` is immutable: removing or renaming a
topic makes a copy without it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from sys import getsizeof

import numpy as np

from kraftlog.maps import FrozenMap, VersionedMap
from kraftlog.partition_tables import GONE
from kraftlog.partitions import Int32s, Topic

_UUID = 16
# Bytes of Python objects without their texts, as measured (CPython 3.11, 64 bits), and a little more.
_SINGLE, _RUN, _IN_RUN = 800, 500, 400


@dataclass(frozen=True, slots=True, eq=False)
class TopicRun:
    """Topics that were added together. numbers: ascending. ids, names: joined; name i is the part from `edges[i]` to
    `edges[i + 1]`.
    """

    numbers: array[int]
    ids: bytes
    names: str
    edges: array[int]

    @property
    def first(self) -> int:
        return self.numbers[0]

    @property
    def weight(self) -> int:
        return _RUN + _IN_RUN * len(self.numbers) + 2 * getsizeof(self.names)

    def get(self, number: int) -> Topic | None:
        at = bisect_left(self.numbers, number)
        if at == len(self.numbers) or self.numbers[at] != number:
            return None
        return Topic(self.ids[_UUID * at : _UUID * (at + 1)], self.names[self.edges[at] : self.edges[at + 1]])

    def each_id(self) -> list[bytes]:
        return [self.ids[at : at + _UUID] for at in range(0, len(self.ids), _UUID)]

    def each_name(self) -> list[str]:
        return [self.names[start:end] for start, end in pairwise(self.edges)]

    def items(self) -> Iterable[tuple[int, Topic]]:
        return zip(self.numbers, map(Topic, self.each_id(), self.each_name()), strict=True)

    def without(self, number: int) -> TopicRun:
        """The run without this topic."""
        at = bisect_left(self.numbers, number)
        start, end = self.edges[at : at + 2]
        return TopicRun(
            self.numbers[:at] + self.numbers[at + 1 :],
            self.ids[: _UUID * at] + self.ids[_UUID * (at + 1) :],
            self.names[:start] + self.names[end:],
            self.edges[:at] + array("i", [start, *(edge - (end - start) for edge in self.edges[at + 2 :])]),
        )


def _before(runs: Sequence[TopicRun], number: int) -> int:
    """Index of the run that has this number, if any has it."""
    return bisect_right(runs, number, key=attrgetter("first")) - 1


def _find(runs: Sequence[TopicRun], number: int) -> Topic | None:
    at = _before(runs, number)
    return runs[at].get(number) if at >= 0 else None


class Topics(Mapping[int, Topic]):
    """An immutable mapping from number to topic, in the order in which they were added. It can be pickled."""

    __slots__ = ("_runs", "_single")

    def __init__(self, runs: tuple[TopicRun, ...], single: FrozenMap[int, Topic]) -> None:
        self._runs, self._single = runs, single

    def __getitem__(self, number: int) -> Topic:
        topic = self._single.get(number) or _find(self._runs, number)
        if topic is None:
            raise KeyError(number)
        return topic

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(chain(self._single, *(run.numbers for run in self._runs))))

    def __len__(self) -> int:
        return len(self._single) + sum(len(run.numbers) for run in self._runs)

    def items(self) -> ItemsView[int, Topic]:
        return _TopicItems(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Topics) and other._runs == self._runs:  # fast: runs are only equal if they are identical
            return self._single == other._single
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # like a dict


class _TopicItems(ItemsView[int, Topic]):
    _mapping: Topics

    def __iter__(self) -> Iterator[tuple[int, Topic]]:
        topics = self._mapping
        return iter(sorted(chain(topics._single.items(), *(run.items() for run in topics._runs))))


class TopicTable:
    """A mutable table of topics. Numbers ascend in the order in which topics are added, and are never reused.

    next_number: of the next new topic. weight: bytes of memory, rather too many than too few.
    """

    __slots__ = ("_names", "_numbers", "_runs", "_runs_weight", "_single", "_unnamed", "_view", "next_number")

    def __init__(self) -> None:
        self.next_number = 0
        self._numbers: dict[bytes, int] = {}  # numbers of the topics that exist, by topic id
        self._single: VersionedMap[int, Topic] = VersionedMap(lambda _, topic: _SINGLE + getsizeof(topic.name))
        self._runs: list[TopicRun] = []  # in the order of their numbers
        self._runs_weight = 0
        self._names: dict[str, int] = {}  # the number that had a name last
        # Runs whose names are not in `_names` yet: they are added when a name is first looked up, as few ever are.
        self._unnamed: list[TopicRun] = []
        self._view: Topics | None = None  # the last one, until something changes

    @property
    def weight(self) -> int:
        return self._single.weight + self._runs_weight

    def view(self) -> Topics:
        """An immutable view of the current content; later changes have no effect on it."""
        if self._view is None:
            self._view = Topics(tuple(self._runs), self._single.view())
        return self._view

    def number_of(self, topic_id: bytes) -> int:
        """The number of a topic; -1 if there is no such topic."""
        return self._numbers.get(topic_id, GONE)

    def numbers_of(self, topic_ids: Iterable[bytes]) -> Int32s:
        """The numbers of these topics, each as `number_of` returns it."""
        return np.array([self._numbers.get(each, GONE) for each in topic_ids], dtype=np.int32)

    def number_named(self, name: str) -> int:
        """The number of the topic that got this name last; -1 if there is none, or it was removed."""
        return self._by_name().get(name, GONE)

    def put(self, topic_id: bytes, name: str) -> int:
        """Add a topic, or rename it. Returns its number."""
        number = self._numbers.get(topic_id)
        if number is None:
            number = self._numbers[topic_id] = self.next_number
            self.next_number += 1
        else:
            self._leave_run(number)
        self._single.put(number, Topic(topic_id, name))
        self._by_name()[name] = number
        self._view = None
        return number

    def put_run(self, topic_ids: Sequence[bytes], names: str, edges: Sequence[int]) -> bool:
        """Add new topics, as in a `TopicRun`. Returns False, without effect, if one exists already or occurs
        twice.
        """
        count = len(topic_ids)
        if not self._numbers.keys().isdisjoint(topic_ids) or len(set(topic_ids)) < count:
            return False
        numbers = range(self.next_number, self.next_number + count)
        self._numbers.update(zip(topic_ids, numbers, strict=True))
        run = TopicRun(array("q", numbers), b"".join(topic_ids), names, array("i", edges))
        self._runs.append(run)
        self._unnamed.append(run)
        self._runs_weight += run.weight
        self.next_number += count
        self._view = None
        return True

    def drop(self, number: int) -> Topic:
        """Remove a topic, and return it. Raises KeyError for a number without a topic."""
        topic = self._single.get(number) or _find(self._runs, number)
        if topic is None:
            raise KeyError(number)
        if self._by_name().get(topic.name) == number:
            del self._names[topic.name]
        del self._numbers[topic.id_bytes]
        self._single.drop(number)
        self._leave_run(number)
        self._view = None
        return topic

    def _by_name(self) -> dict[str, int]:
        """`_names`, complete."""
        for run in self._unnamed:
            self._names.update(zip(run.each_name(), run.numbers, strict=True))
        self._unnamed.clear()
        return self._names

    def _leave_run(self, number: int) -> None:
        """Replace the run that has this topic, if any, by one without it."""
        at = _before(self._runs, number)
        if at < 0 or self._runs[at].get(number) is None:
            return
        self._by_name()  # first, as the run that replaces this one is not in `_unnamed`
        run = self._runs.pop(at)
        self._runs_weight -= run.weight
        if len(run.numbers) > 1:
            self._runs.insert(at, run.without(number))
            self._runs_weight += self._runs[at].weight
