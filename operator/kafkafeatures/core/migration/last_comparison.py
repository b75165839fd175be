"""The last comparison of ZooKeeper with the metadata log: whether it shows that ZooKeeper held all metadata when the
controllers stopped, as after the way back nothing else holds it.

Pure. Without controllers the metadata log cannot be read, and nothing can be compared: what counts is the last
comparison, which `core/migration/state.py` has made again and again until they stopped. It is kept in the status and by
this process: the controllers may stop in the moment in which a status cannot be written. How long before that it was,
is measured by ZooKeeper's clock: from the last write to `/migration` before the comparison to the last one of all. What
was changed in between may be lost; so may be what was changed while the controllers could not write to ZooKeeper and
the operator did not look.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kafkafeatures.api.names import ZK_ROLLBACK_LOSSY
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import ComparisonState, EqualityStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.facts.observation import Known, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import MigrationZnode
from kafkafeatures.core.migration.consents import Consentable
from kafkafeatures.core.migration.positions import Misplaced
from kafkafeatures.core.migration.progress import PREFLIGHTED, MigrationProgress
from kafkafeatures.core.words import counted, format_span

LAST_WITHIN = timedelta(minutes=5)
"""Longest time from the last comparison to the end: that of a large cluster takes a minute."""
UNKNOWN = "unknown"
"""Subject of a consent that is given where it is not known what is lacking."""
CLOCKS_DIFFER = timedelta(seconds=10)
"""By how much the servers of an ensemble may differ: a later write may seem earlier."""

WRITTEN_EVERY = timedelta(seconds=30)
"""For how long a status may say of a comparison that came to the same."""

ACCEPT = f"add {ZK_ROLLBACK_LOSSY} to consents, if metadata that ZooKeeper lacks may be lost"
REMEDY = (
    "if the controllers still have their disks, start them again, and stop them once KafkaFeatures asks for it (with "
    f"new disks they would delete every topic); or {ACCEPT}"
)


def what_is_lacking(progress: MigrationProgress, last: EqualityStatus | None) -> Consentable | None:
    """Consent needed where the last comparison does not show that ZooKeeper held all metadata. last: of the status."""
    znode = progress.znodes.migration
    if isinstance(znode, Failure):
        return None  # nothing can be deleted then
    if znode is not None and znode.offset <= 0 and last is None:
        return None  # nothing but ZooKeeper was ever written to
    # With another /migration than before, controllers that start again write nothing to ZooKeeper any longer.
    remedy = REMEDY if znode is not None and znode.offset > 0 else ACCEPT
    reason = _unknown(znode, last)
    if last is not None and last.differences:
        count = counted(last.differences, "difference")
        text = f"ZooKeeper and the metadata log differed before the controllers stopped: {count}"
        text += f"; it is not known what else ZooKeeper lacks: {reason}" if reason else ""
        about = about_differences(last.differences, last.digest) + (f" {UNKNOWN}" if reason else "")
        return Consentable(ZK_ROLLBACK_LOSSY, about, Blocker(BlockerKind.METADATA, text, remedy))
    if not reason:
        return None
    text = f"it is not known whether ZooKeeper holds all metadata: {reason}"
    blocker = Blocker(BlockerKind.MIGRATION, text, remedy, reason=Reason.MIGRATION_BLOCKED)
    return Consentable(ZK_ROLLBACK_LOSSY, UNKNOWN, blocker)


def about_differences(count: int, digest: str) -> str:
    """Subject of a consent to these differences."""
    return f"{count} {digest}"


def _unknown(znode: MigrationZnode | None, last: EqualityStatus | None) -> str:
    """Reason why the last comparison does not count; empty where it does."""
    if last is None or last.differences is None:
        return "ZooKeeper was not compared with the metadata log before the controllers stopped"
    if last.written_at is None:
        return "ZooKeeper was behind the metadata log at the last comparison, or the date of that is not known"
    if znode is None or znode.offset <= 0:
        return "/migration was deleted or written anew since the last comparison"
    between = znode.written_at - datetime.fromisoformat(last.written_at)
    if -CLOCKS_DIFFER <= between <= LAST_WITHIN:
        return ""
    if between < timedelta(0):
        return f"/migration is {format_span(-between)} older than at the last comparison, as if restored from a backup"
    return f"ZooKeeper was last compared with the metadata log {format_span(between)} before the controllers stopped"


def later(ours: EqualityStatus | None, reported: EqualityStatus | None) -> EqualityStatus | None:
    """Return the comparison that was made later, by the clock of ZooKeeper: two processes have two clocks. That of this
    process where it is not certain; one without a date, which proves nothing, before any other.
    """
    if ours is None or reported is None:
        return ours or reported
    if not ours.written_at or not reported.written_at:
        return reported if ours.written_at else ours
    is_newer = datetime.fromisoformat(reported.written_at) - datetime.fromisoformat(ours.written_at) > CLOCKS_DIFFER
    return reported if is_newer else ours


def last_comparison(
    progress: MigrationProgress | Misplaced | Failure, observation: Observation, previous: EqualityStatus | None
) -> EqualityStatus | None:
    """Outcome of a comparison in this look, else of the last one of this migration. One that came to no result is said
    beside that; where ZooKeeper was behind, it is not known what it has by now. Also of a look by which it is not known
    where the cluster is, as while the controllers stop.
    """
    if isinstance(progress, MigrationProgress) and progress.position in PREFLIGHTED:
        return None  # nothing is copied yet, or no longer
    comparison, zookeeper = observation.compared, observation.zookeeper
    znode = zookeeper.value.migration if isinstance(zookeeper, Known) else None
    if isinstance(comparison, Unknown):
        if comparison.failure.kind is FailureKind.NOT_ASKED:
            return previous
        last = previous or EqualityStatus()
        at = None if comparison.failure.kind is FailureKind.STALE else last.written_at
        return replace(last, state=ComparisonState.UNKNOWN.value, written_at=at)
    state = ComparisonState.DIFFERS if comparison.value.differences else ComparisonState.EQUAL
    at = stamp(znode.written_at) if isinstance(znode, MigrationZnode) else None
    if at is None and state is ComparisonState.EQUAL:
        return previous  # until when it is so is not known
    current = EqualityStatus(
        at=stamp(comparison.value.at),
        state=state.value,
        differences=comparison.value.differences,
        digest=comparison.value.digest,
        written_at=at,
    )
    return previous if previous is not None and _says_as_much(previous, current) else current


def _says_as_much(previous: EqualityStatus, current: EqualityStatus) -> bool:
    """Tell whether a status of moments ago says the same: a newer date alone is no reason to write it again."""
    is_same = (previous.state, previous.differences, previous.digest) == (
        current.state,
        current.differences,
        current.digest,
    )
    if not is_same or not (previous.written_at and current.written_at):
        return False
    between = datetime.fromisoformat(current.written_at) - datetime.fromisoformat(previous.written_at)
    return timedelta(0) <= between < WRITTEN_EVERY
