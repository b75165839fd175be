"""Directories of a node by their ids: those of before its restart, and those that it came back with.

Pure. Asked by `core/roll/coming_back.py` of every node that was restarted. A directory gets its id when it is formatted
and keeps it (`directory.id` in `meta.properties`). A broker registers those of all its log directories, from
metadata.version 3.7-IV2 on; the leader of the quorum names the one that an observer, or a voter of a dynamic quorum,
fetches the metadata log into, on Kafka 3.9 and later. Where neither says it, as of a controller of a static quorum,
nothing is known, and nothing is concluded from it: whether such a node lost its disk is not seen. Those of before are
in the intent of the restart: of a restart without an intent, as after a status was lost, nothing is known either.

A node that has one directory of before kept its disk, or one of its disks: Kafka copies what the others had.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkafeatures.core.facts.readings import Role

if TYPE_CHECKING:
    from kafkafeatures.core.facts.observation import Node

NEW_DISK = "new-disk"
"""Beginning of the consent to the new disk of one node: the node, and which directories it has now."""

MOST_DIRS = 64
"""Log directories of a node that are remembered; of more, none is: a part of them would prove nothing."""

_LOG_DIR, _METADATA_DIR = "d:", "m:"


def disks_of(node: Node) -> frozenset[str]:
    """Directories of a node as they are remembered, in short: 64 restarts have to fit into a status."""
    log_dirs = node.log_dirs if len(node.log_dirs) <= MOST_DIRS else ()
    return frozenset((*_marks(_LOG_DIR, log_dirs), *_marks(_METADATA_DIR, filter(None, (node.metadata_dir,)))))


def is_on_new_disk(before: frozenset[str], node: Node) -> bool:
    """Tell whether none of its directories was there before, as far as both are known."""
    now = disks_of(node)
    return any(_of_kind(kind, before).isdisjoint(_of_kind(kind, now)) for kind in _judged_by(before, node))


def consent_to_disk(before: frozenset[str], node: Node) -> str:
    """Consent to the disk that the node has now: of another one it says nothing."""
    now = disks_of(node)
    marks = sorted(mark for kind in _judged_by(before, node) for mark in _of_kind(kind, now))
    digest = hashlib.sha256(" ".join(marks).encode()).hexdigest()[:8]
    return f"{NEW_DISK}:{node.title.replace(' ', '-')}:{digest}"


def _judged_by(before: frozenset[str], node: Node) -> tuple[str, ...]:
    """Kinds of directories that tell it, of those that are known of before and of now. A controller lives by its
    metadata log, which a broker copies from the leader if it has to; of a broker it tells where nothing else does.
    """
    now = disks_of(node)
    known = tuple(kind for kind in (_LOG_DIR, _METADATA_DIR) if _of_kind(kind, before) and _of_kind(kind, now))
    return known if Role.CONTROLLER in node.roles else known[:1]


def _of_kind(kind: str, marks: frozenset[str]) -> frozenset[str]:
    return frozenset(mark for mark in marks if mark.startswith(kind))


def _marks(kind: str, ids: Iterable[str]) -> Iterable[str]:
    for id_ in ids:
        yield kind + base64.urlsafe_b64encode(hashlib.sha256(id_.encode()).digest()).decode()[:5]
