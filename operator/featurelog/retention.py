"""Retention: which files of metadata logs the ledger drops, of those that are gone from the inputs.

The rows of a file stay when Kafka has deleted it, so the ledger and `metadata_records` grow for ever. `pipeline
maintain --keep-log-days` drops the oldest files of each node as Kafka's own retention does: all before a snapshot of
that age. What is left is a log that begins with a snapshot, and the next run makes the tables that a run over these
files alone would make. It decides by what the ledger says of a file, and opens none. Called by `kafkafeatures pipeline
maintain`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

from featurelog.ledger import Entry, Ledger, Node
from featurelog.tables import CHECKPOINTS
from kraftlog import files


def drop_old_files(ledger: Ledger, listed: Mapping[tuple[str, str], Collection[str]], before_ms: int) -> int:
    """Drop files from the ledger, and return their number. The tables of their clusters lose the checkpoint, so that
    the next run makes them of all records that are left.

    listed: names of the files that are in the inputs, by folders of cluster and node: they stay, since the next run
    would read them again. before_ms: time of the newest snapshot with which a log may begin, in ms since 1970.
    """
    count, clusters = 0, set[str]()
    for node in ledger.nodes:
        base, present = _base(node, before_ms), listed.get((node.cluster, node.node), ())
        old = [name for name, entry in node.files.items() if name not in present and _is_before(base, name, entry)]
        for name in old:
            del node.files[name]
        count += len(old)
        clusters |= {node.cluster} if old else set()
    for key, derivation in ledger.derived.items():
        if json.loads(key)[0] in clusters:
            without = {name: file for name, file in derivation.files.items() if name != CHECKPOINTS}
            ledger.derived[key] = replace(derivation, files=without)
    return count


def _base(node: Node, before_ms: int) -> int:
    """The end offset of the newest snapshot of a node that is older than `before_ms` and was read without damage; 0:
    there is none, and the node keeps all files.
    """
    ends = [0]
    for name, entry in node.files.items():
        file = files.parse(name)
        times = [part.times for part in entry.parts if part.times is not None and part.is_final and not part.damaged]
        is_sound = len(times) == len(entry.parts) > 0 and entry.next == entry.size
        if isinstance(file, files.Snapshot) and is_sound and max(last for _, last in times) < before_ms:
            ends.append(file.end_offset)
    return max(ends)


def _is_before(base: int, name: str, entry: Entry) -> bool:
    """True if the snapshot that ends at `base` has all that a file says; False also if the end of a segment is not
    known.
    """
    match files.parse(name):
        case files.Snapshot(end_offset=end):
            return end < base
        case files.Segment() if entry.parts:
            return all(part.ends is not None and part.ends <= base for part in entry.parts)
        case _:
            return False
