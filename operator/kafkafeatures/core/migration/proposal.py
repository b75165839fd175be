"""The migration as a stage of a plan: from which phase to which, and the ways that remain.

Pure. Made by `core/migration/stage.py`. A migration is one stage, whichever nodes are restarted on the way. So an
approved plan stays valid while nodes are restarted, and becomes invalid once the document asks for another phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from kafkafeatures.api.names import ZK_FINALIZE
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import ExcusedTopics, PlannedStage, PlanStatus, StepState, StepStatus
from kafkafeatures.core.engine.costs import excused_in
from kafkafeatures.core.engine.stage import StageProposal
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


class MigrationWork(Struct, frozen=True):
    """Remaining work of a migration.

    start, target: phases before and after.
    route: ways that remain, in order; None: the position of the cluster is not known.
    """

    start: str
    target: str
    route: tuple[Edge, ...] | None

    @property
    def is_over(self) -> bool:
        """Tell whether the cluster is where the stage leads."""
        return self.route == ()

    @property
    def counted(self) -> int:
        """Zero: no step of a migration adds to the change count."""
        return 0

    @property
    def remaining(self) -> Sequence[str]:
        """Remaining work, for people."""
        return () if self.is_over else (f"migration {self.start} -> {self.target}",)

    @property
    def is_irreversible(self) -> bool:
        """Tell whether the ways that remain include the irreversible one, to finalize."""
        return self.target == Desired.FINALIZED and not self.is_over

    @property
    def is_safe_to_undo(self) -> bool:
        """Tell whether there is a way back."""
        return not self.is_irreversible

    def steps(self) -> Iterator[StepStatus]:
        """One step for each way that remains."""
        for edge in self.route or ():
            finalizes = edge is FINALIZE
            yield StepStatus(
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
        """One stage; none if the cluster is where the document wants it."""
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

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[MigrationWork, ...] | None:
        """Remaining work; None if the plan does not lead where the document wants to go now."""
        migrations = [stage for stage in stages if stage.kind == MIGRATION]
        if not migrations:
            return None if self.stages else ()
        if len(migrations) > 1 or migrations[0].target != {PHASE: self.desired} or migrations[0].unknown:
            return None
        if migrations[0].excused != self.excused:
            return None
        route = self.progress.route if isinstance(self.progress, MigrationProgress) else None
        return (MigrationWork(str(migrations[0].start.get(PHASE, "")), str(migrations[0].target[PHASE]), route),)
