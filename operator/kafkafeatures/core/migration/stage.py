"""The kind of stage that moves a cluster from ZooKeeper to KRaft, or back.

Pure. It is light: nearly every document wants no migration, and none of what judges one is imported for it
(`core/migration/state.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from kafkafeatures.api.status import PlannedStage
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements, StageInput
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.stage import StageProposal, StageState
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.not_desired import MIGRATION, PHASE, NoMigration, left_open

if TYPE_CHECKING:
    from kafkafeatures.core.facts.workloads import WorkloadsReading


class Migrations:
    """The kind of stage that moves a cluster from ZooKeeper to KRaft."""

    kind: ClassVar[str] = MIGRATION

    def is_withdrawn(
        self, stages: Sequence[PlannedStage], desired: DesiredState, workloads: WorkloadsReading | Failure
    ) -> bool:
        """Tell whether the document asks for another phase by now, or for none."""
        phase = desired.migration.desired.value if desired.migration is not None else ""
        return any(stage.target != {PHASE: phase} for stage in stages)

    def demands(self, read_context: ReadContext) -> ReadRequirements:
        """The znodes, the settings of each node, and partitions, as far as the way that comes next needs them."""
        if read_context.desired.migration is None:
            return ReadRequirements()
        from kafkafeatures.core.migration.looking import demands_of

        return demands_of(read_context, read_context.desired.migration)

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> StageProposal:
        """The way from where the cluster is to where the document wants it."""
        if facts.desired.migration is None:
            return NoMigration()
        from kafkafeatures.core.migration.finalize import asked_before
        from kafkafeatures.core.migration.progress import place_of
        from kafkafeatures.core.migration.proposal import MigrationProposal, shown_in
        from kafkafeatures.core.roll.excuses import excused_in_all_rolls

        desired, replication = facts.desired.migration.desired, facts.replication
        excused = excused_in_all_rolls(
            facts.desired,
            facts.memory,
            shown=shown_in(facts.memory.plan, desired),
            unavailable=replication.never_available() if replication is not None else None,
        )
        assigned = replication.brokers() if replication is not None else None
        asked_controllers = asked_before(facts.remembered.migration, facts.memory.plan, facts.desired.consents, desired)
        place = place_of(facts.observation, desired, assigned, asked=asked_controllers)
        return MigrationProposal(desired, place, excused)

    def judge(self, facts: StageInput, proposal: Proposal) -> StageState | None:
        """State of the migration; None where none is wanted and none is open."""
        if facts.desired.migration is None:
            open_migration = left_open(facts)
            if open_migration is None or not open_migration.is_seen:
                return open_migration
            from kafkafeatures.core.migration import finalize

            return replace(open_migration, dangers=finalize.left_open(facts.observation))
        from kafkafeatures.core.migration.proposal import MigrationProposal
        from kafkafeatures.core.migration.state import migration_now

        part = next(part for part in proposal.parts if isinstance(part, MigrationProposal))
        return migration_now(facts, part, proposal.plan)
