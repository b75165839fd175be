"""The brokers that may restart without making a partition unavailable, and the partitions that forbid it.

`row("orders", 1, 2, 3, isr=(1, 2))`: a partition of a topic, its replicas, and those in sync, by default all. Without
another value min.insync.replicas is 2. `down`: brokers that are away. `STRICT`: no under-replicated partition is
allowed.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.facts.replication import Forbidding, InadmissibleReason, Replication
from tests.kafkafeatures.core.replicas import RESPECT, STRICT, Row, forbids, least_of, reading, row

NOBODY: frozenset[int] = frozenset()
UNDER_EACH_RULE = pytest.mark.parametrize("rule", Availability)


def allowed(*rows: Row, down: frozenset[int] = NOBODY, rule: Availability = RESPECT, excused: bool = False) -> set[int]:
    return may_go(Replication(reading(*rows)), down, rule, excused=excused)


def may_go(replication: Replication, down: frozenset[int], rule: Availability, *, excused: bool = False) -> set[int]:
    """Return all brokers that host a partition and may restart."""
    judged = replication.judge(down, rule, excused=excused)
    return {broker for broker in replication.brokers() if judged.allows(broker)}


@UNDER_EACH_RULE
def test_any_broker_may_be_restarted_while_every_replica_is_in_sync(rule: Availability) -> None:
    assert allowed(row("orders", 1, 2, 3), row("orders", 4, 5, 6, number=1), rule=rule) == {1, 2, 3, 4, 5, 6}


@UNDER_EACH_RULE
def test_while_a_broker_is_away_only_brokers_that_share_no_partition_with_it_may_restart(rule: Availability) -> None:
    rows = row("orders", 1, 2, 3), row("orders", 3, 4, 5, number=1), row("orders", 4, 5, 6, number=2)
    assert allowed(*rows, down=frozenset({1}), rule=rule) - {1} == {4, 5, 6}


def test_two_brokers_may_be_away_under_respect_min_isr_with_two_replicas_above_min_isr() -> None:
    rows = [row("orders", 1, 2, 3, 4)]
    assert allowed(*rows, down=frozenset({1})) - {1} == {2, 3, 4}
    assert allowed(*rows, down=frozenset({1, 2})) - {1, 2} == set()
    assert allowed(*rows, down=frozenset({1}), rule=STRICT) - {1} == set()


def test_at_min_isr_in_sync_brokers_stay_and_a_broker_in_sync_with_no_partition_may_restart() -> None:
    partition = row("orders", 1, 2, 3, isr=(1, 2))
    assert allowed(partition) == {3}
    assert allowed(partition, down=frozenset({3})) == {3}
    assert allowed(partition, rule=STRICT) == {3}  # its restart takes nothing away


def test_a_broker_that_is_behind_is_judged_by_its_in_sync_partitions_only() -> None:
    """Broker 3 is behind with the first partition, and in sync with the second."""
    without_3, whole = row("orders", 1, 2, 3, isr=(1, 2)), row("orders", 3, 4, 5, number=1)
    assert allowed(without_3, whole, rule=STRICT) == {3, 4, 5}
    needs_3 = row("orders", 3, 4, 5, isr=(3, 4), number=1)
    assert allowed(without_3, needs_3, rule=STRICT) == {5}
    reassigned = row("orders", 3, 4, 5, 6, adding={6}, number=1)
    assert allowed(without_3, reassigned, rule=STRICT) == set()


def test_a_broker_that_is_away_may_restart_where_no_other_broker_leads_its_partitions() -> None:
    """Kafka keeps the last replica of an ISR in it. Otherwise a broker that hangs could never be restarted."""
    rows = row("single", 1, offline=True), row("orders", 1, 2, 3, isr=(1,), offline=True)
    assert 1 in allowed(*rows, down=frozenset({1}))
    assert 1 not in allowed(*rows)
    assert 1 not in allowed(*rows, row("led", 1, 4, 5, isr=(1, 4)), down=frozenset({1}))
    assert 1 not in allowed(*rows, down=frozenset({1}), rule=STRICT)


def test_a_replica_in_the_elr_is_no_replica_to_spare() -> None:
    """Replica 3 is an eligible leader replica, and not in sync. `row` has no ELR, so the bit is set in the columns."""
    partitions = reading(row("orders", 1, 2, 3, isr=(1, 2)))
    partitions.partitions.chunks[0].flags[0, 2] |= 2  # the bit of ELR
    assert may_go(Replication(partitions), NOBODY, RESPECT) == {3}


def test_a_replica_that_is_being_removed_does_not_count_as_in_sync() -> None:
    """Replica 4 is not in sync yet. So brokers 1 and 2 are needed for min.insync.replicas = 2, while without the move
    each of the three may go.
    """
    moving = row("orders", 1, 2, 3, 4, adding={4}, removing={3})
    assert allowed(moving) == {3, 4}
    assert allowed(moving, rule=STRICT) == set()
    assert allowed(row("orders", 1, 2, 3)) == {1, 2, 3}


def test_the_min_isr_of_a_topic_overrides_that_of_the_brokers() -> None:
    rows = row("strict", 1, 2, 3, 4, isr=(1, 2, 3)), row("loose", 5, 6, 7, 8, isr=(5, 6, 7))
    replication = Replication(reading(*rows, default=2, least={"strict": 3, "gone": 9}))
    assert may_go(replication, NOBODY, RESPECT) == {4, 5, 6, 7, 8}


@UNDER_EACH_RULE
def test_a_broker_with_a_single_replica_never_restarts_without_a_consent(rule: Availability) -> None:
    rows = row("single", 1), row("orders", 1, 2, 3)
    replication = Replication(reading(*rows))
    assert replication.never_available() == {"single": 1}
    assert may_go(replication, NOBODY, rule) == {2, 3}
    assert may_go(replication, NOBODY, rule, excused=True) == {1, 2, 3}


@UNDER_EACH_RULE
def test_with_min_isr_equal_to_the_replicas_a_consent_allows_only_one_replica_down_at_a_time(
    rule: Availability,
) -> None:
    pair = row("pair", 1, 2)
    assert allowed(pair, rule=rule) == set()
    assert allowed(pair, rule=rule, excused=True) == {1, 2}
    assert 2 not in allowed(pair, rule=rule, excused=True, down=frozenset({1}))


def test_partitions_that_no_restart_leaves_available_are_counted_by_topic() -> None:
    rows = [row(name, 1, 2, number=number) for name in ("d", "b", "c", "a") for number in range(3)]
    replication = Replication(reading(*rows, row("safe", 1, 2, 3), least={"a": 1}))  # `a` needs one replica only
    assert replication.never_available() == {"b": 3, "c": 3, "d": 3}


def test_a_broker_without_replicas_may_restart() -> None:
    assert Replication(reading(row("orders", 1, 2, isr=(1,)))).judge(NOBODY, STRICT).allows(9)
    nothing = Replication(reading())
    assert nothing.judge(frozenset({1}), STRICT).allows(2)
    assert (nothing.brokers(), len(nothing.never_available()), len(nothing)) == (frozenset(), 0, 0)


@pytest.mark.parametrize(
    ("rows", "down", "rule", "reason"),
    [
        pytest.param(
            [row("t", 1, 2, 3)], {2}, RESPECT, InadmissibleReason.REPLICA_IN_FLIGHT, id="one away, still in sync"
        ),
        pytest.param(
            [row("t", 1, 2, 3, isr=(1, 3))],
            {2},
            RESPECT,
            InadmissibleReason.REPLICA_IN_FLIGHT,
            id="one away, out of sync",
        ),
        pytest.param(
            [row("t", 1, 2, 3, isr=(1, 3))], {2}, STRICT, InadmissibleReason.REPLICA_IN_FLIGHT, id="the same, strictly"
        ),
        pytest.param([row("t", 1, 2, 3, isr=(1, 3))], (), RESPECT, InadmissibleReason.AT_MIN_ISR, id="at min ISR"),
        pytest.param(
            [row("t", 1, 2, 3, isr=(1, 3))], (), STRICT, InadmissibleReason.AT_MIN_ISR, id="at min ISR, strictly"
        ),
        pytest.param(
            [row("t", 1, 2, 3, 4, isr=(1, 3, 4))],
            (),
            STRICT,
            InadmissibleReason.UNDER_REPLICATED,
            id="under-replicated",
        ),
        pytest.param([row("t", 1, 2)], (), STRICT, InadmissibleReason.AT_MIN_ISR, id="no more replicas than min ISR"),
        pytest.param(
            [row("t", 1, 2, 3, 4, adding={4}, removing={3})],
            (),
            RESPECT,
            InadmissibleReason.REASSIGNING,
            id="one replica is being removed",
        ),
        pytest.param([row("t", 1, 2, 3, 4, adding={4})], (), STRICT, InadmissibleReason.REASSIGNING, id="being moved"),
        pytest.param(
            [row("t", 1, 2, 3, 4, adding={4})],
            {4},
            STRICT,
            InadmissibleReason.REASSIGNING,
            id="moved to one that is away",
        ),
    ],
)
def test_the_reason_that_forbids_a_restart_is_the_most_lasting_one(
    rows: list[Row], down: set[int], rule: Availability, reason: InadmissibleReason
) -> None:
    forbidding = Replication(reading(*rows)).judge(frozenset(down), rule).forbidding(1)
    lacking = {
        broker
        for partition in rows
        for broker in set(partition.replicas) - partition.isr - partition.adding - set(down)
    }
    assert forbidding == Forbidding(1, ("t-0",), reason, frozenset(lacking))


def test_the_most_lasting_reason_names_its_partitions_and_all_forbidding_partitions_are_counted() -> None:
    rows = [
        *(row("busy", 1, 2, 3, number=number) for number in range(11)),
        row("short", 1, 4, 5, isr=(1, 4), number=7),
        row("short", 1, 4, 5, isr=(1, 4), number=12),
        row("away", 4, 5, 6),
    ]
    judged = Replication(reading(*rows)).judge(frozenset({2}), RESPECT)
    assert judged.forbidding(1) == Forbidding(
        13, ("short-7", "short-12"), InadmissibleReason.AT_MIN_ISR, frozenset({5})
    )
    assert judged.forbidding(3) == Forbidding(11, ("busy-0", "busy-1", "busy-2"), InadmissibleReason.REPLICA_IN_FLIGHT)
    assert judged.forbidding(3, most=1) == Forbidding(11, ("busy-0",), InadmissibleReason.REPLICA_IN_FLIGHT)
    assert judged.forbidding(6) is None


def test_unhealthy_partitions_are_counted_and_named_by_topic_and_number() -> None:
    rows = [
        row("b", 1, 2, 3, isr=(1, 2), number=10),
        row("b", 1, 2, 3, isr=(1, 2), number=9),
        row("a", 1, 2, 3, isr=(1,)),
        row("c", 1, 2, 3, isr=()),
        row("d", 1, 2, 3, 4, adding={4}),
        row("fine", 1, 2, 3),
    ]
    replication = Replication(reading(*rows))
    assert replication.under_min_isr() == (2, ("a-0", "c-0"))
    assert replication.offline() == (1, ("c-0",))
    assert replication.reassigning() == (1, ("d-0",))
    assert replication.out_of_sync(3) == (4, ("a-0", "b-9", "b-10"))
    assert replication.out_of_sync(2, most=1) == (2, ("a-0",))
    assert replication.out_of_sync(4) == replication.out_of_sync(9) == (0, ())
    assert replication.brokers() == {1, 2, 3, 4}


def test_one_leader_of_all_partitions_with_which_a_broker_is_out_of_sync_is_named_and_else_none() -> None:
    """In these rows the in-sync replica with the lowest id leads. Broker 3 is out of sync with a and b, led by 1; its
    replica of c is only being added.
    """
    led_by_1 = (row("a", 1, 3, isr=(1,)), row("b", 3, 2, 1, isr=(1, 2)), row("c", 2, 3, adding=(3,)))
    assert Replication(reading(*led_by_1)).leader_of_out_of_sync(3) == 1
    led_by_2, without_a_leader = row("d", 2, 3, isr=(2,)), row("d", 2, 3, isr=(), offline=True)
    for further in (led_by_2, row("d", 3, isr=()), without_a_leader):
        assert Replication(reading(*led_by_1, further)).leader_of_out_of_sync(3) is None


def test_a_broker_in_sync_with_its_partitions_or_without_any_has_no_leader_to_name() -> None:
    replication = Replication(reading(row("a", 1, 3, isr=(1,)), row("b", 3, 2, 1, isr=(1, 2))))
    assert replication.leader_of_out_of_sync(2) is None  # in sync
    assert replication.leader_of_out_of_sync(9) is None  # hosts no partition


def test_excused_partitions_are_not_reported_as_unhealthy_while_one_replica_is_away() -> None:
    replication = Replication(reading(row("pair", 1, 2, isr=(1,)), row("single", 3, isr=())))
    assert replication.under_min_isr() == (2, ("pair-0", "single-0"))
    assert replication.under_min_isr(excused=True) == (0, ())
    assert replication.offline() == (1, ("single-0",))
    assert replication.offline(excused=True) == (0, ())


def test_an_excused_partition_is_reported_as_unhealthy_while_two_replicas_are_away() -> None:
    replication = Replication(reading(row("pair", 1, 2, isr=())))
    assert replication.under_min_isr(excused=True) == replication.offline(excused=True) == (1, ("pair-0",))


@UNDER_EACH_RULE
def test_replication_is_judged_also_for_the_largest_broker_ids(rule: Availability) -> None:
    big = 2**31 - 1
    rows = row("orders", 1, big, 3_000_000), row("orders", 7, big - 1, 8, number=1)
    assert allowed(*rows, down=frozenset({1}), rule=rule) - {1} == {7, 8, big - 1}


class Case(NamedTuple):
    """Partitions, brokers that are away, and min.insync.replicas: the default, and that of topics (`least`)."""

    rows: list[Row]
    down: frozenset[int]
    default: int
    least: dict[str, int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    brokers = draw(st.lists(st.integers(0, 9) | st.sampled_from((2**20, 2**31 - 1)), min_size=1, unique=True))
    some = st.frozensets(st.sampled_from(brokers))
    rows = []
    for number in range(draw(st.integers(0, 12))):
        replicas = tuple(draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=5, unique=True)))
        adding, removing = (draw(some) & set(replicas) if draw(st.booleans()) else NOBODY for _ in range(2))
        isr = draw(st.none() | some)
        offline = draw(st.booleans())
        topic = draw(st.sampled_from("abc"))
        rows.append(Row(topic, replicas, isr and isr & set(replicas), adding, removing - adding, number, offline))
    least = draw(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5)))
    return Case(rows, draw(st.frozensets(st.sampled_from([*brokers, 77]))), draw(st.integers(0, 4)), least)


@given(cases(), st.sampled_from(Availability), st.booleans(), st.integers(1, 4))
def test_the_judgement_of_all_brokers_equals_a_simple_model_with_sets(
    case: Case, rule: Availability, excused: bool, per_chunk: int
) -> None:
    rows, down, default, least = case
    replication = Replication(reading(*rows, default=default, least=least, per_chunk=per_chunk))
    judged = replication.judge(down, rule, excused=excused)
    assert replication.brokers() == {broker for each in rows for broker in each.replicas}
    for broker in replication.brokers():
        names = {
            each.name
            for each in rows
            if forbids(each, broker, down, rule, least_of(each, default, least), excused=excused)
        }
        assert judged.allows(broker) is (not names)
        forbidding = judged.forbidding(broker, most=99)
        assert (forbidding is None) is (not names)
        if forbidding is not None:
            assert forbidding.count == len(names)
            assert set(forbidding.names) <= names
            assert forbidding.names == judged.forbidding(broker, most=len(forbidding.names)).names  # type: ignore[union-attr]


@given(cases(), st.booleans())
def test_every_restart_that_the_strict_rule_allows_is_allowed_under_respect_min_isr(case: Case, excused: bool) -> None:
    rows, down, default, least = case
    replication = Replication(reading(*rows, default=default, least=least))
    strict = may_go(replication, down, STRICT, excused=excused)
    assert strict <= may_go(replication, down, RESPECT, excused=excused)


@given(cases(), st.sampled_from(Availability), st.booleans())
def test_one_more_broker_away_never_allows_another_broker_to_restart(
    case: Case, rule: Availability, excused: bool
) -> None:
    rows, down, default, least = case
    replication = Replication(reading(*rows, default=default, least=least))
    for broker in replication.brokers():
        before = may_go(replication, down, rule, excused=excused)
        assert may_go(replication, down | {broker}, rule, excused=excused) - {broker} <= before


@given(cases())
def test_partitions_that_are_never_available_are_those_that_forbid_a_restart_with_all_replicas_in_sync(
    case: Case,
) -> None:
    rows, _, default, least = case
    settled = [Row(each.topic, each.replicas, number=each.number) for each in rows]
    replication = Replication(reading(*settled, default=default, least=least))
    never = [
        each for each in settled if forbids(each, each.replicas[0], NOBODY, RESPECT, least_of(each, default, least))
    ]
    assert replication.never_available() == Counter(each.topic for each in never)
    assert may_go(replication, NOBODY, STRICT, excused=True) == replication.brokers()
