"""Why another operator could not set a level that it manages: by our rules for levels, and by the active controller.

Pure. Called by `reconcile/reading.py`, because such an operator may report a failure without the reason that Kafka
gave. The level is shown, and never changed by us.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import BlockerKind
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted, DryRunRejected
from kafkafeatures.core.facts.managed import ManagedLevel
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.changes import changes_between
from kafkafeatures.core.levels.check_input import LevelCheckInput
from kafkafeatures.core.levels.checks import blockers
from kafkafeatures.core.levels.update_feature import UpdateFeature

_UNREAD = (BlockerKind.NODE_UNKNOWN, BlockerKind.QUORUM)
"""Blockers that say what could not be read, which is no reason of Kafka's."""


def refused_change(managed: ManagedLevel, observation: Observation) -> UpdateFeature | None:
    """The change that the other operator could not make; None where it reports none, or where the level is as it wants
    by now or is not known.
    """
    if not managed.problem or managed.level is None or not observation.shows_levels:
        return None
    changes = changes_between({managed.feature: managed.level}, observation.known_levels)
    return changes[0] if changes else None


def explained(
    managed: ManagedLevel, change: UpdateFeature, observation: Observation, verdict: DryRun | None
) -> ManagedLevel:
    """The managed level with the reason in its problem. `change`: from `refused_change`. `verdict`: the active
    controller's answer to a dry run of it; None where none was made.
    """
    match verdict:
        case DryRunRejected():
            reason = f"Kafka: {verdict.message}"
        case DryRunAccepted():
            reason = "Kafka accepts it now"
        case _:
            reason = _reason_by_rules(change, observation)
    return replace(managed, problem=f"{managed.problem}: {reason}" if reason else managed.problem)


def _reason_by_rules(change: UpdateFeature, observation: Observation) -> str:
    """The first blocker of the change; empty for none. The other operator asks nobody for a consent."""
    inputs = LevelCheckInput(observation, (change,), consents=frozenset({change.consent}))
    return next((blocker.message for blocker in blockers(inputs) if blocker.kind not in _UNREAD), "")
