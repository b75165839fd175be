"""Changes of levels, the order in which they are sent, and how each can be undone.

Pure. Features that depend on metadata.version are downgraded before it and upgraded after it, so that Kafka accepts
every state in between; kraft.version is changed last and alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.core.facts.releases import Undo, undo_of_raise
from kafkafeatures.core.levels.update_feature import UpdateFeature


def changes_between(desired: Mapping[str, int], finalized: Mapping[str, int]) -> tuple[UpdateFeature, ...]:
    """Changes that remain to be made, in the order in which they are sent."""
    changes = [
        UpdateFeature(feature, finalized.get(feature, 0), level)
        for feature, level in desired.items()
        if finalized.get(feature, 0) != level
    ]
    return tuple(sorted(changes, key=_sending_order))


def _sending_order(change: UpdateFeature) -> tuple[int, str]:
    """Sort key by the order above: downgrades of other features, metadata.version, other raises, kraft.version."""
    if change.feature == KRAFT_VERSION:
        return 3, ""
    if change.feature == METADATA_VERSION:
        return 1, ""
    return (0 if change.is_downgrade else 2), change.feature


def to_validate(changes: tuple[UpdateFeature, ...]) -> tuple[UpdateFeature, ...]:
    """Changes for the dry run. Never kraft.version: some releases raise it although it is only a dry run."""
    return tuple(change for change in changes if change.feature != KRAFT_VERSION)


def may_lose_metadata(change: UpdateFeature) -> bool:
    """Tell whether the change is a downgrade by which Kafka drops metadata without a check. No later raise restores
    this metadata.
    """
    return change.is_downgrade and undo_of_raise(change.feature, change.to_level, change.from_level) is Undo.LOSSY
