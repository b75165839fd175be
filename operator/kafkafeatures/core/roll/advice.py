"""Advice to users: partitions whose move to other racks would let more brokers restart together.

Pure. Called by `core/roll/limits.py`, once, when a roll begins; shown in the notes of `status.rollout`. The operator
moves no partition.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.facts.replication import NAMED, Replication
from kafkafeatures.core.roll.planner import MOST_IN_FLIGHT, MOST_PLANNED, classes_of, rounds_of

_MOST_SHARED = (1, 2, 4, 8, 16)
"""Limits that are tried one after the other: two brokers that share at most so many partitions are taken to have no
conflict, as these partitions are to be moved.
"""

_MOST_MOVED = 0.01
"""Largest share of all partitions that advice may move; one partition may always be moved."""


class Advice(Struct, frozen=True):
    """Advice to move some partitions to other racks. Two replicas of each are on brokers that could otherwise restart
    together.

    partitions: number of partitions to move.
    names: the first of them.
    rounds: rounds that the roll takes now.
    rounds_after: rounds that it would take with these partitions on other racks.
    """

    partitions: int
    names: tuple[str, ...]
    rounds: int
    rounds_after: int


def advice_on_moves(
    replication: Replication,
    needing: Iterable[int],
    *,
    most: int = MOST_IN_FLIGHT,
    availability: Availability = Availability.NO_UNDER_REPLICATED,
    limit: int = NAMED,
) -> Advice | None:
    """The fewest partitions whose move would save the most rounds; None if moving a few would save none.

    First conflicts between brokers that share one partition are ignored, then those of at most two, four, and so on,
    and brokers are put into classes each time. The partitions to move are those that two brokers of a class share.

    needing: ids of brokers that need a restart.
    most: largest number of brokers that restart together.
    limit: number of partitions that are named.
    """
    brokers = sorted(frozenset(needing))[:MOST_PLANNED]
    count = len(brokers)
    pairs = list(replication.pairs(brokers, availability))
    shared = np.zeros((count, count), dtype=np.int64)
    for first, second, _ in pairs:
        shared += np.bincount(first * count + second, minlength=shared.size).reshape(shared.shape)
    shared += shared.T.copy()  # a copy, as the view would change while it is added
    rounds_now = rounds_of(shared > 0, classes_of(shared > 0, most), most)
    best: Advice | None = None
    # With `most` brokers in every round but the last, no move can save a round.
    for most_shared in _MOST_SHARED if rounds_now > -(-count // most) else ():
        classes = classes_of(shared > most_shared, most)
        class_of = np.empty(count, dtype=np.int64)
        for number, members in enumerate(classes):
            class_of[members] = number
        rows = np.unique(np.concatenate([rows[class_of[first] == class_of[second]] for first, second, rows in pairs]))
        if len(rows) > max(1, len(replication) * _MOST_MOVED):
            break  # with a higher limit even more would move
        apart = class_of[:, None] != class_of[None, :]
        rounds_then = rounds_of((shared > 0) & apart, classes, most)
        if rounds_then < (best.rounds_after if best else rounds_now):
            best = Advice(len(rows), replication.names_of(rows, limit), rounds_now, rounds_then)
    return best
