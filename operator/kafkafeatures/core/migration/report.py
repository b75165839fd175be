"""Report of a migration: `status.migration`, `status.wayBack` and the condition MigrationSettled.

Pure. Called by `core/migration/state.py`.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkafeatures.api.reasons import Phase, Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.status import (
    BrokersByMode,
    ConsentRequest,
    EqualityStatus,
    MigrationStatus,
    Status,
)
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import Migration
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.stage import ConditionText
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.migration import finalize
from kafkafeatures.core.migration.edges import FINALIZE
from kafkafeatures.core.migration.memory import DualWrite
from kafkafeatures.core.migration.positions import BrokerMode, Misplaced, Position
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.voters import voters_of
from kafkafeatures.core.migration.way_back import held_until, way_back
from kraftlog.image import ZkMigrationState


def with_migration(
    status: Status,
    progress: MigrationProgress | Misplaced | Failure,
    wish: Migration,
    previous: Status,
    facts: StageInput,
    *,
    flying: Collection[int] = (),
    equality: EqualityStatus | None = None,
    dual_write: DualWrite | None = None,
    requested: tuple[ConsentRequest, ...] = (),
    asked: tuple[int, ...] = (),
) -> Status:
    """The status with the progress of the migration. If that is not known now, the previous one is kept.

    flying: ids of nodes that are being restarted.
    equality: the last comparison of ZooKeeper with the metadata log.
    dual_write: dual write so far; None: not known.
    requested: consents that are needed.
    asked: ids of controllers that were asked to lose the flag.
    """
    last_status = previous.migration or MigrationStatus()
    if not isinstance(progress, MigrationProgress):
        remembered = previous.migration
        voters = voters_of(facts.observation, last_status.voters)
        return replace(status, migration=remembered and replace(remembered, equality=equality, voters=voters))
    phase, modes = progress.phase.value, list(progress.facts.brokers.values())
    lag = -1
    writes_both = (
        progress.facts.state is ZkMigrationState.MIGRATION
    )  # once it is finalized, ZooKeeper is never written again
    if writes_both and progress.facts.offset > 0 and progress.observation.source.offset > 0:
        lag = max(0, progress.observation.source.offset - 1 - progress.facts.offset)
    since, offset = last_status.dual_write_since, last_status.dual_write_offset  # kept while the log does not show it
    if dual_write is not None or modes.count(BrokerMode.KRAFT) < len(modes):
        since, offset = (stamp(dual_write.since), dual_write.offset) if dual_write is not None else (None, None)
    migration = MigrationStatus(
        phase=phase,
        position=progress.position.value,
        since=(last_status.since if last_status.phase == phase else None) or facts.stamp,
        zk_migration_state=progress.facts.state.name if progress.facts.state is not None else "",
        brokers=BrokersByMode(
            zoo_keeper=modes.count(BrokerMode.PLAIN),
            flagged=modes.count(BrokerMode.FLAGGED),
            kraft=modes.count(BrokerMode.KRAFT),
        ),
        equality=equality,
        lag_records=_steady(lag, last_status.lag_records),
        kept_migration_node=last_status.kept_migration_node,
        restarts_left=_restarts_left(progress, flying),
        node_seconds=(previous.rollout.node_seconds if previous.rollout else 0) or last_status.node_seconds,
        voters=() if may_have_new_voters(progress) else voters_of(facts.observation, last_status.voters),
        requested=requested,
        dual_write_since=since if writes_both else None,
        dual_write_offset=offset if writes_both else None,
        asked_controllers=asked,
    )
    until = None
    if progress.way is FINALIZE and finalize.is_in_dual_write(progress):
        until = previous.way_back.until if previous.way_back is not None else None
        if dual_write is not None or until is None:
            until = held_until(facts.current_time, finalize.hold_left(wish, dual_write), previous.way_back)
    unflagged = progress.facts.unflagged if writes_both else ()
    present_way_back = way_back(progress.position, wish.desired, equality, until=until, unflagged=unflagged)
    return replace(status, migration=migration, way_back=present_way_back)


def may_have_new_voters(progress: MigrationProgress) -> bool:
    """Tell whether the next quorum may have other voters, since ZooKeeper holds nothing of a quorum any more."""
    return progress.position in (Position.ZOOKEEPER, Position.RELEASED) and not progress.facts.has_progress


def _restarts_left(progress: MigrationProgress, flying: Collection[int]) -> int | None:
    """Number of restarts that remain on all ways to the goal; None if the settings of a node to be restarted are not
    known.
    """
    if any(isinstance(demand.differs, Failure) and id_ not in flying for id_, demand in progress.differing.items()):
        return None
    nodes = {Role.BROKER: progress.facts.brokers, Role.CONTROLLER: progress.facts.controllers}
    later = sum(len(nodes[edge.restarts]) for edge in progress.route[1:] if edge.restarts is not None)
    return len(progress.differing) + later


def _steady(lag: int, previous_lag: int | None) -> int | None:
    """Lag for the status, in records: the previous one if both differ by a few records only, so that the status is not
    written again for that. None if it is not known (-1).
    """
    if lag < 0:
        return None
    return previous_lag if previous_lag is not None and abs(lag - previous_lag) < 20 else lag  # 10 s of an idle log


def migration_settled(progress: MigrationProgress | Misplaced | Failure) -> ConditionText:
    """Condition MigrationSettled: True once the migration is finalized or rolled back; Unknown if the position of the
    cluster is not known.
    """
    if not isinstance(progress, MigrationProgress):
        return "Unknown", Reason.UNKNOWN, str(progress)
    phase = progress.phase
    reason = Reason(phase.value)
    is_settled = phase in (Phase.FINALIZED, Phase.ROLLED_BACK)
    return "True" if is_settled else "False", reason, f"the cluster is at {progress.position}: {progress.facts}"
