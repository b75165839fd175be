"""Partitions with replicas, in-sync replicas and leaders as one reading, and the rule of availability as plain sets, to
compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.facts.readings import PartitionsReading
from kraftlog.partitions import NO_LEADER, Columns, MinInsyncReplicas, Partitions, Replica, Topic

RESPECT, STRICT = Availability.RESPECT_MIN_ISR, Availability.NO_UNDER_REPLICATED


@dataclass(frozen=True)
class Row:
    """One partition. `in_sync` None: all that are not being added."""

    topic: str
    replicas: tuple[int, ...]
    in_sync: frozenset[int] | None = None
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()
    number: int = 0
    offline: bool = False

    @property
    def isr(self) -> frozenset[int]:
        return frozenset(self.replicas) - self.adding if self.in_sync is None else self.in_sync

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"


def row(
    topic: str,
    *replicas: int,
    isr: Iterable[int] | None = None,
    adding: Iterable[int] = (),
    removing: Iterable[int] = (),
    number: int = 0,
    offline: bool = False,
) -> Row:
    """Build a partition; sets may be given as any iterable."""
    in_sync = None if isr is None else frozenset(isr)
    return Row(topic, replicas, in_sync, frozenset(adding), frozenset(removing), number, offline)


def reading(
    *rows: Row, default: int = 2, least: Mapping[str, int] | None = None, per_chunk: int = 3
) -> PartitionsReading:
    """Build a reading of partitions; `least` has the min.insync.replicas of topics that set it."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(each.topic for each in rows), start=5)}
    chunks = []
    for width in sorted({len(each.replicas) for each in rows}):
        same = [each for each in rows if len(each.replicas) == width]
        chunks += [_columns(same[at : at + per_chunk], numbers) for at in range(0, len(same), per_chunk)]
    topics = {number: Topic(number.to_bytes(16), name) for name, number in numbers.items()}
    partitions = Partitions(topics, tuple(chunks), MinInsyncReplicas(dict(least or {}), {}, None))
    return PartitionsReading(partitions, default)


def _columns(rows: list[Row], numbers: Mapping[str, int]) -> Columns:
    def ints(values: Iterable[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return np.array(list(values), dtype=np.int32)

    flags = [[_flag(each, broker) for broker in each.replicas] for each in rows]
    nothing = ints(0 for _ in rows)
    return Columns(
        ints(numbers[each.topic] for each in rows),
        ints(each.number for each in rows),
        ints(NO_LEADER if each.offline else min(each.isr, default=NO_LEADER) for each in rows),
        nothing,
        nothing,
        np.array([each.replicas for each in rows], dtype=np.int32).reshape(len(rows), -1),
        np.array(flags, dtype=np.uint8).reshape(len(rows), -1),
    )


def _flag(of: Row, broker: int) -> int:
    sets = {Replica.IN_SYNC: of.isr, Replica.ADDING: of.adding, Replica.REMOVING: of.removing}
    return sum(int(bit) for bit, brokers in sets.items() if broker in brokers)


def least_of(of: Row, default: int, least: Mapping[str, int]) -> int:
    """Return how many replicas of a partition must be in sync for acks=all: at most as many as there are."""
    return max(1, min(least.get(of.topic, default), len(of.replicas)))


def forbids(
    of: Row, broker: int, down: frozenset[int], rule: Availability, least: int, *, excused: bool = False
) -> bool:
    """Apply the rule of availability, written with plain sets."""
    if broker not in of.replicas:
        return False
    staying = set(of.replicas) - of.removing
    if excused and least >= len(staying):
        least = len(staying) - 1
    leads_nobody = of.offline or not of.isr
    if (
        broker in of.isr
        and not (leads_nobody and broker in down)
        and len(of.isr - down - of.removing - {broker}) < least
    ):
        return True
    if rule is RESPECT:
        return False
    lacks = bool(set(of.replicas) - of.isr or set(of.replicas) & down)
    return bool((broker in of.isr and lacks) or of.adding or of.removing)
