"""Document of every known level: what it turns on, what else Kafka writes, and the way back.

Pure. Printed by `describe --explain-levels`; `docs/reference/levels.md` is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.records import Json
from kafkafeatures.core.facts.binaries import newest_release, releases_that_hold
from kafkafeatures.core.facts.releases import Undo, level_name
from kafkafeatures.core.levels.effects import ROWS, LevelEffects
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.levels.way_back import way_back_of


def levels_document(finalized: Mapping[str, int] | None = None) -> Json:
    """The levels, feature by feature. `finalized`: levels of a cluster; None: no level has the field `finalized`."""
    return {"apiVersion": API_VERSION, "kind": "Levels", "levels": [_level(row, finalized) for row in ROWS]}


def _level(row: LevelEffects, finalized: Mapping[str, int] | None) -> Json:
    document: Json = {
        "feature": row.feature,
        "level": row.level,
        "name": level_name(row.feature, row.level) or None,
        "releases": list(releases_that_hold({row.feature: row.level})),
        "turnsOn": row.turns_on or None,
        "writes": row.writes or None,
        "note": row.caution or None,
        "wayBack": _way_back(UpdateFeature(row.feature, row.level - 1, row.level)),
        "source": row.source or None,
    }
    if finalized is not None:
        document["finalized"] = finalized.get(row.feature, 0) >= row.level
    return document


def _way_back(change: UpdateFeature) -> str:
    """Line about the way back from a level to the one below, with all that may be lost."""
    lost = f"; metadata that was written at level {change.to_level} may be lost" if change.undo is Undo.LOSSY else ""
    return way_back_of(change) + lost


def span_of(releases: list[str]) -> str:
    """Consecutive releases for people: "3.3 to 3.9", or "4.2 and newer". `releases`: at least one, the oldest first."""
    first, last = releases[0], releases[-1]
    if first == last:
        return first
    return f"{first} and newer" if last == newest_release() else f"{first} to {last}"
