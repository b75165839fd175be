"""Waits while the quorum takes over and copies ZooKeeper, after the last broker got the flag.

Pure. Called by `core/migration/state.py` and `core/migration/checks.py`. The quorum takes over once each controller and
each broker is registered. Kafka reports errors of this only in the log of the active controller, never to a client; so
the messages name nodes that are not registered, and the lines of that log to look for.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.migration.edges import FLAG_BROKERS
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.registered import missing, unregistered, with_other_levels

LOGGER = "org.apache.kafka.metadata.migration"
"""Logger of Kafka that shows the copy in detail."""
GIVE_UP = "to give up instead, set spec.migration.desired to RolledBack"


def has_every_flag(progress: MigrationProgress) -> bool:
    """Tell whether, on the way forward, each broker has the flag and the quorum has not taken over yet."""
    return progress.position is Position.FLAGGING and progress.way is FLAG_BROKERS and not progress.differing


def not_registered(progress: MigrationProgress, flying: frozenset[int]) -> Iterator[Blocker]:
    """Blockers for brokers that the quorum waits for before it takes over: those registered in ZooKeeper, and those
    with replicas. Yields nothing before each broker has the flag. `flying`: nodes that are being restarted.
    """
    if has_every_flag(progress):
        yield from with_other_levels(progress, flying)
        yield from unregistered(progress, flying)
        yield from missing(progress, flying)


def wait_for_quorum(progress: MigrationProgress) -> Wait | None:
    """Wait for the controllers to take over, or to complete the copy; None if neither comes next."""
    active = progress.observation.active_controller
    leader = f"controller {active.value}" if isinstance(active, Known) else "the active controller"
    if progress.position is Position.COPYING and progress.way is FLAG_BROKERS:
        return Wait(
            Reason.MIGRATING,
            f"{leader} has taken over, and copies ZooKeeper; the copy is not complete yet",
            subject="copy of ZooKeeper",
            remedy=f"see the log of {leader} for KRaftMigrationDriver: an error there names what cannot be copied, or "
            f'the right in ZooKeeper that is missing (NoAuth), and "Aborting the metadata migration" means that it '
            f"starts anew with the next controller; at level TRACE the logger {LOGGER} shows each record; {GIVE_UP}",
        )
    if has_every_flag(progress):
        return Wait(
            Reason.MIGRATING,
            f"every broker has the flag and is registered; {leader} has not taken over yet",
            subject="take-over by the controllers",
            remedy=f'see the log of {leader} for KRaftMigrationDriver: "Still waiting for" names the controllers or '
            'brokers that it misses, "No brokers are known to KRaft" a broker whose principal lacks CLUSTER_ACTION; '
            "without either line it cannot write to ZooKeeper: its credentials there must be those of the brokers; at "
            f"level TRACE the logger {LOGGER} shows each attempt; {GIVE_UP}",
        )
    return None
