"""The documented promises of rolls, checked on the record of a history. It imports nothing of the operator.

Each rule is one function over the record: what pods were stopped, by whom, and what was true of the nodes when the
operator looked last. An operator knows what it read, so what changed between its look and its act does not count
against it; what it read, and what it did itself, does.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile

from tests.reliability.facts import OPERATOR, Facts, applies, condition, seconds, writer
from tests.reliability.records import Asked, Looked, Sent, Stopped, Stored, Templated, Whole
from tests.reliability.roll_facts import Restart, gone, restarts, restarts_in
from tests.reliability.roll_partition_rules import (
    a_consent_to_unavailable_topics_is_for_one_roll,
    below_min_insync_replicas,
    excused_in,
    no_partition_falls_below_min_insync_replicas,
    under_replicated_partitions_keep_what_they_have,
)
from tests.reliability.violations import Violation

MOST = 64
"""Nodes in flight, whatever a document says."""
SETTLING = 6.0
"""Seconds by which an operator may know later than the world does that something is so: a look, and the way there."""


def _in_flight(facts: Facts, one: Restart) -> dict[int, Stopped]:
    """Nodes that operators stopped before, and that were not wholly back, and stable, when this one was asked for.

    Of a node that was away already, such as one whose pod crashed, more than it had is not waited for.
    """
    found: dict[int, Stopped] = {}
    since: dict[int, float] = {}
    for record in facts.records[: one.place]:
        if isinstance(record, Stopped) and record.cluster_id == one.asked.cluster_id and record.by is not None:
            found[record.node] = record
            since.pop(record.node, None)
        elif isinstance(record, Whole) and record.cluster_id == one.asked.cluster_id:
            since.setdefault(record.node, record.at)
    broken = {it.number for place, it in facts.of_kind(Asked) if _was_away(facts, place, it)}
    owners = {it.number: it.uid for _, it in facts.of_kind(Asked)}
    found = {node: stopped for node, stopped in found.items() if stopped.by not in broken}

    def is_stable(node: int, stopped: Stopped) -> bool:
        """True if the node has been back for stableFor, of the current document or of the one that had the node
        restarted.
        """
        if node not in since:
            return False
        uids = {one.asked.uid, owners.get(stopped.by or 0, one.asked.uid)}
        lasts = min(_stable_for(facts, uid, one.place, since[node]) for uid in uids)
        return one.asked.at - since[node] >= lasts - SETTLING

    return {node: stopped for node, stopped in found.items() if not is_stable(node, stopped)}


def _stable_for(facts: Facts, uid: str, place: int, since: float) -> float:
    """The shortest stableFor of the documents since then: a wait that was over under one of them remains over when the
    document or the owner changes.
    """
    versions = [each for at, each in facts.versions.get(uid, ()) if at < place]
    known = [each for each in versions if each.at <= since][-1:] + [each for each in versions if each.at > since]
    return min((seconds((each.spec.get("rollout") or {}).get("stableFor"), 30.0) for each in known), default=30.0)


def _was_away(facts: Facts, place: int, asked: Asked) -> bool:
    look = facts.last_look(place, asked.process, asked.uid)
    return look is not None and look.nodes is not None and asked.node in look.nodes.away


def a_restart_is_announced_before_it_is_asked_for(facts: Facts) -> Iterator[Violation]:
    """Each restart is announced by an intent with the uid of the pod, and is in the effect log."""
    for one in restarts(facts):
        if one.begun is None:
            yield Violation("intent before restart", one.asked.at, f"nothing announced {one}")
        if not one.asked.logged:
            yield Violation("effect log", one.asked.at, f"{one} is not in it")


def nothing_begins_that_is_held_back(facts: Facts) -> Iterator[Violation]:
    """No restart is requested if the resource was suspended, paused or observed when the intent was stored."""
    for one in restarts(facts):
        if one.begun is not None and not applies(one.begun):
            yield Violation("held back", one.asked.at, f"{one} while it was suspended, paused or observed")


def nothing_begins_outside_the_windows(facts: Facts) -> Iterator[Violation]:
    """The time of the intent is in a window. If no broker is left, nodes that do not run are replaced at any time."""
    for one in restarts(facts):
        windows = one.rollout.get("windows") or ()
        if one.begun is None or one.nodes is None or not windows:
            continue
        if (one.asked.node in one.nodes.stuck and one.nodes.brokers <= one.nodes.away) or gone(facts, one):
            continue
        (at,) = (it["at"] for it in restarts_in(one.begun) if it.get("podUid") == one.asked.pod_uid)
        if not any(_is_open(each, datetime.fromisoformat(at)) for each in windows):
            yield Violation("windows", one.asked.at, f"{one}, decided at {at}, outside of {windows}")


def _is_open(window: dict[str, str], at: datetime) -> bool:
    """True if a window was open at this time or a moment before it, when it was decided. The schedule is of the form
    */2 * * * *, the duration is in minutes.
    """
    every, minutes = int(window["schedule"].split()[0].removeprefix("*/")), int(window["duration"].removesuffix("m"))
    moments = (at, at - timedelta(seconds=SETTLING))
    return any(each.minute % every < minutes for each in moments)


def no_node_is_restarted_twice_for_one_revision(facts: Facts) -> Iterator[Violation]:
    """A pod that already has its current template is not restarted, unless the template has changed since the last
    reading.
    """
    for one in restarts(facts):
        if one.stopped is None or one.nodes is None:
            continue
        wanted = one.nodes.templates.get(one.asked.node)
        if one.stopped.runs == wanted:
            yield Violation("once", one.stopped.at, f"{one}, whose pod was of {wanted} already")
        elif _went_in_vain(facts, one.stopped):
            text = f"{one}, which was restarted for {one.stopped.next} before, and came back as it was"
            yield Violation("once", one.stopped.at, text)


def _went_in_vain(facts: Facts, stopped: Stopped) -> bool:
    """True if an operator has already stopped this node for the same template, it came back unchanged, and the template
    is still the same.
    """
    earlier: Stopped | None = None
    for _, record in sorted((*facts.of_kind(Stopped), *facts.of_kind(Templated)), key=lambda each: each[0]):
        if record is stopped:
            break
        if isinstance(record, Templated) and stopped.pod.startswith(f"{record.stateful_set}-"):
            earlier = None
        elif isinstance(record, Stopped) and (record.cluster_id, record.node) == (stopped.cluster_id, stopped.node):
            earlier = record
    if earlier is None or earlier.by is None or stopped.by is None:
        return False
    return (earlier.runs, earlier.next) == (stopped.runs, stopped.next)


def nothing_goes_while_a_node_has_lost_its_disk(facts: Facts) -> Iterator[Violation]:
    """A volume that is mounted wrongly empties one node, and not the next."""
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or gone(facts, one):
            continue
        lost = nodes.emptied - {one.asked.node}
        if lost:
            yield Violation("disks", one.asked.at, f"{one}, but {sorted(lost)} came back without their disks")


def never_more_at_once_than_allowed(facts: Facts) -> Iterator[Violation]:
    """maxParallel, of the brokers where it is a percentage; and never more than 64."""
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.begun is None or nodes.brokers <= nodes.away or gone(facts, one):
            continue
        if one.asked.node in nodes.stuck and one.asked.node in nodes.voters:
            continue
        flying = _in_flight(facts, one).keys() - {one.asked.node} - nodes.stuck
        allowed = _cap(one.rollout.get("maxParallel", 1), len(nodes.brokers))
        if len(flying) + 1 > allowed:
            text = f"{one} beside {sorted(flying)}: {allowed} may be in flight at once"
            yield Violation("in flight", one.asked.at, text)


def _cap(max_parallel: object, brokers: int) -> int:
    if isinstance(max_parallel, str):
        return min(max(brokers * int(max_parallel[:-1]) // 100, 1), MOST)
    return min(int(str(max_parallel)), MOST)


def controllers_keep_their_majority(facts: Facts) -> Iterator[Violation]:
    """Controllers are restarted one at a time and beside no other node; a majority that has caught up remains; the
    leader is the last controller, and brokers follow.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or gone(facts, one):
            continue
        node, behind = one.asked.node, nodes.behind & nodes.voters.keys()
        # One that does not run on what is wanted no more was overtaken by the next image.
        flying = _in_flight(facts, one).keys() - {node} - (nodes.behind & nodes.away)
        if node not in nodes.voters:
            if flying & nodes.voters.keys() and node not in nodes.stuck:
                yield Violation("controllers", one.asked.at, f"{one} while controller {sorted(flying)} is in flight")
            if behind - nodes.stuck and node not in nodes.stuck:
                yield Violation("order", one.asked.at, f"{one} before the controllers {sorted(behind)}")
            continue
        if node in nodes.stuck:
            continue
        left = [voter for voter, caught_up in nodes.voters.items() if caught_up and voter not in flying | {node}]
        if nodes.voters[node] and len(left) * 2 <= len(nodes.voters):
            text = f"{one} leaves {sorted(left)} of the voters {sorted(nodes.voters)}"
            yield Violation("majority", one.asked.at, text)
        if flying:
            yield Violation("controllers", one.asked.at, f"{one} beside {sorted(flying)}")
        if node == nodes.leader and behind - {node}:
            yield Violation("leader last", one.asked.at, f"{one}, which leads, before {sorted(behind - {node})}")


def no_node_goes_while_a_voter_is_missing(facts: Facts) -> Iterator[Violation]:
    """A broker neither. What cannot run may be replaced, and so may the voter that is missing."""
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.asked.node in nodes.stuck or gone(facts, one):
            continue
        missing = {voter for voter, is_there in nodes.voters.items() if not is_there} - {one.asked.node}
        if missing:
            yield Violation("voters", one.asked.at, f"{one}, but the voters {sorted(missing)} are missing")


def nothing_begins_after_a_halt(facts: Facts) -> Iterator[Violation]:
    """A node that does not come back within nodeTimeout, whatever its pod says, and whose log is not recovered. What
    cannot run may leave what it has for something else than what that node crashes on.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.begun is None or one.look is None or gone(facts, one):
            continue
        timeout = seconds(one.rollout.get("nodeTimeout"), 900.0)
        for node, stopped in _in_flight(facts, one).items():
            crashing = node in nodes.crashing and node != one.asked.node
            other = one.asked.node in nodes.stuck and nodes.templates[one.asked.node] != nodes.templates[node]
            if crashing and not other and one.look.at - stopped.at > timeout + SETTLING:
                text = f"{one}, but node {node} was stopped at {stopped.at:.0f} s and crashes"
                yield Violation("halt", one.asked.at, text)


def nothing_goes_where_a_node_crashes(facts: Facts) -> Iterator[Violation]:
    """On what is rolled out, however long ago its own restart was over. A node that cannot run may leave what it has,
    for something else than what others crash on since they were restarted for it.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or not nodes.crashing or gone(facts, one):
            continue
        came = {(it.node, it.next) for place, it in facts.of_kind(Stopped) if place < one.place}
        fails = {to for node in nodes.crashing if (node, to := nodes.templates[node]) in came}
        if one.asked.node not in nodes.stuck or nodes.templates[one.asked.node] in fails:
            yield Violation("crashes", one.asked.at, f"{one}, but {sorted(nodes.crashing)} crash")


def no_controller_goes_that_could_not_read_its_log(facts: Facts) -> Iterator[Violation]:
    """The new binary of a controller supports every level behind its newest snapshot, also those that were downgraded
    since.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.asked.node in nodes.stuck or gone(facts, one):
            continue
        if one.asked.node in nodes.ends:
            yield Violation("replay", one.asked.at, f"{one}, which ends at {nodes.ends[one.asked.node]}")


def levels_are_raised_after_the_last_node(facts: Facts) -> Iterator[Violation]:
    """If a driver restarts the nodes, a level is raised only after all nodes are current and back."""
    for place, sent in facts.of_kind(Sent):
        look = facts.last_look(place, sent.process, sent.uid)
        begun = _version_before(facts, place, sent.uid)
        if look is None or look.nodes is None or begun is None or sent.after <= sent.before:
            continue
        if (begun.spec.get("workload") or {}).get("driver", "None") != "StatefulSet":
            continue
        if look.nodes.behind:
            yield Violation("levels last", sent.at, f"{sent} before the nodes {sorted(look.nodes.behind)}")
        elif look.nodes.crashing:
            yield Violation("crashes", sent.at, f"{sent} while the nodes {sorted(look.nodes.crashing)} crash")
        elif restarts_in(begun):
            yield Violation("levels last", sent.at, f"{sent} while a restart is in flight")


def _version_before(facts: Facts, place: int, uid: str) -> Stored | None:
    versions = list(takewhile(lambda each: each[0] < place, facts.versions.get(uid, ())))
    return versions[-1][1] if versions else None


def people_are_asked_for_one_node_that_may_go(facts: Facts) -> Iterator[Violation]:
    """If a person restarts the nodes, a status asks for one node at a time, and never for one whose restart would break
    a promise.
    """
    for uid, versions in facts.versions.items():
        asked: set[tuple[int, str]] = set()  # with the moment: what is learned of one in flight asks for nothing
        for place, version in versions:
            now = {(one["nodeId"], one["at"]) for one in restarts_in(version) if not one.get("podUid")}
            if len(now) > 1:
                yield Violation("by hand", version.at, f"asked for {len(now)} nodes at once")
            for node, _ in sorted(now - asked):
                yield from _may_go(facts, place, uid, version, node)
            asked = now


def _may_go(facts: Facts, place: int, uid: str, version: Stored, node: int) -> Iterator[Violation]:
    look = facts.last_look(place, writer(version) or None, uid)  # an older CRD drops who wrote it
    if look is None or look.nodes is None:
        yield Violation("preflight", version.at, f"asked for node {node} without a look at the nodes")
        return
    for text in below_min_insync_replicas(look.nodes, node, frozenset(), excused_in(version)):
        yield Violation("min.insync.replicas", version.at, f"asked for node {node}, which leaves {text}")
    voters = look.nodes.voters
    left_voters = [voter for voter, caught_up in voters.items() if caught_up and voter != node]
    if voters.get(node) and len(left_voters) * 2 <= len(voters):
        yield Violation(
            "majority", version.at, f"asked for node {node}, which leaves {left_voters} of {sorted(voters)}"
        )


def rolled_means_every_pod(facts: Facts) -> Iterator[Violation]:
    """NodesRolled is true only of what was read: every pod of its template, none in flight."""
    for uid, versions in facts.versions.items():
        for place, version in versions:
            rolled = condition(version, "NodesRolled")
            if rolled.get("status") != "True" or not version.by.startswith(OPERATOR):
                continue
            instance = (version.status.get("operator") or {}).get("instance", "")
            look: Looked | None = facts.last_look(place, instance, uid) if instance else None
            current = rolled.get("observedGeneration") == version.generation
            if (version.spec.get("workload") or {}).get("driver") != "StatefulSet":
                continue
            if look is not None and look.nodes is not None and look.nodes.behind and current:
                yield Violation("rolled", version.at, f"NodesRolled, but {sorted(look.nodes.behind)} are not")
                break


ROLL_RULES = (
    a_restart_is_announced_before_it_is_asked_for,
    nothing_begins_that_is_held_back,
    nothing_begins_outside_the_windows,
    no_partition_falls_below_min_insync_replicas,
    under_replicated_partitions_keep_what_they_have,
    a_consent_to_unavailable_topics_is_for_one_roll,
    no_node_is_restarted_twice_for_one_revision,
    never_more_at_once_than_allowed,
    controllers_keep_their_majority,
    no_node_goes_while_a_voter_is_missing,
    nothing_begins_after_a_halt,
    nothing_goes_where_a_node_crashes,
    nothing_goes_while_a_node_has_lost_its_disk,
    no_controller_goes_that_could_not_read_its_log,
    levels_are_raised_after_the_last_node,
    people_are_asked_for_one_node_that_may_go,
    rolled_means_every_pod,
)
