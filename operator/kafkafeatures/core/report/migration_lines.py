"""Progress of a migration in lines for people, made from a status alone, so that every command shows the same.

Pure. Called wherever people read a status: by commands, by reports and for Events.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.status import ComparisonState, EqualityStatus, MigrationStatus, RolloutStatus
from kafkafeatures.core.words import counted


def migration_lines(migration: MigrationStatus, rollout: RolloutStatus | None = None) -> Iterator[str]:
    """Phase, modes of the brokers, lag of ZooKeeper, result of the last comparison, and the restarts left."""
    since = f", since {migration.since}" if migration.since else ""
    at = f" ({migration.position})" if migration.position and migration.position != migration.phase else ""
    yield f"phase {migration.phase or '?'}{at}{since}"
    if modes := modes_line(migration):
        yield modes
    if migration.lag_records is not None:
        yield f"ZooKeeper is {counted(migration.lag_records, 'record')} behind the metadata log"
    if migration.equality is not None:
        yield equality_line(migration.equality)
    if migration.kept_migration_node:
        yield f"/migration was {migration.kept_migration_node}"
    yield forecast(migration, rollout)


def modes_line(migration: MigrationStatus) -> str:
    """Number of brokers in each mode; empty where it is not known."""
    modes = migration.brokers
    if modes is None:
        return ""
    return f"brokers: {modes.zoo_keeper} in ZooKeeper mode, {modes.flagged} with the flag, {modes.kraft} in KRaft mode"


def equality_line(equality: EqualityStatus) -> str:
    """Result of the last comparison of ZooKeeper with the metadata log."""
    at = f" at {equality.at}" if equality.at else ""
    if equality.state == ComparisonState.EQUAL:
        return f"ZooKeeper and the metadata log held the same metadata{at}"
    if equality.state == ComparisonState.DIFFERS:
        number = counted(equality.differences, "difference") if equality.differences is not None else "differences"
        return f"ZooKeeper and the metadata log differ: {number}{at}"
    unknown = "it is not known whether ZooKeeper and the metadata log hold the same metadata"
    if not at:
        return unknown
    if equality.differences is None:
        return f"{unknown}; last compared{at}"
    outcome = counted(equality.differences, "difference") if equality.differences else "they held the same"
    return f"{unknown}; when last compared{at}, {outcome}"


def forecast(migration: MigrationStatus, rollout: RolloutStatus | None = None) -> str:
    """Number of restarts that are left, and their estimated duration: one node after the other, each at the average
    duration so far.
    """
    if migration.restarts_left is None:
        return "how many restarts are left is not known"
    if not migration.restarts_left:
        return "no restart of a node is left"
    restarts = f"{counted(migration.restarts_left, 'restart')} of nodes left"
    seconds = (rollout.node_seconds if rollout is not None else 0) or migration.node_seconds
    if not seconds:
        return f"{restarts}; how long each takes is not known yet"
    total_seconds = seconds * migration.restarts_left
    about = f"{total_seconds} s" if total_seconds < 120 else f"{round(total_seconds / 60)} min"
    return f"{restarts}, about {about} of restarts: each has taken {seconds} s on average"
