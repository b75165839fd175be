"""Remedy for a right that is missing on controllers before a migration has copied the metadata from ZooKeeper.

Pure. Before the copy, controllers have no ACLs: an ACL that is added with `kafka-acls.sh` is written to ZooKeeper,
which controllers do not read. Only the setting `super.users` in the files of the controllers grants a right, so the
usual remedy would mislead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, FailureKind, LogReading, NodeAnswer, Role

if TYPE_CHECKING:
    from kafkafeatures.core.facts.znodes import ZooKeeperReading

T = TypeVar("T")

GRANT = (  # remedy for any right that is missing on a controller before the copy
    "add this user (User:NAME) to super.users of each controller, and restart the controllers with these files, the "
    "active controller last; no ACL counts there before ZooKeeper is copied"
)


def is_before_the_copy(probe: ClusterProbe, log: LogReading | Failure, zookeeper: ZooKeeperReading | Failure) -> bool:
    """Tell whether controllers run beside brokers in ZooKeeper mode, and nothing shows that metadata was copied."""
    if isinstance(log, LogReading) and log.image.zk_migration_state not in (None, *_NOTHING_COPIED):
        return False
    progress = None if isinstance(zookeeper, Failure) else zookeeper.migration
    if progress is not None and not isinstance(progress, Failure) and progress.offset > 0:
        return False  # the znode `/migration` has the offset up to which the log was written back
    brokers = [node.answer for node in probe.nodes if node.role is Role.BROKER and isinstance(node.answer, NodeAnswer)]
    controllers = any(node.role is Role.CONTROLLER for node in probe.nodes)
    return controllers and bool(brokers) and not any(answer.runs_in_kraft_mode for answer in brokers)


def with_early_remedy(reading: T) -> T:
    """The answer of a controller. A Failure for a missing right gets another remedy: the setting in the files of the
    controllers (`GRANT`). To be called if `is_before_the_copy`.
    """
    if isinstance(reading, Failure) and reading.kind is FailureKind.AUTHORIZATION:
        return replace(reading, remedy=GRANT)
    return reading


def with_early_remedies(probe: ClusterProbe) -> ClusterProbe:
    """The probe with `with_early_remedy` of all that controllers answered."""
    nodes = (
        replace(node, unproved=with_early_remedy(node.unproved)) if node.role is Role.CONTROLLER else node
        for node in probe.nodes
    )
    return replace(
        probe,
        nodes=tuple(nodes),
        controllers=with_early_remedy(probe.controllers),
        quorum=with_early_remedy(probe.quorum),
    )


_NOTHING_COPIED = (0, 2)
"""States of the metadata log: `ZkMigrationState.NONE` and `PRE_MIGRATION` of kraftlog."""
