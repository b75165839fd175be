"""Directories of nodes by their ids: which each node had earlier, and which nodes lost all of them.

Pure. `core/roll/roll.py` judges the disks in each reconciliation of a roll, for every node, whatever restarted it: a
drain can empty a node as well as a restart by the operator. A directory gets its id when it is formatted, and keeps it
(`directory.id` in `meta.properties`). From metadata.version 3.7-IV2 on, a broker registers the ids of all its log
directories. On Kafka 3.9 and later, the leader of the quorum reports the directory of the metadata log of an observer,
and of a voter of a dynamic quorum. Neither shows the directory of a voter of a static quorum, so it is not known
whether such a controller has lost its disk.

The earlier directories are noted in the first reconciliation of a roll, or in the first that reads the node, in
`status.rollout.disks`; this process keeps them as well. If both are lost, the directories that are read next count as
the earlier ones.

A broker that still has one of its earlier log directories kept its disk, or one of its disks: Kafka copies the data of
the others. A controller must still have its earlier metadata directory, too. The directories of an unregistered node
are forgotten: whatever registers with its id later is another node.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set

from msgspec import Struct, field

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.consents import ConsentState, state_of
from kafkafeatures.core.facts.observation import Node, NodeState
from kafkafeatures.core.facts.readings import Role

Disks = Mapping[int, frozenset[str]]
"""Marks of directories, by node id."""

NEW_DISK = "new-disk"
"""Prefix of a consent to the new disk of one node, as in new-disk:broker-3:0a1b2c3d: the node, and a digest of its
present directories.
"""

MOST_DIRS = 64
"""Most log directories of a node that are remembered. If it has more, none is: a part of them would prove nothing."""

MOST_BYTES = 6 * 1024
"""Bytes of directories that a status has room for: some 400 brokers with one directory each. Directories of further
brokers are kept by this process alone.
"""

_LOG_DIR, _METADATA_DIR = "d:", "m:"
"""Kinds of directories, as prefixes of their marks."""
_STATUS_LINE = re.compile(r"(\d{1,10})((?: [dm]:\S+)+)")


class NodeDisks(Struct, frozen=True):
    """Directories of the nodes of a roll, after a reconciliation.

    earlier: directories to compare with in the next reconciliation, by node id.
    lost: nodes that are on a new disk (`is_on_new_disk`) without a consent to that.
    used: consents that were used up in this reconciliation.
    """

    earlier: Disks = field(default_factory=dict)
    lost: tuple[Node, ...] = ()
    used: frozenset[str] = frozenset()

    @property
    def lost_ids(self) -> frozenset[int]:
        """The ids of nodes that lost their disks."""
        return frozenset(node.id for node in self.lost)


def disks_now(
    nodes: Iterable[Node],
    earlier_disks: Disks,
    flying: Set[int],
    consents: Iterable[str] = (),
    spent: Iterable[str] = (),
) -> NodeDisks:
    """Compare the directories of each node with its earlier ones. A kind of directory that is read for the first time
    is noted, unless the node is in flight (`flying`): its disk may then be new already. A broker and a controller with
    the same id are two nodes, each with directories of its own kind.
    """
    nodes = tuple(nodes)
    disks, lost, used = dict(earlier_disks), list[Node](), set[str]()
    for node in map(_without_shared_metadata_dir(nodes), nodes):
        before, present = earlier_disks.get(node.id, frozenset()), _to_remember(node)
        noted = disks.get(node.id, frozenset())
        if is_on_new_disk(before, node):
            consent = consent_to_disk(before, node)
            if state_of(consent, consents, spent) is ConsentState.GIVEN:
                used.add(consent)
                # Only the kinds that are known now are replaced. `noted` has those of another node with this id as
                # well.
                disks[node.id] = noted - _of_kinds_in(present, noted) | present
            else:
                lost.append(node)
        # While a node is in flight, a directory of a kind that was not known before may be new already.
        elif marks := present if node.id not in flying else _of_kinds_in(before, present):
            disks[node.id] = noted | marks
    return NodeDisks(disks, tuple(sorted(lost, key=lambda node: node.key)), frozenset(used))


def _without_shared_metadata_dir(nodes: Iterable[Node]) -> Callable[[Node], Node]:
    """Function that returns a node without its metadata directory if two running nodes share its id: the leader does
    not say which of them the directory belongs to.
    """
    running = Counter(node.id for node in nodes if node.state is not NodeState.GHOST)
    return lambda node: replace(node, metadata_dir="") if running[node.id] > 1 else node


def written_disks(earlier_disks: Disks, first: Set[int]) -> tuple[str, ...]:
    """Lines for the status, such as "3 d:Xa1_9 m:0bQzR": node id and marks. `first`: nodes that get room first."""
    lines, size = dict[int, str](), 0
    for id_ in sorted(earlier_disks, key=lambda id_: (id_ not in first, id_)):
        line = " ".join((str(id_), *sorted(earlier_disks[id_])))
        size += len(line) + len('"", ')
        if size > MOST_BYTES:
            break
        lines[id_] = line
    return tuple(lines[id_] for id_ in sorted(lines))


def read_disks(lines: Iterable[str]) -> Disks:
    """Read the lines of a status, which may have been edited: a line that describes no node is passed over."""
    matches = (_STATUS_LINE.fullmatch(line) for line in lines)
    return {int(line[1]): frozenset(line[2].split()) for line in matches if line is not None}


def disks_of(node: Node) -> frozenset[str]:
    """Directories of a node as short marks, as those of many nodes have to fit into a status."""
    log_dirs = node.log_dirs if len(node.log_dirs) <= MOST_DIRS else ()
    return frozenset((*_marks(_LOG_DIR, log_dirs), *_marks(_METADATA_DIR, filter(None, (node.metadata_dir,)))))


def is_on_new_disk(earlier_directories: frozenset[str], node: Node) -> bool:
    """Tell whether a node has none of its earlier directories of one kind: log directories or, for a controller,
    metadata directories. A kind counts only if its earlier and its present directories are known.
    """
    if not earlier_directories:
        return False
    present = disks_of(node)
    return any(
        _of_kind(kind, earlier_directories).isdisjoint(_of_kind(kind, present))
        for kind in _judged_by(earlier_directories, present, node)
    )


def consent_to_disk(earlier_directories: frozenset[str], node: Node) -> str:
    """Name of the consent to the disk that the node has now; it does not cover any later disk."""
    present = disks_of(node)
    marks = sorted(mark for kind in _judged_by(earlier_directories, present, node) for mark in _of_kind(kind, present))
    digest = hashlib.sha256(" ".join(marks).encode()).hexdigest()[:8]
    return f"{NEW_DISK}:{node.title.replace(' ', '-')}:{digest}"


def _judged_by(earlier_directories: frozenset[str], directories: frozenset[str], node: Node) -> tuple[str, ...]:
    """Kinds of directories, known from both times, that show whether a disk is new. For a controller that includes its
    metadata log, which is the data that it keeps. A broker only copies the metadata log from the leader, so it is
    judged by that directory only if nothing else is known.
    """
    kinds = tuple(
        kind
        for kind in (_LOG_DIR, _METADATA_DIR)
        if _of_kind(kind, earlier_directories) and _of_kind(kind, directories)
    )
    return kinds if Role.CONTROLLER in node.roles else kinds[:1]


def _to_remember(node: Node) -> frozenset[str]:
    """Present directories of a node that are to be remembered; the metadata directory of a broker only if no log
    directory is known.
    """
    present = disks_of(node)
    log_dirs = _of_kind(_LOG_DIR, present)
    return present if Role.CONTROLLER in node.roles or not log_dirs else log_dirs


def _of_kind(kind: str, marks: frozenset[str]) -> frozenset[str]:
    return frozenset(mark for mark in marks if mark.startswith(kind))


def _of_kinds_in(other_directories: frozenset[str], marks: frozenset[str]) -> frozenset[str]:
    kinds = {mark[: len(_LOG_DIR)] for mark in other_directories}
    return frozenset(mark for mark in marks if mark[: len(_LOG_DIR)] in kinds)


def _marks(kind: str, ids: Iterable[str]) -> Iterable[str]:
    for id_ in ids:
        yield kind + base64.urlsafe_b64encode(hashlib.sha256(id_.encode()).digest()).decode()[:5]
