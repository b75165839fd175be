"""The step that unregisters a broker: what it says of itself, and what became of one that was sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

from msgspec import Struct

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp, read_number
from kafkafeatures.api.status import HistoryEntry, Intent, Result, Via
from kafkafeatures.core.engine.event_records import EventFacts, EventRecord, note_of
from kafkafeatures.core.engine.settling import ObservationPair, OpenOutcome
from kafkafeatures.core.engine.steps import (
    Applied,
    InFlight,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
    Rejection,
    Step,
    sent_as,
)
from kafkafeatures.core.facts.observation import Observation, SourceKind
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role

_CONSENT = re.compile(r"broker\.([0-9]+):1->0")


def asked_for(consents: frozenset[str]) -> tuple[int, ...]:
    """Brokers that a document wants to be unregistered, such as by the consent `broker.8:1->0`."""
    return tuple(sorted(int(found[1]) for one in consents if (found := _CONSENT.fullmatch(one))))


def registered_in(seen: Observation) -> frozenset[int] | None:
    """Brokers that are registered; None where that was not read."""
    if seen.source.kind is not SourceKind.METADATA_LOG:
        return None
    return frozenset(node.id for node in seen.nodes if Role.BROKER in node.roles)


@runtime_checkable
class UnregisterPort(Protocol):
    """The port over which it is sent, which a Kafka cluster has."""

    async def unregister(self, role: Role, node_id: int) -> Failure | None:
        """None: the registration is taken back."""


class UnregisterBroker(Struct, frozen=True):
    """Take back the registration of one broker."""

    kind: ClassVar[str] = "UnregisterBroker"
    recorded_as: ClassVar[str] = "UnregisterBroker"
    counts: ClassVar[bool] = True
    is_followed: ClassVar[bool] = False
    is_read_in_zookeeper: ClassVar[bool] = False
    settled_by: ClassVar[str] = "the registrations were read twice"
    reason: ClassVar[Reason] = Reason.IN_PROGRESS
    consents_of_plan: ClassVar[frozenset[str]] = frozenset()
    revision: ClassVar[str] = ""
    is_decided_again: ClassVar[bool] = False
    goes_at_any_time: ClassVar[bool] = False

    node_id: int

    def __str__(self) -> str:
        return f"unregister broker {self.node_id}"

    @property
    def target(self) -> str:
        """The broker that is unregistered."""
        return f"broker {self.node_id}"

    @property
    def request(self) -> str:
        """The request that is sent."""
        return f"UnregisterBroker {self.node_id}"

    @property
    def in_progress(self) -> str:
        """The text while it is carried out."""
        return f"unregistering broker {self.node_id}"

    @property
    def consent(self) -> str:
        """Each broker is named."""
        return f"broker.{self.node_id}:1->0"

    def is_asked_for_by(self, earlier: Step) -> bool:
        """Always false: a step with an unknown outcome is not sent again."""
        return False

    def begin(self, at: Stamp, via: Via, seen: Observation, *, corrects_drift: bool = False) -> BrokerInFlight:
        """The intent of the step, as it is stored."""
        return BrokerInFlight(self, at, via)

    def rejection(self, code: int, message: str) -> Rejection:
        """An operator has to grant a right, or to look."""
        said = f"the active controller did not unregister broker {self.node_id}: {message}"
        remedy = "grant this principal ALTER on the cluster, or see the log of the active controller"
        return Rejection(Reason.CONTROLLER_REJECTED, said, remedy, recorded=message)

    async def send(self, port: object, withheld: Callable[[], str | None]) -> Outcome:
        """Send the step over a port that can unregister."""
        if why := withheld():
            return NotSent(why)
        if not isinstance(port, UnregisterPort):
            return NotSent("no broker can be unregistered from here")
        failure = await port.unregister(Role.BROKER, self.node_id)
        if failure is None:
            return Applied()
        is_certain = failure.kind in (FailureKind.REJECTED, FailureKind.AUTHORIZATION)
        return Rejected(-1, str(failure)) if is_certain else OutcomeUnknown(str(failure))

    def to_intent(self) -> Mapping[str, Any]:
        """The fields of its intent that are its own."""
        return {"target": self.target, "nodeId": self.node_id}

    @classmethod
    def read(cls, intent: Intent) -> BrokerInFlight:
        """Raises ValueError where the intent is damaged."""
        return BrokerInFlight(cls(read_number(intent.unknown.get("nodeId"))), **sent_as(intent))

    @classmethod
    def is_irreversible(cls, ended: HistoryEntry) -> bool:
        """Always false: a broker registers again."""
        return False

    @classmethod
    def event_of(cls, ended: HistoryEntry, facts: EventFacts | None) -> EventRecord | None:
        """The event of an unregistration that was done; none of others."""
        note = note_of(ended.action, ended.message)
        facts = facts or EventFacts(kind=cls.kind, node=ended.target)
        return EventRecord("BrokerUnregistered", "Unregister", note, facts=facts) if ended.result == "Applied" else None


class BrokerInFlight(InFlight, frozen=True):
    """An unregistration whose outcome is not known yet."""

    step: UnregisterBroker

    @property
    def facts(self) -> EventFacts:
        """The broker in the facts of an event."""
        return EventFacts(kind=self.step.kind, node=self.step.target, node_id=self.step.node_id, begun_at=self.at)

    def settle(self, pair: ObservationPair) -> Result | OpenOutcome:
        """Settle the step by two different readings that agree."""
        before, after = registered_in(pair.earlier), registered_in(pair.later)
        if before is None or after is None or pair.earlier is pair.later:
            return OpenOutcome("the registrations have to be read twice")
        is_there = self.step.node_id in before, self.step.node_id in after
        if is_there == (False, False):
            return Result.APPLIED
        return Result.NOT_APPLIED if is_there == (True, True) and not pair.without_dry_run.reason else OpenOutcome()

    def progress(self, ago: Callable[[str], str]) -> str:
        """The progress: when the step was sent."""
        return f"{self.step}, sent {ago(self.at)} ago; the registrations are being read"
