"""Which partitions were without one of their replicas, for how long, and how bad it was: by the records of a log.

Called by `rolls`, in the order of the log. Exact for every partition, from where the log is known; the stretches that
are kept to be drawn are bounded, and those of the partitions that had it best are given up first. Never decodes.

A replica that a reassignment is adding is not missed, and one that is eligible to lead without being in sync (ELR) is
missed: `acks=all` waits for the ISR.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraftlog.errors import ContradictionError, TooLargeError
from kraftlog.partition_records import (
    BROKER_RESOURCE,
    LEADER_UNCHANGED,
    MIN_INSYNC_REPLICAS,
    NO_LEADER,
    TOPIC_RESOURCE,
    given_or,
)
from kraftlog.schema import table

Data = Mapping[str, Any]
Key = tuple[bytes, int]
"""A partition: the id of its topic, its number."""

MAX_PARTITIONS = 2_000_000
"""The most partitions of a cluster that are followed: as many as Kafka says that a cluster can hold."""

MAX_STRETCHES = 200_000
"""The most stretches of all partitions together that are kept to be drawn: some fifty megabytes."""

_SOME_LEADER = 0  # of a partition that is well it only matters that it has one


class Moment(NamedTuple):
    """Time at which a controller made a record, in ms, and the record's offset."""

    at_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which a partition was the same, and not as it should be.

    in_sync: how many replicas are. has_leader: False: neither produced nor consumed. below_minimum: `acks=all` is
    refused; None where min.insync.replicas is not known. offset: of the record with which it began.
    """

    begin_ms: int
    end_ms: int
    in_sync: int
    has_leader: bool
    below_minimum: bool | None
    offset: int


@dataclass(frozen=True, slots=True)
class Strip:
    """A partition that was without a replica. The times are sums over what is known of it since the window began.

    replicas: how many it should have. fewest: that were in sync. lasts: whether it is so at the end. stretches: in
    order; where is_cut, only the last of them.
    """

    topic: str
    partition: int
    replicas: int
    fewest: int
    without_leader_ms: int
    below_minimum_ms: int
    under_replicated_ms: int
    lasts: bool
    stretches: tuple[Stretch, ...]
    is_cut: bool = False

    @property
    def severity(self) -> tuple[int, int, int, int]:
        """The worst has the highest."""
        return self.without_leader_ms, self.below_minimum_ms, self.replicas - self.fewest, self.under_replicated_ms


@dataclass(slots=True)
class _Kept:
    """A strip while it grows."""

    topic: str
    replicas: int
    fewest: int
    without_leader_ms: int = 0
    below_minimum_ms: int = 0
    under_replicated_ms: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    is_cut: bool = False

    @property
    def severity(self) -> tuple[int, int, int, int]:
        return self.without_leader_ms, self.below_minimum_ms, self.replicas - self.fewest, self.under_replicated_ms

    def add(self, stretch: Stretch, replicas: int) -> None:
        took = stretch.end_ms - stretch.begin_ms
        self.replicas, self.fewest = replicas, min(self.fewest, stretch.in_sync)
        self.without_leader_ms += 0 if stretch.has_leader else took
        self.below_minimum_ms += took if stretch.below_minimum else 0
        self.under_replicated_ms += took if stretch.in_sync < replicas else 0
        self.stretches.append(stretch)

    def strip(self, partition: int, lasts: bool) -> Strip:
        return Strip(
            self.topic, partition, self.replicas, self.fewest, self.without_leader_ms, self.below_minimum_ms,
            self.under_replicated_ms, lasts, tuple(self.stretches), self.is_cut,
        )  # fmt: skip


class _Ill(NamedTuple):
    """A partition that is not as it should be now. replicas: how many it should have in sync."""

    replicas: int
    in_sync: tuple[int, ...]
    leader: int
    missed: frozenset[int]
    since: Moment


class PartitionStrips:
    """All partitions of a log. `since_ms`: what ended before it is not kept.

    `default_minimum`: the min.insync.replicas of brokers, which their files say and the log does not; None: not known.
    """

    def __init__(self, since_ms: int, default_minimum: int | None = None) -> None:
        self._since_ms = since_ms
        self._default = default_minimum
        self._topics: dict[bytes, str] = {}
        self._replicas: dict[bytes, dict[int, tuple[int, ...]]] = {}
        self._count = 0
        self._shared: dict[tuple[int, ...], tuple[int, ...]] = {}  # many partitions have the same replicas
        self._adding: dict[Key, frozenset[int]] = {}
        self._ill: dict[Key, _Ill] = {}
        self._missed: defaultdict[int, dict[Key, int]] = defaultdict(dict)
        self._kept: dict[Key, _Kept] = {}
        self._stretches = 0
        self._of_topics: dict[str, int] = {}
        self._of_brokers: dict[str, int] = {}  # by id; empty: of all of them

    def __len__(self) -> int:
        return self._count

    def missed(self, broker: int) -> Mapping[Key, int]:
        """Partitions that it hosts and is not in sync with; each with the offset since which that is so."""
        return self._missed.get(broker, {})

    # --- records

    def topic(self, data: Data, _: Moment) -> None:
        self._topics[data["topicId"].bytes] = data["name"]

    def remove_topic(self, data: Data, at: Moment) -> None:
        id_ = data["topicId"].bytes
        if id_ not in self._topics:
            raise ContradictionError("a topic that is not there")
        for partition in self._replicas.pop(id_, {}):
            self._count -= 1
            self._adding.pop((id_, partition), None)
            self._turn((id_, partition), (), (), _SOME_LEADER, at)  # what is gone lacks nothing
        self._of_topics.pop(self._topics.pop(id_), None)

    def config(self, data: Data, _: Moment) -> None:
        if data["name"] != MIN_INSYNC_REPLICAS:
            return
        minimums = {TOPIC_RESOURCE: self._of_topics, BROKER_RESOURCE: self._of_brokers}.get(data["resourceType"])
        if minimums is None:
            return
        if data["value"] is None:  # no longer set
            minimums.pop(data["resourceName"], None)
            return
        try:
            minimums[data["resourceName"]] = int(data["value"])
        except ValueError:
            raise ContradictionError("min.insync.replicas: expected a number") from None

    def partition(self, data: Data, at: Moment) -> None:
        key = data["topicId"].bytes, data["partitionId"]
        if key[0] not in self._topics or key[1] < 0:
            raise ContradictionError("a partition of a topic that is not there")
        _judge(data["replicas"], data["isr"], data["addingReplicas"])
        self._set(key, data["replicas"], data["addingReplicas"])
        self._turn(key, self._wanted(key), data["isr"], data["leader"], at)

    def change(self, data: Data, at: Moment) -> None:
        """Apply a change of a partition; fields that it does not name stay."""
        key = data["topicId"].bytes, data["partitionId"]
        replicas = self._replicas.get(key[0], {}).get(key[1])
        if replicas is None:
            raise ContradictionError(f"a change of partition {key[1]}, which is not there")
        ill = self._ill.get(key)
        in_sync = given_or(data, "isr", self._wanted(key) if ill is None else ill.in_sync)
        leader = _SOME_LEADER if ill is None else ill.leader
        if data.get("leader", LEADER_UNCHANGED) != LEADER_UNCHANGED:
            leader = data["leader"]
        adding = given_or(data, "addingReplicas", self._adding.get(key, ()))
        replicas = given_or(data, "replicas", replicas)
        _judge(replicas, in_sync, adding)
        self._set(key, replicas, adding)
        self._turn(key, self._wanted(key), in_sync, leader, at)

    def _set(self, key: Key, replicas: Sequence[int], adding: Collection[int]) -> None:
        of_topic = self._replicas.setdefault(key[0], {})
        if not adding and key not in self._adding and of_topic.get(key[1]) == replicas:
            return
        if key[1] not in of_topic:
            self._count += 1
            if self._count > MAX_PARTITIONS:
                raise TooLargeError(f"more than {MAX_PARTITIONS} partitions")
        of_topic[key[1]] = self._shared.setdefault(tuple(replicas), tuple(replicas))
        if adding:
            self._adding[key] = frozenset(adding)
        else:
            self._adding.pop(key, None)

    def _wanted(self, key: Key) -> tuple[int, ...]:
        """The replicas that it should have in sync now."""
        replicas, adding = self._replicas[key[0]][key[1]], self._adding.get(key)
        return tuple(replica for replica in replicas if replica not in adding) if adding else replicas

    # --- what becomes of a partition

    def _turn(self, key: Key, expected: Sequence[int], in_sync: Sequence[int], leader: int, at: Moment) -> None:
        """Note that a partition is in this state from this moment on."""
        former = self._ill.pop(key, None)
        missed = frozenset(expected).difference(in_sync)
        was_missed: frozenset[int] = former.missed if former is not None else frozenset()
        for broker in was_missed - missed:
            del self._missed[broker][key]
        for broker in missed - was_missed:
            self._missed[broker][key] = at.offset
        if missed or leader == NO_LEADER:
            unchanged = former is not None and (len(former.in_sync), former.leader == NO_LEADER) == (
                len(in_sync), leader == NO_LEADER,
            )  # fmt: skip
            since = former.since if former is not None and unchanged else at
            self._ill[key] = _Ill(len(expected), tuple(in_sync), leader, missed, since)
            if unchanged:
                return
        if former is not None:
            self._keep(key, former, at.at_ms)

    def _stretch(self, key: Key, ill: _Ill, end_ms: int) -> Stretch:
        minimum, begin_ms = self._minimum(self._topics.get(key[0], "")), max(ill.since.at_ms, self._since_ms)
        below = None if minimum is None else len(ill.in_sync) < minimum
        return Stretch(begin_ms, end_ms, len(ill.in_sync), ill.leader != NO_LEADER, below, ill.since.offset)

    def _keep(self, key: Key, ill: _Ill, end_ms: int) -> None:
        end_ms = max(end_ms, ill.since.at_ms)  # the clock of the next controller may be behind
        if end_ms < self._since_ms:
            return  # it was over before the window began
        if key not in self._kept:
            self._kept[key] = _Kept(self._topics.get(key[0], "?"), ill.replicas, ill.replicas)
        self._kept[key].add(self._stretch(key, ill, end_ms), ill.replicas)
        self._stretches += 1
        if self._stretches > MAX_STRETCHES:
            self._give_up()

    def _give_up(self) -> None:
        """Half of the stretches, of those that had it best; their sums stay."""
        for strip in sorted(self._kept.values(), key=lambda strip: strip.severity):
            if self._stretches <= MAX_STRETCHES // 2:
                return
            self._stretches -= len(strip.stretches)
            strip.is_cut = strip.is_cut or bool(strip.stretches)
            strip.stretches.clear()

    def _minimum(self, topic: str) -> int | None:
        """The topic's min.insync.replicas at this point of the log; for a topic that sets none, the highest of any
        broker.
        """
        if topic in self._of_topics:
            return self._of_topics[topic]
        of_all = self._of_brokers.get("", self._default)
        return None if of_all is None else max([of_all, *(n for id_, n in self._of_brokers.items() if id_)])

    def finish(self, end_ms: int) -> Iterator[Strip]:
        """Every partition that was without a replica or a leader since the window began, in no order. To be called
        once.
        """
        for key, ill in self._ill.items():
            self._keep(key, ill, max(end_ms, self._since_ms))
        for key, open_strip in self._kept.items():
            yield open_strip.strip(key[1], key in self._ill)


def _judge(replicas: Sequence[int], in_sync: Iterable[int], adding: Iterable[int]) -> None:
    distinct = set(replicas)
    if len(distinct) != len(replicas) or not distinct.issuperset(in_sync) or not distinct.issuperset(adding):
        raise ContradictionError("a partition with a replica twice, or in sync or added where it has none")


def worst_first(strips: Iterable[Strip]) -> list[Strip]:
    """Sort strips by what clients noticed; those that had it equally bad by name."""
    return sorted(strips, key=lambda strip: (*(-each for each in strip.severity), strip.topic, strip.partition))


RULES = {
    table.TOPIC.key: PartitionStrips.topic,
    table.REMOVE_TOPIC.key: PartitionStrips.remove_topic,
    table.CONFIG.key: PartitionStrips.config,
    table.PARTITION.key: PartitionStrips.partition,
    table.PARTITION_CHANGE.key: PartitionStrips.change,
}
"""By api key."""
