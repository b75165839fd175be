"""Levels in the status: `status.features`, progress, and the conditions FeaturesFinalized and DriftDetected.

Pure. Called by `core/levels/stage.py`, and by `core/report/` for plan documents.
"""

from __future__ import annotations

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.status import FeatureState, FeatureStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Wait
from kafkafeatures.core.engine.stage import ConditionText
from kafkafeatures.core.facts.observation import Observation, Unknown, supported_by_all
from kafkafeatures.core.facts.releases import format_level, level_name
from kafkafeatures.core.levels.check_input import unknown_features_in
from kafkafeatures.core.levels.drift import changed_outside
from kafkafeatures.core.levels.proposal import LevelsProposal
from kafkafeatures.core.words import cut

MAX_FEATURES = 64
"""Most features in a status."""
MAX_PROBLEM = 512
"""Most bytes of the reason why another operator could not set a level."""
MAX_FEATURE_NAME = 64
"""Most characters of a feature's name in a status, as in documents. A feature with a longer name is left out."""


def with_levels(
    status: Status, decision: Decision, observation: Observation, part: LevelsProposal, previous: Status
) -> Status:
    """The status with its features, and the number of desired levels that are reached."""
    desired = part.wanted
    features = feature_states(observation, part, decision.blockers, observation.feature_names())
    if previous.features and not observation.shows_levels:
        features = previous.features  # keep the last known states while the levels cannot be read
    reached = sum(
        feature.finalized == desired.get(feature.name, -1) and feature.state == FeatureState.IN_SYNC
        for feature in features
    )
    is_sent = isinstance(decision, Act) and decision.step in part.changes
    return replace(
        status,
        progress=f"{reached}/{len(desired)} levels" if desired else "",
        # The change that is sent now may end the way back. `status` has it only after a reading with a soak.
        way_back=None if is_sent else status.way_back or previous.way_back,
        soak_started_at=previous.soak_started_at,
        nodes_behind=previous.nodes_behind,
        metadata_version=_level_named(observation.level_of(METADATA_VERSION) or None),
        target_metadata_version=_level_named(desired.get(METADATA_VERSION)),
        features=features,
    )


def feature_states(
    observation: Observation, part: LevelsProposal, blocked: tuple[Blocker, ...], present: tuple[str, ...]
) -> tuple[FeatureStatus, ...]:
    """Every feature with its desired level and state; at most `MAX_FEATURES`, the desired ones first. `present`:
    features of the cluster.
    """
    desired = part.wanted
    names = dict.fromkeys((*present, *desired))  # each once, in this order
    listed = sorted((name for name in names if len(name) <= MAX_FEATURE_NAME), key=lambda name: name not in desired)
    features = []
    managed = {level.feature: level for level in observation.managed}
    for name, supported in supported_by_all(observation, sorted(listed[:MAX_FEATURES], key=[*names].index)).items():
        other = managed.get(name)
        features.append(
            FeatureStatus(
                name=name,
                supported_min=supported.min if supported is not None else None,
                supported_max=supported.max if supported is not None else None,
                finalized=observation.level_of(name),
                desired=desired.get(name),
                state=_state_of(name, observation, part, blocked).value,
                managed_by=other.manager if other is not None else "",
                managed_level=other.level if other is not None else None,
                managed_problem=cut(other.problem, MAX_PROBLEM) if other is not None else "",
            )
        )
    return tuple(features)


def _state_of(name: str, observation: Observation, part: LevelsProposal, blocked: tuple[Blocker, ...]) -> FeatureState:
    if name in part.held_back:
        return FeatureState.PENDING
    if name not in part.desired:
        return FeatureState.UNMANAGED
    if any(blocker.kind is BlockerKind.ZOOKEEPER_MODE for blocker in blocked):
        return FeatureState.BLOCKED
    if observation.level_of(name) == part.desired[name] and observation.shows_levels:
        return FeatureState.IN_SYNC
    if any(change.feature == name for change in part.drifted):
        return FeatureState.DRIFTED
    return FeatureState.BLOCKED if any(blocker.feature == name for blocker in blocked) else FeatureState.PENDING


def _level_named(level: int | None) -> str:
    return "" if level is None else level_name(METADATA_VERSION, level) or str(level)


def drift_detected(part: LevelsProposal) -> ConditionText:
    """Condition DriftDetected: a level that had been reached was changed outside KafkaFeatures; None if none was."""
    return ("True", part.drift_reason, changed_outside(part.drifted)) if part.drifted else None


def features_finalized(decision: Decision, part: LevelsProposal, observation: Observation) -> ConditionText:
    """Condition FeaturesFinalized: whether every desired level is finalized."""
    if isinstance(observation.finalized, Unknown):
        return "Unknown", Reason.UNKNOWN, str(observation.finalized.failure)
    if not part.desired:
        return "True", Reason.NOTHING_DESIRED, "the document names no level"
    unknown_features = unknown_features_in(part.desired, observation)
    if not part.changes and decision.blockers:
        if isinstance(decision, Wait):
            return "Unknown", Reason.UNKNOWN, decision.message  # without a leader they cannot be confirmed
        return "False", Reason.BLOCKED, "see blockers"
    if not part.changes and not unknown_features:  # the levels were read, whatever else was decided
        levels = ", ".join(f"{feature} {format_level(feature, level)}" for feature, level in part.desired.items())
        return "True", Reason.ALL_AT_TARGET, decision.message if isinstance(decision, Done) else f"finalized: {levels}"
    if decision.blockers:
        return "False", Reason.BLOCKED, "see blockers"
    unknown = (f"no node supports {feature}" for feature, _ in unknown_features)
    return "False", Reason.BEHIND_TARGET, ", ".join((*map(str, part.changes), *unknown))
