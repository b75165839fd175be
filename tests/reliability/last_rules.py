"""What must hold in the last second before a request, held against the record: nothing was withdrawn by then, and a
restart was decided on what had been read just before.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.reliability.facts import APPROVE, PAUSE, Facts, applies
from tests.reliability.records import Asked, Left, Sent, Stopped, Stored
from tests.reliability.violations import Violation

FRESH = 2.0
"""Seconds from a look to the eviction that was decided on it."""
ROUNDED = 0.1
"""Seconds; the world counts in ms, and a pod begins to stop in its next turn."""
KNOWN_WITHIN = 2.1
"""Seconds by which a resource may be another one and an operator not know it: its last answer may be late."""


SENT_WITHIN = 10.1
"""Seconds from the announcement of a change to its first byte; with what the world rounds to."""


def nothing_leaves_that_was_withdrawn(facts: Facts) -> Iterator[Violation]:
    """No request is sent after its document, consent or approval was withdrawn, however long the request has waited."""
    for kind in (Sent, Asked):
        for place, sent in facts.of_kind(kind):
            versions = [one for at, one in facts.versions.get(sent.uid, ()) if at < place]
            known = [one for one in versions if one.at < sent.at - KNOWN_WITHIN][-1:]
            since = [one for one in versions if one.at >= sent.at - KNOWN_WITHIN]
            if known and not any(applies(one) and one.kind != "DELETED" for one in (*known, *since)):
                yield Violation(
                    "withdrawn", sent.at, f"{sent} of a resource that was held back since {known[0].at:.1f}"
                )
    for act in facts.acts:
        if act.begun is None:
            continue
        versions = [one for at, one in facts.versions[act.sent.uid] if at < act.place and one.at >= act.begun.at]
        # What was changed and changed back in between forbids nothing: it is asked what the document is now.
        known = [one for one in versions if one.at < act.sent.at - KNOWN_WITHIN][-1:]
        since = [one for one in versions if one.at >= act.sent.at - KNOWN_WITHIN]
        if known and not any(_asks(one) == _asks(act.begun) for one in (*known, *since)):
            yield Violation("withdrawn", act.sent.at, f"{act.sent}, and the document was another one by then")


def _asks(stored: Stored) -> tuple[object, ...]:
    return dict(stored.spec), stored.annotations.get(PAUSE), stored.annotations.get(APPROVE)


def a_restart_is_decided_on_what_was_read_just_before(facts: Facts) -> Iterator[Violation]:
    """A restart is decided on a reading of just before, however long the intent and the request took."""
    for place, asked in facts.of_kind(Asked):
        look = facts.last_look(place, asked.process, asked.uid)
        if look is None or asked.at - look.at > FRESH:
            since = "never" if look is None else f"{asked.at - look.at:.1f} s before"
            yield Violation("fresh", asked.at, f"{asked}, and the cluster was read {since}")
    for _, stopped in facts.of_kind(Stopped):
        sent = [(place, asked) for place, asked in facts.of_kind(Asked) if asked.number == stopped.by]
        for place, asked in sent:
            seen = facts.last_look(place, asked.process, asked.uid)
            if seen is not None and stopped.at - seen.at > FRESH + ROUNDED:
                since = f"{stopped.at - seen.at:.1f} s before it left"
                yield Violation("fresh", stopped.at, f"{asked}, and the cluster was read {since}")


def what_is_late_does_not_leave(facts: Facts) -> Iterator[Violation]:
    """A successor counts on it: what was announced longer ago is not on its way."""
    announced = {act.sent.number: act.begun for act in facts.acts}
    for _, left in facts.of_kind(Left):
        begun = announced.get(left.number)
        if begun is not None and left.by_clock - begun.at > SENT_WITHIN:
            yield Violation("late", left.by_clock, f"effect {left.number}, which was announced at {begun.at:.1f}")


LAST_RULES = (
    nothing_leaves_that_was_withdrawn,
    a_restart_is_decided_on_what_was_read_just_before,
    what_is_late_does_not_leave,
)
