"""State of a migration that the document does not ask for: there is none, or it was begun and left open.

Pure. `left_open` is called by `core/migration/stage.py`, and `kept_of` by `core/report/status.py`. This module imports
nothing that judges a migration, as nearly every document wants none. A migration does not end when `spec.migration` is
removed from a document: no step of it is carried out any more, no node is restarted, and the status says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from kafkafeatures.api.reasons import BlockerKind, Phase, Reason
from kafkafeatures.api.status import MigrationStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Decision, Wait, waits_on
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.stage import StageMemory, StageState, SummaryRank
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import FailureKind

MIGRATION = "Migration"
"""The kind of a stage that moves a cluster from ZooKeeper to KRaft, or back."""
PHASE = "phase"
"""Key of the phase that such a stage leads to, in a plan."""

OVER = ("", Phase.NONE, Phase.FINALIZED, Phase.ROLLED_BACK)
"""Phases at which a document may stop asking for a migration, as nothing is left half done."""
NO_CONTROLLER = "NoController"
"""Position at which the quorum is gone, and no broker is the controller yet."""
UNLED = "while no controller leads, no partition gets a new leader"
"""Loss while the cluster has no controller: it serves what it has, until a leader fails."""
DELAY = 10.0
"""Seconds until the next reconciliation, which reads whether the migration has ended."""
REMEDY = (
    "set spec.migration.desired to the phase that the cluster is to reach, or to RolledBack to go back; or finish the "
    "migration by hand"
)


def kept_of(previous: MigrationStatus | None, observation: Observation) -> MigrationStatus | None:
    """Part of `status.migration` that is kept although no document asks for a migration, or another cluster answers:
    the content of a deleted znode, and, while the migration is open, the evidence that nothing is lost on the way back.
    Requests for consents are not kept. None if nothing is left.
    """
    if previous is None:
        return None
    migration = MigrationStatus(kept_migration_node=previous.kept_migration_node)
    if previous.phase not in OVER and not observation.in_kraft_mode:
        migration = replace(
            migration, phase=previous.phase, position=previous.position, equality=previous.equality,
            voters=previous.voters,
            dual_write_since=previous.dual_write_since, dual_write_offset=previous.dual_write_offset,
            unknown=previous.unknown,
        )  # fmt: skip
    return migration if migration != MigrationStatus() else None


class LeftOpen(StageState, frozen=True):
    """An open migration that the document does not ask for.

    blocker: names the open migration, with the remedy.
    phase: last phase in the status; empty: there was none.
    is_seen: the cluster itself shows that the migration is open, not only the status.
    observation: the readings of the cluster.
    position: last position in the status.
    stage_memory: memory of the reconciliation before.
    dangers: blockers for controllers that may end the migration by accident; set by `stage.py`.
    """

    kind: ClassVar[str] = MIGRATION

    blocker: Blocker
    phase: str
    is_seen: bool
    observation: Observation
    position: str = ""
    stage_memory: Mapping[str, StageMemory] = field(default_factory=dict)
    dangers: tuple[Blocker, ...] = ()

    @property
    def is_due(self) -> bool:
        """True if this stage itself has to report the open migration: only the status shows it. If the cluster itself
        shows it, the stages of levels and restarts report it in their blockers.
        """
        return not self.is_seen

    @property
    def summary_rank(self) -> SummaryRank:
        """Highest rank: a cluster in the middle of a migration is not in sync."""
        return SummaryRank.HELD

    @property
    def next(self) -> Wait:
        """Wait that names the open migration; no step is taken."""
        text = "; ".join(map(str, self.blockers))
        waits = waits_on(self.blockers[0], Reason.MIGRATING, message=text, delay=DELAY)
        return replace(waits, blockers=self.blockers)

    @property
    def outlook(self) -> str:
        """Message about the open migration: nothing would be done."""
        return str(self.blocker)

    @property
    def meanwhile(self) -> str:
        """Loss while the cluster has no controller: it serves what it has, until a leader fails."""
        return UNLED if self.position == NO_CONTROLLER else ""

    @property
    def needs_approval(self) -> bool:
        """False: there is nothing to approve."""
        return False

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """Blockers that say that the migration is open, and what may end it."""
        return (*self.dangers, self.blocker)

    @property
    def blocked(self) -> Wait:
        """Wait for the open migration, for as long as it takes."""
        return self.next

    def reported(self, decision: Decision, status: Status, previous: Status) -> Status:
        """The status with the last known phase, because a cluster in ZooKeeper mode does not show that a way back was
        begun. The voters of the quorum are kept too, and updated if they have changed.
        """
        from kafkafeatures.core.migration.voters import voters_of

        migration = status.migration or MigrationStatus()
        migration = replace(migration, phase=self.phase, voters=voters_of(self.observation, migration.voters))
        return replace(status, migration=migration) if self.phase else status


def left_open(facts: StageInput) -> LeftOpen | None:
    """State of a migration that is open and not wanted; None if none is open, or another cluster answers."""
    if not facts.ours:
        return None
    migration, mode = facts.remembered.migration, facts.observation.mode
    phase = migration.phase if migration is not None and migration.phase not in OVER else ""
    if facts.observation.in_kraft_mode:
        return None
    memory = facts.stage_memory.get(MIGRATION)
    memories = {MIGRATION: memory.interrupted("no document asks for it")} if memory is not None else {}
    # The log says that the migration was finalized while brokers were still in ZooKeeper mode, or it has a state of the
    # migration that this release does not know.
    if isinstance(mode, Unknown) and mode.failure.kind is FailureKind.UNSUPPORTED:
        blocker = Blocker(BlockerKind.MIGRATION, mode.failure.message, mode.failure.action)
        return LeftOpen(blocker, phase, is_seen=True, observation=facts.observation, stage_memory=memories)
    position = migration.position if migration is not None and phase else ""
    is_seen = facts.observation.is_migrating
    if not is_seen and not phase:
        return None
    last = f", last seen at {phase}" if phase else ""
    text = (
        f"a migration from ZooKeeper is in progress{last}, and spec.migration is not set: no step of it is taken, and "
        "no node is restarted"
    )
    return LeftOpen(Blocker(BlockerKind.MIGRATION, text, REMEDY), phase, is_seen, facts.observation, position, memories)
