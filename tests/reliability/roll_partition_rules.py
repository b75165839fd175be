"""Promises of the documentation about partitions in a roll, checked on the record of a history."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tests.reliability.facts import OPERATOR, Facts
from tests.reliability.records import Asked, Copies, Nodes, Stopped, Stored, Whole
from tests.reliability.roll_facts import Restart, gone, restarts, restarts_in
from tests.reliability.violations import Violation

EXCUSED = "single-replica-topics"


def no_partition_falls_below_min_insync_replicas(facts: Facts) -> Iterator[Violation]:
    """No restart takes a partition below min.insync.replicas, by what was read and by earlier restarts that the reading
    may not show yet.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None:
            yield Violation("preflight", one.asked.at, f"{one} without a look at its nodes")
            continue
        if one.asked.node in nodes.stuck:  # what it hosts alone is unavailable; KRaft keeps the last of an ISR in it
            continue
        for text in below_min_insync_replicas(nodes, one.asked.node, _leaving(facts, one), excused_in(one.begun)):
            yield Violation("min.insync.replicas", one.asked.at, f"{one} leaves {text}")


def below_min_insync_replicas(nodes: Nodes, node: int, leaving: Set[int], excused: Set[str]) -> Iterator[str]:
    """Partitions that are not below it now, and will be without this node and those that are leaving. `excused`: topics
    to which a consent was given.
    """
    for name, copies in sorted(nodes.copies.items()):
        left = copies.in_sync - leaving - {node}
        if node not in copies.in_sync or len(left) >= copies.needed or len(copies.in_sync) < copies.needed:
            continue
        if not (_never(copies) and _topic(name) in excused):
            yield f"{name} with {sorted(left)} in sync, {copies.needed} are needed"


def _leaving(facts: Facts, one: Restart) -> set[int]:
    """Nodes that operators stopped and that are not back, stable or not."""
    found: dict[int, Stopped] = {}
    for record in facts.records[: one.place]:
        if isinstance(record, Stopped) and record.by is not None and record.pod_uid != one.asked.pod_uid:
            found[record.node] = record
        elif isinstance(record, Whole):
            found.pop(record.node, None)
    return {node for node, stopped in found.items() if not _is_back(facts, one, stopped)} - {one.asked.node}


def _is_back(facts: Facts, one: Restart, stopped: Stopped) -> bool:
    """True if a node serves from a new pod and is in sync with every partition with which it was in sync when it was
    asked to stop. Replicas that were behind before may need hours, and are not waited for.
    """
    place, asked = next(each for each in facts.of_kind(Asked) if each[1].number == stopped.by)
    before = facts.last_look(place, asked.process, asked.uid)
    if one.nodes is None or before is None or before.nodes is None:
        return False
    serves = one.nodes.serving.get(stopped.node, stopped.pod_uid) != stopped.pod_uid
    return serves and _lacked(one.nodes, stopped.node) <= _lacked(before.nodes, stopped.node)


def _lacked(nodes: Nodes, node: int) -> set[str]:
    return {name for name, copies in nodes.copies.items() if node in copies.replicas - copies.in_sync}


def _never(copies: Copies) -> bool:
    """True if a restart makes the partition unavailable in any case."""
    return len(copies.replicas) <= copies.needed or len(copies.replicas) == 1


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def excused_in(version: Stored | None) -> frozenset[str]:
    """The topics that the consent is for, as the status lists them."""
    if version is None or not _has_consent(version):
        return frozenset()
    found = (version.status.get("rollout") or {}).get("excused") or {}
    return frozenset(found.get("names") or ())


def _has_consent(version: Stored) -> bool:
    return EXCUSED in (version.spec.get("consents") or ())


def a_consent_to_unavailable_topics_is_for_one_roll(facts: Facts) -> Iterator[Violation]:
    """The one that has used it, until it was taken out of the document and given again."""
    for uid, versions in facts.versions.items():
        used, known, before = "", set[tuple[str, str]](), -1
        for place, version in versions:
            rollout = version.status.get("rollout") or {}
            begun = {(str(one.get("target")), str(one.get("startedAt"))) for one in restarts_in(version)}
            new, known = begun - known, begun
            if not _has_consent(version):
                used = ""
            elif excused_in(version) and new and version.by.startswith(OPERATOR):
                if used not in ("", rollout.get("id")):
                    yield Violation("consent", version.at, f"{EXCUSED} of roll {used} is used by {rollout.get('id')}")
                if used and facts.lost(uid, place) > before:
                    yield Violation("consent", version.at, f"{EXCUSED} is used again, and the status was lost since")
                used, before = str(rollout.get("id")), place


def under_replicated_partitions_keep_what_they_have(facts: Facts) -> Iterator[Violation]:
    """NoUnderReplicated, which is the default: a node goes only where all of its partitions have all they should have.

    Where it is out of sync itself, it takes nothing away. A node that does not run anyway may be replaced.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.rollout.get("availability", "NoUnderReplicated") != "NoUnderReplicated":
            continue
        if one.asked.node in nodes.stuck or (one.stopped is None and gone(facts, one)):
            continue
        for name, copies in sorted(nodes.copies.items()):
            if one.asked.node not in copies.replicas or (_never(copies) and _topic(name) in excused_in(one.begun)):
                continue
            if one.asked.node in copies.in_sync and copies.replicas - copies.in_sync:
                text = f"{one}, but {name} has {sorted(copies.in_sync)} of {sorted(copies.replicas)} in sync"
                yield Violation("under-replicated", one.asked.at, text)
