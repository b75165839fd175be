"""Promises about levels that need a situation of their own to be broken: order, consents and plans that others used up,
soaks, migrations. Held against the record of a history; it imports nothing of the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.reliability.facts import (
    OPERATOR,
    UPDATE,
    Act,
    Facts,
    desired,
    intents,
    irreversible,
    level_in,
    seconds,
    wants,
)
from tests.reliability.records import Approved, Asked, Looked, Moved, Sent, Stored
from tests.reliability.violations import Violation

JUST_NOW = 3.0
"""Seconds in which an operator may not have read what is so: its log is up to a second behind."""
LONGEST_GAP = 62.0
"""Seconds between two looks, after which it is unknown what happened in between; with the way there."""
KRAFT, METADATA = "kraft.version", "metadata.version"


def levels_are_moved_in_order(facts: Facts) -> Iterator[Violation]:
    """Features that depend on metadata.version are downgraded before it and upgraded after it; kraft.version moves last
    and alone.
    """
    for act in facts.acts:
        sent, look = act.sent, facts.last_look(act.place, act.sent.process, act.sent.uid)
        if act.begun is None or look is None:
            continue
        first = {
            feature
            for feature, level in desired(act.begun).items()
            if level not in (shown := look.shows(feature))
            if feature != sent.feature
            if _turn(feature, min(shown), level) < _turn(sent.feature, sent.before, sent.after)
            if not _is_left_alone(act.begun, feature, level) and not _moved_just_now(facts, sent, feature, look)
        }
        if first:
            yield Violation("order of levels", sent.at, f"{sent} before {sorted(first)}")


def _turn(feature: str, before: int, after: int) -> int:
    if feature in (METADATA, KRAFT):
        return 1 if feature == METADATA else 3
    return 0 if after < before else 2


def _is_left_alone(version: Stored, feature: str, level: int) -> bool:
    """True if the difference may be drift that is only reported."""
    told = level_in(version, feature)
    correct = (version.spec.get("drift") or {}).get("onDrift", "Report") == "Correct"
    return not correct and told.get("desired") == level and told.get("state") in ("InSync", "Drifted")


def _moved_just_now(facts: Facts, sent: Sent, feature: str, look: Looked) -> bool:
    return any(
        (one.cluster_id, one.feature) == (sent.cluster_id, feature) and one.at > look.at - JUST_NOW
        for place, one in facts.of_kind(Moved)
        if one.at <= sent.at
    )


def a_consent_of_before_needs_an_approval(facts: Facts) -> Iterator[Violation]:
    """A consent that the document had at the first contact needs an approval, since it is unknown whether it was used
    before.
    """
    for act in facts.acts:
        sent, consent = act.sent, _consent(act.sent)
        if act.begun is None or sent.after >= sent.before or consent == "":
            continue
        versions = [*(one for _, one in facts.versions_before(act)), act.begun]
        unbound = max((at for at, one in enumerate(versions) if not one.status.get("clusterId")), default=-1)
        since = versions[unbound + 1 :]
        if not since or not _is_current(since[0]) or not _kept(since, consent):
            continue
        if not _was_approved(facts, act):
            yield Violation("first contact", sent.at, f"{sent}: {consent} is older than the status")


def others_use_up_a_consent(facts: Facts) -> Iterator[Violation]:
    """The metadata log shows that they made the very change, while the consent to it was there."""
    for act in facts.acts:
        sent, consent = act.sent, _consent(act.sent)
        if act.begun is None or sent.after >= sent.before or consent == "":
            continue
        for place, moved in _moved_by_others(facts, act):
            same = (moved.feature, moved.before, moved.after) == (sent.feature, sent.before, sent.after)
            since = _accounted_since(facts, act, place)
            if same and since and _kept(since, consent) and not _was_approved(facts, act, place):
                yield Violation(
                    "consent", sent.at, f"{sent}, but {consent} was used by somebody else at {moved.at:.1f}"
                )
                break


def others_end_a_plan(facts: Facts) -> Iterator[Violation]:
    """An approval is for what a person saw: it ends where the log shows that another client moved one of its levels."""
    for act in facts.acts:
        given = [
            (place, one)
            for place, one in facts.of_kind(Approved)
            if place < act.place and act.begun is not None and one.uid == act.sent.uid
            if one.hash == (act.begun.status.get("plan") or {}).get("hash")
        ]
        if not given or act.begun is None or not _is_approved_by_hash(act.begun):
            continue
        since, approval = given[-1]
        features = {step.partition(" ")[0] for step in approval.steps}
        for place, moved in _moved_by_others(facts, act):
            known = moved.feature in features and _accounted_since(facts, act, place)
            if place > since and known and not _looks_like_own(facts, act, place, moved):
                text = f"{act.sent} by an approval of before somebody else moved {moved.feature} at {moved.at:.1f}"
                yield Violation("approval", act.sent.at, text)
                break


def _looks_like_own(facts: Facts, act: Act, place: int, moved: Moved) -> bool:
    """True if the operator had decided on this change by then and its outcome was open, whether or not its request
    left: the log shows one such step in both cases, and the status reports it as the operator's own.
    """
    change = moved.feature, moved.before, moved.after
    then = [one for at, one in facts.versions[act.sent.uid] if at < place][-1:]
    if any(one[:3] == change for version in then for one in intents(version)):
        return True
    for own in facts.acts:
        sent, look = own.sent, facts.place_of_look(own.place, own.sent.process, own.sent.uid)
        is_same = sent.uid == act.sent.uid and (sent.feature, sent.before, sent.after) == change
        if is_same and look < place < own.place < act.place:
            return True
    return False


def _is_approved_by_hash(stored: Stored) -> bool:
    return (stored.status.get("plan") or {}).get("approvedBy") in ("PlanHash", "Annotation")


def _moved_by_others(facts: Facts, act: Act) -> Iterator[tuple[int, Moved]]:
    """On the cluster of an effect, and before the look that it was decided on, which read the log."""
    look = facts.last_look(act.place, act.sent.process, act.sent.uid)
    if look is None or not look.log:
        return
    for place, one in facts.of_kind(Moved):
        if one.by is None and one.cluster_id == act.sent.cluster_id and one.at < look.at - JUST_NOW:
            yield place, one


def _accounted_since(facts: Facts, act: Act, place: int) -> list[Stored]:
    """The versions from the one before that place on, if each says up to where it accounts for the log; else none."""
    if facts.lost(act.sent.uid, act.place) >= place:
        return []
    versions = facts.versions_before(act)
    first = max((at for at, (there, _) in enumerate(versions) if there < place), default=None)
    since = [] if first is None else [one for _, one in versions[first:]]
    told = all(one.status.get("logPosition") for one in since if one.status)
    return since if told else []


def _consent(sent: Sent) -> str:
    return "" if sent.feature == KRAFT else f"{sent.feature}:{sent.before}->{sent.after}"


def _kept(versions: list[Stored], consent: str) -> bool:
    return all(consent in (one.spec.get("consents") or ()) for one in versions)


def _is_current(stored: Stored) -> bool:
    return stored.by.startswith(OPERATOR) and stored.status.get("observedGeneration") == stored.generation


def _was_approved(facts: Facts, act: Act, since: int = -1) -> bool:
    plan = ((act.begun.status if act.begun else {}).get("plan") or {}).get("hash")
    approvals = (one for place, one in facts.of_kind(Approved) if since < place < act.place)
    return any((one.uid, one.hash) == (act.sent.uid, plan) for one in approvals)


def soaks(facts: Facts) -> Iterator[tuple[Sent, Looked, float]]:
    """Irreversible changes that need a soak, each with the last look before it, and the seconds of the soak."""
    for act in facts.acts:
        sent = act.sent
        if act.begun is None or not irreversible(sent.feature, sent.before, sent.after):
            continue
        lasts = seconds((act.begun.spec.get("features") or {}).get("finalizeAfter"), 0.0)
        look = facts.last_look(act.place, sent.process, sent.uid)
        if not lasts or look is None:
            continue
        yield sent, look, lasts


def a_soak_is_of_what_it_is_for(facts: Facts) -> Iterator[Violation]:
    """While it lasted nothing else was asked for, nothing unknown was in progress, and an operator kept looking."""
    for sent, look, lasts in soaks(facts):
        since = look.at - lasts + JUST_NOW
        for version in facts.between(sent.uid, since, look.at):
            others = [one for one in version.status.get("intents") or () if one.get("kind") != UPDATE]
            if _is_current(version) and wants(version, sent.feature) != sent.after:
                yield Violation("soak", sent.at, f"{sent}, which nobody asked for at {version.at:.1f}")
                break
            if others:
                yield Violation("soak", sent.at, f"{sent}, and {others[0]['kind']} was in progress at {version.at:.1f}")
                break
        looks = [one.at for _, one in facts.of_kind(Looked) if one.uid == sent.uid and one.process == sent.process]
        looks = [at for at in looks if at <= look.at]
        gaps = (one for one in pairwise(looks) if one[1] > since and one[1] - one[0] > LONGEST_GAP)
        for before, after in gaps:
            yield Violation("soak", sent.at, f"{sent}, and nobody looked from {before:.1f} to {after:.1f}")


def nothing_is_done_in_a_migration(facts: Facts) -> Iterator[Violation]:
    """While a cluster comes from ZooKeeper no level is moved, and no node restarted."""
    for kind in (Sent, Asked):
        for place, sent in facts.of_kind(kind):
            look = facts.last_look(place, sent.process, sent.uid)
            if look is not None and look.migrating:
                yield Violation("migration", sent.at, f"{sent} while a migration is open")


def what_was_reverted_is_drift(facts: Facts) -> Iterator[Violation]:
    """A change that the controller said yes to is not made again on top of what another client did, unless that is
    asked for.
    """
    for act in facts.acts:
        sent = act.sent
        if act.begun is None or (act.begun.spec.get("drift") or {}).get("onDrift", "Report") == "Correct":
            continue
        for earlier in facts.acts:
            same = (earlier.sent.uid, earlier.sent.feature, earlier.sent.after) == (sent.uid, sent.feature, sent.after)
            if same and earlier.place < act.place and _was_accepted(facts, earlier, act):
                back = [
                    one
                    for place, one in facts.of_kind(Moved)
                    if earlier.place < place < act.place
                    and (one.cluster_id, one.feature) == (sent.cluster_id, sent.feature)
                ]
                if len(back) == 2 and back[0].by == earlier.sent.number and back[1].by is None:
                    yield Violation("drift", sent.at, f"{sent} again, which somebody else took back")


def _was_accepted(facts: Facts, act: Act, later: Act) -> bool:
    """True if an operator's status of the same document gave the earlier change the outcome Applied, and was not lost
    since.
    """
    between = [one for at, one in facts.versions.get(act.sent.uid, ()) if act.place < at < later.place]
    if act.begun is None or later.begun is None or facts.lost(act.sent.uid, later.place) > act.place:
        return False
    said = any(
        each.get("outcome") == "Applied" and each.get("target") == act.sent.feature
        for one in between[:2]
        for each in one.status.get("intents") or ()
    )
    return (
        said and act.begun.generation == later.begun.generation and all(one.by.startswith(OPERATOR) for one in between)
    )


LEVEL_RULES = (
    levels_are_moved_in_order,
    a_consent_of_before_needs_an_approval,
    others_use_up_a_consent,
    others_end_a_plan,
    a_soak_is_of_what_it_is_for,
    nothing_is_done_in_a_migration,
    what_was_reverted_is_drift,
)
