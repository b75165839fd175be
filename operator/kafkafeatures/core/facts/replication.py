"""Judgement of which brokers may restart now without making a partition unavailable, and which partitions forbid it.

Pure. Before every single restart, `core/roll/admission.py` asks for a judgement, with a reading of all partitions and
all brokers that are away or about to be; one judgement never covers several restarts. A replica counts only if the
controller has it in the ISR, and it is neither away nor being removed. A replica that is eligible to lead without being
in sync (ELR) does not count: acks=all waits for in-sync replicas only.

The rule, by `rollout.availability`, for a broker and every partition that it hosts:

    RespectMinISR      If the broker is in the ISR, at least min.insync.replicas other replicas count. If it is not, its
                       restart changes nothing. A broker that is away may restart for a partition without a leader, as
                       that may bring the partition back.

    NoUnderReplicated  The same; and if the broker is in the ISR, all replicas are in the ISR, and none is away or being
                       moved. A broker that is not in the ISR may be the one that needs a restart.

A broker never requires more in-sync replicas than there are (`Partition.effectiveMinIsr`). Where min.insync.replicas
requires every replica, or there is a single replica, the rule cannot be kept during a restart: the partition forbids
all restarts of its brokers. Where a consent excuses this, one replica may be away, but never a second one.

Needs numpy, so it is imported only where a roll is judged. A million partitions are judged for all brokers in some
20 ms.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property

import numpy as np
from msgspec import Struct

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.facts.readings import PartitionsReading
from kafkafeatures.core.facts.replica_blocks import (
    Block,
    Bools,
    Numbers,
    block_of,
    broker_ids,
    count,
    places_of,
    together,
)
from kafkafeatures.core.words import counted
from kraftlog.partitions import NO_LEADER, Columns

NAMED = 3
"""Most partitions that a message names."""


class InadmissibleReason(StrEnum):
    """Reasons why a partition forbids a broker's restart, the most lasting first."""

    AT_MIN_ISR = "AtMinIsr"  # too few other replicas are in sync, even if all brokers were back
    REASSIGNING = "Reassigning"  # the partition is being moved
    UNDER_REPLICATED = "UnderReplicated"  # some replica is not in sync, although its broker is not away
    REPLICA_IN_FLIGHT = "ReplicaInFlight"  # the restart will be allowed once all brokers are back


Named = tuple[int, tuple[str, ...]]
"""Number of partitions, and the names of the first of them, such as "orders-3"."""


class Forbidding(Struct, frozen=True):
    """Partitions that forbid a restart.

    count: their number.
    names: names of the first partitions with `reason`.
    reason: the most lasting reason of any of them.
    lagging: brokers that should be in sync with one of them, are not, and are not away.
    """

    count: int
    names: tuple[str, ...]
    reason: InadmissibleReason
    lagging: frozenset[int] = frozenset()


class Replication:
    """All partitions of one reading, for the judgement of restarts, and the number and names of those in trouble."""

    def __init__(self, reading: PartitionsReading) -> None:
        self._partitions = reading.partitions
        chunks = [chunk for chunk in reading.partitions.chunks if chunk.replicas.shape[1]]  # those with replicas
        self._ids = broker_ids(chunks)  # sorted; `at` is always an index in it
        least = self._least(reading.default_min_insync_replicas, chunks)
        places = places_of(self._ids)
        self._blocks = [block_of(each, places, least) for each in together(chunks)]

    @cached_property
    def _out_of_sync(self) -> Numbers:
        """Number of partitions with which each broker should be in sync and is not."""
        return self._per_broker(lambda block: block.lacking)

    def judge(self, down: frozenset[int], availability: Availability, *, excused: bool = False) -> Admission:
        """Judge which brokers may restart now. Brokers in `down` can be judged too: a stuck one may need a restart.

        down: all brokers that are away or about to be, for any reason.
        excused: a consent lets partitions that require every replica have one away.
        """
        return Admission(self, down, availability, excused)

    def __len__(self) -> int:
        """Number of partitions."""
        return sum(len(block.topic) for block in self._blocks)

    def brokers(self) -> frozenset[int]:
        """Ids of the brokers that host a partition."""
        return frozenset(self._ids.tolist())

    def never_available(self) -> Mapping[str, int]:
        """Number of partitions that every restart of one of their brokers makes unavailable, by name of the topic."""
        numbers, counts = np.unique(self._rows(lambda block: block.never)[:, 0], return_counts=True)
        topic_counts = zip(numbers.tolist(), counts.tolist(), strict=True)
        return {self._partitions.topics[number].name: count for number, count in topic_counts}

    def out_of_sync(self, broker: int, most: int = NAMED) -> Named:
        """Partitions in which this broker's replica should be in sync and is not; without replicas that are being
        added.
        """
        at = self._at(broker)
        if at is None or not self._out_of_sync[at]:
            return 0, ()
        return self._named(self._rows(lambda block: (block.lacking & (block.at == at)).any(axis=0)), most)

    def leader_of_out_of_sync(self, broker: int) -> int | None:
        """The broker that leads all partitions with which this broker should be in sync and is not; None where these
        have several leaders, or none.
        """
        at = self._at(broker)
        if at is None or not self._out_of_sync[at]:
            return None
        led = (block.leader[(block.lacking & (block.at == at)).any(axis=0)] for block in self._blocks)
        leaders = np.unique(np.concatenate([*led])).tolist()
        return leaders[0] if len(leaders) == 1 and leaders[0] not in (NO_LEADER, broker) else None

    def lagging(self) -> frozenset[int]:
        """Brokers that are out of sync with a partition, for any reason."""
        return frozenset(self._ids[self._out_of_sync > 0].tolist())

    def at_min_isr(self) -> Named:
        """Partitions that lack an in-sync replica and have exactly min.insync.replicas."""

        def is_at_min(block: Block) -> Bools:
            return np.asarray(block.lacking.any(axis=0) & (count(block.in_sync) == block.least))

        return self._named(self._rows(is_at_min))

    def under_min_isr(self, *, excused: bool = False) -> Named:
        """Partitions with fewer in-sync replicas than min.insync.replicas. `excused`: those that require all replicas
        may lack one.
        """

        def is_under_min(block: Block) -> Bools:
            least = block.excusing().least if excused else block.least
            return np.asarray(count(block.in_sync) < least)

        return self._named(self._rows(is_under_min))

    def offline(self, *, excused: bool = False) -> Named:
        """Partitions without a leader. `excused`: without those that have a single replica."""
        return self._named(self._rows(lambda block: (block.leader == NO_LEADER) & (block.staying > int(excused))))

    def under_replicated(self) -> Named:
        """Partitions in which a replica should be in sync and is not; without replicas that are being added."""
        return self._named(self._rows(lambda block: np.asarray(block.lacking.any(axis=0))))

    def reassigning(self) -> Named:
        """Partitions that are being reassigned."""
        return self._named(self._rows(lambda block: block.moving))

    # --- for the planner of rolls and its advice

    def pairs(self, brokers: Iterable[int], availability: Availability) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Pairs of brokers that may never be away together, because a shared partition allows only one at a time. Each
        item is three arrays of the same length: indices in `brokers` of the first and of the second broker, and the
        number of the partition's row, counted over all blocks.
        """
        position_of = np.full(len(self._ids), -1, dtype=np.int32)
        for number, broker in enumerate(brokers):
            if (at := self._at(broker)) is not None:
                position_of[at] = number
        has_all_brokers = bool((position_of >= 0).all())
        first = 0
        for block in self._blocks:
            rows, positions = np.arange(first, first + len(block.topic)), position_of.take(block.at)
            first += len(block.topic)
            if availability is Availability.RESPECT_MIN_ISR:  # else every partition allows only one broker at a time
                binding = np.flatnonzero(block.staying - block.excusing().least <= 1)
                rows, positions = rows[binding], positions[:, binding]
            for slot in range(len(positions)):  # one for each replica
                for other_slot in range(slot):
                    if has_all_brokers:  # a shortcut: no position is -1, so no row has to be filtered
                        yield positions[slot], positions[other_slot], rows
                    elif (both := (positions[slot] >= 0) & (positions[other_slot] >= 0)).any():
                        yield positions[slot][both], positions[other_slot][both], rows[both]

    def names_of(self, rows: Numbers, most: int = NAMED) -> tuple[str, ...]:
        """Names of the first of these rows. Rows are numbered as in `pairs`."""
        partitions = [np.empty((0, 2), dtype=np.int32)]
        first = 0
        for block in self._blocks:
            block_rows = rows[(rows >= first) & (rows < first + len(block.topic))] - first
            partitions.append(block.rows(block_rows).partitions)
            first += len(block.topic)
        return self._named(np.concatenate(partitions), most)[1]

    def _at(self, broker: int) -> int | None:
        """Index of a broker in `_ids`; None if it hosts no partition."""
        at = int(np.searchsorted(self._ids, broker))
        return at if at < len(self._ids) and self._ids[at] == broker else None

    def _away(self, down: frozenset[int]) -> Bools:
        """Brokers that are away, by index in `_ids`."""
        away = np.zeros(len(self._ids), dtype=np.bool_)
        away[[at for broker in down if (at := self._at(broker)) is not None]] = True
        return away

    def _least(self, default: int, chunks: list[Columns]) -> Numbers:
        """min.insync.replicas by the number of the topic."""
        top = max((int(chunk.topic.max()) for chunk in chunks), default=-1)
        least = np.full(top + 1, _as_count(default), dtype=np.int16)
        if configured := self._partitions.min_insync_replicas.topics:
            for number, topic in self._partitions.topics.items():
                if number <= top and topic.name in configured:
                    least[number] = _as_count(configured[topic.name])
        return least

    def _per_broker(self, predicate: Callable[[Block], Bools]) -> Numbers:
        """Number of replicas of each broker that `predicate` selects."""
        counts = np.zeros(len(self._ids), dtype=np.int64)
        for block in self._blocks:
            counts += np.bincount(block.at[predicate(block)], minlength=len(self._ids))
        return counts

    def _rows(self, predicate: Callable[[Block], Bools]) -> Numbers:
        """Rows for which the predicate is true, in the form of `Block.partitions`."""
        partitions = [block.rows(np.flatnonzero(predicate(block))).partitions for block in self._blocks]
        return np.concatenate([*partitions, np.empty((0, 2), dtype=np.int32)])

    def _topics(self, numbers: Numbers, most: int) -> list[tuple[str, int]]:
        """The first of these topics by name, with their numbers."""
        return heapq.nsmallest(
            most, ((self._partitions.topics[number].name, number) for number in np.unique(numbers).tolist())
        )

    def _named(self, rows: Numbers, most: int = NAMED) -> Named:
        """Number of these rows, which have the form of `Block.partitions`, and the names of the first ones."""
        names: list[str] = []
        for name, number in self._topics(rows[:, 0], most):
            of_topic = np.sort(rows[rows[:, 0] == number, 1])[: most - len(names)]
            names += [f"{name}-{partition}" for partition in of_topic.tolist()]
        return len(rows), tuple(names)


class Admission:
    """Judgement of which brokers may restart while those in `down` are away, at one moment: made anew before each
    restart.
    """

    def __init__(
        self, replication: Replication, down: frozenset[int], availability: Availability, excused: bool
    ) -> None:
        self._replication, self._availability, self._excused = replication, availability, excused
        self._away = replication._away(down)
        self._forbidden = replication._per_broker(self._forbids)  # number of partitions that forbid each broker

    def allows(self, broker: int) -> bool:
        """Tell whether the broker may restart. A broker that hosts no partition may always."""
        at = self._replication._at(broker)
        return at is None or not self._forbidden[at]

    def forbidding(self, broker: int, most: int = NAMED) -> Forbidding | None:
        """Partitions that forbid this broker's restart; None for none."""
        at = self._replication._at(broker)
        if at is None or not self._forbidden[at]:
            return None
        partitions, reasons, lagging_brokers = [], [], set[int]()
        for block in self._replication._blocks:
            # First the few rows that the broker hosts: to judge these again costs less than to judge all.
            hosted = block.rows(np.flatnonzero((block.at == at).any(axis=0)))
            rows = hosted.rows(np.flatnonzero((self._forbids(hosted) & (hosted.at == at)).any(axis=0)))
            partitions.append(rows.partitions)
            reasons.append(self._reasons_of(rows, at))
            lagging_brokers.update(
                self._replication._ids[np.unique(rows.at[rows.lacking & ~self._away[rows.at]])].tolist()
            )
        all_partitions, all_reasons = np.concatenate(partitions), np.concatenate(reasons)
        _, names = self._replication._named(all_partitions[all_reasons == all_reasons.min()], most)
        return Forbidding(len(all_partitions), names, _REASONS[all_reasons.min()], frozenset(lagging_brokers))

    def _judged(self, block: Block) -> Block:
        """The block with what a consent excuses."""
        return block.excusing() if self._excused else block

    def _forbids(self, block: Block) -> Bools:
        return self._judged(block).forbidding(self._away, self._availability)

    def _reasons_of(self, rows: Block, at: int) -> Numbers:
        """Reason why each of these rows forbids the restart of the broker with index `at`, as an index of `_REASONS`.
        It is found by judging the rows again as if all brokers were back: what still forbids the restart lasts.
        """
        none_away = np.zeros_like(self._away)
        of_broker = rows.at == at
        healed = self._judged(rows).healed(self._away)
        lasting = (healed.forbidding(none_away, self._availability) & of_broker).any(axis=0)
        without_moves = healed.without_reassignments()
        too_few = (without_moves.forbidding(none_away, Availability.RESPECT_MIN_ISR) & of_broker).any(axis=0)
        return np.select([too_few, lasting & rows.moving, lasting], [0, 1, 2], 3)  # the first that is True


_REASONS = tuple(InadmissibleReason)


def _as_count(configured: int) -> int:
    """`min.insync.replicas` as a number that fits the arrays; no partition has more replicas."""
    return max(1, min(configured, np.iinfo(np.int16).max))


def format_partitions(count: int, names: tuple[str, ...]) -> str:
    """Partitions in a message, such as "3 partitions (orders-1, orders-2, ...)"."""
    return f"{counted(count, 'partition')} ({', '.join(names)}{', ...' if count > len(names) else ''})"
