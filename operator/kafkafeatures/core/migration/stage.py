"""The kind of stage that moves a cluster from ZooKeeper to KRaft, or back.

Pure. Called by `core/kinds.py`. Modules that judge a migration are imported only where a document wants one, as nearly
every document wants none, and a command would start more slowly. The algorithm, in every reconciliation:

 1. Read what the next step depends on, and nothing large besides: settings, partitions, a comparison: `demands_of`.
 2. Derive the position of the cluster from the metadata log, the znodes and the nodes together, and never from a
    status: `position_of`, `ROWS`. If they contradict each other, nothing is done: `unplaced`.
 3. Choose the way that comes next, forward or back; no position is skipped: `next_edge`.
 4. Check all that must hold on that way, every blocker at once: `CHAINS`. Before anything is changed: `findings`.
 5. Refuse a pod template that was changed before its turn, as any pod that ends would start with it: `template_ahead`.
 6. Wait while the quorum takes over and copies ZooKeeper: `wait_for_quorum`.
 7. Restart the nodes of the way, by the rules of a roll (`core/roll/roll.py`). Only nodes are restarted whose settings
    are not yet those of the next position: `permit_for`.
 8. Delete the znodes of the way, in one transaction, on the way back: `deletion`.
 9. Else ask for the change in Git, or the action of a person, that is missing; the operator changes no setting:
    `wait_for_git`.
10. Stop at the position that the document asks for: `reached`.

Before the irreversible step, which ends the migration:

11. Keep dual write for as long as the document says; until then there is a way back: `soaking`.
12. Require an approval of the plan under every policy, and a consent for this plan alone: `needs_approval`,
    `with_spent`.
13. Compare ZooKeeper with the metadata log; both must hold the same metadata: `both_hold_the_same`.
14. Write down which controllers are asked to lose the flag (zookeeper.metadata.migration.enable), then ask:
    `with_asked`. A controller that loses it without a request must get it back: `unasked`.
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
from kafkafeatures.core.migration.not_desired import MIGRATION, PHASE, left_open

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
        """Readings for the next step; none if no migration is wanted."""
        if read_context.desired.migration is None:
            return ReadRequirements()
        from kafkafeatures.core.migration.read_requirements import demands_of

        return demands_of(read_context, read_context.desired.migration)

    def propose(self, facts: StageInput, later: tuple[StageProposal, ...]) -> StageProposal | None:
        """The way from the position of the cluster to the phase that the document wants; None if it wants none."""
        if facts.desired.migration is None:
            return None
        from kafkafeatures.core.migration.finalize import asked_before
        from kafkafeatures.core.migration.progress import progress_of
        from kafkafeatures.core.migration.proposal import MigrationProposal, shown_in
        from kafkafeatures.core.roll.excuses import excused_in_all_rolls

        desired = facts.desired.migration.desired
        excused = excused_in_all_rolls(facts, shown_in(facts.memory.plan, desired))
        assigned = facts.replication.brokers() if facts.replication is not None else None
        asked_controllers = asked_before(facts.remembered.migration, facts.memory.plan, facts.desired.consents, desired)
        progress = progress_of(facts.observation, desired, assigned, requested=asked_controllers)
        return MigrationProposal(desired, progress, excused)

    def judge(self, facts: StageInput, proposal: Proposal) -> StageState | None:
        """State of the migration; None if none is wanted and none is open."""
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
