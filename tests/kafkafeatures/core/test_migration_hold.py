"""The time for which dual write is held, measured by the metadata log: from the last registration of a broker, with
which dual write began, to now. A decision `Held` waits for the approval to finalize: the hold is over.
"""

from __future__ import annotations

from dataclasses import replace as with_values
from datetime import datetime, timedelta

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Decision, Held, Wait
from kafkafeatures.core.engine.desired_state import Migration
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.past import LastRegistration
from kafkafeatures.core.facts.readings import LogReading
from kafkafeatures.core.migration.positions import Position
from tests.kafkafeatures.core.migrations import (
    FINALIZING,
    Look,
    cluster,
    in_dual_write_for,
    looks,
    status_after,
)
from tests.kafkafeatures.worlds import NEW as MODERN
from tests.kafkafeatures.worlds import NOW, SILENT, image, probe, quorum
from tests.kafkafeatures.worlds import asked as controller

P, D = Position, Desired
NO_TIME = timedelta(0)
HELD_FOR_A_DAY = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))
HELD_FOR_AN_HOUR = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=1)))


def test_dual_write_is_kept_for_as_long_as_the_document_says_by_the_metadata_log() -> None:
    """23 h count, by the log: not the year of `since` in the status, nor the 25 h that this process has seen."""
    status = Status(migration=MigrationStatus(phase="DualWrite", since=Stamp("2025-01-01T00:00:00Z")))
    early = looks(HELD_FOR_A_DAY, in_dual_write_for(timedelta(hours=23)), status=status, lived=timedelta(hours=25))
    assert isinstance(early.decision, Wait)
    assert early.decision.reason is Reason.SOAKING
    assert early.decision.message.startswith("dual write is kept for 24 h, of which 60 min remain; ")
    assert isinstance(looks(HELD_FOR_A_DAY, in_dual_write_for(timedelta(hours=25))).decision, Held)


def test_the_hold_stays_while_the_metadata_log_does_not_say_when_dual_write_began() -> None:
    status = Status(migration=MigrationStatus(phase="DualWrite", since=Stamp("2025-01-01T00:00:00Z")))
    unread = replace(cluster(P.DUAL_WRITE), last_registration=None)
    decision = looks(HELD_FOR_A_DAY, unread, status=status, lived=timedelta(hours=25)).decision
    assert isinstance(decision, Wait)
    assert (decision.reason, bool(decision.subject), bool(decision.remedy)) == (Reason.SOAKING, True, True)


def test_a_snapshot_hides_the_time_of_a_registration_and_the_status_remembers_it() -> None:
    """A new process reads the newest snapshot, which has no times, so it takes a later one: that is safe. If the
    registration has the offset that the status has, the time in the status counts.
    """
    status = status_after(looks(HELD_FOR_A_DAY, in_dual_write_for(timedelta(hours=23), offset=103)))
    after_restart = in_dual_write_for(timedelta(minutes=10), offset=103)
    same_registration = looks(HELD_FOR_A_DAY, after_restart, status=status).decision
    assert same_registration.message.startswith("dual write is kept for 24 h, of which 60 min remain")
    # A broker left dual write, or was restarted.
    newer_registration = in_dual_write_for(timedelta(minutes=10), offset=104)
    for look in (looks(HELD_FOR_A_DAY, after_restart), looks(HELD_FOR_A_DAY, newer_registration, status=status)):
        assert look.decision.message.startswith("dual write is kept for 24 h, of which 24 h")


def test_a_controllers_clock_that_is_set_neither_shortens_the_hold_nor_keeps_it_for_ever() -> None:
    """The clock jumps 25 h ahead, or 900 days back; this process counts the 24 h of the hold itself."""

    def at(log_time: timedelta) -> Observation:
        return replace(cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, at=NOW, read_at=NOW + log_time))

    first = Look(HELD_FOR_A_DAY, at(timedelta(0)))
    forward = Look(HELD_FOR_A_DAY, at(timedelta(hours=25)), before=first, seconds=10)
    assert isinstance(forward.decision, Wait)
    assert forward.decision.reason is Reason.SOAKING
    later = Look(HELD_FOR_A_DAY, at(timedelta(hours=49)), before=forward, seconds=24 * 3600)
    assert isinstance(later.decision, Held)
    back = Look(HELD_FOR_A_DAY, at(timedelta(days=-900)), before=first, seconds=10)
    assert isinstance(back.decision, Wait)
    assert isinstance(Look(HELD_FOR_A_DAY, at(timedelta(days=-899)), before=back, seconds=24 * 3600).decision, Held)


def test_a_process_that_starts_after_a_controllers_clock_was_set_forward_counts_by_its_own_clock() -> None:
    ahead = replace(
        cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, at=NOW, read_at=NOW + timedelta(hours=25))
    )
    for status in (EMPTY, status_after(looks(HELD_FOR_A_DAY, in_dual_write_for(timedelta(0))))):
        decision = looks(HELD_FOR_A_DAY, ahead, status=status).decision
        assert isinstance(decision, Wait)
        assert decision.message.startswith("dual write is kept for 24 h, of which 24 h")


def test_a_controllers_clock_that_was_behind_at_the_registration_does_not_shorten_the_hold_once_it_is_right() -> None:
    """The clock was 25 h behind when the broker registered. The first process saw 0 h of the hold, and wrote that to
    the status, where the next process finds it by the registration's offset.
    """
    hour = timedelta(hours=1)
    begun = replace(
        cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, at=NOW - 25 * hour, read_at=NOW - 25 * hour)
    )
    first = Look(HELD_FOR_A_DAY, begun)
    assert isinstance(first.decision, Wait)
    assert first.decision.reason is Reason.SOAKING
    decision = looks(HELD_FOR_A_DAY, in_dual_write_for(timedelta(0)), status=status_after(first)).decision
    assert isinstance(decision, Wait)
    assert decision.message.startswith("dual write is kept for 24 h, of which 24 h")


def test_controllers_clocks_that_differ_by_seconds_do_not_lengthen_the_hold() -> None:
    """The controller whose clock is read now is 3 s behind."""
    at = NOW - timedelta(hours=24, seconds=3)
    late = replace(
        cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, at=at, read_at=NOW - timedelta(seconds=3))
    )
    assert isinstance(looks(HELD_FOR_A_DAY, late).decision, Held)


# --- a log in which nothing is written for longer than a minute ---


class SilentLog:
    """A log in which a batch is written every so often, and a broker registered at the beginning. The leader's clock
    does not stop in between.
    """

    def __init__(self, every: timedelta) -> None:
        self.every, self.status = every, EMPTY
        self.process: Look | None = None

    def look(
        self, minute: float, *, clock: timedelta = NO_TIME, wall: timedelta = NO_TIME, asks: bool = True
    ) -> Decision:
        """Decide once more, so many minutes after the registration. `clock`, `wall`: by how much the clock of the
        leader, or of the operator, was set forward. `asks`: the leader tells its time; else only the log shows a time.
        """
        passed = timedelta(minutes=minute)
        batches = passed // self.every if self.every else 0
        log = image(brokers={1: (MODERN, False)}, controllers={3001: MODERN}, zk_migration_state=1, offset=200)
        assert log.registrations is not None
        log = with_values(
            log,
            registrations=with_values(log.registrations, registered={1: 0}),
            timestamp_ms=ms(NOW + batches * self.every + clock * (batches > 0)),
            elapsed_ms=batches * min(60_000, self.every // timedelta(milliseconds=1)),
        )
        leader = quorum(voters=(3001,), fetched=ms(NOW + passed + clock))
        answers = probe(controller(3001), quorum=leader if asks else SILENT)
        read = observe(answers, LogReading(log, 200, 3001, 4, NOW)).last_registration
        observation = replace(cluster(P.DUAL_WRITE), last_registration=read, at=NOW + passed + wall)
        lived = passed.total_seconds() - (self.process.monotonic if self.process is not None else 0.0)
        self.process = Look(HELD_FOR_AN_HOUR, observation, status=self.status, before=self.process, seconds=lived)
        self.status = status_after(self.process, self.status)
        return self.process.decision

    def restart_operator(self) -> None:
        """Begin another process, which knows only the status."""
        self.process = None


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


EVERY = [timedelta(seconds=0.5), timedelta(minutes=5), timedelta(hours=2), timedelta(0)]
"""Times between two batches of a log (`metadata.max.idle.interval.ms`); 0: nothing is written."""


@pytest.mark.parametrize("every", EVERY, ids=str)
def test_the_hold_has_the_length_of_the_document_also_with_a_silent_log_and_many_operator_restarts(
    every: timedelta,
) -> None:
    log = SilentLog(every)
    for minute in range(60):
        if minute % 7 == 0:
            log.restart_operator()
        assert (log.look(minute).reason, minute) == (Reason.SOAKING, minute)
    assert log.look(61).reason is not Reason.SOAKING


@pytest.mark.parametrize("every", EVERY, ids=str)
def test_the_hold_waits_for_a_leader_whose_clock_cannot_be_read_and_does_not_become_longer(
    every: timedelta,
) -> None:
    """If the time of the last batch, which may be hours old, were taken for the present, the leader's clock would seem
    to be behind now, and to be set forward later.
    """
    log = SilentLog(every)
    for minute in range(0, 60, 5):
        log.restart_operator()
        log.look(minute, asks=minute == 0)
        log.look(minute + 1)
    log.restart_operator()
    assert log.look(61, asks=False).reason is Reason.SOAKING
    assert log.look(62).reason is not Reason.SOAKING


@pytest.mark.parametrize("every", EVERY, ids=str)
@pytest.mark.parametrize(
    "is_together", [False, True], ids=["only the clocks of controllers", "the clock of the operator too"]
)
def test_a_clock_that_is_set_forward_or_runs_too_fast_shortens_no_hold(every: timedelta, *, is_together: bool) -> None:
    """`jumps`: 3 h ahead after 20 min; `runs`: 50 s faster in each minute. The hold is 1 h; 59 min are not enough."""
    jumps, runs = SilentLog(every), SilentLog(every)
    for minute in range(59):
        ahead, fast = timedelta(hours=3) * (minute > 20), timedelta(seconds=50) * minute
        look = jumps.look(minute, clock=ahead, wall=ahead * is_together)
        assert (look.reason, minute) == (Reason.SOAKING, minute)
        look = runs.look(minute, clock=fast, wall=fast * is_together)
        assert (look.reason, minute) == (Reason.SOAKING, minute)
    assert jumps.look(62, clock=ahead, wall=ahead * is_together).reason is not Reason.SOAKING
    assert runs.look(62, clock=fast, wall=fast * is_together).reason is not Reason.SOAKING


@pytest.mark.parametrize("every", EVERY[1:], ids=str)
def test_a_process_without_a_status_counts_no_time_of_a_silent_log_towards_the_hold(every: timedelta) -> None:
    """The leader's clock may have been behind when the broker registered, and have been set right since."""
    assert SilentLog(every).look(119).reason is Reason.SOAKING
