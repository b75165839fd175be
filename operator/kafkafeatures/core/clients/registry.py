"""Registrations of a cluster's brokers: which of them evidence has to cover, from when to when, and of which process.

Pure. Called by `verdict.py`; made by `cli/clients/registered.py` and `reconcile/client_evidence.py`. What it decides: a
broker has to be covered if it was registered at any time in the window, or if there is evidence of it in the window;
and evidence whose process cannot be the one that registered last is of something else, such as a broker of another
cluster with the same id.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from msgspec import Struct, field

from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MAX_CLOCK_ERROR, MAX_GAP, BrokerEvidence


class RegisteredProcess(Struct, frozen=True):
    """The process of a broker that registered last: not before one time, and not after another, in ms by the clock of
    the controller.
    """

    earliest: int
    latest: int

    def may_have_started_at(self, start: int) -> bool:
        """Tell whether a start by the clock of the broker fits."""
        return self.earliest - MAX_CLOCK_ERROR <= start <= self.latest + MAX_CLOCK_ERROR


class BrokerRegistry(Struct, frozen=True):
    """The brokers of a cluster. `present`: those that are registered; `removed`: times, in ms, at which others were
    unregistered; `joined`: times of the first registration of those that were none before; `processes`: where known.
    """

    present: Set[int]
    removed: Mapping[int, int] = field(default_factory=dict)
    joined: Mapping[int, int] = field(default_factory=dict)
    processes: Mapping[int, RegisteredProcess] = field(default_factory=dict)

    def spans(self, evidence: Mapping[int, BrokerEvidence], window: EvidenceWindow) -> Mapping[int, EvidenceWindow]:
        """The part of the window in which each broker has to be covered; none of a broker that joined after it."""
        brokers = {
            *self.present,
            *(broker for broker, time in self.removed.items() if time > window.begin),
            *(broker for broker, its_evidence in evidence.items() if its_evidence.last > window.begin),
        }
        spans = {broker: self._span(broker, window) for broker in sorted(brokers)}
        return {broker: span for broker, span in spans.items() if span.length > 0}

    def _span(self, broker: int, window: EvidenceWindow) -> EvidenceWindow:
        removed = 0 if broker in self.present else self.removed.get(broker, 0)
        end = min(removed, window.end) if removed > window.begin else window.end
        return EvidenceWindow(max(self.joined.get(broker, 0), window.begin), end)

    def last_sign(self, broker: int, evidence: BrokerEvidence | None) -> int:
        """Time, in ms, until which a broker that is not registered is known to have been there."""
        return max(self.removed.get(broker, 0), evidence.last if evidence is not None else 0)

    def running_since(self, evidence: BrokerEvidence | None) -> int | None:
        """Time at which the latest process of a broker's evidence ran, by the cluster; None where it is not known."""
        registered = None if evidence is None else self.processes.get(evidence.broker)
        if evidence is None or registered is None or evidence.last <= registered.latest:
            return None
        return registered.latest if registered.may_have_started_at(evidence.processes[-1].start) else None

    def contradiction(self, evidence: BrokerEvidence, window: EvidenceWindow) -> str:
        """Words for evidence of a process that is not the registered one; "" if it may be, or is one before it."""
        registered = self.processes.get(evidence.broker)
        if registered is None or evidence.last <= registered.latest + MAX_GAP:
            return ""
        process = evidence.processes[-1]
        if registered.may_have_started_at(process.start):
            return ""
        if registered.latest < window.end - MAX_CLOCK_ERROR < process.start:
            return ""  # it may have registered since what is known was read
        name = process.scrapes[-1].source
        text = "shows a process that did not start when the broker registered last: it is of another cluster or broker"
        return f"{name} {text}"
