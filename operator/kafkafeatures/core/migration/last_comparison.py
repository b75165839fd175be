"""The last comparison of ZooKeeper with the metadata log before the controllers stopped. It decides whether ZooKeeper
is known to hold all metadata: after a rollback nothing else holds it.

Pure. Called by `core/migration/losses.py` and `core/migration/state.py`. Without controllers the metadata log cannot be
read, so nothing can be compared any more, and the last comparison counts: the comparison is repeated until the
controllers stop. The status and this process both keep its outcome, as the controllers may stop while no status can be
written.

Its age is measured by ZooKeeper's clock: from the last write to `/migration` before the comparison to the very last
write. Changes in between may be lost. So may changes that were made while the controllers could not write to ZooKeeper
and the operator read nothing.
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
"""Longest time from the last comparison to the stop of the controllers: a comparison of a large cluster takes a
minute.
"""
UNKNOWN = "unknown"
"""Subject of a consent to unknown differences."""
CLOCKS_DIFFER = timedelta(seconds=10)
"""Largest difference between the clocks of an ensemble's servers: a later write may seem earlier."""

WRITTEN_EVERY = timedelta(seconds=30)
"""Age up to which the status keeps an earlier comparison with the same outcome."""

ACCEPT = f"add {ZK_ROLLBACK_LOSSY} to consents, if metadata that ZooKeeper lacks may be lost"
REMEDY = (
    "if the controllers still have their disks, start them again, and stop them once KafkaFeatures asks for it (with "
    f"new disks they would delete every topic); or {ACCEPT}"
)


def consent_to_loss(progress: MigrationProgress, last: EqualityStatus | None) -> Consentable | None:
    """Consent to lose metadata, which is needed if the last comparison does not prove that ZooKeeper held all metadata;
    None if it proves this. `last`: the comparison in the status.
    """
    znode = progress.znodes.migration
    if isinstance(znode, Failure):
        return None  # nothing can be deleted then
    if znode is not None and znode.offset <= 0 and last is None:
        return None  # nothing but ZooKeeper was ever written to
    # Without an offset in /migration, starting the controllers again does not help: they would write nothing to
    # ZooKeeper.
    remedy = REMEDY if znode is not None and znode.offset > 0 else ACCEPT
    reason = _reason_unproven(znode, last)
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


def _reason_unproven(znode: MigrationZnode | None, last: EqualityStatus | None) -> str:
    """Reason why the last comparison does not count; empty if it counts."""
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
    """The later of two comparisons: `ours`, of this process, and `reported`, of the status. Their order is that of
    ZooKeeper's clock, as two processes have two clocks; if it is not certain, `ours` is taken. A comparison without a
    date, which proves nothing, is preferred to one with a date.
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
    """Outcome of the comparison in this reconciliation, or else `previous`, the last one of this migration; None before
    anything was copied.

    A comparison that failed changes only the state of the last outcome to Unknown. If it failed because ZooKeeper was
    behind, the date is dropped too, as it is not known what ZooKeeper holds by now. A comparison counts even while the
    position of the cluster is not known, such as while the controllers stop.
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
        return previous  # without the time of the last write, the comparison proves nothing
    current = EqualityStatus(
        at=stamp(comparison.value.at),
        state=state.value,
        differences=comparison.value.differences,
        digest=comparison.value.digest,
        written_at=at,
    )
    return previous if previous is not None and _is_recent_and_same(previous, current) else current


def _is_recent_and_same(previous: EqualityStatus, current: EqualityStatus) -> bool:
    """Tell whether the status has the same outcome from moments ago: a status is not written for a newer date alone."""
    is_same = (previous.state, previous.differences, previous.digest) == (
        current.state,
        current.differences,
        current.digest,
    )
    if not is_same or not (previous.written_at and current.written_at):
        return False
    between = datetime.fromisoformat(current.written_at) - datetime.fromisoformat(previous.written_at)
    return timedelta(0) <= between < WRITTEN_EVERY
