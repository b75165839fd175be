"""Interface of a step, its memory while its outcome is open, and the outcomes of sending it.

Each kind of step stands in a room of its own, with its words and its rules (`core/levels/update_feature.py`,
`core/roll/restart_node.py`), and is registered in `core/kinds.py`. Nothing here knows one of them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, Self, assert_never

from msgspec import Struct

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_stamp
from kafkafeatures.api.status import HistoryEntry, Intent, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord
from kafkafeatures.core.engine.settling import AgeOf, ObservationPair, OpenOutcome
from kafkafeatures.core.facts.observation import Observation


class Rejection(Struct, frozen=True):
    """Consequence of the rejection of a step. `remedy`: what a person can do. `needs_action`: someone has to act before
    it is tried again.

    `recorded`: the message of its entry in the history; empty where it leaves none, because it was only refused for
    now: then it counts as not begun.
    """

    reason: Reason
    message: str
    remedy: str
    needs_action: bool = True
    recorded: str = ""


class Step(Protocol):
    """One effect on a cluster, as a value: two steps that are equal have the same effect. `str` names it for people."""

    kind: ClassVar[str]
    """`intents[].kind`."""
    recorded_as: ClassVar[str]
    """`history[].kind`."""
    counts: ClassVar[bool]
    """True where it adds to `status.changeCount`: the plan that it was a step of has made progress."""
    is_followed: ClassVar[bool]
    """True where others may be sent beside it, while it is followed from look to look until it is over. Nothing else is
    sent until the outcome of any other step is known, which takes two readings in a row.
    """
    is_read_in_zookeeper: ClassVar[bool]
    """True where only the znodes show its outcome: they are read while that is open."""
    settled_by: ClassVar[str]
    """Until what has happened its outcome is open, for people."""
    reason: ClassVar[Reason]
    """Reason why Ready is False, and Reconciling True, while it is carried out."""
    consents_of_plan: ClassVar[frozenset[str]]
    """Entries of `spec.consents` that its plan rests on, where that says so: used up before the first one is sent."""

    @property
    def target(self) -> str:
        """Name of the object that the step acts on."""

    @property
    def revision(self) -> str:
        """`history[].after`: the revision that it leads to; empty where there is none."""

    @property
    def request(self) -> str:
        """Request that leaves the process, in words."""

    @property
    def in_progress(self) -> str:
        """Message while the step is carried out."""

    @property
    def consent(self) -> str:
        """The entry of `spec.consents` that it needs, and uses up; empty where it needs none."""

    @property
    def is_decided_again(self) -> bool:
        """Tell whether it is decided once more, on a reading of that moment, right before it is sent."""

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether no window holds it back: nothing can get worse."""

    def is_asked_for_by(self, earlier: Step) -> bool:
        """Tell whether sending it asks once more for what an intent says already: then it is the same intent."""

    def begin(self, at: Stamp, via: Via, observation: Observation, *, corrects_drift: bool = False) -> InFlight:
        """Step in flight, to be remembered from the moment on at which it may be sent; `observation`: what
        that was decided on.
        """

    def rejection(self, code: int, message: str) -> Rejection:
        """Consequence of a rejection with this code and this message."""

    def to_intent(self) -> Mapping[str, Any]:
        """The fields of its intent that are its own."""

    @classmethod
    def read(cls, intent: Intent) -> InFlight:
        """Step in flight that an intent of this kind stands for. Raises ValueError where that cannot be understood."""

    @classmethod
    def is_irreversible(cls, ended: HistoryEntry) -> bool:
        """Tell whether what a step of this kind did, by its entry in the history, cannot be undone."""

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        """The Event of the end of one of this kind; None where there is none. `facts`: what was known of the step while
        it was in flight; None where it was not seen then.
        """


# --- what is remembered of a step whose outcome is open ---


class UnknownStep(Struct, frozen=True):
    """An intent that this release cannot read: kept, shown, and nothing is done while it is there."""

    intent: Intent

    def __str__(self) -> str:
        """Description of an intent that another release wrote, or that is damaged."""
        fields = self.intent.unknown
        target, title = (str(fields.get(name, "")) for name in ("target", "title"))
        if title:
            return f"{title} ({target})" if target not in ("", title) else title
        if "before" in fields and "after" in fields:
            return f"{target or '?'} {fields['before']} -> {fields['after']}"
        return f"{self.intent.kind or '?'} {target}".rstrip()

    def progress(self, ago: Callable[[str], str]) -> str:
        """Progress as far as it is known, in one line."""
        at = self.intent.unknown.get("at")
        return f"{self}{f', sent {ago(str(at))} ago' if at else ''}; outcome not known yet"


class InFlight(Struct, frozen=True):
    """A step that may have been sent and is not settled. Each kind adds what it has to remember of its own.

    `accepted`: its receiver accepted it. `intent`: its intent as the status has it.
    """

    step: Step
    at: Stamp
    via: Via
    accepted: bool = False
    intent: Intent | None = None

    def __str__(self) -> str:
        return str(self.step)

    def to_intent(self) -> Intent:
        """The intent as it stands in `status.intents`."""
        if self.intent is not None:
            return self.intent
        fields = {**self.step.to_intent(), "via": self.via.value, **self.follow_up()}
        if self.accepted:
            fields["outcome"] = Result.APPLIED.value
        return Intent(kind=self.step.kind, unknown={**fields, "at": self.at})

    def follow_up(self) -> Mapping[str, Any]:
        """The fields of its intent that only this kind remembers."""
        return {}

    def remembering(self, current: Self) -> Self:
        """This step with what is remembered of it in `current`; what another release wrote into its intent is kept."""
        old_fields, new_fields, intent = self.follow_up(), current.follow_up(), self.intent
        if old_fields == new_fields:
            return self
        if intent is not None:
            other_fields = {name: value for name, value in intent.unknown.items() if name not in old_fields}
            intent = Intent(kind=intent.kind, unknown={**other_fields, **new_fields})
        return replace(current, intent=intent)

    @property
    def seen_since(self) -> tuple[Stamp, ...]:
        """Since when something was seen in every look."""
        return ()

    def followed(self, looks: ObservationPair) -> Self:
        """This step with what these readings show of its progress."""
        return self

    def settle(self, looks: ObservationPair) -> Result | OpenOutcome:
        """Outcome by these looks, or the reason why it is still open."""
        raise NotImplementedError

    def recorded_result(self, result: Result) -> Result:
        """The word for how it ended, where this kind has one of its own."""
        return result

    def closing(self, status: Status, result: Result, age_of: AgeOf) -> Status:
        """The status with what its end means for the part that this kind has in it."""
        return status

    @property
    def facts(self) -> EventFacts:
        """Fields of the Events about it."""
        return EventFacts(kind=self.step.kind, begun_at=self.at)

    def announced(self) -> EventRecord | None:
        """The Event of its beginning; None where only its end has one."""
        return None

    def progress(self, ago: Callable[[str], str]) -> str:
        """Progress as far as it is known, in one line. `ago`: how long ago a moment was, as people read it."""
        return f"{self.step}, sent {ago(self.at)} ago; outcome not known yet"


def sent_as(intent: Intent) -> dict[str, Any]:
    """The fields of an `InFlight` that all kinds have, but for the step. Raises ValueError where one is damaged."""
    fields = intent.unknown
    return {
        "at": read_stamp(fields.get("at")),
        "via": Via(str(fields.get("via"))),
        "accepted": fields.get("outcome") == Result.APPLIED,
        "intent": intent,
    }


# --- what came of sending it ---


class Applied(Struct, frozen=True):
    """The active controller said yes (error code 0). Not proof yet: the level is read back."""


class Rejected(Struct, frozen=True):
    """The active controller said no, in its own words. Nothing was changed."""

    code: int
    message: str


class NotSent(Struct, frozen=True):
    """No request left this process, so nothing can have changed."""

    reason: str


class OutcomeUnknown(Struct, frozen=True):
    """The request may have been sent and may still be applied: EOF, reset, time-out, NOT_CONTROLLER (41)."""

    reason: str


Outcome = Applied | Rejected | NotSent | OutcomeUnknown


# --- the server's dry run ---


class DryRunAccepted(Struct, frozen=True):
    """A validateOnly of exactly the pending changes was answered with yes."""


class DryRunRejected(Struct, frozen=True):
    """A validateOnly was answered with no."""

    code: int
    message: str

    @property
    def is_judgement(self) -> bool:
        """Tell whether the active controller judged the change, and not the right to ask for it:
        INVALID_UPDATE_VERSION.
        """
        return self.code == 95


class DryRunUnavailable(Struct, frozen=True):
    """No verdict could be had; `rights`: because ALTER on the cluster is missing."""

    reason: str
    rights: bool = False


DryRun = DryRunAccepted | DryRunRejected | DryRunUnavailable


def why_unjudged(dry_run: DryRun | None) -> OpenOutcome:
    """Reason why it does not prove that the active controller has done all that it was given before; empty where it
    does.

    Both other answers come from where changes are carried out, in their order; a missing right, or a request that
    cannot be read, is answered before.
    """
    match dry_run:
        case DryRunAccepted():
            return OpenOutcome()
        case DryRunRejected() if dry_run.is_judgement:
            return OpenOutcome()
        case DryRunUnavailable(reason=reason, rights=rights):
            return OpenOutcome(reason, rights)
        case DryRunRejected(message=reason):
            return OpenOutcome(reason)
        case None:
            return OpenOutcome("the level of metadata.version could not be read")
        case _:
            assert_never(dry_run)
