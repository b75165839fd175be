"""For how long dual write was kept, by the metadata log."""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Held, Wait
from kafkafeatures.core.engine.wanted import Migration
from kafkafeatures.core.facts.observation import LastRegistration, Observation
from kafkafeatures.core.migration.positions import Position
from tests.kafkafeatures.core.migrations import (
    FINALIZING,
    Look,
    cluster,
    kept_for,
    looks,
    status_after,
)
from tests.kafkafeatures.worlds import NOW

P, D = Position, Desired


def test_dual_write_is_kept_for_as_long_as_the_document_says_by_the_metadata_log() -> None:
    """Whatever a status says of the phase, and whatever this process has lived through."""
    held = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))
    status = Status(migration=MigrationStatus(phase="DualWrite", since=Stamp("2025-01-01T00:00:00Z")))
    early = looks(held, kept_for(timedelta(hours=23)), status=status, lived=timedelta(hours=25))
    assert isinstance(early.decision, Wait)
    assert early.decision.reason is Reason.SOAKING
    assert early.decision.message.startswith("dual write is kept for 24 h, of which 60 min remain; ")
    assert isinstance(looks(held, kept_for(timedelta(hours=25))).decision, Held)


def test_where_the_log_does_not_say_since_when_it_is_dual_write_the_hold_stays() -> None:
    held = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))
    status = Status(migration=MigrationStatus(phase="DualWrite", since=Stamp("2025-01-01T00:00:00Z")))
    unread = replace(cluster(P.DUAL_WRITE), last_registration=None)
    found = looks(held, unread, status=status, lived=timedelta(hours=25)).decision
    assert isinstance(found, Wait)
    assert (found.reason, bool(found.subject), bool(found.remedy)) == (Reason.SOAKING, True, True)


def test_a_snapshot_hides_the_time_of_a_registration_and_the_status_remembers_it() -> None:
    """A process that starts reads the newest snapshot: later is safe, and the same registration is known by its
    offset.
    """
    held = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))
    status = status_after(looks(held, kept_for(timedelta(hours=23))))
    hidden = kept_for(timedelta(minutes=10))
    known_again = looks(held, hidden, status=status).decision
    assert known_again.message.startswith("dual write is kept for 24 h, of which 60 min remain")
    another = kept_for(timedelta(minutes=10), offset=104)  # a broker left dual write, or was restarted
    for unknown in (looks(held, hidden), looks(held, another, status=status)):
        assert unknown.decision.message.startswith("dual write is kept for 24 h, of which 24 h")


def test_a_controllers_clock_that_is_set_neither_shortens_the_hold_nor_keeps_it_for_ever() -> None:
    held = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))

    def at(log_time: timedelta) -> Observation:
        return replace(cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, NOW, NOW + log_time))

    first = Look(held, at(timedelta(0)))
    forward = Look(held, at(timedelta(hours=25)), before=first, seconds=10)
    assert isinstance(forward.decision, Wait)
    assert forward.decision.reason is Reason.SOAKING
    later = Look(held, at(timedelta(hours=49)), before=forward, seconds=24 * 3600)
    assert isinstance(later.decision, Held)
    back = Look(held, at(timedelta(days=-900)), before=first, seconds=10)
    assert isinstance(back.decision, Wait)
    assert isinstance(Look(held, at(timedelta(days=-899)), before=back, seconds=24 * 3600).decision, Held)


def test_a_process_that_starts_after_a_controllers_clock_was_set_forward_counts_by_its_own_clock() -> None:
    held = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))
    ahead = replace(cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, NOW, NOW + timedelta(hours=25)))
    for status in (EMPTY, status_after(looks(held, kept_for(timedelta(0))))):
        found = looks(held, ahead, status=status).decision
        assert isinstance(found, Wait)
        assert found.message.startswith("dual write is kept for 24 h, of which 24 h")


def test_a_controllers_clock_that_was_behind_at_the_registration_does_not_shorten_the_hold_once_it_is_right() -> None:
    """The next process knows the registration by its offset, and since when it is from the status."""
    held = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))
    hour = timedelta(hours=1)
    begun = replace(cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, NOW - 25 * hour, NOW - 25 * hour))
    first = Look(held, begun)
    assert isinstance(first.decision, Wait)
    assert first.decision.reason is Reason.SOAKING
    found = looks(held, kept_for(timedelta(0)), status=status_after(first)).decision
    assert isinstance(found, Wait)
    assert found.message.startswith("dual write is kept for 24 h, of which 24 h")


def test_clocks_that_differ_by_seconds_do_not_lengthen_it() -> None:
    held = replace(FINALIZING, migration=Migration(D.FINALIZED, timedelta(hours=24)))
    at = NOW - timedelta(hours=24, seconds=3)
    late = replace(cluster(P.DUAL_WRITE), last_registration=LastRegistration(103, at, NOW - timedelta(seconds=3)))
    assert isinstance(looks(held, late).decision, Held)
