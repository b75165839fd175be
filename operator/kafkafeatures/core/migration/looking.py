"""Readings that the next look at a migration needs: settings, partitions, a survey of ZooKeeper, a comparison.

Pure. Called by `core/migration/stage.py` once the nodes, the metadata log and the znodes were read. What is large is
read only where the next step rests on it.
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
from kafkafeatures.core.migration.progress import PREFLIGHTED, MigrationProgress, place_of
from kafkafeatures.core.migration.stopped import pods_left
from kafkafeatures.core.migration.voters import addresses_of, named_by_brokers
from kafkafeatures.core.roll.excuses import is_to_be_shown

ALL_NAMES = NAMES | preflight.NAMES
"""Settings that each node is asked for."""
SURVEYED_WITHIN = 60.0
COMPARE_EVERY = timedelta(seconds=60)
"""Between two comparisons of ZooKeeper with the metadata log, while a step waits that needs them to hold the same; less
while the controllers are to be stopped, as what is written after the last one may be lost.
"""


def demands_of(read_context: ReadContext, wish: Migration) -> ReadRequirements:
    """The znodes, and what each node says of its settings; partitions where nodes are about to be restarted."""
    asked_before = finalize.asked_before(
        read_context.status.migration, read_context.status.plan, read_context.desired.consents, wish.desired
    )
    place = (
        place_of(read_context.observation, wish.desired, requested=asked_before)
        if read_context.observation is not None
        else None
    )
    if not isinstance(place, MigrationProgress):
        return ReadRequirements(znodes=True, settings=ALL_NAMES)
    shows = place.way is not None and is_to_be_shown(read_context.desired, read_context.status.plan)
    restarts = shows or (place.way is not None and (place.way.restarts is not None or place.way is STOP_CONTROLLERS))
    compares = needs_comparison(place) and _is_due_again(read_context, place, wish)
    surveys = _age_of_survey(place)
    return ReadRequirements(
        partitions=restarts, znodes=True, settings=ALL_NAMES, comparison=compares, survey=surveys,
        named_controllers=place.way is UNFLAG_BROKERS, former_controllers=_former_controllers(read_context, place),
    )  # fmt: skip


def _former_controllers(read_context: ReadContext, progress: MigrationProgress) -> frozenset[str]:
    """Addresses at which a controller may still answer, before znodes are deleted that it writes."""
    if progress.way not in (RELEASE, WITHDRAW):
        return frozenset()
    migration = read_context.status.migration
    return addresses_of((*named_by_brokers(progress.observation), *(migration.voters if migration is not None else ())))


def _age_of_survey(progress: MigrationProgress) -> float | None:
    """Largest age in seconds of what is read of all znodes: before anything is touched a minute; for the transaction
    that leads back it is read anew, as each election of the quorum raises epochs. None where it is not needed.
    """
    if progress.way is RELEASE:
        return None if any(pods_left(progress)) else 0.0
    is_begun = progress.position not in PREFLIGHTED
    return None if progress.way is None or is_begun or not progress.way.is_preflighted else SURVEYED_WITHIN


def _is_due_again(read_context: ReadContext, progress: MigrationProgress, wish: Migration) -> bool:
    """Tell whether a step is about to close a door, and the last comparison is a while ago. That of another process
    closes none: one that has just started compares at once.
    """

    def passed(at: datetime, span: timedelta) -> bool:
        """Tell whether it is so long ago. Of a time in the future that is not known: the clock was set since then, and
        what is read once too often does no harm.
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
    interval = timedelta(seconds=max(5.0, 2 * took)) if soon else COMPARE_EVERY
    return passed(memory.tried, interval)
