"""Readings that a migration needs in a reconciliation: settings, partitions, a survey of ZooKeeper, a comparison.

Pure. Called by `core/migration/stage.py` before the cluster is read, and again once the nodes, the metadata log and the
znodes were read. Large readings are made only if the next step depends on them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kafkafeatures.core.engine.desired_state import Migration
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements
from kafkafeatures.core.migration import finalize, preflight
from kafkafeatures.core.migration.demands import NAMES
from kafkafeatures.core.migration.edges import FINALIZE, RELEASE, STOP_CONTROLLERS, UNFLAG_BROKERS, WITHDRAW
from kafkafeatures.core.migration.losses import needs_comparison
from kafkafeatures.core.migration.memory import MigrationMemory
from kafkafeatures.core.migration.not_desired import MIGRATION
from kafkafeatures.core.migration.progress import PREFLIGHTED, MigrationProgress, progress_of
from kafkafeatures.core.migration.stopped import pods_left
from kafkafeatures.core.migration.voters import addresses_of, named_by_brokers
from kafkafeatures.core.roll.excuses import is_to_be_shown

ALL_NAMES = NAMES | preflight.NAMES
"""Names of the settings that are read of each node."""
SURVEYED_WITHIN = 60.0
"""Greatest age, in seconds, of the survey of all znodes before anything is copied."""
COMPARE_EVERY = timedelta(seconds=60)
"""Time between two comparisons of ZooKeeper with the metadata log while a step waits until both hold the same. Shorter
while the controllers are to be stopped, as changes after the last comparison may be lost.
"""


def demands_of(read_context: ReadContext, wish: Migration) -> ReadRequirements:
    """Readings that are needed: always the znodes and the settings of each node; the others by the next way."""
    asked_before = finalize.asked_before(
        read_context.status.migration, read_context.status.plan, read_context.desired.consents, wish.desired
    )
    progress = (
        progress_of(read_context.observation, wish.desired, requested=asked_before)
        if read_context.observation is not None
        else None
    )
    if not isinstance(progress, MigrationProgress):
        return ReadRequirements(znodes=True, settings=ALL_NAMES)
    shows = progress.way is not None and is_to_be_shown(read_context.desired, read_context.status.plan)
    restarts = shows or (
        progress.way is not None and (progress.way.restarts is not None or progress.way is STOP_CONTROLLERS)
    )
    compares = needs_comparison(progress) and _is_due_again(read_context, progress, wish)
    surveys = _age_of_survey(progress)
    return ReadRequirements(
        partitions=restarts, znodes=True, settings=ALL_NAMES, comparison=compares, survey=surveys,
        named_controllers=progress.way is UNFLAG_BROKERS,
        former_controllers=_former_controllers(read_context, progress),
    )  # fmt: skip


def _former_controllers(read_context: ReadContext, progress: MigrationProgress) -> frozenset[str]:
    """Addresses at which a controller may still answer; needed before znodes are deleted that controllers write."""
    if progress.way not in (RELEASE, WITHDRAW):
        return frozenset()
    migration = read_context.status.migration
    return addresses_of((*named_by_brokers(progress.observation), *(migration.voters if migration is not None else ())))


def _age_of_survey(progress: MigrationProgress) -> float | None:
    """Greatest age in seconds of the survey of all znodes; None if none is needed. Before anything is copied: a minute.
    For the transaction that leads back: 0, as each election of the quorum raises the epochs that it needs.
    """
    if progress.way is RELEASE:
        return None if any(pods_left(progress)) else 0.0
    is_begun = progress.position not in PREFLIGHTED
    return None if progress.way is None or is_begun or not progress.way.is_preflighted else SURVEYED_WITHIN


def _is_due_again(read_context: ReadContext, progress: MigrationProgress, wish: Migration) -> bool:
    """Tell whether the comparison is to be made now: none of this process is recent enough. Comparisons of another
    process do not count, so a process that has just started compares at once. Before the migration is finalized, only
    once dual write was kept for long enough and an approval is there.
    """

    def passed(at: datetime, span: timedelta) -> bool:
        """Tell whether this much time has passed. True also for a time in the future, which shows that a clock was set:
        a comparison too many does no harm.
        """
        return not timedelta(0) <= read_context.current_time - at < span

    memory = read_context.stage_memory.get(MIGRATION)
    if progress.way is FINALIZE:
        dual_write = memory.dual_write if isinstance(memory, MigrationMemory) else None
        if finalize.hold_left(wish, dual_write) > timedelta(0) or not read_context.desired.approvals:
            return False  # only an approval is a reason to read all of ZooKeeper
    if not isinstance(memory, MigrationMemory) or memory.tried is None:
        return True
    took = memory.compared.took if memory.compared is not None else 0.0
    soon = memory.has_failed or progress.way is STOP_CONTROLLERS
    # While it is urgent, at most half of the time is spent on comparisons, which read all of ZooKeeper.
    interval = timedelta(seconds=max(5.0, 2 * took)) if soon else COMPARE_EVERY
    return passed(memory.tried, interval)
