"""In which order brokers should restart, how many rounds that takes at least, and what would make it fewer.

Pure. Called by `core/roll/next_restart.py`, which walks the order and starts the first that may go by the live
judgement (`core/facts/replication.py`) whenever there is room: a sliding window, never fixed waves. So safety never
depends on anything here, and a plan that is out of date costs time only.

Two brokers are in conflict that share a partition which lets one of them go at a time. In a dense cluster all brokers
of a rack are in conflict with all of another, so no round has brokers of two racks, and the rounds of the racks add up.
Such groups are found by what the brokers are not in conflict with, and no label of a rack is trusted. Within a group:
DSATUR, and where that needs more rounds than the bound, a tabu search for one less. There is no clock here, so work is
bounded by steps. Replicas to spare beyond one are left to the live judgement: they make no conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.replica_blocks import Bools, Numbers
from kafkafeatures.core.facts.replication import NAMED, Replication

MOST_IN_FLIGHT = 64
"""Nodes, whatever `spec.rollout.maxParallel` says."""

_MOST_PLANNED = 2000
"""Brokers of which pairs are compared. More go behind them, in the order of their ids."""

_STEPS, _MOVES = 2000, 200_000
"""The limits of the search for one round less in a group. A step takes some 20 microseconds, and more in a larger
group. So that a thousand brokers take no longer than a hundred: that many steps, but no more than that many times a
broker.
"""

_ALIKE = (0.0, 0.5)
"""Share that two brokers of one group have in common of whom either is not in conflict with. Both are tried: with 0.0
the groups are the components of who is not in conflict, between which every pair is; with 0.5 a few pairs may be
missing, and a new broker without many partitions does not make one group of all.
"""

_CLIQUES = 100
"""Brokers from which a clique is sought."""

_TOGETHER = 8  # rows that are compared with all others at once

_FEW = (1, 2, 4, 8, 16)
"""Partitions that make a conflict which is tried to be done without."""

_MOST_MOVED = 0.01
"""The share of all partitions that advice may move; more than that, and more than one, is not advised."""


class Rounds(Struct, frozen=True):
    """If every restart took equally long. at_least: no order needs fewer. planned: what the order needs."""

    at_least: int
    planned: int


class Advice(Struct, frozen=True):
    """Moving so many partitions, the first of which are named, would save rounds: from `rounds` to `then`. Two replicas
    of each are on brokers that could restart together if it were not for such partitions.
    """

    partitions: int
    names: tuple[str, ...]
    rounds: int
    then: int


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
    planned, unplanned = brokers[:_MOST_PLANNED], brokers[_MOST_PLANNED:]
    classes = _classes(_conflicts(replication, planned, availability), most)
    return (*sorted(all_ids & stuck), *(planned[at] for members in classes for at in members), *unplanned)


def bounds(
    replication: Replication,
    needing: Iterable[int],
    *,
    most: int = MOST_IN_FLIGHT,
    availability: Availability = Availability.NO_UNDER_REPLICATED,
) -> Rounds:
    """Rounds that it takes to restart these brokers: at least, and in the planned order."""
    brokers = sorted(frozenset(needing))
    unplanned_rounds = _by_number(len(brokers[_MOST_PLANNED:]), most)
    conflicts = _conflicts(replication, brokers[:_MOST_PLANNED], availability)
    return Rounds(
        max(_by_number(len(brokers), most), *(_least_of(conflicts, groups, most) for groups in _groupings(conflicts))),
        _rounds(conflicts, _classes(conflicts, most), most) + unplanned_rounds,
    )


def advice(
    replication: Replication,
    needing: Iterable[int],
    *,
    most: int = MOST_IN_FLIGHT,
    availability: Availability = Availability.NO_UNDER_REPLICATED,
    named: int = NAMED,
) -> Advice | None:
    """The fewest partitions whose move would save the most rounds; None where no few would save any.

    Tried: to do without every conflict that only 1, 2, 4, ... partitions make. Of these partitions only those count
    that keep two brokers apart which would restart together without them.
    """
    brokers = sorted(frozenset(needing))[:_MOST_PLANNED]
    count = len(brokers)
    pairs = list(replication.pairs(brokers, availability))
    shared = np.zeros((count, count), dtype=np.int64)
    for first, second, _ in pairs:
        shared += np.bincount(first * count + second, minlength=shared.size).reshape(shared.shape)
    shared += shared.T.copy()
    rounds_now = _rounds(shared > 0, _classes(shared > 0, most), most)
    best: Advice | None = None
    for few in _FEW if rounds_now > _by_number(count, most) else ():
        classes = _classes(shared > few, most)
        class_of = np.empty(count, dtype=np.int64)
        for number, members in enumerate(classes):
            class_of[members] = number
        rows = np.unique(np.concatenate([rows[class_of[first] == class_of[second]] for first, second, rows in pairs]))
        if len(rows) > max(1, len(replication) * _MOST_MOVED):
            break
        apart = class_of[:, None] != class_of[None, :]
        rounds_then = _rounds((shared > 0) & apart, classes, most)
        if rounds_then < (best.then if best else rounds_now):
            best = Advice(len(rows), replication.names_of(rows, named), rounds_now, rounds_then)
    return best


def _conflicts(replication: Replication, brokers: Sequence[int], availability: Availability) -> Bools:
    """Conflicts between brokers: a symmetric matrix, by the position in `brokers`."""
    count = len(brokers)
    conflicts = np.zeros(count * count, dtype=np.bool_)
    for first, second, _ in replication.pairs(brokers, availability):
        conflicts[first * count + second] = True
    square = conflicts.reshape(count, count)
    return square | square.T


def _classes(conflicts: Bools, most: int) -> list[list[int]]:
    """Brokers that may restart together, those of a group one behind the other; in as few rounds as is found."""

    def coloured(groups: Iterable[Numbers]) -> list[list[int]]:
        classes = []
        for group in groups:
            within = conflicts[np.ix_(group, group)]
            classes += [group[members].tolist() for members in _colour(within, most, _least(within, most))]
        return classes

    return min(map(coloured, _groupings(conflicts)), key=lambda classes: _rounds(conflicts, classes, most))


def _rounds(conflicts: Bools, classes: Iterable[Iterable[int]], most: int) -> int:
    """Number of rounds when in each every broker goes that can, in this order, and up to so many."""
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


def _least_of(conflicts: Bools, groups: Sequence[Numbers], most: int) -> int:
    """A bound below which nothing is possible. What is needed for a part is needed for the whole: so first leave out
    brokers that are free of conflict with one of another group, until the rounds of the groups add up.
    """
    group_of = np.empty(len(conflicts), dtype=np.int64)
    for number, group in enumerate(groups):
        group_of[group] = number
    across = ~conflicts & (group_of[:, None] != group_of[None, :])
    remaining = np.ones(len(across), dtype=np.bool_)
    while (free := across.sum(axis=1)).any():
        worst = int(free.argmax())
        remaining[worst] = across[worst] = across[:, worst] = False
    parts = [group[remaining[group]] for group in groups]
    return sum(_least(conflicts[np.ix_(part, part)], most) for part in parts)


def _groupings(conflicts: Bools) -> list[list[Numbers]]:
    """Ways to make groups of brokers that are free of conflict with the same others; the largest group first."""
    free = ~conflicts  # with themselves as well
    common, degree = _common(free), free.sum(axis=1, dtype=np.float32)
    either = degree[:, None] + degree[None, :] - common
    groupings: list[list[Numbers]] = []
    for alike in _ALIKE:
        groups = sorted(_components(free & (common >= alike * either)), key=len, reverse=True)
        if not any(list(map(len, groups)) == list(map(len, grouping)) for grouping in groupings):
            groupings.append(groups)
    return groupings


def _common(rows: Bools) -> Numbers:
    """Count what each two rows have in common. A product of matrices would say it as well, but with threads that keep
    processors busy for longer than the product takes.
    """
    bits = np.packbits(rows, axis=1)
    words = np.ascontiguousarray(np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(np.uint64).T)
    common = np.zeros(rows.shape, dtype=np.float32)
    for at in range(0, len(rows), _TOGETHER):
        both = words[:, None, at:] & words[:, at : at + _TOGETHER, None]
        common[at : at + _TOGETHER, at:] = np.bitwise_count(both).sum(axis=0, dtype=np.uint16)
    return np.maximum(common, common.T)


def _components(joined: Bools) -> list[Numbers]:
    remaining = np.ones(len(joined), dtype=np.bool_)
    components = []
    while remaining.any():
        group = np.zeros_like(remaining)
        group[remaining.argmax()] = True
        while (neighbours := joined[group].any(axis=0) & ~group).any():
            group |= neighbours
        remaining &= ~group
        components.append(np.flatnonzero(group))
    return components


def _by_number(count: int, most: int) -> int:
    return -(-count // most)


def _least(conflicts: Bools, most: int) -> int:
    """Rounds that brokers need at least: by their number, and by how many are all in conflict with each other."""
    return max(_by_number(len(conflicts), most), _clique(conflicts))


def _clique(conflicts: Bools) -> int:
    """The size of a large clique, if not of the largest: who has the most conflicts joins first."""
    by_degree = np.argsort(-conflicts.sum(axis=1), kind="stable")
    conflicts = conflicts[np.ix_(by_degree, by_degree)]
    best = 0
    for start in range(min(_CLIQUES, len(conflicts))):
        common, size = conflicts[start].copy(), 1
        while common.any():
            common &= conflicts[common.argmax()]
            size += 1
        best = max(best, size)
    return best


def _colour(conflicts: Bools, most: int, least: int) -> list[Numbers]:
    """Classes of at most so many without a conflict, the largest first; few of them."""
    classes = _dsatur(conflicts, most)
    while classes.max(initial=-1) + 1 > least:
        fewer = _search(conflicts, classes, most)
        if fewer is None:
            break
        classes = fewer
    colour_classes = [np.flatnonzero(classes == number) for number in range(classes.max(initial=-1) + 1)]
    return sorted(colour_classes, key=len, reverse=True)


def _dsatur(conflicts: Bools, most: int) -> Numbers:
    """The class of each: next is who can join the fewest of the classes so far, of those who has the most conflicts."""
    count = len(conflicts)
    classes = np.full(count, -1, dtype=np.int64)
    degree = conflicts.sum(axis=1)
    saturation = np.zeros(count, dtype=np.int64)
    near: list[Bools] = []  # of each class: who is in conflict with one of it
    sizes: list[int] = []
    for _ in range(count):
        at = int(np.where(classes < 0, saturation * (count + 1) + degree, -1).argmax())
        number = next((n for n, each in enumerate(near) if not each[at] and sizes[n] < most), len(near))
        if number == len(near):
            near.append(np.zeros(count, dtype=np.bool_))
            sizes.append(0)
        classes[at] = number
        sizes[number] += 1
        saturation += conflicts[at] & ~near[number]
        near[number] |= conflicts[at]
    return classes


def _search(conflicts: Bools, classes: Numbers, most: int) -> Numbers | None:
    """One class less: its members go where they fit best, and then, one at a time, those in conflict with their class
    move to another, not back for a while. None where that does not end well.
    """
    count, target = len(conflicts), int(classes.max())
    if count > target * most:
        return None
    sizes = np.bincount(classes, minlength=target + 1)
    smallest = int(sizes.argmin())
    moved = np.flatnonzero(classes == smallest)
    class_of = np.where(classes == target, smallest, classes)
    class_of[moved] = -1
    sizes[smallest] = sizes[target]
    sizes = sizes[:target]
    near = np.stack([conflicts[:, class_of == number].sum(axis=1) for number in range(target)], axis=1)
    full = 10 * count
    for at in moved.tolist():
        number = int((near[at] + full * (sizes >= most)).argmin())
        class_of[at] = number
        sizes[number] += 1
        near[:, number] += conflicts[at]
    places = np.arange(count)
    tabu = np.zeros((count, target), dtype=np.int64)
    for step in range(min(_STEPS, _MOVES // count)):
        mine = near[places, class_of]
        wrong = np.flatnonzero(mine)
        if not len(wrong):
            return class_of
        gain = near[wrong] - mine[wrong, None] + full * ((tabu[wrong] > step) | (sizes >= most))
        gain[np.arange(len(wrong)), class_of[wrong]] = 2 * full
        at, number = divmod(int(gain.argmin()), target)
        mover, former = int(wrong[at]), int(class_of[wrong[at]])
        class_of[mover] = number
        sizes[former] -= 1
        sizes[number] += 1
        near[:, former] -= conflicts[mover]
        near[:, number] += conflicts[mover]
        tabu[mover, former] = step + 5 + len(wrong) // 2 + step * 7 % 5
    return None
