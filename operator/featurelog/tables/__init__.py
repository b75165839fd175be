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
from featurelog.tables.checkpoint import CHECKPOINTS, SETTLED_MS, Checkpoint, OutdatedError, checkpoint_table
from featurelog.tables.documents import NO_DOCUMENTS, Documents
from featurelog.tables.history import History, Note
from featurelog.tables.inputs import ClusterCopies, FileRecords, NodeCopy, PartRecords, clusters_of
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


def tables_of(
    cluster: ClusterCopies, documents: Documents, judging: Judging, settled_ms: int = SETTLED_MS
) -> dict[str, pa.Table]:
    """All derived tables of a cluster, by name, and its checkpoint, from which the next call continues.

    What no checkpoint covers is read twice, the second time for `rolls`. settled_ms: see `checkpoint.SETTLED_MS`.
    """
    history, of_rolls, notes, kept, outdated = _read(cluster, settled_ms)
    return {
        feature_timeline.TABLE.name: feature_timeline.table(history, documents),
        node_registrations.TABLE.name: node_registrations.table(history, judging.fenced_for_ms),
        migration_timeline.TABLE.name: migration_timeline.table(history),
        upgrade_readiness.TABLE.name: upgrade_readiness.table(history, judging),
        drift.TABLE.name: drift.table(history, documents),
        rolls.TABLE.name: of_rolls,
        data_quality.TABLE.name: data_quality.table(history, notes),
        CHECKPOINTS: checkpoint_table(cluster, kept, outdated),
    }


def _read(cluster: ClusterCopies, settled_ms: int) -> tuple[History, pa.Table, list[Note], bytes | None, str]:
    """Read the log: the history, the table `rolls`, its notes, the next checkpoint (None: none), and the reason why
    the last one was not used; empty if it was, or there is none.
    """
    data, outdated = cluster.checkpoint() if cluster.checkpoint is not None else None, ""
    if data is not None:
        try:
            history = history_of(cluster, Checkpoint.load(data), settled_ms)
            return history, *rolls.table(history), history.log.recorder.saved() or data, ""
        except OutdatedError as error:
            outdated = str(error)
    history = history_of(cluster, None, settled_ms)
    return history, *rolls.table(history), history.log.recorder.saved(), outdated


__all__ = [
    "CHECKPOINTS",
    "NO_DOCUMENTS",
    "TABLES",
    "ClusterCopies",
    "Column",
    "Documents",
    "FileRecords",
    "History",
    "Judging",
    "NodeCopy",
    "PartRecords",
    "Table",
    "clusters_of",
    "history_of",
    "tables_of",
]
