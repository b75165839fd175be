"""What a roll promises of everything that is away, late or refused, for any reason. It imports nothing of the
operator.

As in `roll_rules.py`, an operator knows what it read: what was so when it looked last counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.reliability.facts import Facts, seconds
from tests.reliability.records import Jumped, Looked, Sent, Stopped, Stored, Whole
from tests.reliability.roll_facts import Restart, restarts, restarts_in
from tests.reliability.roll_rules import SETTLING
from tests.reliability.violations import Violation


def one_that_may_be_on_its_way_goes_first(facts: Facts) -> Iterator[Violation]:
    """An eviction whose pod still runs may arrive at any moment: until it does, no other node is restarted."""
    for one in restarts(facts):
        if one.begun is None or one.nodes is None or one.asked.node in one.nodes.stuck or _was_over(facts, one):
            continue
        for other in restarts_in(one.begun):
            uid, node = other.get("podUid"), other["nodeId"]
            if uid and node != one.asked.node and not _has_stopped(facts, one.place, uid):
                yield Violation("one at a time", one.asked.at, f"{one}, and the eviction of node {node} is open")


def _has_stopped(facts: Facts, place: int, pod_uid: str) -> bool:
    return any(it.pod_uid == pod_uid for at, it in facts.of_kind(Stopped) if at < place)


def _was_over(facts: Facts, one: Restart) -> bool:
    """True if this pod had already stopped, so that the request stopped nothing."""
    return _has_stopped(facts, one.place, one.asked.pod_uid)


def who_is_away_is_left_alone(facts: Facts) -> Iterator[Violation]:
    """A broker that is stopped or fenced is not restarted: it may be recovering its log, and would begin again. A node
    that cannot run may be replaced.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or _was_over(facts, one) or nodes.brokers <= nodes.stopped | nodes.fenced:
            continue
        if one.asked.node in (nodes.brokers & (nodes.stopped | nodes.fenced)) - nodes.stuck:
            yield Violation("left alone", one.asked.at, f"{one}, which is away, and may come back by itself")


def who_is_away_keeps_no_partition(facts: Facts) -> Iterator[Violation]:
    """A replica on a node that does not run, or is about to be drained, does not count as in sync, even if it is in the
    ISR.
    """
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.asked.node in nodes.stuck or _was_over(facts, one):
            continue
        away = nodes.stopped | nodes.draining
        for name, copies in sorted(nodes.copies.items()):
            if one.asked.node not in copies.in_sync or len(copies.replicas) <= max(copies.needed, 1):
                continue
            left = copies.in_sync - away - {one.asked.node}
            if len(left) < copies.needed <= len(copies.in_sync):
                text = f"{one} leaves {name} with {sorted(left)} that run, {copies.needed} are needed"
                yield Violation("min.insync.replicas", one.asked.at, text)
                break


def who_is_away_counts(facts: Facts) -> Iterator[Violation]:
    """Fewer than maxParallel other brokers are away, for any reason, when a broker is restarted."""
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.begun is None or _was_over(facts, one) or one.asked.node in nodes.stuck:
            continue
        if one.asked.node in nodes.voters or nodes.brokers <= nodes.stopped | nodes.fenced:
            continue
        gone = ((nodes.stopped | nodes.draining) & nodes.brokers) - nodes.stuck - nodes.voters.keys() - {one.asked.node}
        if len(gone) >= _allowed(one, len(nodes.brokers)):
            yield Violation("in flight", one.asked.at, f"{one}, and {sorted(gone)} are away")


def _allowed(one: Restart, brokers: int) -> int:
    wanted = one.rollout.get("maxParallel", 1)
    return max(brokers * int(wanted[:-1]) // 100, 1) if isinstance(wanted, str) else int(wanted)


def nothing_goes_beside_a_reassignment(facts: Facts) -> Iterator[Violation]:
    """No node is restarted during a reassignment: both reduce the number of in-sync replicas."""
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is not None and nodes.moving and one.asked.node not in nodes.stuck and not _was_over(facts, one):
            yield Violation("reassignment", one.asked.at, f"{one} while {sorted(nodes.moving)[:3]} are moved")


def nothing_is_asked_for_that_a_budget_refuses(facts: Facts) -> Iterator[Violation]:
    """No eviction is requested that a PodDisruptionBudget would refuse."""
    for one in restarts(facts):
        if one.nodes is not None and one.asked.node in one.nodes.refused and not _was_over(facts, one):
            yield Violation("budget", one.asked.at, f"{one}, which a budget did not allow")


def nothing_goes_beside_one_that_is_late(facts: Facts) -> Iterator[Violation]:
    """A node in flight that is not back within nodeTimeout halts the roll, unless it recovers its log meanwhile."""
    for one in restarts(facts):
        nodes = one.nodes
        if nodes is None or one.begun is None or one.look is None or _was_over(facts, one):
            continue
        if one.asked.node in nodes.stuck:
            continue
        timeout = seconds(one.rollout.get("nodeTimeout"), 900.0)
        for other in restarts_in(one.begun):
            node, stopped = other["nodeId"], _stopped(facts, one.place, other.get("podUid", ""))
            if node == one.asked.node or stopped is None or node not in nodes.away or node in nodes.fenced:
                continue
            seen = _seen_first(facts, stopped[0], one)
            if seen is None or one.look.at - seen.at <= timeout + SETTLING:
                continue
            if not _was_otherwise(facts, stopped[0], seen, one, node):
                yield Violation("halt", one.asked.at, f"{one}, and node {node} is not back since {seen.at:.0f} s")


def _stopped(facts: Facts, place: int, pod_uid: str) -> tuple[int, Stopped] | None:
    found = (
        (at, it) for at, it in facts.of_kind(Stopped) if at < place and it.pod_uid == pod_uid and it.by is not None
    )
    return next(found, None)


def _seen_first(facts: Facts, place: int, one: Restart) -> Looked | None:
    """When an operator could see that it stops: its time counts from then on."""
    return next((it for at, it in facts.of_kind(Looked) if at > place and it.uid == one.asked.uid), None)


def _was_otherwise(facts: Facts, place: int, seen: Looked, one: Restart, node: int) -> bool:
    """True if the node was back or recovered its log at any reading in between, or a clock was set: then its time
    starts again.
    """
    for at in range(place, one.place):
        it = facts.records[at]
        if isinstance(it, Jumped) or (isinstance(it, Whole) and it.node == node):
            return True
        if isinstance(it, Looked) and it.uid == one.asked.uid and it.nodes is not None and node in it.nodes.fenced:
            return it.nodes.away >= {node} and node not in it.nodes.stopped
    return False


def _before(facts: Facts, one: Restart) -> Stored | None:
    """The version before the one that announced it."""
    versions = [version for _, version in facts.versions.get(one.asked.uid, ())]
    at = next((number for number, version in enumerate(versions) if version is one.begun), 0)
    return versions[at - 1] if at else None


def _nodes(text: str) -> set[int]:
    """The nodes in runs such as "1-3, 7"."""
    found: set[int] = set()
    for run in filter(None, text.split(", ")):
        first, _, last = run.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def levels_wait_until_the_last_is_back(facts: Facts) -> Iterator[Violation]:
    """No level is raised before every node that an operator stopped is completely back."""
    for place, sent in facts.of_kind(Sent):
        look = facts.last_look(place, sent.process, sent.uid)
        if look is None or look.nodes is None or sent.after <= sent.before:
            continue
        leaving: dict[int, Stopped] = {}
        for record in facts.records[:place]:
            if isinstance(record, Stopped) and record.cluster_id == sent.cluster_id:
                leaving.pop(record.node, None)
                if record.by is not None and not _was_away_before(facts, record):
                    leaving[record.node] = record
            elif isinstance(record, Whole) and record.cluster_id == sent.cluster_id:
                leaving.pop(record.node, None)
        late = {node for node, it in leaving.items() if node in look.nodes.away and not _was_closed(facts, it, place)}
        if late:
            yield Violation("levels last", sent.at, f"{sent}, and the nodes {sorted(late)} are not back")


def _was_away_before(facts: Facts, stopped: Stopped) -> bool:
    """A node that lacked something anyway is waited for only until it has what it had."""
    looks = [it for _, it in facts.of_kind(Looked) if it.at <= stopped.at and it.nodes is not None]
    return bool(looks) and looks[-1].nodes is not None and stopped.node in looks[-1].nodes.away


def _was_closed(facts: Facts, stopped: Stopped, place: int) -> bool:
    """True if the intent ended for another reason than the return of its node, or was lost."""
    return any(
        each.get("result") not in ("Applied", "Corrected") and str(each.get("target")) == stopped.pod
        for versions in facts.versions.values()
        for at, one in versions
        if at < place and one.at >= stopped.at
        for each in one.status.get("history") or ()
    )


NODE_RULES = (
    one_that_may_be_on_its_way_goes_first,
    who_is_away_is_left_alone,
    who_is_away_keeps_no_partition,
    who_is_away_counts,
    nothing_goes_beside_a_reassignment,
    nothing_is_asked_for_that_a_budget_refuses,
    nothing_goes_beside_one_that_is_late,
    levels_wait_until_the_last_is_back,
)
