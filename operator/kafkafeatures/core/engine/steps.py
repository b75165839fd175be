"""Interface of a step, of a step in flight, and of the outcomes of sending it.

Pure. Each kind of step has a module of its own, with its texts and rules (`core/levels/update_feature.py`,
`core/roll/restart_node.py`), and is registered in `core/kinds.py`. Nothing here knows any of them.
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
    """Consequence of the rejection of a step.

    remedy: what a person can do.
    needs_action: a person has to act before the step is tried again.
    recorded: message of its entry in the history. Empty: the step was only refused for now, leaves no entry, and counts
        as not begun.
    """

    reason: Reason
    message: str
    remedy: str
    needs_action: bool = True
    recorded: str = ""


class Step(Protocol):
    """One effect on a cluster, as a value: equal steps have the same effect. `str` names it for people.

    Before a step is sent, it is written to `status.intents` as an intent, with which the next process can find out how
    it ended.
    """

    kind: ClassVar[str]
    """`intents[].kind`."""
    recorded_as: ClassVar[str]
    """`history[].kind`."""
    counts: ClassVar[bool]
    """True if the step adds to `status.changeCount`: it is progress of a plan."""
    is_followed: ClassVar[bool]
    """True if other steps may be sent while this one is in flight. False: nothing else is sent until its outcome is
    known, which takes two readings in a row.
    """
    is_read_in_zookeeper: ClassVar[bool]
    """True if only znodes show the outcome: they are read while it is open."""
    settled_by: ClassVar[str]
    """Event until which the outcome stays open, for people."""
    reason: ClassVar[Reason]
    """Reason why Ready is False, and Reconciling True, while it is carried out."""
    consents_of_plan: ClassVar[frozenset[str]]
    """Entries of `spec.consents` that the whole plan needs: used up before its first step is sent."""

    @property
    def target(self) -> str:
        """Name of the object that the step acts on."""

    @property
    def revision(self) -> str:
        """`history[].after`: the revision of the node after the step; empty if it has none."""

    @property
    def request(self) -> str:
        """Request that leaves the process, in words."""

    @property
    def in_progress(self) -> str:
        """Message while the step is carried out."""

    @property
    def consent(self) -> str:
        """The entry of `spec.consents` that this step needs and uses up; empty for none."""

    @property
    def is_decided_again(self) -> bool:
        """Tell whether the decision is made once more, on a new reading, right before the step is sent."""

    @property
    def goes_at_any_time(self) -> bool:
        """Tell whether the step may be sent outside of windows, because it can make nothing worse."""

    def is_asked_for_by(self, earlier: Step) -> bool:
        """Tell whether the intent of an earlier step already covers this step: then no new intent is written."""

    def begin(self, at: Stamp, via: Via, observation: Observation, *, corrects_drift: bool = False) -> InFlight:
        """The step in flight, to be remembered from the moment at which it may be sent. `observation`: the reading on
        which the step was decided.
        """

    def rejection(self, code: int, message: str) -> Rejection:
        """Consequence of a rejection with this error code and message."""

    def to_intent(self) -> Mapping[str, Any]:
        """Fields of the intent that are specific to this kind."""

    @classmethod
    def read(cls, intent: Intent) -> InFlight:
        """The step in flight that an intent of this kind describes. Raises ValueError where it cannot be read."""

    @classmethod
    def is_irreversible(cls, ended: HistoryEntry) -> bool:
        """Tell whether a step of this kind, by its entry in the history, cannot be undone."""

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        """The Event of the end of a step of this kind; None for none. `facts`: fields of the step while it was in
        flight; None if it was not observed then.
        """


# --- steps whose outcome is open ---


class UnknownStep(Struct, frozen=True):
    """An intent that this release of the operator cannot read. It is kept and shown; nothing is sent while it
    exists.
    """

    intent: Intent

    def __str__(self) -> str:
        """Description by the fields that can be read: another release wrote the intent, or it is damaged."""
        fields = self.intent.unknown
        target, title = (str(fields.get(name, "")) for name in ("target", "title"))
        if title:
            return f"{title} ({target})" if target not in ("", title) else title
        if "before" in fields and "after" in fields:
            return f"{target or '?'} {fields['before']} -> {fields['after']}"
        return f"{self.intent.kind or '?'} {target}".rstrip()

    def progress(self, ago: Callable[[str], str]) -> str:
        """Progress as far as it is known, in one line. `ago`: formats the age of a time."""
        at = self.intent.unknown.get("at")
        return f"{self}{f', sent {ago(str(at))} ago' if at else ''}; outcome not known yet"


class InFlight(Struct, frozen=True):
    """A step that may have been sent and is not settled. Each kind of step adds fields of its own.

    at: when the intent began.
    via: the route by which it was sent.
    accepted: its receiver accepted it.
    intent: the intent as the status has it; None if it was not read from a status.
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
        """Fields of the intent that only this kind has, about its progress."""
        return {}

    def remembering(self, current: Self) -> Self:
        """This step with the progress of `current`. Fields of the intent that only another release of the operator
        knows are kept.
        """
        old_fields, new_fields, intent = self.follow_up(), current.follow_up(), self.intent
        if old_fields == new_fields:
            return self
        if intent is not None:
            other_fields = {name: value for name, value in intent.unknown.items() if name not in old_fields}
            intent = Intent(kind=intent.kind, unknown={**other_fields, **new_fields})
        return replace(current, intent=intent)

    @property
    def seen_since(self) -> tuple[Stamp, ...]:
        """Times since when something has been observed at every reading, such as a healthy node."""
        return ()

    def followed(self, pair: ObservationPair) -> Self:
        """This step with what these readings show of its progress."""
        return self

    def settle(self, pair: ObservationPair) -> Result | OpenOutcome:
        """Result of the step by these two readings, or the reason why its outcome is still open."""
        raise NotImplementedError

    def recorded_result(self, result: Result) -> Result:
        """The result as the history names it, where this kind has a word of its own."""
        return result

    def closing(self, status: Status, result: Result, age_of: AgeOf) -> Status:
        """The status with the fields of this kind as they are after the end of the step."""
        return status

    @property
    def facts(self) -> EventFacts:
        """Fields of the Events about this step."""
        return EventFacts(kind=self.step.kind, begun_at=self.at)

    def announced(self) -> EventRecord | None:
        """The Event of the beginning; None if only the end has one."""
        return None

    def progress(self, ago: Callable[[str], str]) -> str:
        """Progress as far as it is known, in one line. `ago`: formats the age of a time."""
        return f"{self.step}, sent {ago(self.at)} ago; outcome not known yet"


def sent_as(intent: Intent) -> dict[str, Any]:
    """Fields of an `InFlight`, without the step, from an intent. Raises ValueError where a field is damaged."""
    fields = intent.unknown
    return {
        "at": read_stamp(fields.get("at")),
        "via": Via(str(fields.get("via"))),
        "accepted": fields.get("outcome") == Result.APPLIED,
        "intent": intent,
    }


# --- outcomes of sending a step ---


class Applied(Struct, frozen=True):
    """The receiver accepted the step (error code 0 of a Kafka response). No proof yet: the outcome is read back."""


class Rejected(Struct, frozen=True):
    """The receiver rejected the step, with its own message. Nothing was changed."""

    code: int
    message: str


class NotSent(Struct, frozen=True):
    """No request left this process, so nothing can have changed."""

    reason: str


class OutcomeUnknown(Struct, frozen=True):
    """The request may have been sent and may still be applied: EOF, reset, time-out, NOT_CONTROLLER (41). A controller
    that loses the leadership may answer 41 and the change be committed all the same.
    """

    reason: str


Outcome = Applied | Rejected | NotSent | OutcomeUnknown


# --- dry runs: UpdateFeatures with validateOnly ---


class DryRunAccepted(Struct, frozen=True):
    """The active controller accepted a dry run (validateOnly) of exactly the pending changes."""


class DryRunRejected(Struct, frozen=True):
    """A dry run (validateOnly) was rejected."""

    code: int
    message: str

    @property
    def is_judgement(self) -> bool:
        """Tell whether the active controller judged the change itself (INVALID_UPDATE_VERSION), not the right to
        request it.
        """
        return self.code == 95


class DryRunUnavailable(Struct, frozen=True):
    """No dry run could be made. `rights`: because ALTER on the cluster is missing."""

    reason: str
    rights: bool = False


DryRun = DryRunAccepted | DryRunRejected | DryRunUnavailable


def outcome_without(dry_run: DryRun | None) -> OpenOutcome:
    """Outcome of a step that has to wait for a dry run, and the reason why this one does not prove that the active
    controller has carried out all earlier requests; without a reason where it does. None: no dry run was made.

    An acceptance, and INVALID_UPDATE_VERSION, come from the queue in which changes are carried out in order. A missing
    right, or a request that cannot be read, is answered before that queue.
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
