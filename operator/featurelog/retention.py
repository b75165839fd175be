"""Retention: which files of metadata logs the ledger drops, of those that are gone from the inputs.

The rows of a file stay when Kafka has deleted it, so the ledger and `metadata_records` grow for ever. `pipeline
maintain --keep-log-days` drops the oldest files of each node as Kafka's own retention does: all before a snapshot of
that age. What is left is a log that begins with a snapshot, and the next run makes the tables that a run over these
files alone would make. Of the rows it reads those of that snapshot alone. Called by `kafkafeatures pipeline maintain`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

import pyarrow as pa

from featurelog import stores
from featurelog.delta import OutputError
from featurelog.ledger import Entry, Ledger, Node
from featurelog.record_files import METADATA_RECORDS
from featurelog.tables import CHECKPOINTS
from featurelog.tables.scans import Scan, header_ms, scan
from featurelog.tables.witnesses import ALTERNATIONS
from kraftlog import files


def drop_old_files(
    ledger: Ledger, output: str, listed: Mapping[tuple[str, str], Collection[str]], now_ms: int, keep_ms: int
) -> int:
    """Drop files from the ledger, and return their number. The tables of their clusters lose the checkpoint, so that
    the next run makes them of all records that are left.

    output: folder or URI of the tables. listed: names of the files that are in the inputs, by folders of cluster and
    node. now_ms: time of this machine, in ms since 1970. keep_ms: age of the newest snapshot with which a log may
    begin. It counts from the newest record of the cluster, so that a clock of this machine that is fast drops nothing
    more; and from `now_ms` at the latest, so that the fast clock of a leader does not either. Raises OutputError.
    """
    count, clusters = 0, set[str]()
    newest = _newest(ledger)
    for node in ledger.nodes:
        before_ms = min(now_ms, newest.get(node.cluster, 0)) - keep_ms
        base = _base(node, output, listed.get((node.cluster, node.node), ()), before_ms)
        old = [name for name, entry in node.files.items() if _is_before(base, name, entry)]
        for name in old:
            del node.files[name]
        count += len(old)
        clusters |= {node.cluster} if old else set()
    for key, derivation in ledger.derived.items():
        if json.loads(key)[0] in clusters:
            without = {name: file for name, file in derivation.files.items() if name != CHECKPOINTS}
            ledger.derived[key] = replace(derivation, files=without)
    return count


def _newest(ledger: Ledger) -> Mapping[str, int]:
    """By folder of a cluster, the time of the newest record of its logs, in ms since 1970."""
    newest: dict[str, int] = {}
    for node in ledger.nodes:
        for part in node.parts():
            if part.times is not None:
                newest[node.cluster] = max(newest.get(node.cluster, 0), part.times[1])
    return newest


def _base(node: Node, output: str, present: Collection[str], before_ms: int) -> int:
    """The end offset of the newest snapshot with which the log of a node may begin; 0: there is none, and the node
    keeps all files.

    It is complete, and older than `before_ms` by the clock of the node, and by that of the leader that wrote the last
    record in it. All files before it are gone from the inputs: the next run would read them again, and between them and
    the snapshot a part of the log would be missing. Some snapshots follow it: by their order, the gate knows which
    copies are of different nodes. Raises OutputError.
    """
    for snapshot in reversed(files.in_order(node.files)[0][:-ALTERNATIONS]):
        end, parts = snapshot.end_offset, node.files[snapshot.name].parts
        if any(_is_before(end, name, node.files.get(name)) for name in present):
            continue
        if all(part.times is not None and part.times[1] < before_ms for part in parts):
            contents = _scanned(node, snapshot.name, output)
            if not contents.incomplete and header_ms(contents) < before_ms:
                return end
    return 0


def _scanned(node: Node, name: str, output: str) -> Scan:
    try:
        return scan(node.records(name, output))
    except (OSError, pa.ArrowException) as error:
        reason = f"{stores.reason(error)}; nothing was dropped; check the path and the rights, or restore it"
        raise OutputError(f"{output}/{METADATA_RECORDS}: {reason}") from None


def _is_before(base: int, name: str, entry: Entry | None) -> bool:
    """True if the snapshot that ends at `base` has all that a file says; False also if the end of a segment is not
    known. entry: None: the file was not read.
    """
    match files.parse(name):
        case files.Snapshot(end_offset=end):
            return end < base
        case files.Segment(base_offset=begin) if entry is None:
            return begin < base  # newer files than those that were read begin later
        case files.Segment() if entry is not None and entry.parts:
            return all(part.ends is not None and part.ends <= base for part in entry.parts)
        case _:
            return False
