"""The ledger: up to which byte each file of each node was read, and which parts of `metadata_records` have its rows.

What it decides: which bytes of the inputs are still to be read, and which parts they replace. It is a table beside the
others, and committed with them (`delta`). A file that is gone from the inputs stays in the ledger: Kafka deletes old
segments, and their rows stay.

A node is identified by its folder and its cluster id: if a cluster is created anew in the folder of an older one, its
nodes are other nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Protocol

import msgspec

from featurelog.engine import RowsOfPart, TableFile
from featurelog.layout import LogFile, NodeLog
from featurelog.parts import Part
from featurelog.record_files import METADATA_RECORDS
from featurelog.tables import api_counters, client_api_usage
from featurelog.tables.inputs import FileRecords, PartRecords
from featurelog.tables.rejected_requests import REFUSED
from kraftlog.batches import HEADER_SIZE

VERSION = 3


class OtherVersionError(Exception):
    """A ledger that another release wrote."""


class DigestOf(Protocol):
    """Function that returns a digest of a range of bytes of a file; "" if the file has no such bytes."""

    def __call__(self, uri: str, path: str, start: int, end: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as it was read last.

    fingerprint: digest of the header of its first batch (bytes 0 to `HEADER_SIZE`). size, modified: as listed then, see
    `LogFile`. parts: in the order of their bytes.
    """

    fingerprint: str
    size: int
    modified: int
    parts: tuple[Part, ...]

    @property
    def next(self) -> int:
        """Position of the first byte that no part covers."""
        return self.parts[-1].next if self.parts else 0


@dataclass(slots=True)
class Node:
    """The log of one node. files: what was read, by name. unused: (name, reason) of files and folders that are not
    read, set by `run.py`. The other fields are as in `NodeLog`, from the last listing. An id that this listing lacks
    keeps its earlier value.
    """

    cluster: str
    node: str
    cluster_id: str | None
    unused: tuple[tuple[str, str], ...] = ()
    files: dict[str, Entry] = field(default_factory=dict)
    voters: tuple[int, ...] | None = None
    node_id: int | None = None
    vote: tuple[int, int, str] | None = None

    def parts(self) -> Iterator[Part]:
        """All parts, in the order of files."""
        for _, entry in sorted(self.files.items()):
            yield from entry.parts

    def records(self, name: str, output: str) -> FileRecords:
        """The rows of a file. output: folder or URI of the tables."""
        paths = [(part.path, part.merged) for part in self.files[name].parts if part.path]
        parts = (PartRecords(path, RowsOfPart(output, path), merged) for path, merged in paths)
        return FileRecords(self.node, name, tuple(parts))


@dataclass(slots=True)
class StoredRows:
    """The files with the rows about the clients of a broker. usage: by the number of the day since 1970.
    counters, refused: None: there are none. scrapes: names of the files whose scrapes are in `counters`.
    """

    usage: dict[int, TableFile] = field(default_factory=dict)
    counters: TableFile | None = None
    refused: TableFile | None = None
    scrapes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogBegin:
    """What need not be read again of a request log that has grown: its first bytes. size: their number. rejected:
    lines in them that could not be parsed. read, crc: number of all bytes that were read of the log, and their CRC-32C.
    """

    size: int
    rejected: int
    read: int
    crc: int


@dataclass(slots=True)
class Broker:
    """Evidence about the clients of one broker. cluster: its folder. broker: its id. files: size and time of each file
    that was read, by path. remarks: by the name of a file, why it is not used, or not all of it. stored: its rows.
    begins: by path, of request logs. ends: by path, the time of the last request in each of them, in ms.
    """

    cluster: str
    broker: int
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    stored: StoredRows = field(default_factory=StoredRows)
    begins: dict[str, LogBegin] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Due:
    """A file with bytes to read.

    node: whose log it is. uri: of the input. file: as listed. fingerprint: see `Entry`.
    is_open: a node may still be writing to it. kept_parts: earlier parts that stay; reading continues behind them.
    """

    node: Node
    uri: str
    file: LogFile
    fingerprint: str
    is_open: bool
    kept_parts: tuple[Part, ...] = ()

    @property
    def start(self) -> int:
        """Position of the first byte to read."""
        return self.kept_parts[-1].next if self.kept_parts else 0

    @property
    def lead(self) -> int:
        """Position of the last sound batch before `start`: it is read again, to see whether the new bytes continue its
        order. `start` if there is no such batch.
        """
        return self.kept_parts[-1].stamped if self.kept_parts else 0

    @property
    def size(self) -> int:
        """Number of bytes to read."""
        return self.file.size - self.start

    @property
    def where(self) -> str:
        """The file's name in messages."""
        return f"{self.node.cluster}/{self.node.node}/{self.file.name}"

    def entry(self, parts: Sequence[Part]) -> Entry:
        """The ledger's entry for this file after it was read. parts: all of them."""
        return Entry(self.fingerprint, self.file.size, self.file.modified, tuple(parts))


@dataclass(frozen=True, slots=True)
class Derivation:
    """The tables of a cluster. source: a digest of what they were made of. files: by the name of the table; a table
    without rows has none.
    """

    source: str
    files: Mapping[str, TableFile] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """The ledger. nodes, brokers: all of them. derived: the tables of each cluster, whose key is its name and id as
    JSON.
    """

    nodes: list[Node] = field(default_factory=list)
    derived: dict[str, Derivation] = field(default_factory=dict)
    brokers: list[Broker] = field(default_factory=list)

    def files(self) -> dict[str, list[TableFile]]:
        """The files of all tables, by the name of the table."""
        files = {
            METADATA_RECORDS: [
                TableFile(node.cluster, node.cluster_id, part.path, part.rows, part.size, part.times)
                for node in self.nodes for entry in node.files.values() for part in entry.parts if part.path is not None
            ],
            client_api_usage.TABLE.name: [file for each in self.brokers for file in each.stored.usage.values()],
            api_counters.TABLE.name: [each.stored.counters for each in self.brokers if each.stored.counters],
            REFUSED.name: [each.stored.refused for each in self.brokers if each.stored.refused],
        }  # fmt: skip
        for derivation in self.derived.values():
            for name, file in derivation.files.items():
                files.setdefault(name, []).append(file)
        return files

    def node(self, log: NodeLog) -> Node:
        """The node of a listed log, updated from the listing; a new one is added. A log without a cluster id matches
        the only node of its folder, and a log with one matches a node that had none before.
        """
        same_folder = [node for node in self.nodes if (node.cluster, node.node) == (log.cluster, log.node)]
        fits = [node for node in same_folder if node.cluster_id == log.cluster_id]
        if not fits and log.cluster_id is None and len(same_folder) == 1:
            fits = same_folder
        if not fits and log.cluster_id is not None:
            fits = [node for node in same_folder if node.cluster_id is None]
        if not fits:
            fits = [Node(log.cluster, log.node, log.cluster_id)]
            self.nodes.append(fits[0])
        node = fits[0]
        node.cluster_id, node.voters = log.cluster_id or node.cluster_id, log.voters
        node.node_id = node.node_id if log.node_id is None else log.node_id
        node.vote = log.vote
        return node

    def by_cluster(self) -> dict[str, Ledger]:
        """The ledger of each folder of a cluster."""
        ledgers: dict[str, Ledger] = {}
        for node in sorted(self.nodes, key=lambda node: (node.cluster, node.node, node.cluster_id or "")):
            ledgers.setdefault(node.cluster, Ledger()).nodes.append(node)
        for broker in sorted(self.brokers, key=lambda broker: (broker.cluster, broker.broker)):
            ledgers.setdefault(broker.cluster, Ledger()).brokers.append(broker)
        for key, derivation in sorted(self.derived.items()):
            ledgers.setdefault(json.loads(key)[0], Ledger()).derived[key] = derivation
        return ledgers

    def without(self, cluster: str) -> Ledger:
        """The ledger of all folders but that of one cluster."""
        ledgers = [ledger for folder, ledger in self.by_cluster().items() if folder != cluster]
        return Ledger.of(ledgers)

    @classmethod
    def of(cls, ledgers: Iterable[Ledger]) -> Ledger:
        """One ledger of several, of different folders."""
        whole = cls()
        for ledger in ledgers:
            whole.nodes += ledger.nodes
            whole.brokers += ledger.brokers
            whole.derived |= ledger.derived
        return whole

    def to_json(self) -> bytes:
        """The ledger as a JSON document."""
        document = {"version": VERSION, "nodes": self.nodes, "derived": self.derived, "brokers": self.brokers}
        return msgspec.json.encode(document)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """The ledger of a JSON document. Raises OtherVersionError, and ValueError for any other document."""
        version = msgspec.json.decode(text, type=_Version).version  # first: another version has other fields
        if version != VERSION:
            raise OtherVersionError(f"its ledger has version {version}, and this release reads version {VERSION}")
        document = msgspec.json.decode(text, type=_Document)
        return cls(document.nodes, document.derived, document.brokers)


class _Version(msgspec.Struct):
    version: int


class _Document(msgspec.Struct):
    nodes: list[Node]
    derived: dict[str, Derivation]
    brokers: list[Broker]


def due(node: Node, uri: str, log: NodeLog, stamp: DigestOf) -> list[Due]:
    """The files of a node with bytes to read: files that were never read, have grown, or were replaced."""
    segments = [file.name for file in log.files if not file.is_snapshot]
    dues = []
    for file in log.files:
        is_open = file.name in segments[-1:]
        new_due = _due(node.files.get(file.name), Due(node, uri, file, "", is_open), stamp)
        dues += [] if new_due is None else [new_due]
    return dues


def _due(entry: Entry | None, new: Due, stamp: DigestOf) -> Due | None:
    file, parts = new.file, entry.parts if entry else ()
    # A file that may still be written to can end with a part of a batch, which is left unread until the file grows.
    # Once another segment follows it, these bytes are due as well: as damage.
    is_as_large = entry is not None and file.size == entry.size and (new.is_open or entry.next == entry.size)
    if entry is not None and is_as_large and file.modified and file.modified == entry.modified:
        return None

    def is_as_damaged(part: Part) -> bool:
        return all(stamp(new.uri, file.path, begin, end) == digest for begin, end, digest in part.damaged)

    # By Raft, the same last batch means the same batches before it; but damage there may have been mended.
    parts = tuple(takewhile(is_as_damaged, parts))
    # Damage at the end of the last part may have been a batch that the node was still writing: read that part again.
    if parts and not (parts[-1].is_final or is_as_large):
        parts = parts[:-1]
    first = stamp(new.uri, file.path, 0, min(file.size, HEADER_SIZE))
    is_same = entry is not None and first == entry.fingerprint
    if parts and (not is_same or stamp(new.uri, file.path, parts[-1].stamped, parts[-1].next) != parts[-1].stamp):
        parts = ()  # the file was truncated after a leader change, or replaced by another one
    if entry is not None and is_same and is_as_large and parts == entry.parts:
        return None
    return replace(new, fingerprint=first, kept_parts=parts)
