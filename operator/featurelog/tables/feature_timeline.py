"""The table `feature_timeline`: the periods in which each level of a feature was finalized, and who changed it.

kraft.version comes from control records of the quorum, other features from FeatureLevel records.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from featurelog.tables.documents import UNATTRIBUTED, Documents
from featurelog.tables.history import History
from featurelog.tables.table import EVIDENCE, SPAN, TIME, WHERE, Column, Row, Table
from featurelog.tables.tracks import Version
from kafkafeatures.core.facts.releases import level_name

TABLE = Table(
    "feature_timeline",
    "A row for each finalized level and its period. If a snapshot is the first to show a level, it is not known when "
    "the level was finalized.",
    ("cluster", "cluster_id", "feature", "from_offset"),
    (
        *WHERE,
        Column("feature", pa.string(), "name of the feature"),
        Column("level", pa.int32(), "the finalized level; 0: no longer finalized"),
        Column(
            "level_name",
            pa.string(),
            "Kafka's name of the level, such as `4.1-IV1`; null: it has no name, or the name is not known",
        ),
        Column("previous_level", pa.int32(), "level before; 0: not finalized; null: not known"),
        Column(
            "change",
            pa.string(),
            "`finalized` (no level before), `raised`, `downgraded`, `removed`, or `seen` (level before not known)",
        ),
        *SPAN,
        *EVIDENCE,
        Column("is_current", pa.bool_(), "true at the end of the log that was read"),
        Column(
            "attribution",
            pa.string(),
            "the KafkaFeatures resource (namespace/name) whose history has this change; `Unattributed` for any other",
        ),
        Column("read_until", TIME, "when the last record that was read of this cluster was appended"),
    ),
)


def rows(history: History, documents: Documents) -> Iterator[Row]:
    """The rows of one cluster."""
    for version in history.levels.versions:
        previous = version.replaced if version.replaced is not None else (0 if version.is_replaced_known else None)
        yield {
            "feature": version.key,
            "level": version.value,
            "level_name": level_name(version.key, version.value) or None,
            "previous_level": previous,
            "change": _change(version, previous),
            **version.as_columns(history.committed_below),
            "is_current": version.end is None,
            "attribution": _attribution(history, version, previous, documents),
            "read_until": history.end_ms,
        }


def _change(version: Version[int], previous: int | None) -> str:
    if previous is None:
        return "seen"
    if version.value == 0:
        return "removed"
    if previous == 0:
        return "finalized"
    return "raised" if version.value > previous else "downgraded"


def _attribution(history: History, version: Version[int], previous: int | None, documents: Documents) -> str:
    if version.begin.at_ms is None:
        return UNATTRIBUTED
    return documents.attribution(history.cluster, version.key, previous, version.value, version.begin.at_ms)
