"""What people read of a migration: `status.migration` and the condition MigrationSettled. Pure."""

from __future__ import annotations

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import BrokersByMode, EqualityStatus, MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.kind import Facts
from kafkafeatures.core.engine.stage import Said
from kafkafeatures.core.facts.observation import Known, Unknown
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.znodes import Compared
from kafkafeatures.core.migration.phases import Phase
from kafkafeatures.core.migration.place import Place
from kafkafeatures.core.migration.positions import BrokerMode, Misplaced


def with_migration(
    status: Status, place: Place | Misplaced | Failure, desired: Desired, previous: Status, facts: Facts
) -> Status:
    """The status with where the migration is; as it was where that is not known now."""
    before = previous.migration
    if not isinstance(place, Place):
        return replace(status, migration=before)
    phase, modes = place.phase.value, list(place.facts.brokers.values())
    lag = -1
    if place.facts.offset > 0 and place.seen.source.offset > 0:
        lag = max(0, place.seen.source.offset - 1 - place.facts.offset)
    found = MigrationStatus(
        phase=phase,
        position=place.position.value,
        since=before.since if before is not None and before.phase == phase else facts.stamp,
        zk_migration_state=place.facts.state.name if place.facts.state is not None else "",
        brokers=BrokersByMode(
            zoo_keeper=modes.count(BrokerMode.PLAIN),
            flagged=modes.count(BrokerMode.FLAGGED),
            kraft=modes.count(BrokerMode.KRAFT),
        ),
        equality=_equality(facts.seen.compared) or (before.equality if before is not None else None),
        lag_records=_steady(lag, before.lag_records if before is not None else None),
        kept_migration_node=before.kept_migration_node if before is not None else "",
    )
    return replace(status, migration=found)


def _equality(found: Known[Compared] | Unknown) -> EqualityStatus | None:
    """What came of a comparison in this look; None where none was made."""
    if isinstance(found, Unknown):
        return None
    differences = found.value.differences
    return EqualityStatus(at=stamp(found.at), state="Differs" if differences else "Equal", differences=differences)


def _steady(lag: int, before: int | None) -> int | None:
    """The lag, which differs by a few records in each look: a status is not written for that."""
    if lag < 0:
        return None
    return before if before is not None and abs(lag - before) < 20 else lag


def migration_settled(place: Place | Misplaced | Failure, desired: Desired) -> Said:
    """Whether nothing is under way."""
    if not isinstance(place, Place):
        return "Unknown", Reason.UNKNOWN, str(place)
    phase = place.phase
    reason = _REASONS[phase]
    settled = phase in (Phase.FINALIZED, Phase.ROLLED_BACK)
    return "True" if settled else "False", reason, f"the cluster is at {place.position}: {place.facts}"


_REASONS = {
    Phase.NONE: Reason.NOT_STARTED,
    Phase.PRE_MIGRATION: Reason.PRE_MIGRATION,
    Phase.MIGRATING: Reason.MIGRATING,
    Phase.DUAL_WRITE: Reason.DUAL_WRITE,
    Phase.FINALIZING: Reason.FINALIZING,
    Phase.FINALIZED: Reason.FINALIZED,
    Phase.ROLLING_BACK: Reason.ROLLING_BACK,
    Phase.ROLLED_BACK: Reason.ROLLED_BACK,
}
