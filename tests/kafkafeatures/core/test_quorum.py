"""What two readings of a quorum prove."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkafeatures.core.observation import Observation, Unknown
from kafkafeatures.core.quorum import worked_between
from kafkafeatures.core.readings import QuorumAnswer, ReplicaProgress
from tests.kafkafeatures.worlds import SILENT, known, observation

THEN, LATER = 1_000_000, 1_002_000


def voting(*fetched: int, clock: int = THEN, high_watermark: int = 100, end: int = 100, epoch: int = 4) -> QuorumAnswer:
    """The leader 3001 at a time of its clock, and the others, who fetched at these times."""
    leader = ReplicaProgress(3001, end, clock, clock)
    others = (ReplicaProgress(3002 + at, high_watermark, when, when) for at, when in enumerate(fetched))
    return QuorumAnswer(3001, epoch, high_watermark, (leader, *others), ())


def seen(answer: QuorumAnswer) -> Observation:
    return replace(observation(), quorum=known(answer))


FIRST = voting(THEN, THEN)


@pytest.mark.parametrize(
    ("second", "worked"),
    [
        pytest.param(voting(THEN, THEN, clock=LATER, high_watermark=101, end=101), True, id="more is committed"),
        pytest.param(voting(THEN + 1, THEN, clock=LATER), True, id="without NoOps, one of two others fetched since"),
        pytest.param(voting(THEN, THEN, clock=LATER), False, id="nobody fetched since"),
        pytest.param(voting(0, 0, clock=LATER), False, id="who fetched last is long ago"),
        pytest.param(voting(LATER, LATER, clock=LATER, end=101), False, id="something is not committed yet"),
        pytest.param(
            voting(LATER, LATER, clock=LATER, high_watermark=200, end=200, epoch=5),
            False,
            id="another epoch of leaders",
        ),
    ],
)
def test_a_quorum_worked_where_more_is_committed_or_a_majority_fetched_since(
    second: QuorumAnswer, worked: bool
) -> None:
    assert worked_between(seen(FIRST), seen(second)) is worked


def test_of_five_two_others_are_needed() -> None:
    first = seen(voting(THEN, THEN, THEN, THEN))
    assert not worked_between(first, seen(voting(LATER, THEN, THEN, THEN, clock=LATER)))
    assert worked_between(first, seen(voting(LATER, LATER, THEN, THEN, clock=LATER)))


def test_a_leader_that_does_not_say_when_anyone_fetched_proves_nothing() -> None:
    """DescribeQuorum below v1 has no times."""
    silent = QuorumAnswer(3001, 4, 100, tuple(ReplicaProgress(id_, 100) for id_ in (3001, 3002, 3003)), ())
    assert not worked_between(seen(silent), seen(silent))


def test_one_reading_given_twice_proves_nothing_also_of_a_single_controller() -> None:
    alone = seen(voting())
    assert not worked_between(alone, alone)
    assert worked_between(alone, seen(voting(clock=LATER)))


def test_a_quorum_that_could_not_be_read_proves_nothing() -> None:
    unknown = replace(observation(), quorum=Unknown(SILENT))
    assert not worked_between(seen(FIRST), unknown)
    assert not worked_between(unknown, seen(voting(LATER, LATER, clock=LATER, high_watermark=200, end=200)))
