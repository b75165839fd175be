"""Decisions while the position of the cluster is not known.

If readings contradict each other, the decision is a wait at first, as nodes may be restarting, then a halt. If a
reading failed, it is a wait for as long as that lasts; but if another cluster answers, a halt at once.

Pure. Called by `core/migration/state.py`.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Stalled, Wait, unreadable
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.migration.positions import Misplaced

CONTRADICTS_FOR = 60.0
"""Seconds for which the position may be unknown, such as while nodes restart, before a person has to look."""


def unplaced(
    progress: Misplaced | Failure, blockers: tuple[Blocker, ...], *, unknown_for: float, goes_back: bool
) -> Wait | Stalled:
    """Wait or halt. `blockers`: for its report. `unknown_for`: seconds for which the position has not been known.
    `goes_back`: True if the migration is being rolled back. The cluster may then have no controller, so that the delays
    of a wait do not grow.
    """
    if isinstance(progress, Misplaced):
        return _misplaced(progress, blockers, lasts=unknown_for >= CONTRADICTS_FOR)
    if progress.kind is FailureKind.WRONG_CLUSTER:
        return Stalled(
            Reason.CLUSTER_ID_MISMATCH, str(progress), blockers, subject=progress.subject, remedy=progress.action
        )
    waits = unreadable("the phase is not known", progress, reason=Reason.MIGRATING)
    return replace(waits, steady=goes_back, blockers=blockers)


def _misplaced(progress: Misplaced, blockers: tuple[Blocker, ...], *, lasts: bool) -> Wait | Stalled:
    if lasts or not progress.may_pass:
        # Nodes that do not answer contradict nothing: they are brought back.
        reason = Reason.MIGRATION_BLOCKED if progress.silent else Reason.MIGRATION_FAILED
        return Stalled(reason, str(progress), blockers, subject=progress.subject, remedy=progress.remedy)
    # A command such as `plan` reads the cluster once, and needs the remedy as well. If the cause may still turn out
    # to be another one (`at_first`), the remedy would be much work that may be for nothing.
    text = progress.at_first or progress.message
    then = "apply and the operator say what to do" if progress.at_first else progress.remedy
    remedy = f"wait a minute, and look again; if it is the same then: {then}"
    noted = Blocker(BlockerKind.MIGRATION, f"{text}; this may pass within a minute", remedy)
    return Wait(
        Reason.MIGRATING,
        text if progress.silent else f"the phase is not known yet: {text}",
        blockers=blockers if progress.silent else (noted,),
        subject=progress.subject,
        remedy=progress.remedy,
    )
