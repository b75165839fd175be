"""End of a step in the status: its intent is removed, an entry is added to the history, and its consent is spent or
given back.

Pure. Called by the modules of `reconcile/`, for steps that were settled and for those that end at once.
"""

from __future__ import annotations

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import HistoryEntry, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.memory import counts_as_correction
from kafkafeatures.core.engine.settling import BROKER_KEEPS, AgeOf
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.kinds import kind_of
from kafkafeatures.core.words import cut

MAX_HISTORY = 10
"""Most entries of the history in a status."""
MAX_MESSAGE = 512
"""Most bytes of a message: a rejection may bring up to 32 KB from the server."""

_MAY_HAVE_CHANGED = (Result.APPLIED, Result.SUPERSEDED, Result.UNVERIFIED)
"""Results of steps that changed something, or may have: their consent stays spent."""
_COUNTED = (Result.APPLIED, Result.CORRECTED, Result.UNVERIFIED)
"""Results that get an entry each time. A failure that repeats has a single entry."""
_ANSWERED = (Result.APPLIED, Result.CORRECTED, Result.REJECTED)
"""Results that an answer shows, so that a broker may still keep a copy of the request, and deliver it. Any other result
is given only once no broker can do that (`BROKER_KEEPS`).
"""


def with_result(
    status: Status, ended: InFlight, result: Result, *, at: Stamp, age_of: AgeOf, message: str = ""
) -> Status:
    """The status after the end of a step, with its consequences for consents and the change count of the plan."""
    step, status = ended.step, ended.closing(status, result, age_of)
    count, spent = status.change_count, status.spent_consents
    if result in _MAY_HAVE_CHANGED:
        count += step.counts
    elif step.consent:  # nothing was changed, so the consent can be used again
        spent = tuple(consent for consent in spent if consent != step.consent)
    recorded_result = ended.recorded_result(result)
    entry = HistoryEntry(
        at=at,
        action=str(step),
        target=step.target,
        kind=step.recorded_as,
        after=step.revision,
        result=recorded_result.value,
        message=cut(message, MAX_MESSAGE),
        plan_hash=status.plan.hash if status.plan is not None else "",
        via=ended.via.value if ended.via is Via.BROKER and recorded_result in _ANSWERED else "",
    )
    history = status.history
    repeats = history and replace(history[-1], at=at) == entry
    if recorded_result in _COUNTED or ended.via is Via.PERSON or not repeats:
        history = (*history, entry)  # a person learns the end of each step that was requested
    elif entry.via:  # keep the time of the latest request, which a broker may still forward
        history = (*history[:-1], entry)
    return replace(
        status,
        intents=tuple(intent for intent in status.intents if intent != ended.to_intent()),
        change_count=count,
        spent_consents=spent,
        history=_newest(history, age_of),
    )


def without(status: Status, in_flight: InFlight) -> Status:
    """The status as if the step had not begun: without its intent, and with its consent not used."""
    intents = tuple(intent for intent in status.intents if intent != in_flight.to_intent())
    spent = tuple(spent_consent for spent_consent in status.spent_consents if spent_consent != in_flight.step.consent)
    return replace(status, intents=intents, spent_consents=spent)


def _newest(history: tuple[HistoryEntry, ...], age_of: AgeOf) -> tuple[HistoryEntry, ...]:
    """The newest entries, at most `MAX_HISTORY`. Dropped first are those of steps of which many run at once, such as
    restarts. Kept longest are corrections of drift that count, and changes that a broker may still forward.
    """

    def is_dispensable(entry: HistoryEntry) -> bool:
        may_be_forwarded = entry.via == Via.BROKER and age_of(entry.at) < BROKER_KEEPS
        return not may_be_forwarded and not counts_as_correction(entry, age_of)

    entries = list(history)
    for dispensable in (_is_one_of_many, is_dispensable):  # each time the oldest ones, as many as are too many
        for entry in [entry for entry in entries[:-1] if dispensable(entry)][: max(0, len(entries) - MAX_HISTORY)]:
            entries.remove(entry)
    return tuple(entries[-MAX_HISTORY:])


def _is_one_of_many(entry: HistoryEntry) -> bool:
    """Tell whether the entry is of a kind of steps of which many are in flight at once."""
    kind = kind_of(entry)
    return kind is not None and kind.is_followed
