"""Decides which copies of a log are of different nodes: the log of a node counts once, even if it is in two folders.

All nodes of a cluster replicate the same records. So two folders with the same records may be copies of a single node,
taken at different times, whatever their names and meta.properties say. Two copies count as those of two nodes only if
their node ids differ, and something in them proves that two nodes wrote them:

- both have the same snapshot, written at different times;
- their quorum-state has votes for different candidates in one epoch;
- each has snapshots that the other lacks, and they alternate: a node writes all of its snapshots, and deletes the
  oldest first.

Called by `merging`. The gate, and the offset below which records are committed, count nodes, never folders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

from featurelog.tables.inputs import ClusterCopies, NodeCopy
from featurelog.tables.scans import Scan
from kraftlog import files

ALTERNATIONS = 4
"""Changes from one copy to the other, in the order of the snapshots that only one of both has, that prove two nodes.
Fewer of them may come from files that were lost on the way.
"""
NO_DIRECTORY = {"", "AAAAAAAAAAAAAAAAAAAAAA"}
"""Directory ids of a vote that names no directory: an empty one, and Kafka's zero id."""
_MOST = 64
"""Most folders among which the largest set of different nodes is searched: the first ones by name."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A folder whose copy may be of the same node as that in another folder. reason: names the other, for people."""

    folder: str
    reason: str


@dataclass(frozen=True)
class Witnesses:
    """The nodes of a cluster's folders. ids: the claimed node id of each folder; None: unknown. apart: pairs of folders
    that are surely of two nodes.
    """

    ids: Mapping[str, int | None]
    apart: frozenset[frozenset[str]]

    def are_two(self, folder: str, other: str) -> bool:
        """True if these folders are surely of two nodes."""
        return frozenset((folder, other)) in self.apart

    def most(self, folders: Iterable[str], voters: Collection[int] | None = None) -> tuple[str, ...]:
        """The largest set of these folders that are surely of different nodes. If `voters` are given, only folders of
        voters are in it.
        """
        identified = [folder for folder in sorted(folders) if self.ids.get(folder) is not None]
        candidates = [folder for folder in identified if voters is None or self.ids[folder] in voters]
        # A search for the largest clique: `untried` are candidates that are of other nodes than all chosen ones.
        best: tuple[str, ...] = ()
        stack: list[tuple[tuple[str, ...], list[str]]] = [((), candidates[:_MOST])]
        while stack:
            chosen, untried = stack.pop()
            if len(chosen) > len(best):
                best = chosen
            for at in range(len(untried) - 1, -1, -1):
                if len(chosen) + len(untried) - at > len(best):
                    next_untried = [folder for folder in untried[at + 1 :] if self.are_two(untried[at], folder)]
                    stack.append(((*chosen, untried[at]), next_untried))
        return best

    def with_others(self, chosen: Sequence[str], folders: Iterable[str]) -> tuple[str, ...]:
        """The chosen folders, and those among `folders` that are surely of further nodes."""
        result = list(chosen)
        for folder in sorted(folders):
            if self.ids.get(folder) is not None and all(self.are_two(folder, each) for each in result):
                result.append(folder)
        return tuple(result)

    def repeated(self, folders: Iterable[str], counted: Collection[str]) -> tuple[Repeated, ...]:
        """The folders that are not among the counted ones, each with the folder that may be of the same node."""
        result = []
        for folder in sorted(set(folders) - set(counted)):
            other = next(
                (counted_folder for counted_folder in sorted(counted) if not self.are_two(folder, counted_folder)), None
            )
            if other is not None:
                result.append(Repeated(folder, self._why_same(folder, other)))
        return tuple(result)

    def _why_same(self, folder: str, other: str) -> str:
        id_ = self.ids.get(folder)
        if id_ is not None and id_ == self.ids.get(other):
            return f"{folder} and {other} are copies of the log of node {id_}: they count as one"
        if id_ is None:
            return (
                f"{folder} does not say whose log it is: it counts as one with {other}; copy {files.PROPERTIES} of "
                "the node with its log, or name its folder by the node's id"
            )
        return (
            f"{folder} and {other} may be copies of the log of one node, taken at two times: they count as one; copy "
            f"the whole {files.DIRECTORY} of each node, with all snapshots and quorum-state"
        )


def witnesses(cluster: ClusterCopies, scans: Iterable[Scan]) -> Witnesses:
    """Compare all copies of a cluster: node ids, and pairs of folders that are surely of two nodes."""
    of_folder: defaultdict[str, list[Scan]] = defaultdict(list)
    for scan in scans:
        of_folder[scan.source.node].append(scan)
    copies = [_CopySnapshots(copy, _snapshots(of_folder.get(copy.node, ()))) for copy in cluster.copies]
    apart = {
        frozenset((one_copy.node_copy.node, other.node_copy.node))
        for one_copy, other in combinations(copies, 2)
        if _are_two(one_copy, other)
    }
    return Witnesses({copy.node: copy.id for copy in cluster.copies}, frozenset(apart))


@dataclass(frozen=True)
class _CopySnapshots:
    """A copy, and its complete snapshots by name (which is the order of their offsets)."""

    node_copy: NodeCopy
    snapshots: Mapping[str, Scan]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.snapshots)


def _are_two(copy: _CopySnapshots, other: _CopySnapshots) -> bool:
    """True if something proves that two nodes wrote these copies. A file that one of them lacks proves nothing."""
    ids = copy.node_copy.id, other.node_copy.id
    if None in ids or ids[0] == ids[1]:
        return False
    return _voted_twice(copy.node_copy, other.node_copy) or _written_twice(copy, other) or _alternate(copy, other)


def _voted_twice(copy: NodeCopy, other: NodeCopy) -> bool:
    """True if the copies have votes for different candidates in one epoch, which no node casts. A directory that only
    one vote has is no difference: a node adds it to its vote when the quorum becomes dynamic.
    """
    if copy.vote is None or other.vote is None or copy.vote[0] != other.vote[0]:
        return False
    candidates, directories = ({copy.vote[at], other.vote[at]} for at in (1, 2))
    return len(candidates) == 2 or len(directories - NO_DIRECTORY) == 2


def _written_twice(copy: _CopySnapshots, other: _CopySnapshots) -> bool:
    """True if both copies have the same snapshot, written at different times. The time is a proof because a checksum
    covers it; none covers offsets and epochs.
    """
    return any(copy.snapshots[name].written_at != other.snapshots[name].written_at for name in copy.names & other.names)


def _alternate(copy: _CopySnapshots, other: _CopySnapshots) -> bool:
    """True if the snapshots that only one of the copies has alternate `ALTERNATIONS` times between them."""
    in_one_only = sorted(
        [(name, True) for name in copy.names - other.names] + [(name, False) for name in other.names - copy.names]
    )
    return sum(previous[1] is not current[1] for previous, current in pairwise(in_one_only)) >= ALTERNATIONS


def _snapshots(scans: Iterable[Scan]) -> dict[str, Scan]:
    return {copy.source.file: copy for copy in scans if isinstance(copy.name, files.Snapshot) and not copy.incomplete}
