"""Inputs of the tables of a cluster: the rows of each file of its nodes' logs, and facts from files beside the logs.

The caller (a run, a worker, a test) provides functions that read the rows; nothing here opens a file. `clusters_of`
decides which copies are of one cluster: those of one folder, unless they name several clusters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

_LARGEST_ID = (1 << 31) - 1  # of an int32
_LONGEST = 11  # digits that are read of a folder's name: one more than an id has, so that a longer number is no id

COLUMNS = (
    "offset", "batch_position", "size", "timestamp_ms", "leader_epoch", "is_control", "api_key", "version",
    "record_type", "status", "reason", "detail", "body",
)  # fmt: skip
"""The columns of `RECORDS` that tables are made of. Reading all columns would take twice as long."""


Rows = Callable[[], Iterable[pa.RecordBatch]]
"""Function that reads rows, in order, with at least the columns `COLUMNS`."""


@dataclass(frozen=True, slots=True)
class PartRecords:
    """The rows of a range of a file. id: other rows have another one; "" if they have none. merged: ids of the parts
    that were merged into this one, which had the same rows.
    """

    id: str
    rows: Rows = field(repr=False, compare=False)
    merged: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the parts with these rows, as they were read."""
        return self.merged or (self.id,)


@dataclass(frozen=True, slots=True)
class FileRecords:
    """A segment or a snapshot of one node. node: its folder. file: its name. parts: in the order of the file."""

    node: str
    file: str
    parts: tuple[PartRecords, ...]

    @classmethod
    def of(cls, node: str, file: str, rows: Rows) -> FileRecords:
        """A file whose rows have no id."""
        return cls(node, file, (PartRecords("", rows),))

    def rows(self, first: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows of all parts, or of those from the part with this index on."""
        for part in self.parts[first:]:
            yield from part.rows()


@dataclass(frozen=True, slots=True)
class NodeCopy:
    """A copy of one node's log.

    cluster, node: names of folders. cluster_id: in meta.properties; None: not there. files: of the log.
    unused: (file, reason) of files that are not read. voters: of a static quorum, in quorum-state; None: not there.
    node_id: in meta.properties; None: not there. vote: epoch, candidate and the candidate's directory, in quorum-state;
    None: no vote.
    """

    cluster: str
    node: str
    cluster_id: str | None
    files: tuple[FileRecords, ...]
    unused: tuple[tuple[str, str], ...] = ()
    voters: tuple[int, ...] | None = None
    node_id: int | None = None
    vote: tuple[int, int, str] | None = None

    @property
    def id(self) -> int | None:
        """The node's id: from meta.properties, else the number that its folder's name is, or ends with."""
        digits = self.node[len(self.node.rstrip("0123456789")) :]
        id_ = self.node_id if self.node_id is not None else int(digits[:_LONGEST] or -1)
        return id_ if 0 <= id_ <= _LARGEST_ID else None


RowsOfTable = Callable[[], pa.Table]
"""Function that reads the rows of a file of a table."""


@dataclass(frozen=True, slots=True)
class ClientEvidence:
    """Evidence about the clients of a cluster. usage, counters: rows of `client_api_usage` and `api_counters`.
    refused: by broker, rows of `rejected_requests.REFUSED`. remarks: (broker, file, reason) of files that are not used,
    or not all of them.
    """

    usage: tuple[RowsOfTable, ...] = ()
    counters: tuple[RowsOfTable, ...] = ()
    refused: Mapping[int, RowsOfTable] = field(default_factory=dict)
    remarks: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterCopies:
    """All copies of one cluster's log. cluster: its folder. cluster_id: None if no node has one. copies: by folder.
    doubts: reasons why they may not be of one cluster. clients: None: there is no evidence about clients.
    checkpoint: reads the checkpoint of an earlier run (`checkpoint`); None: there is none. Tables are made anew when
    the `repr` changes: it has all that they depend on.
    """

    cluster: str
    cluster_id: str | None
    copies: tuple[NodeCopy, ...]
    doubts: tuple[tuple[str, str], ...] = ()
    """(kind as in `data_quality`, text)"""
    clients: ClientEvidence | None = None
    checkpoint: Callable[[], bytes | None] | None = field(default=None, repr=False, compare=False)

    def as_columns(self) -> dict[str, str | None]:
        """The values of the columns `table.WHERE`."""
        return {"cluster": self.cluster, "cluster_id": self.cluster_id}

    @property
    def static_voters(self) -> frozenset[int] | None:
        """The voters of a static quorum; None unless all nodes that name voters name the same."""
        voter_sets = {frozenset(copy.voters) for copy in self.copies if copy.voters}
        return voter_sets.pop() if len(voter_sets) == 1 else None

    @property
    def files(self) -> list[FileRecords]:
        """All files of all copies, in a canonical order."""
        files = [file for copy in self.copies for file in copy.files]
        return sorted(files, key=lambda file: (file.node, file.file))


TWO_CLUSTERS = "two_clusters_under_one_name"
TWO_PLACES = "one_cluster_in_two_places"


def clusters_of(copies: Iterable[NodeCopy]) -> list[ClusterCopies]:
    """The clusters. Nodes of one folder that name two clusters, and one cluster in two folders, stay apart."""
    folders: defaultdict[str, list[NodeCopy]] = defaultdict(list)
    places: defaultdict[str, set[str]] = defaultdict(set)
    for copy in copies:
        folders[copy.cluster].append(copy)
        if copy.cluster_id is not None:
            places[copy.cluster_id].add(copy.cluster)
    clusters = []
    for cluster, inside in sorted(folders.items()):
        ids = sorted({copy.cluster_id for copy in inside if copy.cluster_id is not None})
        doubts = []
        if len(ids) > 1:
            doubts.append((TWO_CLUSTERS, f"folder {cluster} has nodes of clusters {', '.join(ids)}"))
        doubts += [
            (TWO_PLACES, f"cluster {id_in_folder} lies in folders {', '.join(sorted(places[id_in_folder]))}")
            for id_in_folder in ids
            if len(places[id_in_folder]) > 1
        ]
        groups = _by_id(inside) if len(ids) > 1 else {ids[0] if ids else None: inside}
        for id_, members in groups.items():
            ordered = tuple(sorted(members, key=lambda copy: copy.node))
            clusters.append(ClusterCopies(cluster, id_, ordered, tuple(doubts)))
    return sorted(clusters, key=lambda cluster: (cluster.cluster, cluster.cluster_id or ""))


def _by_id(copies: Iterable[NodeCopy]) -> Mapping[str | None, list[NodeCopy]]:
    groups: defaultdict[str | None, list[NodeCopy]] = defaultdict(list)
    for copy in copies:
        groups[copy.cluster_id].append(copy)
    return groups
