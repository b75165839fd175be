"""Whose copies these are: the log of a node counts once, in however many folders it lies.

What it decides: which copies prove anything of their own. A copy is of the node that its meta.properties names; where
that says nothing, of the one that its folder is named after, unless it ends where another copy ends: then they are
taken for one, if no snapshot that both have shows that two nodes wrote it. Two that name two nodes are one as well if
all their files are the same, snapshots included: no two nodes write a snapshot in the same millisecond, so one of them
was put beside the meta.properties of another node. Called by `merging`; the gate and what is
committed count nodes, never folders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from featurelog.tables.inputs import ClusterCopies, NodeCopy
from featurelog.tables.scans import Scan
from kraftlog import files


@dataclass(frozen=True, slots=True)
class Witness:
    """A node whose log was copied. folder: the first of its copies. id: None where nothing says it."""

    folder: str
    id: int | None


@dataclass(frozen=True, slots=True)
class Repeated:
    """A folder that holds a copy of a log of which another folder holds one."""

    folder: str
    other: str
    why: str


@dataclass(frozen=True, slots=True)
class Witnesses:
    """of: by folder. repeated: what does not count by itself."""

    of: Mapping[str, Witness]
    repeated: tuple[Repeated, ...] = ()

    def ids(self, folders: Iterable[str]) -> frozenset[int]:
        """The nodes that these folders are of, as far as that is known."""
        return frozenset(one.id for one in map(self.of.__getitem__, folders) if one.id is not None)


def witnesses(cluster: ClusterCopies, scans: Iterable[Scan]) -> Witnesses:
    """Which copies are of which node of the cluster. Copies that say which node they are of come first: no other copy
    takes the place of such a node.
    """
    of_folder: defaultdict[str, list[Scan]] = defaultdict(list)
    for one in scans:
        of_folder[one.source.node].append(one)
    found: dict[str, Witness] = {}
    counted: list[NodeCopy] = []
    repeated = []
    for copy in sorted(cluster.copies, key=lambda one: (one.node_id is None, one.node)):
        for other in counted:
            if why := _why_same(copy, other, of_folder):
                found[copy.node] = found[other.node]
                repeated.append(Repeated(copy.node, other.node, why))
                break
        else:
            found[copy.node] = Witness(copy.node, copy.id)
            counted.append(copy)
    return Witnesses(found, tuple(repeated))


def _why_same(copy: NodeCopy, other: NodeCopy, scans: Mapping[str, Sequence[Scan]]) -> str:
    """Empty where they are copies of two nodes' logs."""
    if copy.id is not None and copy.id == other.id:
        return f"{copy.node} and {other.node} are copies of the log of node {copy.id}: they count as one"
    if copy.node_id is None and _ends_alike(scans.get(copy.node, ()), scans.get(other.node, ())):
        return (
            f"{copy.node} ends as {other.node} does, and does not say whose log it is: they count as one; "
            f"copy {files.PROPERTIES} of the node with its log"
        )
    if _is_copied(scans.get(copy.node, ()), scans.get(other.node, ())):
        return (
            f"all files of {copy.node} are those of {other.node}, and no two nodes write the same snapshots: they "
            "count as one; copy the log of each node anew"
        )
    return ""


def _is_copied(ours: Sequence[Scan], others: Sequence[Scan]) -> bool:
    """Whether one log was put into two folders. Without a snapshot nothing tells: what nodes replicate is the same."""
    extents = [{one.source.file: [(each.begin, each.end, each.epoch) for each in one.spans] for one in scans}
               for scans in (ours, others)]  # fmt: skip
    return bool(_snapshots(ours)) and extents[0] == extents[1] and not _of_two_nodes(ours, others)


def _ends_alike(ours: Sequence[Scan], others: Sequence[Scan]) -> bool:
    """Whether what one has may be a copy of what the other has."""
    end = _end(ours)
    return end is not None and end == _end(others) and not _of_two_nodes(ours, others)


def _end(scans: Iterable[Scan]) -> tuple[int, int] | None:
    """Offset and leader epoch."""
    found = []
    for one in scans:
        if one.spans:
            found.append((one.spans[-1].end, one.spans[-1].epoch))
        if isinstance(one.name, files.Snapshot) and not one.incomplete:
            found.append((one.name.end_offset, one.name.epoch))
    return max(found, default=None)


def _of_two_nodes(ours: Iterable[Scan], others: Iterable[Scan]) -> bool:
    """A node writes a snapshot at a time of its own."""
    mine, theirs = _snapshots(ours), _snapshots(others)
    return any(not one.small.equals(theirs[name].small) for name, one in mine.items() if name in theirs)


def _snapshots(scans: Iterable[Scan]) -> dict[str, Scan]:
    return {one.source.file: one for one in scans if isinstance(one.name, files.Snapshot) and not one.incomplete}
