"""The planned order of a roll in rounds, and the advice on moving partitions."""

from __future__ import annotations

from itertools import combinations
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.engine.desired_state import MaxParallel
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.roll.advice import Advice, advice_on_moves
from kafkafeatures.core.roll.planner import cap, order, planned_rounds
from tests.kafkafeatures.core.replicas import RESPECT, STRICT, Row, reading, row
from tests.rolls.placements import anywhere, striped

NOBODY: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("wanted", "brokers", "room"),
    [
        pytest.param(MaxParallel(1), 300, 1, id="a number"),
        pytest.param(MaxParallel(10, percent=True), 300, 30, id="a percentage of the brokers"),
        pytest.param(MaxParallel(10, percent=True), 59, 5, id="a percentage is rounded down"),
        pytest.param(MaxParallel(10, percent=True), 9, 1, id="a percentage of less than one broker"),
        pytest.param(MaxParallel(256), 300, 64, id="a number above 64"),
        pytest.param(MaxParallel(39, percent=True), 1000, 64, id="a percentage that is above 64 brokers"),
        pytest.param(MaxParallel(4), 0, 4, id="a number without brokers"),
    ],
)
def test_the_cap_of_nodes_in_flight_follows_the_document_and_the_number_of_brokers(
    wanted: MaxParallel, brokers: int, room: int
) -> None:
    assert cap(wanted, brokers) == room


def racks(*stray: Row) -> Replication:
    """Build nine brokers in three racks (1, 2, 3), (4, 5, 6), (7, 8, 9): any three of different racks share a
    partition. `stray`: partitions that do not follow the racks.
    """
    every = [(a, b, c) for a in (1, 2, 3) for b in (4, 5, 6) for c in (7, 8, 9)]
    return Replication(reading(*(row("t", *each, number=number) for number, each in enumerate(every)), *stray))


def test_brokers_of_a_rack_are_ordered_together_although_the_racks_are_unknown() -> None:
    assert order(racks(), range(1, 10)) == (1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert planned_rounds(racks(), range(1, 10)) == 3
    assert planned_rounds(racks(), range(1, 10), most=2) == 6


def test_the_order_has_stuck_brokers_first_and_only_brokers_that_need_a_restart() -> None:
    # Broker 6 is stuck, but needs no restart.
    assert order(racks(), [9, 8, 4, 1], frozenset({8, 6})) == (8, 1, 4, 9)
    assert order(racks(), NOBODY, frozenset({8})) == ()
    assert planned_rounds(racks(), NOBODY) == 0


def test_brokers_without_replicas_fill_the_rounds() -> None:
    assert set(order(racks(), [1, 2, 4, 20, 21])) == {1, 2, 4, 20, 21}
    assert planned_rounds(racks(), [1, 2, 3, 4, 5, 6, 20, 21], most=4) == 2


def test_a_misplaced_partition_costs_a_round_and_is_in_the_advice() -> None:
    misplaced = racks(row("stray", 1, 2, 9, number=4))  # 1 and 2 are in one rack
    assert planned_rounds(misplaced, range(1, 10)) == 4
    assert advice_on_moves(misplaced, range(1, 10)) == Advice(1, ("stray-4",), rounds=4, rounds_after=3)


def test_there_is_no_advice_where_moving_a_few_partitions_would_save_no_round() -> None:
    assert advice_on_moves(racks(), range(1, 10)) is None
    assert advice_on_moves(racks(row("stray", 1, 2, 9)), range(1, 10), most=2) is None, "the room costs as many rounds"
    assert advice_on_moves(Replication(anywhere(20, 5_000, seed=1)), range(20)) is None, "every pair shares many"
    assert advice_on_moves(racks(), NOBODY) is None


def test_partitions_with_a_single_replica_make_no_conflict_between_brokers() -> None:
    single = Replication(reading(*(row("single", broker, number=broker) for broker in range(5))))
    assert planned_rounds(single, range(5)) == 1


def test_partitions_with_replicas_above_min_isr_make_no_conflict_under_respect_min_isr() -> None:
    spare = Replication(reading(row("t", 1, 2, 3, 4)))
    assert planned_rounds(spare, range(1, 5), availability=RESPECT) == 1
    assert planned_rounds(spare, range(1, 5), availability=STRICT) == 4
    pair = Replication(reading(row("t", 1, 2)))
    assert planned_rounds(pair, (1, 2), availability=RESPECT) == 2


def test_each_of_2100_brokers_is_in_the_order_once_and_those_beyond_the_planned_ones_add_rounds() -> None:
    many = Replication(reading(*(row("t", at, at + 1, at + 2, number=at) for at in range(0, 2100, 3)), per_chunk=4096))
    assert sorted(order(many, range(2100))) == list(range(2100))
    # 32 rounds of at most 64 for the 2,000 brokers that are planned, and 2 for the 100 beyond them.
    assert planned_rounds(many, range(2100)) == 34


@pytest.mark.parametrize("brokers", [60, 300])
@pytest.mark.parametrize("seed", [1, 2])
def test_misplaced_partitions_of_one_in_a_thousand_cost_no_round_under_a_low_cap(brokers: int, seed: int) -> None:
    placed = Replication(striped(brokers, 100_000, racks=3, seed=seed, strays=0.001))
    # Without the misplaced ones: three racks, and a tenth of the brokers at once, so four rounds for each rack, the
    # last of which is not full.
    assert planned_rounds(placed, range(brokers), most=brokers // 10) == 12


@pytest.mark.parametrize(("racks", "brokers"), [(2, 60), (6, 60), (3, 300)])
def test_brokers_of_any_number_of_racks_fill_the_rounds_up_to_the_cap(racks: int, brokers: int) -> None:
    placed = Replication(striped(brokers, 100 * brokers, racks=racks, seed=1))
    cap = brokers // 10
    rounds_of_a_rack = ceil(brokers / racks / cap)
    assert planned_rounds(placed, range(brokers), most=cap) <= racks * rounds_of_a_rack


def test_replicas_on_neighbouring_brokers_leave_no_round_below_the_cap() -> None:
    ring = Replication(reading(*(row("t", *((at + slot) % 30 for slot in range(3)), number=at) for at in range(30))))
    assert planned_rounds(ring, range(30), most=3) == 10


placements = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=4, unique=True), max_size=9)
rules = st.sampled_from(Availability)


def placed(replicas: list[list[int]]) -> Replication:
    return Replication(reading(*(row("t", *each, number=number) for number, each in enumerate(replicas))))


def fewest(left: frozenset[int], conflicts: set[frozenset[int]], most: int) -> int:
    """Return the fewest possible rounds, by trying every order."""
    if not left:
        return 0
    first, *remaining = sorted(left)
    mates = [other for other in remaining if frozenset((first, other)) not in conflicts]
    rounds = len(left)
    for count in range(min(most - 1, len(mates)) + 1):
        for chosen in combinations(mates, count):
            if all(frozenset(pair) not in conflicts for pair in combinations(chosen, 2)):
                rounds = min(rounds, 1 + fewest(left - {first, *chosen}, conflicts, most))
    return rounds


@given(placements, st.frozensets(st.integers(1, 8)), st.integers(1, 4))
def test_the_order_takes_at_most_one_round_more_than_the_fewest_possible(
    replicas: list[list[int]], needing: frozenset[int], most: int
) -> None:
    conflicts = {frozenset(pair) for each in replicas for pair in combinations(each, 2)}
    assert 0 <= planned_rounds(placed(replicas), needing, most=most) - fewest(needing, conflicts, most) <= 1


@given(placements, st.frozensets(st.integers(1, 8)), st.frozensets(st.integers(1, 9)), rules, st.integers(1, 4))
def test_the_order_has_every_outdated_node_once_with_stuck_nodes_first(
    replicas: list[list[int]], needing: frozenset[int], stuck: frozenset[int], rule: Availability, most: int
) -> None:
    ordered = order(placed(replicas), needing, stuck, most=most, availability=rule)
    assert sorted(ordered) == sorted(needing)
    assert set(ordered[: len(needing & stuck)]) == needing & stuck


@given(placements, st.frozensets(st.integers(1, 8)), st.integers(1, 4))
def test_a_roll_in_the_planned_order_takes_as_many_rounds_as_planned(
    replicas: list[list[int]], needing: frozenset[int], most: int
) -> None:
    replication = placed(replicas)
    left, rounds = list(order(replication, needing, most=most)), 0
    while left:
        going: frozenset[int] = frozenset()
        for broker in left:
            if len(going) < most and replication.judge(going, STRICT, excused=True).allows(broker):
                going |= {broker}
        left = [broker for broker in left if broker not in going]
        rounds += 1
    assert rounds == planned_rounds(replication, needing, most=most)


@given(placements, st.integers(1, 4))
def test_moving_the_partitions_of_the_advice_saves_the_rounds_that_it_promises(
    replicas: list[list[int]], most: int
) -> None:
    """`common` placements have 200 partitions each, so they are not misplaced; the random ones have few."""
    common = [[1, 4], [1, 5], [2, 4], [2, 5], [3, 4], [3, 5]] * 200
    advice = advice_on_moves(placed(common + replicas), range(1, 8), most=most, limit=99)
    if advice is not None:
        named = {int(name.removeprefix("t-")) for name in advice.names}
        assert len(named) == advice.partitions
        unmoved = [each for number, each in enumerate(common + replicas) if number not in named]
        assert planned_rounds(placed(unmoved), range(1, 8), most=most) <= advice.rounds_after < advice.rounds
