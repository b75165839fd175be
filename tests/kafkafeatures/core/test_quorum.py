"""A working quorum as two readings prove it, and the controllers that may restart.

`voting(...)`: 3001 leads, and 3002, 3003, ... fetched and were caught up at these times of its clock, in ms.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.quorum import next_controller, why_not_restart, worked_between
from kafkafeatures.core.facts.readings import QuorumAnswer, ReplicaProgress
from tests.kafkafeatures.worlds import SILENT, known, observation

THEN, LATER = 1_000_000, 1_002_000


def voting(*fetched: int, clock: int = THEN, high_watermark: int = 100, end: int = 100, epoch: int = 4) -> QuorumAnswer:
    """Build the answer of leader 3001 at the time `clock`; its followers fetched at these times."""
    leader = ReplicaProgress(3001, end, clock, clock)
    followers = (ReplicaProgress(3002 + at, high_watermark, when, when) for at, when in enumerate(fetched))
    return QuorumAnswer(3001, epoch, high_watermark, (leader, *followers), ())


def observation_of_quorum(answer: QuorumAnswer) -> Observation:
    return replace(observation(), quorum=known(answer))


FIRST = voting(THEN, THEN)


@pytest.mark.parametrize(
    ("second", "worked"),
    [
        pytest.param(voting(THEN, THEN, clock=LATER, high_watermark=101, end=101), True, id="more is committed"),
        pytest.param(voting(THEN + 1, THEN, clock=LATER), True, id="without NoOps, one of two others fetched since"),
        pytest.param(voting(THEN, THEN, clock=LATER), False, id="nobody fetched since"),
        pytest.param(voting(0, 0, clock=LATER), False, id="the last fetches were long ago"),
        pytest.param(voting(LATER, LATER, clock=LATER, end=101), False, id="something is not committed yet"),
        pytest.param(
            voting(LATER, LATER, clock=LATER, high_watermark=200, end=200, epoch=5),
            False,
            id="another epoch of leaders",
        ),
    ],
)
def test_two_readings_prove_a_working_quorum_if_more_is_committed_or_a_majority_fetched_between_them(
    second: QuorumAnswer, worked: bool
) -> None:
    assert worked_between(observation_of_quorum(FIRST), observation_of_quorum(second)) is worked


def test_two_followers_of_five_voters_must_have_fetched_to_prove_a_working_quorum() -> None:
    first = observation_of_quorum(voting(THEN, THEN, THEN, THEN))
    assert not worked_between(first, observation_of_quorum(voting(LATER, THEN, THEN, THEN, clock=LATER)))
    assert worked_between(first, observation_of_quorum(voting(LATER, LATER, THEN, THEN, clock=LATER)))


def test_a_leader_without_fetch_times_does_not_prove_a_working_quorum() -> None:
    """DescribeQuorum below v1 has no times."""
    silent = QuorumAnswer(3001, 4, 100, tuple(ReplicaProgress(id_, 100) for id_ in (3001, 3002, 3003)), ())
    assert not worked_between(observation_of_quorum(silent), observation_of_quorum(silent))


def test_the_same_reading_twice_does_not_prove_a_working_quorum_even_of_a_single_controller() -> None:
    alone = observation_of_quorum(voting())
    assert not worked_between(alone, alone)
    assert worked_between(alone, observation_of_quorum(voting(clock=LATER)))


def test_an_unread_quorum_does_not_prove_a_working_quorum() -> None:
    unknown = replace(observation(), quorum=Unknown(SILENT))
    assert not worked_between(observation_of_quorum(FIRST), unknown)
    assert not worked_between(
        unknown, observation_of_quorum(voting(LATER, LATER, clock=LATER, high_watermark=200, end=200))
    )


NOBODY: frozenset[int] = frozenset()


@pytest.mark.parametrize("id_", [3001, 3002, 3003])
def test_any_one_of_three_caught_up_voters_may_restart(id_: int) -> None:
    assert why_not_restart(id_, voting(THEN, THEN), NOBODY) is None


def test_only_the_lagging_one_of_three_voters_may_restart() -> None:
    """A voter that was caught up within 2 s counts for the majority."""
    lagging = voting(THEN, THEN - 2001)
    assert why_not_restart(3003, lagging, NOBODY) is None
    assert why_not_restart(3002, lagging, NOBODY) == (
        "without it 1 of 3 voters are caught up, 2 required: 3003 is behind"
    )
    assert why_not_restart(3001, lagging, NOBODY) is not None
    assert why_not_restart(3002, voting(THEN, THEN - 2000), NOBODY) is None


def test_no_second_one_of_three_voters_may_restart_while_one_is_down() -> None:
    assert why_not_restart(3002, FIRST, frozenset({3003, 7})) == (
        "without it 1 of 3 voters are caught up, 2 required: 3003 is down"
    )
    assert why_not_restart(3003, FIRST, frozenset({3003})) is None


def test_one_of_five_voters_may_restart_while_one_is_down_and_none_while_two_are_down() -> None:
    five = voting(THEN, THEN, THEN, THEN)
    assert why_not_restart(3001, five, frozenset({3005})) is None
    assert why_not_restart(3001, five, frozenset({3004, 3005})) is not None
    assert why_not_restart(3001, voting(THEN, THEN, THEN, 0), frozenset({3004})) == (
        "without it 2 of 5 voters are caught up, 3 required: 3004 is down, 3005 is behind"
    )


@pytest.mark.parametrize("fetched", [pytest.param((), id="one"), pytest.param((THEN,), id="two")])
def test_no_voter_of_a_quorum_of_one_or_two_may_restart(fetched: tuple[int, ...]) -> None:
    count = len(fetched) + 1
    assert why_not_restart(3001, voting(*fetched), NOBODY) == f"a quorum of {count} has no majority without it"


def test_a_voter_that_fetches_and_never_catches_up_does_not_count_for_the_majority() -> None:
    leader, follower, slow = FIRST.voters
    behind = replace(FIRST, voters=(leader, follower, replace(slow, last_caught_up_timestamp=THEN - 60_000)))
    assert why_not_restart(3002, behind, NOBODY) is not None
    assert why_not_restart(3003, behind, NOBODY) is None


def test_no_controller_may_restart_while_the_leader_gives_no_fetch_times() -> None:
    silent = QuorumAnswer(3001, 4, 100, tuple(ReplicaProgress(id_, 100) for id_ in (3001, 3002, 3003)), ())
    assert why_not_restart(3002, silent, NOBODY) is not None


def test_a_controller_that_is_not_a_voter_may_restart_while_there_is_a_majority() -> None:
    assert why_not_restart(3009, FIRST, NOBODY) is None
    assert why_not_restart(3009, voting(0, 0), NOBODY) is not None


def test_the_next_controller_to_restart_is_one_that_is_behind_and_the_leader_is_last() -> None:
    all_three = frozenset({3001, 3002, 3003})
    assert next_controller(all_three, FIRST) == 3002
    assert next_controller(all_three, voting(THEN, 0)) == 3003
    assert next_controller(frozenset({3001, 3003}), replace(FIRST, leader_id=3003)) == 3001
    assert next_controller(frozenset({3001}), FIRST) == 3001
    assert next_controller(NOBODY, FIRST) is None


@given(
    st.lists(st.integers(0, 4000), min_size=0, max_size=6),
    st.frozensets(st.integers(3001, 3008)),
    st.integers(3001, 3008),
)
def test_a_restart_is_allowed_exactly_if_it_leaves_a_majority_that_caught_up_within_two_seconds(
    lags: list[int], down: frozenset[int], controller: int
) -> None:
    quorum = voting(*(THEN - lag for lag in lags))
    current = {3001} | {3002 + at for at, lag in enumerate(lags) if lag <= 2000}
    stays = len(current - down - {controller})
    assert (why_not_restart(controller, quorum, down) is None) is (stays > (len(lags) + 1) / 2)
