"""The table `migration_timeline`: the periods of the states of a migration from ZooKeeper, and the brokers it waited
for.

The codes 1 and 2 were exchanged in Kafka 3.5, which reads every 1 as Migration; Kafka 3.4 only wrote 1, its
PreMigration. States have the names of 3.5 and later; a row that may be from 3.4 is marked.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from featurelog.tables.history import History
from featurelog.tables.table import EVIDENCE, SPAN, WHERE, Column, Row, Table
from kraftlog.history import may_be_by_3_4
from kraftlog.image import ZkMigrationState

TABLE = Table(
    "migration_timeline",
    "A row for each state of a migration from ZooKeeper. A new row also begins when the set of brokers in ZooKeeper "
    "mode changes. A cluster whose log says nothing about a migration has no rows.",
    ("cluster", "cluster_id", "from_offset"),
    (
        *WHERE,
        Column("state_code", pa.int16(), "code in the record"),
        Column(
            "state_name",
            pa.string(),
            "`NONE`, `PRE_MIGRATION`, `MIGRATION` or `POST_MIGRATION`; null: no Kafka release has this code",
        ),
        Column(
            "written_by_3_4_possible",
            pa.bool_(),
            "metadata.version was 8 (3.4-IV0) or is not known; in Kafka 3.4, 1 is PreMigration and 2 is Migration",
        ),
        Column("metadata_version", pa.int32(), "finalized level when the state began; null: none, or not known"),
        Column("zk_brokers_remaining", pa.list_(pa.int32()), "registered brokers that still run in ZooKeeper mode"),
        *SPAN,
        *EVIDENCE,
        Column("is_current", pa.bool_(), "true at the end of the log that was read"),
    ),
)


def rows(history: History) -> Iterator[Row]:
    """The rows of one cluster."""
    for change in history.migration.versions:
        code, version = change.value.code, change.value.metadata_version
        state = ZkMigrationState.of(code)
        yield {
            "state_code": code,
            "state_name": None if state is None else state.name,
            "written_by_3_4_possible": may_be_by_3_4(code, version),
            "metadata_version": version,
            "zk_brokers_remaining": list(change.value.zk_brokers),
            **change.as_columns(history.committed_below),
            "is_current": change.end is None,
        }
