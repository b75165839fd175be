"""Placements of partitions, as KRaft makes them, and with what happens to them later. Every one from its seed.

`striped` models `StripedReplicaPlacer`: each topic starts at a random broker of each rack and takes the next one for
each partition. Sizes of topics are lognormal. A stray is a partition that was moved to random brokers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkafeatures.core.facts.readings import PartitionsReading
from kraftlog.partitions import Columns, MinInsyncReplicas, Partitions, Topic

Ids = NDArray[np.int32]

ROWS = 4096  # of a chunk, as kraftlog makes them


def striped(brokers: int, partitions: int, racks: int, seed: int, *, strays: float = 0.0) -> PartitionsReading:
    """Three replicas in as many racks of `racks`; broker b is in rack b % racks."""
    random = np.random.default_rng(seed)
    topic, partition = _topics(partitions, random)
    per_rack = brokers // racks
    starts = random.integers(0, per_rack, (int(topic[-1]) + 1, racks))
    first = (random.integers(0, racks, int(topic[-1]) + 1)[topic] + partition) % racks
    replicas = np.empty((partitions, 3), dtype=np.int32)
    for at in range(3):
        rack = (first + at) % racks
        place = starts[topic, rack] + partition + at // racks  # a rack that comes again gives its next broker
        replicas[:, at] = place % per_rack * racks + rack
    return reading(topic, partition, _strayed(replicas, brokers, strays, random))


def anywhere(brokers: int, partitions: int, seed: int) -> PartitionsReading:
    """Three replicas on random brokers."""
    random = np.random.default_rng(seed)
    return reading(*_topics(partitions, random), _random(partitions, brokers, random))


def _topics(partitions: int, random: np.random.Generator) -> tuple[Ids, Ids]:
    """The topic and the number of each partition."""
    sizes = np.minimum(np.ceil(random.lognormal(2.5, 1.0, partitions)), 1000).astype(np.int64)
    ends = np.cumsum(sizes)
    row = np.arange(partitions)
    topic = np.searchsorted(ends, row, side="right")
    return topic.astype(np.int32), (row - (ends - sizes)[topic]).astype(np.int32)


def _random(count: int, brokers: int, random: np.random.Generator) -> Ids:
    """Three different brokers each."""
    first = random.integers(0, brokers, count)
    second = (first + random.integers(1, brokers, count)) % brokers
    low, high = np.minimum(first, second), np.maximum(first, second)
    third = random.integers(0, brokers - 2, count)
    third += third >= low
    third += third >= high
    return np.stack([first, second, third], axis=1).astype(np.int32)


def _strayed(replicas: Ids, brokers: int, strays: float, random: np.random.Generator) -> Ids:
    count = round(len(replicas) * strays)
    replicas[random.choice(len(replicas), count, replace=False)] = _random(count, brokers, random)
    return replicas


def reading(topic: Ids, partition: Ids, replicas: Ids, least: int = 2) -> PartitionsReading:
    """All in sync."""
    nothing = np.zeros(len(topic), dtype=np.int32)
    flags = np.ones(replicas.shape, dtype=np.uint8)
    whole = Columns(topic, partition, replicas[:, 0].copy(), nothing, nothing, replicas, flags)

    def part(start: int) -> Columns:
        def cut(column: NDArray[Any]) -> NDArray[Any]:
            return column[start : start + ROWS]

        return whole.each(cut)

    names = {int(number): Topic(int(number).to_bytes(16), f"topic-{number}") for number in np.unique(topic)}
    chunks = tuple(part(start) for start in range(0, len(topic), ROWS))
    return PartitionsReading(Partitions(names, chunks, MinInsyncReplicas({}, {}, None)), least)
