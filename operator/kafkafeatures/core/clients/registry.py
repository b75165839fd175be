"""Registrations of a cluster's brokers: which brokers evidence has to cover, from when to when, and which process of a
broker registered last.

Pure. What it decides: a broker has to be covered if it was registered at any time in the window, or if there is
evidence of it in the window.
Evidence from a process that cannot be the one that registered last does not count: it is of something else, such as a
broker of another cluster with the same id. All times are in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from msgspec import Struct, field

from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MAX_CLOCK_ERROR, MAX_GAP, BrokerEvidence


class RegisteredProcess(Struct, frozen=True):
    """The process of a broker that registered last. `earliest`, `latest`: bounds of the time at which it registered, by
    the controller's clock. A process registers just after its start.
    """

    earliest: int
    latest: int

    def may_have_started_at(self, start: int) -> bool:
        """Tell whether this process may have started at `start`, which is by the broker's clock."""
        return self.earliest - MAX_CLOCK_ERROR <= start <= self.latest + MAX_CLOCK_ERROR


class BrokerRegistry(Struct, frozen=True):
    """The brokers of a cluster, by id.

    present: brokers that are registered now.
    removed: times at which other brokers were unregistered.
    joined: times at which brokers were registered for the first time, if the log shows that.
    processes: the process that registered last; without brokers for which it is not known.
    """

    present: Set[int]
    removed: Mapping[int, int] = field(default_factory=dict)
    joined: Mapping[int, int] = field(default_factory=dict)
    processes: Mapping[int, RegisteredProcess] = field(default_factory=dict)

    def spans(self, evidence: Mapping[int, BrokerEvidence], window: EvidenceWindow) -> Mapping[int, EvidenceWindow]:
        """The part of the window in which each broker has to be covered, by id; without brokers that joined after the
        window.
        """
        brokers = {
            *self.present,
            *(broker for broker, time in self.removed.items() if time > window.begin),
            *(broker for broker, its_evidence in evidence.items() if its_evidence.last > window.begin),
        }
        spans = {broker: self._span(broker, window) for broker in sorted(brokers)}
        return {broker: span for broker, span in spans.items() if span.length > 0}

    def _span(self, broker: int, window: EvidenceWindow) -> EvidenceWindow:
        """From the first registration of the broker to its removal, as far as they are within the window. A broker that
        is not registered, but has evidence, has to be covered to the end of the window.
        """
        removed = 0 if broker in self.present else self.removed.get(broker, 0)
        end = min(removed, window.end) if removed > window.begin else window.end
        return EvidenceWindow(max(self.joined.get(broker, 0), window.begin), end)

    def last_sign(self, broker: int, evidence: BrokerEvidence | None) -> int:
        """Last time at which a broker that is not registered is known to have existed: its removal, or its last
        scrape.
        """
        return max(self.removed.get(broker, 0), evidence.last if evidence is not None else 0)

    def running_since(self, evidence: BrokerEvidence | None) -> int | None:
        """A time at which the latest process of the evidence ran, as it was registered then. None if the process that
        registered last is not known, or may be another one.
        """
        registered = None if evidence is None else self.processes.get(evidence.broker)
        if evidence is None or registered is None or evidence.last <= registered.latest:
            return None
        return registered.latest if registered.may_have_started_at(evidence.processes[-1].start) else None

    def contradiction(self, evidence: BrokerEvidence, window: EvidenceWindow) -> str:
        """Message where the latest process of the evidence is not the one that registered last; empty where it may be,
        or may be an earlier process of the broker.
        """
        registered = self.processes.get(evidence.broker)
        if registered is None or evidence.last <= registered.latest + MAX_GAP:
            return ""  # no scrape was made after the registration, so the evidence is of an earlier process
        process = evidence.processes[-1]
        if registered.may_have_started_at(process.start):
            return ""
        if registered.latest < window.end - MAX_CLOCK_ERROR < process.start:
            return ""  # it started at the end of the window: its registration may be newer than this registry
        name = process.scrapes[-1].source
        text = "shows a process that did not start when the broker registered last: it is of another cluster or broker"
        return f"{name} {text}"
