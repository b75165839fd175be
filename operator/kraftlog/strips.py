"""Finds the times in which partitions lacked in-sync replicas or a leader, by the records of a log.

Called by `rolls` with records in the order of the log. The history of a partition is a "strip" of "stretches" with
equal state. Sums are exact for every partition from where the log is known; the number of stretches, which are only for
drawings, is limited, and those of the least affected partitions are dropped first.

A replica that a reassignment is adding is not missing if it is out of sync. An eligible leader replica (ELR) outside of
the ISR is missing, since `acks=all` waits for the ISR.
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
    value_or,
)
from kraftlog.schema import table

Data = Mapping[str, Any]
Key = tuple[bytes, int]
"""(topic id, partition number)."""

MAX_PARTITIONS = 2_000_000
"""Most partitions that are followed: the limit that Kafka documents for a cluster."""

MAX_STRETCHES = 200_000
"""Most stretches of all partitions together, for drawings: some fifty megabytes."""

_SOME_LEADER = 0  # of a healthy partition it does not matter which broker leads


class Moment(NamedTuple):
    """Time in ms at which a controller wrote a record, and the record's offset."""

    at_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A period in which a partition lacked replicas or a leader, without a change.

    in_sync: number of in-sync replicas. has_leader: False: clients could neither produce nor consume. below_minimum:
    `acks=all` was refused; None if min.insync.replicas is unknown. offset: of the record with which it began.
    """

    begin_ms: int
    end_ms: int
    in_sync: int
    has_leader: bool
    below_minimum: bool | None
    offset: int


@dataclass(frozen=True, slots=True)
class Strip:
    """A partition that lacked a replica or a leader. The times are sums since the window began.

    replicas: number of replicas. fewest: fewest in-sync replicas. lasts: the state lasts to the end of the log.
    stretches: in order; if is_cut, the earlier ones were dropped, perhaps all.
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
        """Sort key: the worst strip has the highest."""
        return self.without_leader_ms, self.below_minimum_ms, self.replicas - self.fewest, self.under_replicated_ms


@dataclass(slots=True)
class _GrowingStrip:
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


class _Affected(NamedTuple):
    """The state of a partition that lacks a replica or a leader now.

    replicas: number of replicas that should be in sync. missed: brokers of these that are not in sync. since: when the
    current stretch began.
    """

    replicas: int
    in_sync: tuple[int, ...]
    leader: int
    missed: frozenset[int]
    since: Moment


class PartitionStrips:
    """The partitions of a log, to which records are applied (`RULES`).

    since_ms: start of the window, in ms since 1970; stretches that ended before it are not kept. default_minimum: the
    min.insync.replicas in brokers' properties files, which the log does not have; None: unknown.
    """

    def __init__(self, since_ms: int, default_minimum: int | None = None) -> None:
        self._since_ms = since_ms
        self._default = default_minimum
        self._topics: dict[bytes, str] = {}  # topic id -> name
        self._replicas: dict[bytes, dict[int, tuple[int, ...]]] = {}  # topic id -> partition -> its replicas
        self._count = 0  # partitions that exist
        self._shared: dict[tuple[int, ...], tuple[int, ...]] = {}  # one tuple for all partitions with these replicas
        self._adding: dict[Key, frozenset[int]] = {}  # replicas that a reassignment is adding
        # State of the partitions that lack something now. Others have all expected replicas in sync, and some leader.
        self._affected: dict[Key, _Affected] = {}
        self._missed: defaultdict[int, dict[Key, int]] = defaultdict(dict)  # by broker: see `missed`
        self._growing: dict[Key, _GrowingStrip] = {}  # partitions with a stretch that has ended
        self._stretches = 0  # number in all strips
        # Values of min.insync.replicas by topic name and by broker id; the id "" is for all brokers.
        self._of_topics: dict[str, int] = {}
        self._of_brokers: dict[str, int] = {}

    def __len__(self) -> int:
        return self._count

    def missed(self, broker: int) -> Mapping[Key, int]:
        """Partitions with a replica on this broker that is not in sync, each with the offset since which it is not."""
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
            self._note((id_, partition), (), (), _SOME_LEADER, at)  # what is gone lacks nothing
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
        _check(data["replicas"], data["isr"], data["addingReplicas"])
        self._set_replicas(key, data["replicas"], data["addingReplicas"])
        self._note(key, self._expected(key), data["isr"], data["leader"], at)

    def change(self, data: Data, at: Moment) -> None:
        """Apply a change of a partition; fields that it does not name stay."""
        key = data["topicId"].bytes, data["partitionId"]
        replicas = self._replicas.get(key[0], {}).get(key[1])
        if replicas is None:
            raise ContradictionError(f"a change of partition {key[1]}, which is not there")
        state = self._affected.get(key)
        in_sync = value_or(data, "isr", self._expected(key) if state is None else state.in_sync)
        leader = _SOME_LEADER if state is None else state.leader
        if data.get("leader", LEADER_UNCHANGED) != LEADER_UNCHANGED:
            leader = data["leader"]
        adding = value_or(data, "addingReplicas", self._adding.get(key, ()))
        replicas = value_or(data, "replicas", replicas)
        _check(replicas, in_sync, adding)
        self._set_replicas(key, replicas, adding)
        self._note(key, self._expected(key), in_sync, leader, at)

    def _set_replicas(self, key: Key, replicas: Sequence[int], adding: Collection[int]) -> None:
        of_topic = self._replicas.setdefault(key[0], {})
        if not adding and key not in self._adding and of_topic.get(key[1]) == replicas:
            return  # most changes are of the ISR or the leader
        if key[1] not in of_topic:
            self._count += 1
            if self._count > MAX_PARTITIONS:
                raise TooLargeError(f"more than {MAX_PARTITIONS} partitions")
        of_topic[key[1]] = self._shared.setdefault(tuple(replicas), tuple(replicas))
        if adding:
            self._adding[key] = frozenset(adding)
        else:
            self._adding.pop(key, None)

    def _expected(self, key: Key) -> tuple[int, ...]:
        """The replicas that should be in sync now."""
        replicas, adding = self._replicas[key[0]][key[1]], self._adding.get(key)
        return tuple(replica for replica in replicas if replica not in adding) if adding else replicas

    # --- what becomes of a partition

    def _note(self, key: Key, expected: Sequence[int], in_sync: Sequence[int], leader: int, at: Moment) -> None:
        """Note that a partition is in this state from this moment on. expected: replicas that should be in sync."""
        former = self._affected.pop(key, None)
        missed = frozenset(expected).difference(in_sync)
        missed_before: frozenset[int] = former.missed if former is not None else frozenset()
        for broker in missed_before - missed:
            del self._missed[broker][key]
        for broker in missed - missed_before:
            self._missed[broker][key] = at.offset
        if missed or leader == NO_LEADER:
            # A stretch continues if as many replicas are in sync, even if these are others.
            unchanged = former is not None and (len(former.in_sync), former.leader == NO_LEADER) == (
                len(in_sync), leader == NO_LEADER,
            )  # fmt: skip
            since = former.since if former is not None and unchanged else at
            self._affected[key] = _Affected(len(expected), tuple(in_sync), leader, missed, since)
            if unchanged:
                return
        if former is not None:
            self._end_stretch(key, former, at.at_ms)

    def _stretch(self, key: Key, state: _Affected, end_ms: int) -> Stretch:
        minimum, begin_ms = self._minimum(self._topics.get(key[0], "")), max(state.since.at_ms, self._since_ms)
        below = None if minimum is None else len(state.in_sync) < minimum
        return Stretch(begin_ms, end_ms, len(state.in_sync), state.leader != NO_LEADER, below, state.since.offset)

    def _end_stretch(self, key: Key, state: _Affected, end_ms: int) -> None:
        end_ms = max(end_ms, state.since.at_ms)  # the clock of the next controller may be behind
        if end_ms < self._since_ms:
            return  # it ended before the window began
        if key not in self._growing:
            self._growing[key] = _GrowingStrip(self._topics.get(key[0], "?"), state.replicas, state.replicas)
        self._growing[key].add(self._stretch(key, state, end_ms), state.replicas)
        self._stretches += 1
        if self._stretches > MAX_STRETCHES:
            self._drop_stretches()

    def _drop_stretches(self) -> None:
        """Drop half of the stretches, so that this sort is rare: those of the least affected partitions. The sums
        stay.
        """
        for strip in sorted(self._growing.values(), key=lambda strip: strip.severity):
            if self._stretches <= MAX_STRETCHES // 2:
                return
            self._stretches -= len(strip.stretches)
            strip.is_cut = strip.is_cut or bool(strip.stretches)
            strip.stretches.clear()

    def _minimum(self, topic: str) -> int | None:
        """The topic's min.insync.replicas at this point of the log. The value of the leader's broker applies to a topic
        that sets none: here the highest of any broker counts, and None if there is none for all brokers.
        """
        if topic in self._of_topics:
            return self._of_topics[topic]
        of_all = self._of_brokers.get("", self._default)
        return None if of_all is None else max([of_all, *(n for id_, n in self._of_brokers.items() if id_)])

    def finish(self, end_ms: int) -> Iterator[Strip]:
        """Every partition that lacked a replica or a leader since the window began, in no order. Call it once."""
        for key, state in self._affected.items():
            self._end_stretch(key, state, max(end_ms, self._since_ms))
        for key, open_strip in self._growing.items():
            yield open_strip.strip(key[1], key in self._affected)


def _check(replicas: Sequence[int], in_sync: Iterable[int], adding: Iterable[int]) -> None:
    distinct = set(replicas)
    if len(distinct) != len(replicas) or not distinct.issuperset(in_sync) or not distinct.issuperset(adding):
        raise ContradictionError("a partition with a replica twice, or in sync or added where it has none")


def worst_first(strips: Iterable[Strip]) -> list[Strip]:
    """The strips sorted by the effect on clients, worst first, then by name."""
    return sorted(strips, key=lambda strip: (*(-each for each in strip.severity), strip.topic, strip.partition))


RULES = {
    table.TOPIC.key: PartitionStrips.topic,
    table.REMOVE_TOPIC.key: PartitionStrips.remove_topic,
    table.CONFIG.key: PartitionStrips.config,
    table.PARTITION.key: PartitionStrips.partition,
    table.PARTITION_CHANGE.key: PartitionStrips.change,
}
"""The method that applies a record, by the record's api key."""
