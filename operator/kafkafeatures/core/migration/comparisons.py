"""The last comparison of ZooKeeper with the metadata log: as the status has it, and as this process does.

Pure. What a look has found out is not lost with the status that it could not write: the controllers may stop in that
moment, and then nothing can be compared again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import ComparisonState, EqualityStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import MigrationProgress
from kafkafeatures.core.migration.checks import PREFLIGHTED
from kafkafeatures.core.migration.last_comparison import CLOCKS_DIFFER
from kafkafeatures.core.migration.place import Place
from kafkafeatures.core.migration.positions import Misplaced

WRITTEN_EVERY = timedelta(seconds=30)
"""For how long a status may say of a comparison that came to the same."""


def later(ours: EqualityStatus | None, written: EqualityStatus | None) -> EqualityStatus | None:
    """Which comparison was made later, by the clock of ZooKeeper: two processes have two clocks. That of this process
    where it is not certain; one without a date, which proves nothing, before any other.
    """
    if ours is None or written is None:
        return ours or written
    if not ours.written_at or not written.written_at:
        return written if ours.written_at else ours
    is_newer = datetime.fromisoformat(written.written_at) - datetime.fromisoformat(ours.written_at) > CLOCKS_DIFFER
    return written if is_newer else ours


def last_comparison(
    place: Place | Misplaced | Failure, seen: Observation, before: EqualityStatus | None
) -> EqualityStatus | None:
    """What came of a comparison in this look, else what came of the last one of this migration. One that came to no
    result is said beside that; where ZooKeeper was behind, it is not known what it has by now. Also of a look by which
    it is not known where the cluster is, as while the controllers stop.
    """
    if isinstance(place, Place) and place.position in PREFLIGHTED:
        return None  # nothing is copied yet, or no longer
    found, written = seen.compared, seen.zookeeper.value.migration if isinstance(seen.zookeeper, Known) else None
    if isinstance(found, Unknown):
        if found.why.kind is FailureKind.NOT_ASKED:
            return before
        last = before or EqualityStatus()
        at = None if found.why.kind is FailureKind.STALE else last.written_at
        return replace(last, state=ComparisonState.UNKNOWN.value, written_at=at)
    state = ComparisonState.DIFFERS if found.value.differences else ComparisonState.EQUAL
    at = stamp(written.written_at) if isinstance(written, MigrationProgress) else None
    if at is None and state is ComparisonState.EQUAL:
        return before  # until when it is so is not known
    now = EqualityStatus(
        at=stamp(found.value.at), state=state.value, differences=found.value.differences, written_at=at
    )
    return before if before is not None and _says_as_much(before, now) else now


def _says_as_much(before: EqualityStatus, now: EqualityStatus) -> bool:
    """Whether a status that was written moments ago says the same: it is not written for less."""
    if (before.state, before.differences) != (now.state, now.differences) or not (before.written_at and now.written_at):
        return False
    between = datetime.fromisoformat(now.written_at) - datetime.fromisoformat(before.written_at)
    return timedelta(0) <= between < WRITTEN_EVERY
