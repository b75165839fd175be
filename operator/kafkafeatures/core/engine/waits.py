"""The beginning of a wait, and its message once the wait has lasted for a while: for stages of all kinds.

Pure. A decision of a stage or a gate names its subject and a remedy, and no time. `status.readyReason` keeps the time
since when the same subject has been waited for, for the same reason: the status outlives a process.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.since_status import ReadyReason
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Decision, Pending, Stalled, Wait
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.words import cut

REMEDY_AFTER = timedelta(minutes=2)
"""Duration of a wait from which on its message says since when it lasts, and what a person can do."""
SINCE = "since "
"""First word of the part that is then added to the message."""
MAX_MESSAGE = 1000
"""Most bytes of a message with its remedy, without the "; " between them. If there are more, the message is cut, and
the remedy stays whole.
"""


def subject_of(decision: Decision) -> str:
    """Subject that a decision waits for, or is halted by; empty for any other decision."""
    return str(decision.subject) if isinstance(decision, Pending) else ""  # a position is written as its name


def since_of(reason: Reason, subject: str, previous: Status, at: Stamp) -> ReadyReason | None:
    """Reason and subject of the condition Ready, with the time since when both are the same: the time in `previous` if
    that status has the same two, else `at`. None if it is not known: the previous status has this reason without a
    time, as older releases of the operator wrote it, and no subject is waited for.
    """
    begins = ReadyReason(reason=reason.value, subject=subject, since=at)
    if previous.reason(Condition.READY) != reason:
        return begins
    ready_reason = previous.ready_reason
    if ready_reason is not None and (ready_reason.reason, ready_reason.subject) == (reason, subject):
        return ready_reason
    return begins if subject else None


def explained(decision: Decision, previous: Status, at: Stamp, age_of: AgeOf) -> Decision:
    """The decision with its remedy in the message: at once for a halt; after two minutes for a wait, together with the
    beginning of the wait. A wait's message changes once, not with each reconciliation, as each change is a write of the
    status. `previous`: the status before this one.
    """
    if isinstance(decision, Stalled):
        texts = (decision.message, *(blocker.remedy for blocker in decision.blockers))
        return (
            decision
            if _has(texts, decision.remedy)
            else replace(decision, message=_with_added(decision, decision.remedy))
        )
    if not isinstance(decision, Wait) or decision.is_dated or not decision.subject:
        return decision
    ready_reason = since_of(decision.reason, decision.subject, previous, at)
    if ready_reason is None or age_of(ready_reason.since) < REMEDY_AFTER:
        return decision
    since = f"{SINCE}{datetime.fromisoformat(ready_reason.since):%Y-%m-%d %H:%M} UTC"
    remedy = "" if _has((decision.message,), decision.remedy) else decision.remedy
    return replace(decision, message=_with_added(decision, since, remedy))


def without_time(message: str) -> str:
    """The message of a wait, without the time and the remedy that `explained` has added."""
    return message.partition(f"; {SINCE}")[0]


def _has(texts: tuple[str, ...], remedy: str) -> bool:
    return any(remedy in text for text in texts)


def _with_added(decision: Wait | Stalled, *more: str) -> str:
    tail = "; ".join(text for text in more if text)
    return f"{cut(decision.message, MAX_MESSAGE - len(tail.encode()))}; {tail}" if tail else decision.message
