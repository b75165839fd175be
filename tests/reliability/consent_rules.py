"""Promises of the documentation about consents and approvals, checked on the record of a history."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reliability.facts import (
    APPROVE,
    OPERATOR,
    Act,
    Facts,
    condition,
    desired,
    intents,
    irreversible,
    level_in,
    lossless,
    wants,
)
from tests.reliability.records import Approved, Left, Moved, Stored
from tests.reliability.violations import Violation

SHORTEST = len("sha256:") + 8
"""An approval: the first eight digits of a hash are enough."""
COMMITTED_WITHIN = 0.1
"""Seconds until what a controller wrote is what all of them say."""


def no_downgrade_without_a_consent_and_none_twice(facts: Facts) -> Iterator[Violation]:
    """Named exactly, used once, spent before it is used."""
    used: dict[tuple[str, str], Act] = {}
    for act in facts.acts:
        sent = act.sent
        is_dynamic = sent.feature == "kraft.version"
        if act.begun is None or (sent.after >= sent.before and not is_dynamic):
            continue
        consent = "dynamic-quorum" if is_dynamic else f"{sent.feature}:{sent.before}->{sent.after}"
        if consent not in (act.begun.spec.get("consents") or ()):
            yield Violation("consent", sent.at, f"{sent} without {consent}")
        if act.before is not None and consent in (act.before.status.get("spentConsents") or ()) and not _closes(act):
            yield Violation("consent", sent.at, f"{consent} was spent already")
        if consent not in (act.begun.status.get("spentConsents") or ()):
            yield Violation("consent", sent.at, f"{consent} was not spent before it was used")
        earlier = used.get((sent.uid, consent))
        if earlier is not None and earlier.begun is not None:
            kept = all(
                consent in (one.spec.get("consents") or ())
                for one in facts.between(sent.uid, earlier.begun.at, sent.at)
            )
            if kept and earlier.sent.number in facts.moved_by and not _asked_anew(facts, earlier, act):
                yield Violation("consent", sent.at, f"{consent} was used by effect {earlier.sent.number} already")
        used[sent.uid, consent] = act


def a_downgrade_is_of_the_level_that_was_there(facts: Facts) -> Iterator[Violation]:
    """A consent must name the downgrade that Kafka carried out, not the one that the operator expected, unless the
    level moved after the request had left.
    """
    acts = {act.sent.number: act for act in facts.acts}
    left = {one.number: one.at for _, one in facts.of_kind(Left)}
    for number, moves in facts.moved_by.items():
        act = acts.get(number or 0)
        for place, moved in moves:
            if act is None or act.begun is None or moved.after >= moved.before:
                continue
            if f"{moved.feature}:{moved.before}->{moved.after}" in (act.begun.spec.get("consents") or ()):
                continue
            asked = left.get(act.sent.number, moved.at) - COMMITTED_WITHIN
            meanwhile = (one for at, one in facts.of_kind(Moved) if asked < one.at and at < place)
            if not any((one.cluster_id, one.feature) == (moved.cluster_id, moved.feature) for one in meanwhile):
                text = f"{act.sent}, but it went from {moved.before} to {moved.after}, to which nobody consents"
                yield Violation("consent", moved.at, text)


def approvals_are_for_one_plan(facts: Facts) -> Iterator[Violation]:
    """An approval is valid only for the plan that a person has seen, until this plan is completed or withdrawn."""
    for act in facts.acts:
        if act.begun is None:
            continue
        sent, policy = act.sent, (act.begun.spec.get("approval") or {}).get("policy", "IrreversibleOnly")
        plan = (act.begun.status.get("plan") or {}).get("hash", "")
        in_spec = (act.begun.spec.get("approval") or {}).get("planHash")
        given = {one for one in (in_spec, act.begun.annotations.get(APPROVE)) if one is not None}
        if not all(len(one) >= SHORTEST and plan.startswith(one) for one in given):
            yield Violation("approval", sent.at, f"{sent} of plan {plan}, not {sorted(map(str, given))}")
        computed = sent.feature not in desired(act.begun)
        unsafe = not lossless(sent.feature, sent.before, sent.after)
        restores = sent.number in facts.restores and irreversible(sent.feature, sent.before, sent.after)
        needed = restores or policy == "Always" or (policy == "IrreversibleOnly" and computed and unsafe)
        if not given and not needed:
            continue
        approved = [
            (place, one)
            for place, one in facts.of_kind(Approved)
            if place < act.place and one.uid == sent.uid and one.hash == plan and (one.given or one.hash) in given
        ]
        if not approved:
            yield Violation("approval", sent.at, f"{sent} of plan {plan}, which nobody approved")
            continue
        since, approval = approved[-1]
        if f"{sent.feature} {sent.before} -> {sent.after}" not in (step.partition(";")[0] for step in approval.steps):
            yield Violation("approval", sent.at, f"{sent}, but approved was {approval.steps}")
        used = _used_up(facts, act, since)
        if used:
            yield Violation("approval", sent.at, f"{sent}, but since its plan was approved {used}")


UNREAD = ("ConflictDetected", "SchemaOutdated", "ClusterIdMismatch", "InvalidSpec", "InternalError")


def _was_evaluated(stored: Stored) -> bool:
    """True if this status was computed from the current document and a cluster that was read."""
    ready = condition(stored, "Ready")
    evaluated = ready.get("status") != "Unknown" and ready.get("reason") not in UNREAD
    return evaluated and stored.status.get("observedGeneration") == stored.generation


def _used_up(facts: Facts, act: Act, since: int) -> str:
    """The reason why the approved plan is over, as far as a status says so; empty if it is not over."""
    sent = act.sent
    for place, one in facts.versions_before(act):
        if (
            place < max(since, facts.lost(sent.uid, act.place))
            or not one.by.startswith(OPERATOR)
            or not _was_evaluated(one)
        ):
            continue
        state = level_in(one, sent.feature)
        if wants(one, sent.feature) != sent.after:
            return "it was withdrawn"
        if state and state.get("finalized", sent.before) != sent.before:
            return f"its level was seen at {state['finalized']}"
    return ""


def _asked_anew(facts: Facts, earlier: Act, act: Act) -> bool:
    """True if the status was lost in between, and a person has approved the plan since, or the log that shows the
    earlier use could not be read.
    """
    sent = act.sent
    lost = facts.lost(sent.uid, act.place)
    look = facts.last_look(act.place, sent.process, sent.uid)
    approved = any(place > lost and one.uid == sent.uid for place, one in facts.of_kind(Approved) if place < act.place)
    return lost > earlier.place and (approved or (look is not None and not look.log))


def _closes(act: Act) -> bool:
    """True if the stored version that announces the change also closes an earlier attempt: its consent can be used
    again.
    """
    return bool(act.before and intents(act.before))
