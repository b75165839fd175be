"""The kind of stage that moves a cluster from ZooKeeper to KRaft, or back.

Pure. It is light: nearly every document wants no migration, and none of what judges one is imported for it. The
algorithm, in every reconciliation:

 1. Read what the next step rests on, and nothing large besides: settings, partitions, a comparison: `demands_of`.
 2. Find the one position of the cluster, by the metadata log, the znodes and the nodes together, and never by a
    status: `position_of`, `ROWS`. Where they contradict each other nothing is done: `unplaced`.
 3. Find the way that comes next, forward or back; no position is skipped: `next_edge`.
 4. Check all that must hold on that way, every blocker at once: `CHAINS`. Before anything is touched: `findings`.
 5. Refuse a template that was changed before its turn, since any pod that ends would start with it: `template_ahead`.
 6. Wait for the quorum while it takes over: `waits_for_quorum`.
 7. Restart the nodes of the way, by the rules of a roll (`core/roll/roll.py`): `permit_for` names those that lack what
    the next position needs, and no others go.
 8. Delete the znodes of the way, in one transaction, where it is one that leads back: `deletion`.
 9. Else ask Git or a person for what is missing; no setting is changed from here: `asked_of_git`.
10. Stop at the position that the document asks for: `reached`.

Before the step that is irreversible, which ends the migration:

11. Dual write is kept for `finalizeAfter`, and can be gone back from: `soaking`.
12. The plan is approved under every policy, and the consent is used for it alone: `needs_approval`, `with_spent`.
13. ZooKeeper and the metadata log were compared, and hold the same: `both_hold_the_same`.
14. Controllers are asked to lose the flag, and that is written down before: `with_asked`. One that loses it unasked
    has to get it back: `unasked`.
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
        from kafkafeatures.core.migration.progress import progress_of
        from kafkafeatures.core.migration.proposal import MigrationProposal, shown_in
        from kafkafeatures.core.roll.excuses import excused_in_all_rolls

        desired, replication = facts.desired.migration.desired, facts.replication
        excused = excused_in_all_rolls(
            facts.desired,
            facts.memory,
            excused=shown_in(facts.memory.plan, desired),
            unavailable=replication.never_available() if replication is not None else None,
        )
        assigned = replication.brokers() if replication is not None else None
        asked_controllers = asked_before(facts.remembered.migration, facts.memory.plan, facts.desired.consents, desired)
        progress = progress_of(facts.observation, desired, assigned, requested=asked_controllers)
        return MigrationProposal(desired, progress, excused)

    def judge(self, facts: StageInput, proposal: Proposal) -> StageState | None:
        """State of the migration; None where none is wanted and none is open."""
        if facts.desired.migration is None:
            open_migration = left_open(facts)
            if open_migration is None or not open_migration.is_seen:
                return open_migration
            from kafkafeatures.core.migration import finalize

            return replace(open_migration, dangers=finalize.dangers_left_open(facts.observation))
        from kafkafeatures.core.migration.proposal import MigrationProposal
        from kafkafeatures.core.migration.state import migration_now

        part = next(part for part in proposal.parts if isinstance(part, MigrationProposal))
        return migration_now(facts, part, proposal.plan)
