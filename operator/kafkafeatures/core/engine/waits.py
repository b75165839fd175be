"""Since when the same thing has been waited for, and how that is said: in one place, for stages of all kinds.

Pure. What a stage or a gate decides names its subject and a remedy, and no time. Since when it has been waited for the
same subject, for the same reason, is in `status.readyReason`, which outlives a process. Called by
`reconcile/evaluate.py` with each decision, and by `core/report/`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import ReadyReason, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Decision, Pending, Stalled, Wait
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.words import cut

REMEDY_AFTER = timedelta(minutes=2)
"""Time for which something may be waited for before its message says since when, and what a person can do."""
SINCE = "since "
MOST = 1000
"""Bytes of a message and its remedy: of a long one, the end of the message goes."""


def subject_of(decision: Decision) -> str:
    """Subject that a decision waits for, or is halted by; empty where it is neither."""
    return str(decision.subject) if isinstance(decision, Pending) else ""  # a position is written as its name


def since_of(reason: Reason, subject: str, previous: Status, at: Stamp) -> ReadyReason | None:
    """Since when Ready has had this reason, and the same subject; None where a release that does not say so has found
    the reason, and nothing is waited for.
    """
    begins = ReadyReason(reason=reason.value, subject=subject, since=at)
    if previous.reason(Condition.READY) != reason:
        return begins
    ready_reason = previous.ready_reason
    if ready_reason is not None and (ready_reason.reason, ready_reason.subject) == (reason, subject):
        return ready_reason
    return begins if subject else None


def explained(decision: Decision, previous: Status, at: Stamp, age_of: AgeOf) -> Decision:
    """The decision with its remedy in the message: of one that is halted at once, of a wait once it has lasted for two
    minutes, with its beginning. `previous`: the status of before. The message changes once, not with each look.
    """
    if isinstance(decision, Stalled):
        texts = (decision.message, *(blocker.remedy for blocker in decision.blockers))
        return decision if _has(texts, decision.remedy) else replace(decision, message=_told(decision, decision.remedy))
    if not isinstance(decision, Wait) or decision.is_dated or not decision.subject:
        return decision
    ready_reason = since_of(decision.reason, decision.subject, previous, at)
    if ready_reason is None or age_of(ready_reason.since) < REMEDY_AFTER:
        return decision
    since = f"{SINCE}{datetime.fromisoformat(ready_reason.since):%Y-%m-%d %H:%M} UTC"
    remedy = "" if _has((decision.message,), decision.remedy) else decision.remedy
    return replace(decision, message=_told(decision, since, remedy))


def without_time(message: str) -> str:
    """The message of a wait without what was added to it once it had lasted."""
    return message.partition(f"; {SINCE}")[0]


def _has(texts: tuple[str, ...], remedy: str) -> bool:
    return any(remedy in text for text in texts)


def _told(decision: Wait | Stalled, *more: str) -> str:
    tail = "; ".join(text for text in more if text)
    return f"{cut(decision.message, MOST - len(tail.encode()))}; {tail}" if tail else decision.message
