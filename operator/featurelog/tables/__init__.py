"""Makes the derived tables of a cluster (levels, nodes, readiness, ...) from its rows of `metadata_records`.

    for cluster in clusters_of(copies):
        for name, table in tables_of(cluster, documents, Judging(at_ms=now)).items(): ...

Pure functions on Arrow: no Spark, no file system, no clock. The same rows give the same tables, in whatever order the
files come and however often a file is there. docs/reference/pipeline-tables.md says what each column means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from featurelog.tables import (
    api_counters,
    client_api_usage,
    client_blockers,
    client_readiness,
    data_quality,
    drift,
    evidence_coverage,
    feature_timeline,
    migration_timeline,
    node_registrations,
    rejected_requests,
    rolls,
    upgrade_readiness,
)
from featurelog.tables.checkpoint import CHECKPOINTS, SETTLED_MS, Checkpoint, OutdatedError, checkpoint_table
from featurelog.tables.client_evidence import ClientJudging
from featurelog.tables.client_tables import client_rows
from featurelog.tables.documents import NO_DOCUMENTS, Documents
from featurelog.tables.history import History, Note
from featurelog.tables.inputs import ClientEvidence, ClusterCopies, FileRecords, NodeCopy, PartRecords, clusters_of
from featurelog.tables.table import Column, Row, Table
from featurelog.tables.upgrade_readiness import Judging
from featurelog.tables.walk import history_of

_OF_METADATA = (
    feature_timeline, node_registrations, migration_timeline, upgrade_readiness, drift, rolls, data_quality,
)  # fmt: skip
_OF_CLIENTS = (
    client_readiness, client_blockers, evidence_coverage, rejected_requests, client_api_usage, api_counters,
)  # fmt: skip
CLIENT_TABLES: Mapping[str, Table] = {module.TABLE.name: module.TABLE for module in _OF_CLIENTS}
"""The definitions of the tables about clients, which are written only where there is evidence about them."""
TABLES: Mapping[str, Table] = {**{module.TABLE.name: module.TABLE for module in _OF_METADATA}, **CLIENT_TABLES}
"""The definitions of all tables that are made of others or of evidence about clients, by name."""


def tables_of(
    cluster: ClusterCopies, documents: Documents, judging: Judging, settled_ms: int = SETTLED_MS
) -> dict[str, pa.Table]:
    """All derived tables of a cluster, by name, and its checkpoint, from which the next call continues. Of a folder
    that has only evidence about clients, and none of a metadata log, only the tables about that.

    What no checkpoint covers is read twice, the second time for `rolls`. settled_ms: see `checkpoint.SETTLED_MS`.
    """
    history, of_rolls, notes, kept, outdated = _read(cluster, settled_ms)
    of_metadata: list[tuple[Table, Iterable[Row]]] = [
        (feature_timeline.TABLE, feature_timeline.rows(history, documents)),
        (node_registrations.TABLE, node_registrations.rows(history, judging.fenced_for_ms)),
        (migration_timeline.TABLE, migration_timeline.rows(history)),
        (upgrade_readiness.TABLE, upgrade_readiness.rows(history, judging)),
        (drift.TABLE, drift.rows(history, documents)),
        (rolls.TABLE, of_rolls),
    ]
    contents = [
        *client_rows(history, judging),
        *(of_metadata if cluster.copies else ()),
        (data_quality.TABLE, data_quality.rows(history, notes)),
    ]
    labels = cluster.as_columns()
    tables = {table.name: table.of({**labels, **row} for row in rows) for table, rows in contents}
    return {**tables, CHECKPOINTS: checkpoint_table(cluster, kept, outdated)} if cluster.copies else tables


def _read(cluster: ClusterCopies, settled_ms: int) -> tuple[History, list[Row], list[Note], bytes | None, str]:
    """Read the log: the history, the rows of `rolls`, its notes, the next checkpoint (None: none), and the reason why
    the last one was not used; empty if it was, or there is none.
    """
    data, outdated = cluster.checkpoint() if cluster.checkpoint is not None else None, ""
    if data is not None:
        try:
            history = history_of(cluster, Checkpoint.load(data), settled_ms)
            return history, *rolls.rows_and_notes(history), history.log.recorder.saved() or data, ""
        except OutdatedError as error:
            outdated = str(error)
    history = history_of(cluster, None, settled_ms)
    return history, *rolls.rows_and_notes(history), history.log.recorder.saved(), outdated


__all__ = [
    "CHECKPOINTS",
    "CLIENT_TABLES",
    "NO_DOCUMENTS",
    "TABLES",
    "ClientEvidence",
    "ClientJudging",
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
