"""What was read so far: of each file of each node up to which byte, and which parts of the table came of it.

What it decides: what of the inputs is still to be read, and which parts that replaces. It is kept as plain JSON beside
the tables, and only ever replaced together with them (`manifest`). Called when a run is planned, and when results are
in. A file stays in it that is gone from the inputs: Kafka deletes old segments, and their rows stay.

A node is a folder together with the id of the cluster that it says it belongs to: a cluster that was made anew under
the name of another one is another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from featurelog.layout import LogFile, NodeLog
from featurelog.parts import Part
from kraftlog.batches import HEADER_SIZE

VERSION = 1


class Stamper(Protocol):
    """Gives what tells a range of bytes of a file from others; "" where the file has no such bytes."""

    def __call__(self, uri: str, path: str, start: int, end: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as it was read. fingerprint: of its first bytes. size, modified: as it was listed then."""

    fingerprint: str
    size: int
    modified: int
    parts: tuple[Part, ...]

    @property
    def next(self) -> int:
        """The first byte that no part has."""
        return self.parts[-1].next if self.parts else 0


@dataclass(slots=True)
class Node:
    """One node's log. unused: (file, why), voters: of a static quorum, both as listed last. node_id: what it said last
    of itself, vote: what it keeps of elections, as listed last. files: by name.
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
        """In the order of files."""
        for _, entry in sorted(self.files.items()):
            yield from entry.parts


@dataclass(frozen=True, slots=True)
class Due:
    """A file of which something is to be read. kept_parts: those that stay; what is read continues behind them."""

    node: Node
    uri: str
    file: LogFile
    fingerprint: str
    is_open: bool
    kept_parts: tuple[Part, ...] = ()

    @property
    def start(self) -> int:
        """The first byte to read."""
        return self.kept_parts[-1].next if self.kept_parts else 0

    @property
    def lead(self) -> int:
        """The first byte of the batch before it."""
        return self.kept_parts[-1].stamped if self.kept_parts else 0

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.file.size - self.start

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.node.cluster}/{self.node.node}/{self.file.name}"

    def entry(self, parts: Sequence[Part]) -> Entry:
        """Once it is read: all its parts."""
        return Entry(self.fingerprint, self.file.size, self.file.modified, tuple(parts))


@dataclass(slots=True)
class Ledger:
    """All nodes. derived: of each cluster (name and id), what its tables were made of."""

    nodes: list[Node] = field(default_factory=list)
    derived: dict[str, str] = field(default_factory=dict)

    def node(self, log: NodeLog) -> Node:
        """The one that a log is of; a new one is added. A node that did not say its cluster's id before says it now,
        and one that says none any more is the one it was.
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

    def to_json(self) -> dict[str, Any]:
        """The ledger as plain JSON values; nodes and their files are written by their fields."""
        ordered = sorted(self.nodes, key=lambda node: (node.cluster, node.node, node.cluster_id or ""))
        return {"version": VERSION, "nodes": ordered, "derived": dict(sorted(self.derived.items()))}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Ledger:
        """Raises KeyError, TypeError or ValueError for what is none."""
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r} of a ledger, expected {VERSION}")
        return cls([_node(node) for node in document["nodes"]], dict(document["derived"]))


def due(node: Node, uri: str, log: NodeLog, stamp: Stamper) -> list[Due]:
    """The files of a node that hold something new: those that were never read, have grown, or are others now."""
    segments = [file.name for file in log.files if not file.is_snapshot]
    dues = []
    for file in log.files:
        is_open = file.name in segments[-1:]
        new_due = _due(node.files.get(file.name), Due(node, uri, file, "", is_open), stamp)
        dues += [] if new_due is None else [new_due]
    return dues


def _due(entry: Entry | None, new: Due, stamp: Stamper) -> Due | None:
    file, parts = new.file, entry.parts if entry else ()
    is_as_large = entry is not None and file.size == entry.size and (new.is_open or entry.next == entry.size)
    if entry is not None and is_as_large and file.modified and file.modified == entry.modified:
        return None
    if parts and not parts[-1].is_final:
        parts = parts[:-1]
    first = stamp(new.uri, file.path, 0, min(file.size, HEADER_SIZE))
    is_same = entry is not None and first == entry.fingerprint
    if parts and (not is_same or stamp(new.uri, file.path, parts[-1].stamped, parts[-1].next) != parts[-1].stamp):
        parts, is_same = (), False  # it was cut behind a new leader, or is another file of this name
    if is_same and is_as_large:
        return None
    return replace(new, fingerprint=first, kept_parts=parts)


def _node(document: dict[str, Any]) -> Node:
    files = {
        name: Entry(**{**entry, "parts": tuple(Part(**part) for part in entry["parts"])})
        for name, entry in document["files"].items()
    }
    unused = tuple((name, reason) for name, reason in document["unused"])
    voters = None if document.get("voters") is None else tuple(document["voters"])
    vote = None if document.get("vote") is None else tuple(document["vote"])
    return Node(**{**document, "unused": unused, "files": files, "voters": voters, "vote": vote})
