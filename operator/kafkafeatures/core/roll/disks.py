"""Directories of nodes by their ids: those of before, and which nodes have none of them any longer.

Pure. Called by `core/roll/roll.py` in each look of a roll, of every node, whatever restarted it: a drain empties a node
as well as a restart of ours. A directory gets its id when it is formatted and keeps it (`directory.id` in
`meta.properties`). A broker registers those of all its log directories, from metadata.version 3.7-IV2 on; the leader of
the quorum names the one that an observer, or a voter of a dynamic quorum, fetches the metadata log into, on Kafka 3.9
and later. Where neither says it, as of a controller of a static quorum, nothing is known, and nothing is concluded from
it: whether such a node lost its disk is not seen.

Those of before are noted in the first look of a roll, or at a node, in `status.rollout.disks`, and this process keeps
them as well. Where both are lost, a look takes what it finds for what was there before.

A node that has one directory of before kept its disk, or one of its disks: Kafka copies what the others had. One that
was unregistered meanwhile is forgotten: what registers with its id after that is another node.
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
"""Directories by node, by their marks."""

NEW_DISK = "new-disk"
"""Beginning of the consent to the new disk of one node: the node, and which directories it has now."""

MOST_DIRS = 64
"""Log directories of a node that are remembered; of more, none is: a part of them would prove nothing."""

MOST_BYTES = 6 * 1024
"""Bytes a status has room for: some 400 brokers with one directory each. Those of others this process keeps alone."""

_LOG_DIR, _METADATA_DIR = "d:", "m:"
_LINE = re.compile(r"(\d{1,10})((?: [dm]:\S+)+)")


class NodeDisks(Struct, frozen=True):
    """Directories of the nodes of a roll. earlier: those that each id had. lost: nodes none of whose directories was
    there before, and no consent says that this was meant. used: consents that this look has used up.
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
    """Judge each node by what it had. What is not known of a node yet is noted, unless it is being restarted: then what
    it has may be new. A broker and a controller of one id are two nodes, each with directories of its own kind.
    """
    nodes = tuple(nodes)
    disks, lost, used = dict(earlier_disks), list[Node](), set[str]()
    for node in map(_told_apart(nodes), nodes):
        had, present, noted = earlier_disks.get(node.id, frozenset()), _noted_of(node), disks.get(node.id, frozenset())
        if is_on_new_disk(had, node):
            consent = consent_to_disk(had, node)
            if state_of(consent, consents, spent) is ConsentState.GIVEN:
                used.add(consent)
                disks[node.id] = noted - _of_kinds_in(present, noted) | present
            else:
                lost.append(node)
        elif marks := present if node.id not in flying else _of_kinds_in(had, present):
            disks[node.id] = noted | marks
    return NodeDisks(disks, tuple(sorted(lost, key=lambda node: node.key)), frozenset(used))


def _told_apart(nodes: Iterable[Node]) -> Callable[[Node], Node]:
    """A node as it is judged: of two that run with one id, the leader does not tell whose metadata log is where."""
    running = Counter(node.id for node in nodes if node.state is not NodeState.GHOST)
    return lambda node: replace(node, metadata_dir="") if running[node.id] > 1 else node


def written_disks(earlier_disks: Disks, first: Set[int]) -> tuple[str, ...]:
    """Lines of a status. `first`: nodes that must not be missing, where there is no room for all."""
    lines, size = dict[int, str](), 0
    for id_ in sorted(earlier_disks, key=lambda id_: (id_ not in first, id_)):
        line = " ".join((str(id_), *sorted(earlier_disks[id_])))
        size += len(line) + len('"", ')
        if size > MOST_BYTES:
            break
        lines[id_] = line
    return tuple(lines[id_] for id_ in sorted(lines))


def read_disks(lines: Iterable[str]) -> Disks:
    """Read the lines of a status, which may have been edited: what is no line of a node is passed over."""
    matches = (_LINE.fullmatch(line) for line in lines)
    return {int(line[1]): frozenset(line[2].split()) for line in matches if line is not None}


def disks_of(node: Node) -> frozenset[str]:
    """Directories of a node as they are remembered, in short: those of many nodes have to fit into a status."""
    log_dirs = node.log_dirs if len(node.log_dirs) <= MOST_DIRS else ()
    return frozenset((*_marks(_LOG_DIR, log_dirs), *_marks(_METADATA_DIR, filter(None, (node.metadata_dir,)))))


def is_on_new_disk(earlier_directories: frozenset[str], node: Node) -> bool:
    """Tell whether none of its directories was there before, as far as both are known."""
    if not earlier_directories:
        return False
    present = disks_of(node)
    return any(
        _of_kind(kind, earlier_directories).isdisjoint(_of_kind(kind, present))
        for kind in _judged_by(earlier_directories, present, node)
    )


def consent_to_disk(earlier_directories: frozenset[str], node: Node) -> str:
    """Consent to the disk that the node has now: of another one it says nothing."""
    present = disks_of(node)
    marks = sorted(mark for kind in _judged_by(earlier_directories, present, node) for mark in _of_kind(kind, present))
    digest = hashlib.sha256(" ".join(marks).encode()).hexdigest()[:8]
    return f"{NEW_DISK}:{node.title.replace(' ', '-')}:{digest}"


def _judged_by(earlier_directories: frozenset[str], directories: frozenset[str], node: Node) -> tuple[str, ...]:
    """Kinds of directories that tell it, of those that are known of before and of now. A controller lives by its
    metadata log, which a broker copies from the leader if it has to; of a broker it tells where nothing else does.
    """
    kinds = tuple(
        kind
        for kind in (_LOG_DIR, _METADATA_DIR)
        if _of_kind(kind, earlier_directories) and _of_kind(kind, directories)
    )
    return kinds if Role.CONTROLLER in node.roles else kinds[:1]


def _noted_of(node: Node) -> frozenset[str]:
    """Return the directories that tell it: of a broker the one of its metadata log only where no other is known."""
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
