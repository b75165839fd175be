"""Decision about drift: a level that had been reached was changed outside KafkaFeatures.

Pure. The document chooses whether drift is only reported or also corrected. A level is corrected only a few times
within an hour, as two programs might otherwise change it for ever.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Decision, Held, Stalled
from kafkafeatures.core.engine.desired_state import OnDrift
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.levels.proposal import LevelsProposal
from kafkafeatures.core.levels.update_feature import UpdateFeature

MOST_CORRECTIONS = 2
"""Most corrections of one level within an hour; after that the other change seems intended."""


def drift_of(part: LevelsProposal, on_drift: OnDrift, memory: Memory, blockers: tuple[Blocker, ...]) -> Decision | None:
    """Decision if there is drift that is not corrected now; None if drift is corrected, if there is none, or if other
    changes come first. `blockers`: all blockers of the stage, for the report.
    """
    if on_drift is OnDrift.CORRECT:
        for change in part.drifted:
            if memory.corrections.get(change.feature, 0) >= MOST_CORRECTIONS:
                return Stalled(
                    Reason.CONFLICT_DETECTED,
                    f"{change.feature} did not keep its level {MOST_CORRECTIONS + 1} times within an hour; "
                    "find out what else manages it, then update the document",
                    blockers,
                    subject=change.feature,
                    remedy="find out what else manages it, then update the document",
                )
        return None
    if not part.drifted or part.changes != part.drifted:
        return None  # other changes come first; drifted levels are left out of them
    return Held(
        Reason.DRIFTED,
        f"drift detected: {changed_outside(part.drifted)}; set drift.onDrift to Correct to restore it, or set the "
        "document to the finalized level",
        blockers,
        (Condition.DRIFT_DETECTED, part.drift_reason),
    )


def changed_outside(drifted: tuple[UpdateFeature, ...]) -> str:
    """Levels that were changed outside KafkaFeatures, in words. `drifted`: the changes that would restore them, so they
    lead from the present level back to the former one.
    """
    return ", ".join(
        f"{change.feature} was changed outside KafkaFeatures from {format_level(change.feature, change.to_level)} to "
        f"{format_level(change.feature, change.from_level)}"
        for change in drifted
    )
