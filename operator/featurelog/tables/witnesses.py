"""Whose copies these are: a log counts once, in however many folders it lies.

What it decides: which copies prove anything of their own. What nodes replicate is the same on all of them, so that a
copy which says no more than another one may be of the same node, taken a little earlier or later, whatever folders and
meta.properties say. Two copies count as those of two nodes only where they are named by two ids, and something of what
they hold cannot be of one node: a snapshot that both have and that was written at two times; votes for two candidates
in one epoch (quorum-state); or snapshots of their own that alternate, as one node writes all of its snapshots, and
deletes the oldest first. Called by `merging`; the gate and what is committed count nodes, never folders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import pyarrow.compute as pc

from featurelog.tables.inputs import ClusterCopies, NodeCopy
from featurelog.tables.scans import Scan
from kraftlog import files

ALTERNATIONS = 4
"""Snapshots that two copies do not share change sides so often, in their order, only if two nodes wrote them: a few may
have been lost on the way, from either copy.
"""
NO_DIRECTORY = {"", "AAAAAAAAAAAAAAAAAAAAAA"}
"""Directories in a vote that is for a node, whatever its directory is: none, and Kafka's zero id."""
_MOST = 64
"""Copies of voters among which the largest number of nodes is looked for; of more, in order."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A folder that holds a copy of a log of which another folder may hold one."""

    folder: str
    other: str
    reason: str


@dataclass(frozen=True)
class Witnesses:
    """ids: of each folder, the node that it is said to be of. apart: pairs of folders that are of two nodes."""

    ids: Mapping[str, int | None]
    apart: frozenset[frozenset[str]]

    def are_two(self, folder: str, other: str) -> bool:
        """True if they are of two nodes."""
        return frozenset((folder, other)) in self.apart

    def most(self, folders: Iterable[str], voters: Collection[int] | None = None) -> tuple[str, ...]:
        """Find as many of these folders as are of different nodes for sure; with voters only those of voters. Leaving
        out a copy never gives more.
        """
        identified = [folder for folder in sorted(folders) if self.ids.get(folder) is not None]
        candidates = [folder for folder in identified if voters is None or self.ids[folder] in voters]
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
        """These folders, and those of further nodes."""
        result = list(chosen)
        for folder in sorted(folders):
            if self.ids.get(folder) is not None and all(self.are_two(folder, each) for each in result):
                result.append(folder)
        return tuple(result)

    def repeated(self, folders: Iterable[str], counted: Collection[str]) -> tuple[Repeated, ...]:
        """Folders that do not count by themselves, each with the reason."""
        result = []
        for folder in sorted(set(folders) - set(counted)):
            other = next(
                (counted_folder for counted_folder in sorted(counted) if not self.are_two(folder, counted_folder)), None
            )
            if other is not None:
                result.append(Repeated(folder, other, self._why_same(folder, other)))
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
    """The node of the cluster that each copy is of, and pairs of copies that are of two nodes for sure."""
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
    """A copy, and its whole snapshots by name, which is by offset."""

    node_copy: NodeCopy
    snapshots: Mapping[str, Scan]

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.snapshots)


def _are_two(copy: _CopySnapshots, other: _CopySnapshots) -> bool:
    """True if something tells that two nodes wrote these copies. Nothing that is lost from one of them does."""
    ids = copy.node_copy.id, other.node_copy.id
    if None in ids or ids[0] == ids[1]:
        return False
    return _voted_twice(copy.node_copy, other.node_copy) or _written_twice(copy, other) or _alternate(copy, other)


def _voted_twice(copy: NodeCopy, other: NodeCopy) -> bool:
    """No node votes for two candidates in one epoch. A directory that only one of them has proves nothing: once the
    quorum is dynamic, a node writes it beside a vote that it had without.
    """
    if copy.vote is None or other.vote is None or copy.vote[0] != other.vote[0]:
        return False
    candidates, directories = ({copy.vote[at], other.vote[at]} for at in (1, 2))
    return len(candidates) == 2 or len(directories - NO_DIRECTORY) == 2


def _written_twice(copy: _CopySnapshots, other: _CopySnapshots) -> bool:
    """A node writes a snapshot at a time of its own, which a checksum covers; its offsets and epochs have none."""
    return any(
        _written_at(copy.snapshots[name]) != _written_at(other.snapshots[name]) for name in copy.names & other.names
    )


def _written_at(snapshot: Scan) -> int | None:
    last: int | None = pc.max(snapshot.small["timestamp_ms"]).as_py()
    return last


def _alternate(copy: _CopySnapshots, other: _CopySnapshots) -> bool:
    in_one_only = sorted(
        [(name, True) for name in copy.names - other.names] + [(name, False) for name in other.names - copy.names]
    )
    return sum(previous[1] is not current[1] for previous, current in pairwise(in_one_only)) >= ALTERNATIONS


def _snapshots(scans: Iterable[Scan]) -> dict[str, Scan]:
    return {copy.source.file: copy for copy in scans if isinstance(copy.name, files.Snapshot) and not copy.incomplete}
