"""The table `data_quality`: what is damaged, missing, contradictory or not understood in the inputs, and where.

Nothing is lost silently: whatever keeps a record out of the other tables is a row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

import pyarrow as pa

from featurelog.tables.history import History, Note
from featurelog.tables.inputs import TWO_CLUSTERS, TWO_PLACES
from featurelog.tables.merged_log import Merged
from featurelog.tables.scans import Scan
from featurelog.tables.table import TIME, WHERE, Column, Row, Table
from kraftlog.files import Snapshot

KINDS = {
    "damaged": "bytes that are not a record, or a break in the order of offsets or epochs",
    "not_decoded": "records with an unknown type or version, or that contradict their layout",
    "gap": "offsets that no copy has",
    "contradiction": "two copies that are not of the same log; the other tables leave `node` out",
    "overwritten": "offsets of a copy that a later leader gave to other records; normal if a node was away",
    "snapshot_incomplete": "a snapshot that is not used because it is damaged, or its header or footer is missing",
    "snapshot_contradicts_log": "a snapshot whose state differs from that of the log before its end",
    "contradiction_in_log": "a record that does not fit the state it acts on: the text names Kafka's own check",
    "open_transaction": "a metadata transaction without its End: its records have no effect",
    "aborted_transaction": "a metadata transaction that was aborted: its records have no effect",
    "kraft_version_record": "a FeatureLevel record for kraft.version, which has no effect on the quorum (KAFKA-18979)",
    "rolls_not_known": "a part of the log that `rolls` covers incompletely, or not at all",
    "unused_file": "a file in a log folder that does not belong to the log",
    "same_node": "a folder whose copy may be of the same node as another one's: both count as one",
    "client_evidence": "a file with evidence about clients that is not used, or not all of it; node is its broker",
    TWO_CLUSTERS: "nodes in one folder that name different clusters; they are not merged",
    TWO_PLACES: "folders that name the same cluster; they are not merged",
}
"""The kinds of rows, and what they mean."""

TABLE = Table(
    "data_quality",
    "A row for each problem, or other noteworthy fact, in the inputs of a cluster. Kinds: "
    + "; ".join(f"`{kind}`: {text}" for kind, text in KINDS.items())
    + ".",
    ("cluster", "cluster_id", "kind", "node", "file", "offset", "position", "text"),
    (
        *WHERE,
        Column("kind", pa.string(), "see above"),
        Column("node", pa.string(), "folder of the node; null: the row is about all nodes"),
        Column("file", pa.string(), "file in that folder"),
        Column("offset", pa.int64(), "offset of the first record concerned"),
        Column("end_offset", pa.int64(), "offset after the last record concerned, if the row is about a range"),
        Column("position", pa.int64(), "first byte of the file concerned; null: the row is about records"),
        Column("ts", TIME, "when the first record was appended"),
        Column("count", pa.int64(), "number of records, offsets or places"),
        Column("bytes", pa.int64(), "number of bytes; null: the row is about records"),
        Column("text", pa.string(), "description for people"),
    ),
)


def rows(history: History, notes: Iterable[Note] = ()) -> Iterator[Row]:
    """The rows of one cluster, with the notes of other tables."""
    # A file may be in the inputs twice: equal notes are one row.
    return ({**asdict(note), "ts": note.at_ms} for note in dict.fromkeys([*_notes(history), *notes]))


def _notes(history: History) -> Iterator[Note]:
    yield from history.notes
    log = history.log
    for kind, text in history.cluster.doubts:
        yield Note(kind, text)
    for copy in history.cluster.copies:
        for file, reason in copy.unused:
            yield Note("unused_file", reason, copy.node, file)
    clients = history.cluster.clients
    for broker, file, reason in clients.remarks if clients is not None else ():
        yield Note("client_evidence", reason, str(broker), file)
    for repeated in log.repeated(history.voters or ()):
        yield Note("same_node", repeated.reason, repeated.folder)
    for contradiction in log.contradictions:
        yield Note("contradiction", contradiction.text, contradiction.node, contradiction.file, contradiction.offset)
    overwritten: dict[tuple[str, str, int], tuple[int, int]] = {}
    for each in log.overwritten:
        key = each.node, each.file, each.epoch
        first, last = overwritten.get(key, (each.begin, each.end))
        overwritten[key] = min(first, each.begin), max(last, each.end)
    for (node, file, epoch), (begin, end) in overwritten.items():
        text = f"records of leader epoch {epoch} that a later leader overwrote"
        yield Note("overwritten", text, node, file, begin, end, count=end - begin)
    for scan in log.scans:
        yield from _of_file(scan)
    yield from _not_decoded(log)


def _of_file(scan: Scan) -> Iterator[Note]:
    node, file = scan.source.node, scan.source.file
    if scan.name is None:
        yield Note("unused_file", "its name is neither a segment's nor a snapshot's", node, file)
    if scan.incomplete:
        yield Note("snapshot_incomplete", scan.incomplete, node, file)
    for reason, loss in scan.losses.items():
        text = f"{reason} ({loss.detail})" if loss.detail else reason
        yield Note("damaged", text, node, file, count=loss.count, position=loss.position, bytes=loss.bytes)


def _not_decoded(log: Merged) -> Iterator[Note]:
    """Notes of records that were not decoded. Records with the same problem share a note: in all segments of a node,
    however its log is cut into files; and in each snapshot by itself, as it repeats the whole state.
    """
    notes: dict[tuple[object, ...], Note] = {}
    for scan in {(scan.source.node, scan.source.file): scan for scan in log.scans}.values():
        node, file = scan.source.node, scan.source.file
        unknown = scan.unknown
        if not unknown.num_rows:
            continue
        groups = unknown.group_by(["reason", "api_key", "version", "record_type"], use_threads=False)
        for group in groups.aggregate(
            [("offset", "min"), ("offset", "max"), ("offset", "count"), ("timestamp_ms", "min")]
        ).to_pylist():
            record_type = group["record_type"] or (
                f"type {group['api_key']}" if group["api_key"] is not None else "a record"
            )
            text = f"{record_type}, version {group['version']}: {group['reason']}"
            key = node, text, file if isinstance(scan.name, Snapshot) else ""
            fresh = Note(
                "not_decoded", text, node, file, group["offset_min"], group["offset_max"] + 1,
                group["timestamp_ms_min"], group["offset_count"],
            )  # fmt: skip
            first = notes.setdefault(key, fresh)
            if first is not fresh:
                ends = max(first.end_offset or 0, fresh.end_offset or 0)
                notes[key] = replace(first, end_offset=ends, count=first.count + fresh.count)
    yield from notes.values()
