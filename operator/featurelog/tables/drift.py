"""The table `drift`: compares the finalized levels with the desired ones in KafkaFeatures documents.

Drift is Unknown unless exactly one document names the cluster by its id, the document is valid, and the levels are not
in doubt.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from featurelog.tables.documents import Documents, Resource
from featurelog.tables.history import History
from featurelog.tables.table import TIME, WHERE, Column, Row, Table

IN_SYNC, DRIFTED, UNKNOWN = "InSync", "Drifted", "Unknown"

TABLE = Table(
    "drift",
    "A row for each feature that a document of the cluster names; without a document, for each finalized feature.",
    ("cluster", "cluster_id", "feature"),
    (
        *WHERE,
        Column("feature", pa.string(), "name of the feature"),
        Column("level", pa.int32(), "finalized level at the end of the log that was read; 0: not finalized"),
        Column("desired_level", pa.int32(), "level in the document; null without a document"),
        Column("drift", pa.string(), "`InSync`, `Drifted`, or `Unknown`"),
        Column("reason", pa.string(), "why the drift is not known; null: it is known"),
        Column("document", pa.string(), "namespace/name of the KafkaFeatures resource; null without a document"),
        Column("since", TIME, "when the level was finalized; null: only a snapshot shows it"),
        Column("read_until", TIME, "when the last record that was read of this cluster was appended"),
    ),
)


def rows(history: History, documents: Documents) -> Iterator[Row]:
    """The rows of one cluster."""
    levels = {name: version for name, version in history.levels.current.items() if version.value}
    resources = documents.of_cluster(history.cluster)
    document, no_document = _document(resources, history)
    finalized = {name: version.value for name, version in levels.items()}
    desired = document.desired.desired(finalized) if document and document.desired else {}
    for feature in sorted(desired or levels):
        level, desired_level = finalized.get(feature, 0), desired.get(feature)
        reason = no_document or (history.doubts[0].text if history.doubts else "")
        yield {
            "feature": feature,
            "level": level,
            "desired_level": desired_level,
            "drift": UNKNOWN if reason else IN_SYNC if level == desired_level else DRIFTED,
            "reason": reason or None,
            "document": document.name if document else None,
            "since": levels[feature].begin.at_ms if feature in levels else None,
            "read_until": history.end_ms,
        }


def _document(resources: tuple[Resource, ...], history: History) -> tuple[Resource | None, str]:
    """(document of the cluster or None, reason if there is none to compare with)."""
    if not resources:
        has_id = history.cluster.cluster_id is not None
        return None, "no KafkaFeatures document names this cluster" if has_id else "the id of the cluster is not known"
    if len(resources) > 1:
        names = ", ".join(resource.name for resource in resources)
        return None, f"{len(resources)} KafkaFeatures documents name this cluster: {names}"
    if resources[0].desired is None:
        return resources[0], f"the document cannot be understood: {resources[0].problem}"
    return resources[0], ""
