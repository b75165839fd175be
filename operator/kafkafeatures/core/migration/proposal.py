"""The migration as a stage of a plan: from which phase to which, and the ways that remain.

Pure. Made by `core/migration/stage.py`. A migration is one stage, whichever nodes are restarted on the way. So an
approved plan stays valid while nodes are restarted, and becomes invalid once the document asks for another phase.
"""

from __future__ import annotations

from typing import ClassVar

from kafkafeatures.api.names import ZK_FINALIZE
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import ExcusedTopics, PlannedStage, PlanStatus, StepState, StepStatus
from kafkafeatures.core.engine.costs import excused_in
from kafkafeatures.core.engine.stage import StageProposal, StageWork
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.releases import Undo
from kafkafeatures.core.migration.edges import FINALIZE, Edge
from kafkafeatures.core.migration.not_desired import MIGRATION, PHASE
from kafkafeatures.core.migration.positions import Misplaced
from kafkafeatures.core.migration.progress import MigrationProgress
from kafkafeatures.core.migration.way_back import RETURNS


def shown_in(plan: PlanStatus | None, desired: Desired) -> ExcusedTopics | None:
    """Topics that a plan shows as unavailable during restarts, if its migration leads to `desired`; else None."""
    stages = plan.stages if plan is not None else ()
    migrations = (stage for stage in stages if stage.kind == MIGRATION and stage.target == {PHASE: desired.value})
    return excused_in(tuple(migrations))


def _step(edge: Edge) -> StepStatus:
    """A way that remains, as a step of a plan."""
    finalizes = edge is FINALIZE
    return StepStatus(
        id="",
        action=MIGRATION,
        detail=str(edge),
        reversible=not finalizes,
        undo=(Undo.IMPOSSIBLE if finalizes else Undo.SAFE).value,
        consent=ZK_FINALIZE if finalizes else "",
        way_back=str(RETURNS[edge]),
        state=StepState.PENDING.value,
    )


class MigrationProposal(StageProposal, frozen=True):
    """Proposal of a migration.

    desired: where the document wants the migration to go.
    progress: position of the cluster, or the reason why it is not known.
    excused: topics that all restarts of the migration may make unavailable, by a consent.
    """

    kind: ClassVar[str] = MIGRATION

    desired: Desired
    progress: MigrationProgress | Misplaced | Failure
    excused: ExcusedTopics | None = None

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """One stage; none if the cluster is where the document wants it, or if its position is not known."""
        if not isinstance(self.progress, MigrationProgress) or not self.progress.route:
            return ()
        start = self.progress.phase
        target = {PHASE: self.desired.value}
        return (PlannedStage(kind=MIGRATION, start={PHASE: start.value}, target=target, excused=self.excused),)

    @property
    def goes_first(self) -> bool:
        """Always True: a migration comes before any level, and instead of any other roll."""
        return True

    @property
    def is_known(self) -> bool:
        """Tell whether the position of the cluster is known."""
        return isinstance(self.progress, MigrationProgress)

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[StageWork, ...] | None:
        """Remaining work; None if the plan does not lead where the document wants to go now."""
        migrations = [stage for stage in stages if stage.kind == MIGRATION]
        if not migrations:
            return None if self.stages else ()
        if len(migrations) > 1 or migrations[0].target != {PHASE: self.desired} or migrations[0].unknown:
            return None
        if migrations[0].excused != self.excused:
            return None
        route = self.progress.route if isinstance(self.progress, MigrationProgress) else None
        if route == ():
            return (StageWork((), Undo.SAFE, ()),)
        return (
            StageWork(
                (f"migration {migrations[0].start.get(PHASE, '')} -> {self.desired}",),
                Undo.IMPOSSIBLE if self.desired is Desired.FINALIZED else Undo.SAFE,
                tuple(map(_step, route or ())),  # none while the position of the cluster is not known
            ),
        )
