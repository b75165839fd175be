"""The start and the remedy of a wait, and when its message shows them."""

from __future__ import annotations

import ast
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import kafkafeatures
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.since_status import ReadyReason
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Decision, Stalled, Wait
from kafkafeatures.core.engine.waits import explained, without_time
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.report.status import status_of_wrong_cluster
from kafkafeatures.reconcile.ages import Ages
from tests.kafkafeatures.worlds import NOW

WAIT = Wait(Reason.ROLLING_NODES, "broker 2 is stopping", delay=1.0, subject="broker 2", remedy="see its log")
MINUTE = timedelta(minutes=1)


class Process:
    """A process that reconciles again and again, and the status that it wrote last, with which its successor begins."""

    def __init__(self, status: Status = EMPTY) -> None:
        self.status, self.seconds, self.ages = status, 0.0, Ages(lambda: self.seconds)
        self.writes = 0

    def reconcile(self, decision: Decision, now: datetime, after: timedelta = timedelta(0)) -> str:
        """Return the message of Ready. `now`: the time by the wall clock; `after`: time since the last call by the
        monotonic clock.
        """
        self.seconds += after.total_seconds()
        message = explained(decision, self.status, stamp(now), lambda moment: self.ages.of(moment, now))
        status = status_of_wrong_cluster(message, generation=1, previous=self.status, at=now)
        self.writes += status != self.status
        self.status = status
        return message.message


def test_the_message_of_a_wait_has_its_start_and_remedy_after_two_minutes_and_is_written_once() -> None:
    process = Process()
    assert process.reconcile(WAIT, NOW) == "broker 2 is stopping"
    assert process.reconcile(WAIT, NOW + 1.9 * MINUTE, 1.9 * MINUTE) == "broker 2 is stopping"
    assert process.writes == 1
    for minutes in range(2, 20):
        message = process.reconcile(WAIT, NOW + minutes * MINUTE, MINUTE)
        assert message == "broker 2 is stopping; since 2026-01-02 03:04 UTC; see its log"
    assert process.writes == 2
    assert without_time(message) == "broker 2 is stopping"


def test_the_start_of_a_wait_survives_a_new_process_and_another_message() -> None:
    process = Process()
    process.reconcile(WAIT, NOW)
    successor = Process(process.status)
    message = successor.reconcile(replace(WAIT, message="broker 2 has stopped"), NOW + 3 * MINUTE)
    assert message == "broker 2 has stopped; since 2026-01-02 03:04 UTC; see its log"


@pytest.mark.parametrize(
    "other",
    [replace(WAIT, subject="broker 3"), replace(WAIT, reason=Reason.WAITING_FOR_QUORUM)],
    ids=["subject", "reason"],
)
def test_the_time_of_a_wait_starts_again_with_another_subject_or_reason(other: Wait) -> None:
    process = Process()
    process.reconcile(WAIT, NOW)
    assert process.reconcile(other, NOW + 3 * MINUTE, 3 * MINUTE) == other.message
    assert process.reconcile(other, NOW + 5 * MINUTE, 2 * MINUTE).endswith("; since 2026-01-02 03:07 UTC; see its log")


def test_a_clock_that_is_set_does_not_change_when_a_wait_shows_its_remedy() -> None:
    process = Process()
    process.reconcile(WAIT, NOW)
    process.reconcile(WAIT, NOW + timedelta(seconds=1), timedelta(seconds=1))
    assert process.reconcile(WAIT, NOW + timedelta(days=1), timedelta(seconds=1)) == WAIT.message
    assert process.reconcile(WAIT, NOW - timedelta(days=1), 2 * MINUTE).endswith("; see its log")


def test_a_start_of_a_wait_without_a_subject_of_an_older_release_is_ignored() -> None:
    before = status_of_wrong_cluster(WAIT, generation=1, previous=EMPTY, at=NOW)
    old = replace(before, ready_reason=ReadyReason(reason=WAIT.reason.value, since=stamp(NOW)))
    assert Process(old).reconcile(WAIT, NOW + 9 * MINUTE) == WAIT.message


def test_the_message_of_a_dated_wait_is_not_changed() -> None:
    process, wait = Process(), replace(WAIT, is_dated=True)
    assert {process.reconcile(wait, NOW + minutes * MINUTE, MINUTE) for minutes in range(9)} == {wait.message}
    assert process.writes == 1


def test_the_message_of_a_stall_has_its_remedy_at_once_unless_a_blocker_has_it() -> None:
    stalled = Stalled(Reason.NODE_REFUSED, "broker 2 is refused", subject="broker 2", remedy="upgrade it")
    assert Process().reconcile(stalled, NOW) == "broker 2 is refused; upgrade it"
    blocker = Blocker(BlockerKind.REFUSED_NODE, stalled.message, "upgrade it")
    assert Process().reconcile(replace(stalled, blockers=(blocker,)), NOW) == stalled.message
    assert Process().reconcile(replace(stalled, message="upgrade it"), NOW) == "upgrade it"


def test_a_long_message_is_cut_before_its_remedy() -> None:
    stalled = Stalled(Reason.NODE_REFUSED, 2000 * "x", subject="broker 2", remedy="upgrade it")
    message = Process().reconcile(stalled, NOW)
    assert message.endswith("x; upgrade it")
    assert len(message) < 1024


def test_every_blocker_has_a_subject_and_every_failure_a_subject_and_an_action() -> None:
    for kind in BlockerKind:
        assert Blocker(kind, "it is so", "change it").subject
        assert Blocker(kind, "it is so", "change it", about="pods").subject == "pods"
    for failure in FailureKind:
        assert Failure(failure, "", "no answer").action
        assert Failure(failure, "", "no answer").subject
        assert Failure(failure, "a:1", "no answer", "start it").action == "start it"


CLASSES = ("Wait", "Stalled", "Blocker", "Misplaced", "Rejection")
"""Classes of objects whose subject and remedy are shown to people."""


def test_no_wait_stall_or_blocker_in_the_code_has_an_empty_subject_or_remedy() -> None:
    """Types require both, but do not see an empty text."""
    calls = [
        (path.name, call.lineno, call)
        for path in Path(kafkafeatures.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in CLASSES
    ]
    assert len(calls) > 100  # so the search finds them
    empty = [
        (name, line)
        for name, line, call in calls
        if any(
            isinstance(argument, ast.Constant) and argument.value == ""
            for argument in (*call.args, *(k.value for k in call.keywords))
        )
    ]
    assert empty == []
