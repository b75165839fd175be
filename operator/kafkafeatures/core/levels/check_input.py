"""Input of the checks of levels: the desired changes, and the cluster.

Read by the checks of `core/levels/checks.py`. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkafeatures.core.engine.steps import DryRun
from kafkafeatures.core.facts.observation import (
    Observation,
)
from kafkafeatures.core.facts.readings import ANY_CLUSTER
from kafkafeatures.core.facts.releases import (
    KAFKAS_FEATURES,
)
from kafkafeatures.core.levels.update_feature import UpdateFeature


class LevelCheckInput(Struct, frozen=True):
    """Desired changes, and the cluster on which they are checked.

    verdict: answer of the active controller to the dry run; None while there is none.
    consents: consents of the document. spent: consents that were used already.
    unknown_features: desired features that no node knows, with their levels.
    cluster_flags: flags with which our commands reach the cluster.
    """

    observation: Observation
    changes: tuple[UpdateFeature, ...]
    verdict: DryRun | None = None
    consents: frozenset[str] = frozenset()
    spent: frozenset[str] = frozenset()
    unknown_features: tuple[tuple[str, int], ...] = ()
    cluster_flags: str = ANY_CLUSTER


def unknown_features_in(desired: Mapping[str, int], observation: Observation) -> tuple[tuple[str, int], ...]:
    """Desired features that no node knows, with their levels. Kafka's own features at level 0 are left out: level 0
    means that a feature is not finalized, which is so where no node knows it.
    """
    known_names = observation.feature_names()
    return tuple(
        (feature, level)
        for feature, level in desired.items()
        if known_names and feature not in known_names and (level or feature not in KAFKAS_FEATURES)
    )
