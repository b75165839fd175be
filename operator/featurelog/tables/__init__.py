"""Makes the derived tables of a cluster (levels, nodes, readiness, ...) from its rows of `metadata_records`.

    for cluster in clusters_of(copies):
        for name, table in tables_of(cluster, documents, Judging(at_ms=now)).items(): ...

Pure functions on Arrow: no Spark, no file system, no clock. The same rows give the same tables, in whatever order the
files come and however often a file is there. docs/reference/pipeline-tables.md says what each column means.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from featurelog.tables import (
    data_quality,
    drift,
    feature_timeline,
    migration_timeline,
    node_registrations,
    rolls,
    upgrade_readiness,
)
from featurelog.tables.documents import NO_DOCUMENTS, Documents
from featurelog.tables.history import History
from featurelog.tables.inputs import ClusterCopies, FileRecords, NodeCopy, clusters_of
from featurelog.tables.table import Column, Table
from featurelog.tables.upgrade_readiness import Judging
from featurelog.tables.walk import history_of

TABLES: Mapping[str, Table] = {
    module.TABLE.name: module.TABLE
    for module in (
        feature_timeline, node_registrations, migration_timeline, upgrade_readiness, drift, rolls, data_quality,
    )
}  # fmt: skip
"""The definitions of all derived tables, by name."""


def tables_of(cluster: ClusterCopies, documents: Documents, judging: Judging) -> dict[str, pa.Table]:
    """All derived tables of a cluster, by name. Reads every file twice, the second time for `rolls`."""
    history = history_of(cluster)
    of_rolls, notes = rolls.table(history)
    return {
        feature_timeline.TABLE.name: feature_timeline.table(history, documents),
        node_registrations.TABLE.name: node_registrations.table(history, judging.fenced_for_ms),
        migration_timeline.TABLE.name: migration_timeline.table(history),
        upgrade_readiness.TABLE.name: upgrade_readiness.table(history, judging),
        drift.TABLE.name: drift.table(history, documents),
        rolls.TABLE.name: of_rolls,
        data_quality.TABLE.name: data_quality.table(history, notes),
    }


__all__ = [
    "NO_DOCUMENTS",
    "TABLES",
    "ClusterCopies",
    "Column",
    "Documents",
    "FileRecords",
    "History",
    "Judging",
    "NodeCopy",
    "Table",
    "clusters_of",
    "history_of",
    "tables_of",
]
