"""What can be done to a cluster, how it is remembered while its outcome is open, and what came of it: closed unions.

Only `reconcile/act.py` carries a step out. A new kind of effect is a new class in `Step` here and a new case there;
mypy's exhaustiveness shows the rest. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, assert_never

from msgspec import Struct

from kafkafeatures.api.names import DYNAMIC_QUORUM, KRAFT_VERSION
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_number, read_stamp, read_text, stamp
from kafkafeatures.api.status import FeatureState, FeatureStatus, Intent, Result, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.settling import Open, Sent
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.quorum import nothing_was_moved_since, worked_between
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.words import format_span

BROKER_KEEPS = timedelta(minutes=5)
"""A broker that passed a request on may keep it while no controller is active, and deliver it minutes later (seen)."""


class UpdateFeature(Struct, frozen=True):
    """Finalize one feature at `after`; it was read at `before`. Absent and disabled are both level 0."""

    kind: ClassVar[str] = "UpdateFeature"

    feature: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.feature} {self.before} -> {self.after}"

    @property
    def target(self) -> str:
        """What is acted on."""
        return self.feature

    @property
    def request(self) -> str:
        """What leaves the process."""
        return f"UpdateFeatures {self}"

    @property
    def in_progress(self) -> tuple[Reason, str]:
        """What is said while it is carried out."""
        return Reason.UPDATING_FEATURES, str(self)

    @property
    def is_downgrade(self) -> bool:
        """Whether the level goes down."""
        return self.after < self.before

    def to_intent(self) -> dict[str, Any]:
        """The fields of its intent that are its own."""
        return {"target": self.feature, "before": str(self.before), "after": str(self.after)}

    @property
    def consent(self) -> str:
        """The entry of `spec.consents` that it needs; empty where it needs none."""
        if self.feature == KRAFT_VERSION:
            return DYNAMIC_QUORUM
        return f"{self.feature}:{self.before}->{self.after}" if self.is_downgrade else ""

    def reverted_in(self, features: tuple[FeatureStatus, ...]) -> tuple[FeatureStatus, ...]:
        """The features of a status, where it was applied and reverted outside KafkaFeatures."""
        return tuple(
            replace(one, desired=self.after, state=FeatureState.DRIFTED.value) if one.name == self.feature else one
            for one in features
        )

    @classmethod
    def from_intent(cls, fields: Mapping[str, Any]) -> UpdateFeature:
        """Raises ValueError for what is none."""
        feature, before, after = (read_text(fields.get(name)) for name in ("target", "before", "after"))
        return cls(feature, int(before), int(after))

    def settle(self, before: Observation, after: Observation, sent: Sent) -> Result | Open:
        """What became of it by two readings in a row; the same one twice where there is only one so far.

        Nothing is believed without an active controller: a broker that is cut off goes on showing what it knew last.
        Believed undone only after two readings under a quorum that works, and once the active controller answered a dry
        run in between: a NOT_CONTROLLER, an EOF or a time-out were all seen to be applied later. A level that reads as
        before may have been moved and moved back: only the metadata log shows that it was not.
        """
        level = after.level_of(self.feature)
        if level is None or after.no_quorum is not None:
            return Open(f"no active controller shows its level: {after.no_quorum or 'it cannot be read'}")
        if level == self.after:
            return Result.APPLIED
        if before.level_of(self.feature) != level or not worked_between(before, after):
            return Open()
        # Also where the level was changed outside meanwhile.
        if sent.via is Via.BROKER and sent.age < BROKER_KEEPS:
            return Open("the broker that it was sent to may still deliver it")
        if sent.age < sent.on_its_way:
            return Open(
                f"another process may still deliver it, until {format_span(sent.on_its_way)} after this one began"
            )
        if sent.unjudged:
            return Open(f"the active controller has to answer a dry run (validateOnly) before: {sent.unjudged}")
        if level != self.before:
            return Result.SUPERSEDED
        if sent.accepted:  # two readings here as well: what a controller answers may lag what it has just written
            return Result.SUPERSEDED
        return Result.NOT_APPLIED if nothing_was_moved_since(sent.offset, after) else Result.UNVERIFIED


Step = UpdateFeature | RestartNode

_STEPS: Mapping[str, type[Step]] = {one.kind: one for one in (UpdateFeature, RestartNode)}


# --- what is remembered of a step whose outcome is open ---


class UnknownStep(Struct, frozen=True):
    """An intent that this release cannot read: kept, shown, and nothing is done while it is there."""

    intent: Intent

    def __str__(self) -> str:
        """As far as it can be told: of another release, or damaged."""
        fields = self.intent.unknown
        target, title = (str(fields.get(name, "")) for name in ("target", "title"))
        if title:
            return f"{title} ({target})" if target not in ("", title) else title
        if "before" in fields and "after" in fields:
            return f"{target or '?'} {fields['before']} -> {fields['after']}"
        return f"{self.intent.kind or '?'} {target}".rstrip()


class InFlight(Struct, frozen=True):
    """A step that may have been sent and is not settled.

    `corrects_drift`: it undoes a change made outside. `stopping_since`: when a restarted node was first seen to have
    been told to stop; `stable_since`: to be back. `unwanted_since`: from when on its restart was not asked for any
    more. `written`: its intent as the status has it.
    """

    step: Step
    at: Stamp
    via: Via
    offset: int = -1
    accepted: bool = False
    corrects_drift: bool = False
    stable_since: Stamp | None = None
    unwanted_since: Stamp | None = None
    stopping_since: Stamp | None = None
    written: Intent | None = None

    def __str__(self) -> str:
        return str(self.step)

    def to_intent(self) -> Intent:
        """As in `status.intents`."""
        if self.written is not None:
            return self.written
        fields: dict[str, Any] = {**self.step.to_intent(), "via": self.via.value}
        if self.offset >= 0:
            fields["offset"] = self.offset
        if self.corrects_drift:
            fields["correctsDrift"] = True
        if self.accepted:
            fields["outcome"] = Result.APPLIED.value
        moments = _moments(self.at, self.stable_since, self.unwanted_since, self.stopping_since)
        return Intent(kind=self.step.kind, unknown={**fields, **moments, "at": self.at})

    def followed(
        self, *, stable_since: Stamp | None, unwanted_since: Stamp | None, stopping_since: Stamp | None
    ) -> InFlight:
        """The same, of which this is remembered as well; what another release wrote into it is kept."""
        moments = stable_since, unwanted_since, stopping_since
        if moments == (self.stable_since, self.unwanted_since, self.stopping_since):
            return self
        written = self.written
        if written is not None:
            others = {name: one for name, one in written.unknown.items() if name not in _MOMENTS}
            written = Intent(kind=written.kind, unknown={**others, **_moments(self.at, *moments)})
        return replace(
            self,
            stable_since=stable_since,
            unwanted_since=unwanted_since,
            stopping_since=stopping_since,
            written=written,
        )

    def sent(
        self,
        age_of: Callable[[str], timedelta],
        *,
        stable_for: timedelta = timedelta(0),
        on_its_way: timedelta = timedelta(0),
        unjudged: str = "",
    ) -> Sent:
        """How it was sent, and how long ago; `on_its_way`: for how long it may be if no answer is known."""
        stable = age_of(self.stable_since) if self.stable_since is not None else None
        unwanted = age_of(self.unwanted_since) if self.unwanted_since is not None else None
        if self.accepted:
            on_its_way = timedelta(0)
        return Sent(
            self.via, age_of(self.at), self.offset, self.accepted, stable, stable_for, unwanted, on_its_way, unjudged
        )


_MOMENTS = ("stableSince", "unwantedSince", "stoppedAfter")
"""Of an intent: fields that come and go while a restart is followed."""


def _moments(at: Stamp, stable: Stamp | None, unwanted: Stamp | None, stopping: Stamp | None) -> dict[str, Any]:
    """Those that there are, by name. When a node stopped is told in seconds: 64 of these have to fit into a status."""
    found: dict[str, Any] = {"stableSince": stable} if stable is not None else {}
    if unwanted is not None:
        found["unwantedSince"] = unwanted
    if stopping is not None:
        took = datetime.fromisoformat(stopping) - datetime.fromisoformat(at)
        found["stoppedAfter"] = max(0, int(took.total_seconds()))
    return found


def _after(at: Stamp, seconds: int) -> Stamp:
    try:
        return stamp(datetime.fromisoformat(at) + timedelta(seconds=seconds))
    except OverflowError:
        raise ValueError("a moment that no clock ever shows") from None


def in_flight(intent: Intent) -> InFlight | UnknownStep:
    """What an intent stands for. One of a known kind that cannot be read may be of another release, or damaged."""
    kind, fields = _STEPS.get(intent.kind), intent.unknown
    if kind is None:
        return UnknownStep(intent)
    try:
        return InFlight(
            kind.from_intent(fields),
            read_stamp(fields.get("at")),
            Via(str(fields.get("via"))),
            read_number(fields.get("offset", -1)),
            fields.get("outcome") == Result.APPLIED,
            fields.get("correctsDrift") is True,
            read_stamp(fields["stableSince"]) if "stableSince" in fields else None,
            read_stamp(fields["unwantedSince"]) if "unwantedSince" in fields else None,
            _after(read_stamp(fields.get("at")), read_number(fields["stoppedAfter"]))
            if "stoppedAfter" in fields
            else None,
            intent,
        )
    except ValueError:
        return UnknownStep(intent)


# --- what came of sending it ---


class Applied(Struct, frozen=True):
    """The active controller said yes (error code 0). Not proof yet: the level is read back."""


class Rejected(Struct, frozen=True):
    """The active controller said no, in its own words. Nothing was changed."""

    code: int
    message: str


class NotSent(Struct, frozen=True):
    """No request left this process, so nothing can have changed."""

    why: str


class OutcomeUnknown(Struct, frozen=True):
    """The request may have been sent and may still be applied: EOF, reset, time-out, NOT_CONTROLLER (41)."""

    why: str


Outcome = Applied | Rejected | NotSent | OutcomeUnknown


# --- the server's dry run ---


class DryRunAccepted(Struct, frozen=True):
    """A validateOnly of exactly the pending changes was answered with yes."""


class DryRunRejected(Struct, frozen=True):
    """A validateOnly was answered with no."""

    code: int
    message: str


class DryRunUnavailable(Struct, frozen=True):
    """No verdict could be had; `rights`: because ALTER on the cluster is missing."""

    why: str
    rights: bool = False


DryRun = DryRunAccepted | DryRunRejected | DryRunUnavailable


def why_unjudged(dry_run: DryRun | None) -> Open:
    """Why it does not prove that the active controller has done all that it was given before; empty where it does.

    Both other answers come from where changes are carried out, in their order; a missing right, or a request that
    cannot be read, is answered before.
    """
    match dry_run:
        case DryRunAccepted() | DryRunRejected(code=95):  # INVALID_UPDATE_VERSION
            return Open()
        case DryRunUnavailable(why=why, rights=rights):
            return Open(why, rights)
        case DryRunRejected(message=why):
            return Open(why)
        case None:
            return Open("the level of metadata.version could not be read")
        case _:
            assert_never(dry_run)
