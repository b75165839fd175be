"""The tables of the pipeline for each cluster of the small generated fleet, made once for all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from featurelog.gate import ClusterName, Gate, Target, judge
from featurelog.layout import LogFile, NodeLog, Root
from featurelog.tables import Documents, FileRecords, Judging, NodeCopy, clusters_of, tables_of
from kafkasim.fleet.plan import UNTIL_MS
from kraftlog.arrow import LOG, SNAPSHOT, record_batches
from kraftlog.reading import Reading
from tests.kafkasim.fleets import written

HOUR_MS = 3_600_000
AT_MS = UNTIL_MS + HOUR_MS
"""The time of the judgement: an hour after the logs were copied."""

Tables = dict[str, list[dict[str, Any]]]


def _records(file: LogFile) -> Callable[[], Iterable[pa.RecordBatch]]:
    origin = SNAPSHOT if file.is_snapshot else LOG
    return lambda: record_batches(Reading(Path(file.path).read_bytes()), origin=origin)


def copies(logs: Path) -> list[NodeCopy]:
    """The copies that a run finds in the folder of logs."""
    return [_copy(node) for node in Root.of(str(logs)).nodes()]


def _copy(node: NodeLog) -> NodeCopy:
    files = tuple(FileRecords.of(node.node, file.name, _records(file)) for file in node.files)
    return NodeCopy(node.cluster, node.node, node.cluster_id, files, node.unused, node.voters, node.node_id, node.vote)


def documents() -> Documents:
    return Documents.of(yaml.safe_load(path.read_text()) for path in sorted((written() / "documents").iterdir()))


def tables(logs: Path) -> dict[ClusterName, Tables]:
    """All tables of all clusters in a folder."""
    known = documents()
    return {
        ClusterName(one.cluster, one.cluster_id): {
            name: table.to_pylist() for name, table in tables_of(one, known, Judging(at_ms=AT_MS)).items()
        }
        for one in clusters_of(copies(logs))
    }


@cache
def fleet() -> dict[ClusterName, Tables]:
    return tables(written() / "logs")


def gate(target: Target, found: dict[ClusterName, Tables] | None = None, *, at_ms: int = AT_MS) -> Gate:
    """The gate of these clusters, or of the whole fleet."""
    found = fleet() if found is None else found
    return judge(target, (row for one in found.values() for row in one["upgrade_readiness"]), found, at_ms=at_ms)


def of(cluster: str) -> Tables:
    """The tables of one cluster."""
    (found,) = (rows for name, rows in fleet().items() if name.cluster == cluster)
    return found
