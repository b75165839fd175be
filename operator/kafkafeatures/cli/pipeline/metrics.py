"""Metrics of a run of the pipeline, in the text format that a node exporter's textfile collector reads.

Called by `command.py` after a run. The metrics of clusters describe the tables as they are then, even if the run
changed nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

if TYPE_CHECKING:
    from featurelog.delta import Output, Tables
    from featurelog.ledger import Ledger

Labels = tuple[tuple[str, str], ...]
"""Labels of a sample, as (name, value)."""
Samples = Mapping[Labels, float]
"""Values by their labels."""
Metric = tuple[str, str, Samples]
"""Name without the prefix, text of help, and values."""
PREFIX = "kafkafeatures_pipeline_"


def write_metrics(path: Path, document: Mapping[str, Any], output: Output) -> None:
    """Replace the file of metrics in one step, since a collector may read it at any time. document: that of the run,
    as `-o json` prints it. output: the tables as the run left them. Raises CommandFailed, OutputError.
    """
    metrics = [*_of_run(document), *_of_clusters(output.tables, output.ledger)]
    text = "".join(line for metric in metrics for line in _lines(metric))
    partial = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8", errors="replace")
        partial.replace(path)
    except OSError as error:
        raise CommandFailed(
            f"{path}: {error.strerror}; the tables are written, the metrics are not", Exit.FAILED
        ) from None


def _of_run(document: Mapping[str, Any]) -> Iterator[Metric]:
    """Metrics of the run."""
    values = {
        "last_run_timestamp_seconds": ("when the last run ended", int(time.time())),
        "last_run_duration_seconds": ("how long it took", document["seconds"]),
        "clusters": ("clusters in the tables", document["clusters"]),
        "files_read": ("files with something new in the last run", document["files"]),
        "bytes_read": ("bytes of them that were read", document["bytes"]),
        "damaged_bytes": ("bytes of them that are no record", document["damagedBytes"]),
        "unread_files": ("files that could not be read", len(document["problems"])),
        "doubtful_clusters": ("doubts about which cluster a folder holds", len(document["doubts"])),
    }
    for name, (text, value) in values.items():
        yield name, text, {(): value}
    records: dict[Labels, float] = {(("status", status),): count for status, count in document["records"].items()}
    yield "records_read", "records of them, by what became of them", records


def _of_clusters(tables: Tables, ledger: Ledger) -> Iterator[Metric]:
    """Metrics of each cluster, and of each copy of its log."""
    from featurelog.delta import SCHEMAS
    from featurelog.record_files import METADATA_RECORDS
    from featurelog.tables import data_quality, upgrade_readiness

    last, damaged, stored = dict[str, float](), Counter[str](), Counter[str]()
    name = upgrade_readiness.TABLE.name
    for row in tables.read(name, SCHEMAS[name]).select(["cluster", "watermark_ts"]).to_pylist():
        if row["watermark_ts"] is not None:
            last[row["cluster"]] = max(last.get(row["cluster"], 0), row["watermark_ts"].timestamp())
    for file in tables.files.get(METADATA_RECORDS, ()):
        stored[file.cluster] += file.rows
        damaged[file.cluster] += 0  # a cluster without damage has a sample as well
    name = data_quality.TABLE.name
    for row in tables.read(name, SCHEMAS[name]).select(["cluster", "kind", "bytes"]).to_pylist():
        if row["kind"] == "damaged":
            damaged[row["cluster"]] += row["bytes"] or 0
    copied: dict[Labels, float] = {
        (("cluster", node.cluster), ("node", node.node)): newest / 1e9
        for node in ledger.nodes
        if (newest := max((entry.modified for entry in node.files.values()), default=0))
    }
    yield "cluster_last_record_timestamp_seconds", "when its last record was appended", _by_cluster(last)
    yield "cluster_records", "rows of metadata_records", _by_cluster(stored)
    yield "cluster_damaged_bytes", "bytes of all files of a cluster that are no record", _by_cluster(damaged)
    yield "copy_modified_timestamp_seconds", "when the newest file of a node's copy was modified", copied


def _by_cluster(values: Mapping[str, float]) -> Samples:
    return {(("cluster", cluster),): value for cluster, value in values.items()}


def _lines(metric: Metric) -> Iterator[str]:
    name, text, samples = metric
    yield f"# HELP {PREFIX}{name} {text}\n# TYPE {PREFIX}{name} gauge\n"
    for labels, value in samples.items():
        pairs = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels)
        yield f"{PREFIX}{name}{{{pairs}}} {value}\n" if pairs else f"{PREFIX}{name} {value}\n"


def _escaped(text: str) -> str:
    """The value of a label. Names of folders are not ours: they may have any character."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "?")
