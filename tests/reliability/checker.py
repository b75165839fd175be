"""The promises of README and how-it-decides, checked on the record of a history. It imports nothing of the operator.

Each rule is one function over the record: what the API server stored, what was true of a cluster when it was read, what
was sent to it, what its controllers wrote. What the operator says of itself counts only where a rule is about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from tests.reliability.consent_rules import (
    a_downgrade_is_of_the_level_that_was_there,
    approvals_are_for_one_plan,
    no_downgrade_without_a_consent_and_none_twice,
)
from tests.reliability.end_rules import CORRECTIONS, HOUR, it_settles_and_rests
from tests.reliability.facts import (
    OPERATOR,
    RESTORE,
    Act,
    Facts,
    applies,
    bundle,
    condition,
    desired,
    intents,
    not_known,
    writer,
)
from tests.reliability.last_rules import LAST_RULES
from tests.reliability.level_rules import LEVEL_RULES, soaks
from tests.reliability.log_rules import LOG_RULES
from tests.reliability.migration_facts import MigrationFacts
from tests.reliability.migration_rules import MIGRATION_RULES
from tests.reliability.node_rules import NODE_RULES
from tests.reliability.records import Ended, History, Jumped, Looked, Sent, Stored, Validated
from tests.reliability.roll_rules import ROLL_RULES
from tests.reliability.violations import Violation

KNOWS_OTHERS_WITHIN = 400.0
"""Seconds until a process has surely heard of another resource: a list, and a read of each."""
HAND_OVER = 32.0
"""Seconds in which a process that was replaced may write on; with the API server's whole seconds."""
SEEN_WITHIN = 2.0
"""Seconds by which an operator may know of a node later than the world does: of a look, and the way there."""


Rule = Callable[[Facts], Iterator[Violation]]


def the_intent_is_written_before_the_act(facts: Facts) -> Iterator[Violation]:
    """Each effect is announced by an intent in the status, and only one effect is announced at a time."""
    for act in facts.acts:
        if act.begun is None:
            yield Violation("intent before act", act.sent.at, f"nothing announced {act.sent}")


def the_effect_log_tells_of_every_effect(facts: Facts) -> Iterator[Violation]:
    """Each request that the operator sends is in its effect log."""
    for _, sent in facts.of_kind(Sent):
        if not sent.logged:
            yield Violation("effect log", sent.at, f"{sent} is not in it")


def nothing_is_done_that_the_owner_does_not_ask_for(facts: Facts) -> Iterator[Violation]:
    """A change fits mode, suspend, pause and levels of the document as they were when its intent was stored."""
    for act in facts.acts:
        if act.begun is None:
            continue
        sent, wanted = act.sent, desired(act.begun)
        if not applies(act.begun):
            yield Violation("held back", sent.at, f"{sent} while it was suspended, paused or observed")
        elif sent.feature in wanted and wanted[sent.feature] != sent.after:
            yield Violation("asked for", sent.at, f"{sent}, but {wanted[sent.feature]} is asked for")
        elif sent.feature not in wanted and not (sent.before < sent.after == bundle(act.begun).get(sent.feature)):
            yield Violation("asked for", sent.at, f"{sent}, which nobody asked for")


def the_controller_is_asked_first(facts: Facts) -> Iterator[Violation]:
    """A change is sent only after a dry run of this change was accepted; kraft.version has no dry run."""
    for act in facts.acts:
        sent = act.sent
        if sent.feature == "kraft.version":
            continue
        asked = next(
            (
                one
                for one in reversed(facts.records[: act.place])
                if isinstance(one, Validated) and (one.process, one.uid) == (sent.process, sent.uid)
            ),
            None,
        )
        if asked is None or not asked.accepted or (sent.feature, sent.after) not in asked.changes:
            yield Violation("dry run", sent.at, f"{sent}, but the last that was asked is {asked}")


def never_on_a_wrong_cluster(facts: Facts) -> Iterator[Violation]:
    """A change is sent only to the cluster that the document names, and that the status had at the first contact."""
    for act in facts.acts:
        named = act.begun.spec["cluster"].get("clusterId") if act.begun is not None else None
        pinned = facts.pinned(act.sent.uid, act.place)
        if {act.sent.cluster_id, named or act.sent.cluster_id, pinned} != {act.sent.cluster_id}:
            yield Violation("right cluster", act.sent.at, f"{act.sent}, but named is {named}, and pinned {pinned}")


def a_status_tells_of_one_cluster(facts: Facts) -> Iterator[Violation]:
    """A status keeps its cluster id and gets no new levels of another cluster; a restored one may have old levels."""
    for uid, versions in facts.versions.items():
        for at, ((_, earlier), (place, version)) in enumerate(pairwise(versions)):
            pinned = facts.pinned(uid, place)
            if not version.by.startswith(OPERATOR) or not pinned:
                continue
            taken_away = not earlier.status.get("clusterId") and not version.status.get("clusterId")
            if version.status.get("clusterId") != pinned and not taken_away:
                yield Violation("one cluster", version.at, f"{pinned} became {version.status.get('clusterId')}")
            look = facts.last_look(place, writer(version), uid)
            is_new = all(_levels(version) != _levels(one) for _, one in versions[: at + 1])
            if look is not None and look.cluster_id != pinned and is_new:
                yield Violation("one cluster", version.at, f"levels of {look.cluster_id} are told as those of {pinned}")


def _levels(stored: Stored) -> dict[str, Any]:
    return {one["name"]: one.get("finalized") for one in stored.status.get("features") or ()}


def what_is_open_stays_alone(facts: Facts) -> Iterator[Violation]:
    """No other change is sent while an earlier one may still take effect. Once the level of the earlier change was
    read, a broker may still forward it again: then only changes of other features may be sent.
    """
    for act in facts.acts:
        moves = facts.moved_by.get(act.sent.number, [])
        for place, moved in moves:
            for other in facts.acts:
                same = (other.sent.uid, other.sent.cluster_id) == (act.sent.uid, act.sent.cluster_id)
                elsewhere = other.sent.feature != act.sent.feature and _was_read(facts, act, moves[0][0], other.place)
                if same and act.place < other.place < place and not elsewhere and not facts.is_forgotten(act, other):
                    text = f"effect {act.sent.number} came true after {other.sent} was sent"
                    yield Violation("one at a time", moved.at, text)


def _was_read(facts: Facts, act: Act, moved: int, until: int) -> bool:
    """True if the cluster was read between these places and had the level that the change asked for."""
    looks = (one for at, one in facts.of_kind(Looked) if moved < at < until and one.uid == act.sent.uid)
    return any(one.levels.get(act.sent.feature, 0) == act.sent.after for one in looks)


def what_became_of_an_effect_is_reported_as_it_was(facts: Facts) -> Iterator[Violation]:
    """A history entry that says it was left undone, or done, is true for ever, and was read from its own cluster.

    Nothing is said to be settled while a broker may still deliver it, unless its level was read meanwhile.
    """
    by_begin = {id(act.begun): act for act in facts.acts if act.begun is not None}
    for versions in facts.versions.values():
        open_act: Act | None = None
        for (_, earlier), (place, version) in pairwise(versions):
            open_act = by_begin.get(id(earlier), open_act)
            if intents(earlier) and not intents(version) and not version.by.startswith(OPERATOR):
                open_act = None  # what becomes of it cannot be said any more
            gone = intents(earlier) and set(intents(earlier)) != set(intents(version))
            kept = set(intents(earlier)) & set(intents(version))
            if not gone or kept or not version.by.startswith(OPERATOR) or open_act is None:
                continue
            sent, before = open_act.sent, earlier.status.get("history") or ()
            begun_at, open_act = open_act.place, None
            action = f"{sent.feature} {sent.before} -> {sent.after}"
            news = [one for one in version.status.get("history") or () if one not in before and one["action"] == action]
            if not news:
                continue
            of_its_plan = [one for one in news if one.get("planHash") == _plan_hash(earlier)]
            # beside it: a change of the next plan, or earlier entries that a status without its history gets back
            said = str((of_its_plan or news)[-1]["result"])
            looks = [
                one
                for one in facts.records[begun_at:place]
                if isinstance(one, Looked) and (one.uid, one.cluster_id) == (sent.uid, sent.cluster_id)
            ]
            read = any(one.levels.get(sent.feature, 0) == sent.after for one in looks)
            if sent.number in facts.moved_by and said in ("NotApplied", "NotSent", "Rejected"):
                yield Violation("outcome", version.at, f"{sent} is told as {said}, but it was applied")
            elif said == "Applied" and not read:
                yield Violation("outcome", version.at, f"{sent} is told as {said}, but the level was never read")
            elif said not in ("NotSent", "Rejected") and not looks:
                yield Violation("outcome", version.at, f"{sent} is told as {said}, but its cluster was not read")
            elif facts.is_kept(sent.number, place) and not read:
                yield Violation("outcome", version.at, f"{sent} is told as {said}, but a broker still keeps it")


def _plan_hash(stored: Stored) -> str | None:
    """That of the plan in its status; each change that is sent makes another one."""
    return (stored.status.get("plan") or {}).get("hash")


def what_another_release_began_is_left_alone(facts: Facts) -> Iterator[Violation]:
    """An intent of another release stays in the status until a person takes it out, and nothing is sent meanwhile."""
    for act in facts.acts:
        if act.begun is not None and not_known(act.begun):
            yield Violation("another release", act.sent.at, f"{act.sent} beside {not_known(act.begun)}")
    for versions in facts.versions.values():
        for (_, earlier), (_, version) in pairwise(versions):
            lost = [one for one in not_known(earlier) if one not in not_known(version)]
            if lost and version.by.startswith(OPERATOR):
                yield Violation("another release", version.at, f"{lost} is not in the status any more")


def every_node_supports_what_is_sent(facts: Facts) -> Iterator[Violation]:
    """At the last reading all registered nodes and all voters, live or not, supported the level that is sent."""
    for act in facts.acts:
        sent = act.sent
        look = facts.last_look(act.place, sent.process, sent.uid)
        if look is None:
            yield Violation("preflight", sent.at, f"{sent} without a look")
            continue
        low, high = look.ranges.get(sent.feature, (0, 0))
        if not low <= sent.after <= high:
            yield Violation("preflight", sent.at, f"{sent}, but all nodes support {low}-{high}")


def an_owner_acts_alone(facts: Facts) -> Iterator[Violation]:
    """Only the oldest resource of a cluster with mode Apply (by creation time, then uid) changes its levels."""
    for act in facts.acts:
        if act.begun is None:
            continue
        sent = act.sent
        age = (act.begun.object["metadata"]["creationTimestamp"], sent.uid)
        for uid in sorted(facts.versions):
            there = facts.between(uid, act.begun.at - KNOWS_OTHERS_WITHIN, act.begun.at)
            older = there and (there[0].object["metadata"]["creationTimestamp"], uid) < age
            if (
                older
                and there[0].at <= act.begun.at - KNOWS_OTHERS_WITHIN
                and all(
                    one.kind != "DELETED"
                    and "deletionTimestamp" not in one.object["metadata"]
                    and one.spec.get("mode", "Apply") == "Apply"
                    and one.status.get("clusterId") == sent.cluster_id
                    for one in there
                )
            ):
                yield Violation("owner", sent.at, f"{sent}, but the older {uid} owns the cluster")


def ready_means_read(facts: Facts) -> Iterator[Violation]:
    """Ready: every level was read for this generation, with an active controller and a quorum. If that controller does
    not answer and the log cannot be read, all other nodes report the levels.
    """
    for uid, versions in facts.versions.items():
        for (_, earlier), (place, version) in zip([(-1, None), *versions], versions, strict=False):
            ready = condition(version, "Ready")
            if ready.get("status") != "True" or ready.get("reason") != "InSync" or not version.by.startswith(OPERATOR):
                continue
            if earlier is not None and condition(earlier, "Ready") == ready:
                continue
            instance = (version.status.get("operator") or {}).get("instance", "")
            look = facts.last_look(place, instance, uid) if instance else None
            if not instance:
                continue  # handed over: the status does not say who wrote it
            if look is None or not look.quorum or look.cluster_id != version.status.get("clusterId"):
                yield Violation("ready", version.at, f"Ready without a read quorum: {look}")
                continue
            named = desired(version)
            wrong = {name: level for name, level in named.items() if level not in look.shows(name)}
            wrong |= {
                name: level
                for name, level in bundle(version).items()
                if name not in named and max(look.shows(name)) < level
            }
            for node, said in look.said.items():
                others = {name for name in named if name != "kraft.version" and said.get(name, 0) != named[name]}
                if ready.get("observedGeneration") == version.generation and others:
                    yield Violation("ready", version.at, f"Ready, but node {node} reports {said}: not {sorted(others)}")
            if ready.get("observedGeneration") == version.generation and wrong:
                yield Violation("ready", version.at, f"Ready, but {wrong} is not what is there: {dict(look.levels)}")
            if intents(version):
                yield Violation("ready", version.at, "Ready with an effect in flight")


def generations_only_grow(facts: Facts) -> Iterator[Violation]:
    """observedGeneration never decreases or exceeds the stored generation, except once after a restore."""
    for versions in facts.versions.values():
        newest, restored = 0, False
        for _, version in versions:
            observed = int(version.status.get("observedGeneration", 0))
            if version.by == RESTORE:
                newest, restored = 0, True
            if version.by.startswith(OPERATOR) and not newest <= observed <= version.generation:
                if not restored:
                    yield Violation("generation", version.at, f"{observed} after {newest}, of {version.generation}")
                restored = False
            else:
                newest = max(newest, observed)


def drift_is_corrected_only_where_that_is_asked_for(facts: Facts) -> Iterator[Violation]:
    """A level is set again only where it was reached and then changed from outside, at most twice within an hour."""
    corrected: dict[tuple[str, str], list[Act]] = {}
    for act in facts.acts:
        sent = act.sent
        if act.begun is None or sent.number not in facts.restores:
            continue
        if (act.begun.spec.get("drift") or {}).get("onDrift", "Report") != "Correct":
            yield Violation("drift", sent.at, f"{sent} corrects what somebody else changed, without being asked to")
        earlier = corrected.setdefault((sent.uid, sent.feature), [])
        lost = max(facts.lost(sent.uid, act.place), _history_dropped(facts, act))
        within = [one for one in earlier if sent.at - one.sent.at < HOUR and one.place > lost]
        if len(within) >= CORRECTIONS and not _another_clock(facts, within[0], act):
            yield Violation("drift", sent.at, f"{sent} is the third correction within an hour")
        if sent.number in facts.moved_by:
            earlier.append(act)


def _history_dropped(facts: Facts, act: Act) -> int:
    """The place at which an older CustomResourceDefinition last removed history and corrections; -1 for never."""
    versions = [one for one in facts.versions.get(act.sent.uid, ()) if one[0] < act.place]
    dropped = (
        place
        for (_, earlier), (place, one) in pairwise(versions)
        if earlier.status.get("history") and not one.status.get("history")
    )
    return max(dropped, default=-1)


def _another_clock(facts: Facts, first: Act, act: Act) -> bool:
    """True if another process sends the later change, and a clock was set before it."""
    set_at = [place for place, _ in facts.of_kind(Jumped) if place < act.place]
    return first.sent.process != act.sent.process and bool(set_at)


def an_irreversible_change_soaks(facts: Facts) -> Iterator[Violation]:
    """An operator sends it only after it has observed finalizeAfter without the end of any node's process."""
    for sent, look, lasts in soaks(facts):
        since = look.at - lasts + SEEN_WITHIN
        ended = [
            one
            for _, one in facts.of_kind(Ended)
            if one.cluster_id == sent.cluster_id and since < one.at < look.at - SEEN_WITHIN
        ]
        looks = (one for _, one in facts.of_kind(Looked) if one.uid == sent.uid and since <= one.at <= look.at)
        if ended and all(one.log for one in looks):  # else a restart between two looks is not seen
            last = ended[-1]
            yield Violation("soak", sent.at, f"{sent} after {lasts:g} s, but node {last.node} ended {last.at}")
        if facts.began.get(sent.process, 0.0) > since:
            yield Violation("soak", sent.at, f"{sent} after {lasts:g} s, of which {sent.process} did not see all")


def two_operators_stop(facts: Facts) -> Iterator[Violation]:
    """An operator sends nothing if another process has written the status after the time for handing over."""
    for act in facts.acts:
        began = facts.began.get(act.sent.process, act.sent.at)
        read = [version for _, version in facts.versions_before(act) if version.by.startswith(OPERATOR)]
        if read and writer(read[-1]) not in ("", act.sent.process) and read[-1].at - began > HAND_OVER:
            text = f"{act.sent} on top of a status that {writer(read[-1])} wrote"
            yield Violation("two operators", act.sent.at, text)


RULES: tuple[Rule, ...] = (
    the_intent_is_written_before_the_act,
    the_effect_log_tells_of_every_effect,
    nothing_is_done_that_the_owner_does_not_ask_for,
    no_downgrade_without_a_consent_and_none_twice,
    a_downgrade_is_of_the_level_that_was_there,
    never_on_a_wrong_cluster,
    a_status_tells_of_one_cluster,
    what_is_open_stays_alone,
    what_became_of_an_effect_is_reported_as_it_was,
    what_another_release_began_is_left_alone,
    every_node_supports_what_is_sent,
    an_owner_acts_alone,
    two_operators_stop,
    ready_means_read,
    generations_only_grow,
    approvals_are_for_one_plan,
    drift_is_corrected_only_where_that_is_asked_for,
    an_irreversible_change_soaks,
    the_controller_is_asked_first,
    it_settles_and_rests,
    *ROLL_RULES,
    *LAST_RULES,
    *LEVEL_RULES,
    *LOG_RULES,
    *NODE_RULES,
)


def violations(history: History) -> list[Violation]:
    """The violations of all promises in this history."""
    if history.migrates:
        told = MigrationFacts(history)
        return [violation for of_migration in MIGRATION_RULES for violation in of_migration(told)]
    facts = Facts(history)
    return [violation for rule in RULES for violation in rule(facts)]
