"""Order in which brokers should restart, and the number of rounds that it takes.

Pure. `core/roll/next_restart.py` goes through the order and restarts the first broker that its partitions admit at that
moment (`core/facts/replication.py`), whenever there is room for one more: a sliding window, never fixed waves. So
safety does not depend on anything here; a bad order only costs time. Limits and advice use the number of rounds.

Two brokers are in conflict if they share a partition that lets only one of them be away at a time. Brokers without a
conflict between them make a class, and may restart together. This is the colouring of a graph, by recursive largest
first (Leighton, 1979): each class begins with the broker that has the most conflicts, and takes in the brokers whose
conflicts are the most alike, so that few conflicts remain between the others. In a dense cluster all brokers of one
rack are in conflict with all of another, so that a class becomes a rack, without trust in any label. A partition that
lets two or more of its brokers be away makes no conflict; it is judged only before each restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.replica_blocks import Bools
from kafkafeatures.core.facts.replication import Replication

MOST_IN_FLIGHT = 64
"""Largest number of nodes in flight, whatever `spec.rollout.maxParallel` says."""

MOST_PLANNED = 2000
"""Largest number of brokers whose conflicts are computed. Further ones follow in the order of their ids."""


def cap(max_parallel: MaxParallel, brokers: int) -> int:
    """Number of nodes that may be in flight. A percentage is of all brokers, rounded down; at least one always may."""
    requested = brokers * max_parallel.number // 100 if max_parallel.percent else max_parallel.number
    return max(1, min(requested, MOST_IN_FLIGHT))


def order(
    replication: Replication,
    needing: Iterable[int],
    stuck: frozenset[int] = frozenset(),
    *,
    most: int = MOST_IN_FLIGHT,
    availability: Availability = Availability.NO_UNDER_REPLICATED,
) -> tuple[int, ...]:
    """All brokers that need a restart, by priority: stuck ones first, because they serve no client. `most`: how many
    may be in flight at once.
    """
    all_ids = frozenset(needing)
    brokers = sorted(all_ids - stuck)
    planned, unplanned = brokers[:MOST_PLANNED], brokers[MOST_PLANNED:]
    classes = classes_of(_conflicts(replication, planned, availability), most)
    return (*sorted(all_ids & stuck), *(planned[at] for members in classes for at in members), *unplanned)


def planned_rounds(
    replication: Replication,
    needing: Iterable[int],
    *,
    most: int = MOST_IN_FLIGHT,
    availability: Availability = Availability.NO_UNDER_REPLICATED,
) -> int:
    """Rounds that it takes to restart these brokers in the planned order, if every restart takes equally long."""
    brokers = sorted(frozenset(needing))
    conflicts = _conflicts(replication, brokers[:MOST_PLANNED], availability)
    unplanned_rounds = -(-len(brokers[MOST_PLANNED:]) // most)
    return rounds_of(conflicts, classes_of(conflicts, most), most) + unplanned_rounds


def _conflicts(replication: Replication, brokers: Sequence[int], availability: Availability) -> Bools:
    """Conflicts between brokers: a symmetric matrix, by the position in `brokers`."""
    count = len(brokers)
    conflicts = np.zeros(count * count, dtype=np.bool_)
    for first, second, _ in replication.pairs(brokers, availability):
        conflicts[first * count + second] = True
    square = conflicts.reshape(count, count)
    return square | square.T


def classes_of(conflicts: Bools, most: int) -> list[list[int]]:
    """Classes of at most `most` brokers, which may restart together, as positions in the matrix."""
    count = len(conflicts)
    remaining, degree = np.ones(count, dtype=np.bool_), conflicts.sum(axis=1)
    classes = []
    while remaining.any():
        # free: brokers that still fit into this class. shared: for each, its conflicts with brokers that do not fit.
        free, shared, members = remaining.copy(), np.zeros(count, dtype=np.int64), list[int]()
        while free.any() and len(members) < most:
            # The most shared conflicts, and among equal ones the most conflicts, which are at most `count`.
            at = int(np.where(free, shared * (count + 1) + degree, -1).argmax())
            members.append(at)
            free[at] = remaining[at] = False
            degree -= conflicts[at]
            blocked = free & conflicts[at]
            free &= ~blocked
            if free.any():  # else the next class begins, which counts shared conflicts anew
                shared += conflicts[blocked].sum(axis=0)
        classes.append(members)
    return classes


def rounds_of(conflicts: Bools, classes: Iterable[Iterable[int]], most: int) -> int:
    """Number of rounds if in each round every broker restarts that can, in this order, and at most `most`."""
    remaining = [at for members in classes for at in members]
    rounds = 0
    while remaining:
        blocked = np.zeros(len(conflicts), dtype=np.bool_)
        waiting, room = [], most
        for at in remaining:
            if room and not blocked[at]:
                blocked |= conflicts[at]
                room -= 1
            else:
                waiting.append(at)
        remaining = waiting
        rounds += 1
    return rounds
