"""The step that changes the level of a feature (UpdateFeatures, KIP-584): its texts, and its outcome once it was sent.

Pure. Made by `core/levels/changes.py`; sent by `reconcile/act.py`; registered in `core/kinds.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec import Struct

from kafkafeatures.api.names import DYNAMIC_QUORUM, KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_number, read_text
from kafkafeatures.api.status import FeatureState, HistoryEntry, Intent, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord, note_of
from kafkafeatures.core.engine.settling import BROKER_KEEPS, AgeOf, ObservationPair, OpenOutcome
from kafkafeatures.core.engine.steps import InFlight, Rejection, Step, sent_as
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.quorum import nothing_was_moved_since, worked_between
from kafkafeatures.core.facts.releases import Undo, format_level, undo_of_raise
from kafkafeatures.core.words import format_span

_NOT_LEARNED = "not all of the voters support it"
"""Kafka's message (`LeaderState`) while a new leader has not yet learned that each voter supports the level. The voters
themselves were checked before.
"""
_NAMED = re.compile(r"([a-z][a-z0-9._]*) ([0-9]{1,5}) -> ([0-9]{1,5})")
"""The text of a change, as in the history: "metadata.version 25 -> 29"."""


class UpdateFeature(Struct, frozen=True):
    """Step that finalizes one feature at `to_level`. `from_level`: the level that was read; 0 if none is finalized."""

    kind: ClassVar[str] = "UpdateFeature"
    recorded_as: ClassVar[str] = ""
    counts: ClassVar[bool] = True
    is_followed: ClassVar[bool] = False
    is_read_in_zookeeper: ClassVar[bool] = False
    settled_by: ClassVar[str] = "the level was read twice; a request that a broker forwarded is waited for 5 minutes"
    reason: ClassVar[Reason] = Reason.UPDATING_FEATURES
    consents_of_plan: ClassVar[frozenset[str]] = frozenset()
    revision: ClassVar[str] = ""
    goes_at_any_time: ClassVar[bool] = False

    feature: str
    from_level: int
    to_level: int

    def __str__(self) -> str:
        return f"{self.feature} {self.from_level} -> {self.to_level}"

    @property
    def title(self) -> str:
        """The change with the names of its levels: metadata.version 25 (4.0-IV3) -> 29 (4.2-IV1)."""
        name_before, name_after = (format_level(self.feature, level) for level in (self.from_level, self.to_level))
        return f"{self.feature} {name_before} -> {name_after}"

    @classmethod
    def from_history(cls, action: str) -> UpdateFeature | None:
        """The change of an entry in the history, by its text (`action`), which alone has both levels; None for any
        other text.
        """
        match = _NAMED.fullmatch(action)
        return cls(match[1], int(match[2]), int(match[3])) if match else None

    @property
    def target(self) -> str:
        """Name of the feature."""
        return self.feature

    @property
    def request(self) -> str:
        """Request that leaves the process, in words."""
        return f"UpdateFeatures {self}"

    @property
    def in_progress(self) -> str:
        """Message while the step is carried out."""
        return str(self)

    @property
    def is_downgrade(self) -> bool:
        """Tell whether the level goes down."""
        return self.to_level < self.from_level

    def raises(self, feature: str, level: int) -> bool:
        """Tell whether the change raises this feature from below `level` to it or past it."""
        return self.feature == feature and self.from_level < level <= self.to_level

    @property
    def undo(self) -> Undo:
        """Way in which the change can be undone: a downgrade by a raise, a raise as in `core/facts/releases.py`."""
        return Undo.SAFE if self.is_downgrade else undo_of_raise(self.feature, self.from_level, self.to_level)

    @property
    def is_decided_again(self) -> bool:
        """Tell whether the change is one of kraft.version: voters may have registered with other addresses
        meanwhile.
        """
        return self.feature == KRAFT_VERSION

    @property
    def consent(self) -> str:
        """The entry of `spec.consents` that the change needs; empty for none."""
        if self.feature == KRAFT_VERSION:
            return DYNAMIC_QUORUM
        return f"{self.feature}:{self.from_level}->{self.to_level}" if self.is_downgrade else ""

    def is_asked_for_by(self, earlier: Step) -> bool:
        """Always False: a change whose outcome is open is not sent again."""
        return False

    def begin(self, at: Stamp, via: Via, observation: Observation, *, corrects_drift: bool = False) -> ChangeInFlight:
        """Step in flight, with the end of the metadata log on which it was decided."""
        return ChangeInFlight(self, at, via, offset=observation.source.offset, corrects_drift=corrects_drift)

    def rejection(self, code: int, message: str) -> Rejection:
        """Consequence of a rejection. As dry runs come first, only kraft.version is rejected here, or a change on a
        cluster that was changed after the dry run.
        """
        text = f"the active controller rejected {self}: {message}"
        if self.feature == KRAFT_VERSION and _NOT_LEARNED in message:
            remedy = (
                "wait: each voter tells a new leader within seconds; if it does not pass, see the logs of the voters"
            )
            return Rejection(Reason.PREFLIGHT, text, remedy, needs_action=False)
        remedy = "see the log of the active controller; change the document, or what it names"
        return Rejection(Reason.CONTROLLER_REJECTED, text, remedy, recorded=f"error {code}: {message}")

    def to_intent(self) -> Mapping[str, Any]:
        """Fields of the intent that are specific to this kind."""
        return {"target": self.feature, "before": str(self.from_level), "after": str(self.to_level)}

    @classmethod
    def read(cls, intent: Intent) -> ChangeInFlight:
        """The change in flight that an intent describes. Raises ValueError where the intent is damaged."""
        fields = intent.unknown
        feature, level_before, level_after = (read_text(fields.get(name)) for name in ("target", "before", "after"))
        return ChangeInFlight(
            cls(feature, int(level_before), int(level_after)),
            **sent_as(intent),
            offset=read_number(fields.get("offset", -1)),
            corrects_drift=fields.get("correctsDrift") is True,
        )

    @classmethod
    def read_own(cls, intent: Intent) -> ChangeInFlight | None:
        """The change in flight that an intent describes; None for another kind, or a damaged intent."""
        try:
            return cls.read(intent) if intent.kind == cls.kind else None
        except ValueError:
            return None

    @classmethod
    def is_irreversible(cls, ended: HistoryEntry) -> bool:
        """Tell whether Kafka refuses to undo the change of this entry."""
        change = cls.from_history(ended.action)
        return change is not None and change.undo is Undo.IMPOSSIBLE

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        """The Event of a change that succeeded, or was rejected by the active controller; else None."""
        reason, warning = _EVENTS.get(ended.result, ("", False))
        facts = facts or EventFacts(kind=cls.kind, feature=ended.target)
        note = note_of(ended.action, ended.message)
        return EventRecord(reason, "UpdateFeatures", note, warning, facts) if reason else None


_EVENTS: Mapping[str, tuple[str, bool]] = {  # result -> reason of the Event, and True for a warning
    Result.APPLIED: ("FeatureUpdated", False),
    Result.CORRECTED: ("DriftCorrected", False),
    Result.REJECTED: ("FeatureUpdateRejected", True),
}


class ChangeInFlight(InFlight, frozen=True):
    """A change of a level that is not settled.

    offset: end of the metadata log on which it was decided; -1 where the log was not read.
    corrects_drift: it undoes a change that was made outside KafkaFeatures.
    """

    step: UpdateFeature
    offset: int = -1
    corrects_drift: bool = False

    def follow_up(self) -> Mapping[str, Any]:
        """Further fields of the intent, which never change."""
        fields: dict[str, Any] = {"offset": self.offset} if self.offset >= 0 else {}
        return {**fields, "correctsDrift": True} if self.corrects_drift else fields

    def settle(self, pair: ObservationPair) -> Result | OpenOutcome:
        """Outcome by two readings in a row.

        Without an active controller the outcome stays open: a broker that is cut off still shows old levels. A change
        counts as not applied only after two readings under a working quorum, with a dry run answered in between:
        requests that ended in NOT_CONTROLLER, EOF or a time-out were all observed to be applied later. A level that is
        the same as before may have been changed twice: only the metadata log shows whether it was.
        """
        earlier, latest, age = pair.earlier, pair.later, pair.known_for(self.at)
        level = latest.level_of(self.step.feature)
        if level is None or latest.no_quorum is not None:
            return OpenOutcome(f"no active controller shows its level: {latest.no_quorum or 'it cannot be read'}")
        if level == self.step.to_level:
            return Result.APPLIED
        if earlier.level_of(self.step.feature) != level or not worked_between(earlier, latest):
            return OpenOutcome()
        # From here on, both readings have the same level, which is not the desired one. These waits are needed whoever
        # set it.
        if self.via is Via.BROKER and age < BROKER_KEEPS:
            return OpenOutcome("the broker that it was sent to may still deliver it")
        if not self.accepted and age < (delay := pair.on_its_way(self.at)):
            return OpenOutcome(f"another process may still deliver it, until {format_span(delay)} after this one began")
        outcome = pair.without_dry_run
        if outcome.reason:
            reason = f"the active controller has to answer a dry run (validateOnly) before: {outcome.reason}"
            return OpenOutcome(reason, outcome.rights)
        # An accepted change needs two readings too: a controller's answer may be older than what it has just written.
        if level != self.step.from_level or self.accepted:
            return Result.SUPERSEDED
        return Result.NOT_APPLIED if nothing_was_moved_since(self.offset, latest) else Result.UNVERIFIED

    def recorded_result(self, result: Result) -> Result:
        """`Corrected` for a change that undid drift; else the result itself."""
        corrected = self.corrects_drift and result in (Result.APPLIED, Result.SUPERSEDED)
        return Result.CORRECTED if corrected else result

    def closing(self, status: Status, result: Result, age_of: AgeOf) -> Status:
        """The status in which the feature is marked as drifted, where the change was accepted and then reverted; else
        unchanged.
        """
        if result is not Result.SUPERSEDED or not self.accepted:
            return status
        step, drifted = self.step, FeatureState.DRIFTED.value
        features = (
            replace(feature, desired=step.to_level, state=drifted) if feature.name == step.feature else feature
            for feature in status.features
        )
        return replace(status, features=tuple(features))

    @property
    def facts(self) -> EventFacts:
        """Feature, and the levels before and after, for Events."""
        step = self.step
        return EventFacts(
            kind=step.kind,
            feature=step.feature,
            before=str(step.from_level),
            after=str(step.to_level),
            begun_at=self.at,
        )

    def progress(self, ago: Callable[[str], str]) -> str:
        """Progress in one line: accepted by the active controller, or outcome not known yet."""
        accepted = "accepted by the active controller; the level is being verified"
        return f"{self.step}, sent {ago(self.at)} ago; {accepted if self.accepted else 'outcome not known yet'}"


def unchanged_level(observation: Observation) -> tuple[UpdateFeature, ...]:
    """A change of metadata.version to its present level, which changes nothing, for a dry run; empty if the level is
    not known. Once the dry run is answered, the active controller has carried out all earlier requests.
    """
    level = observation.level_of(METADATA_VERSION)
    return () if level is None else (UpdateFeature(METADATA_VERSION, level, level),)
