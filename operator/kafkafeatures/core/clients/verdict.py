"""The verdict on a release: ready, blocked by clients, or unknown, with what was looked at and what is missing.

Pure. Called by `cli/clients/check.py` and `reconcile/client_evidence.py`. What it decides: `Ready` only if every
registered broker is covered through the whole window, and none was sent a version in it that the release lacks. Less
evidence never makes a cluster ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.clients.coverage import EvidenceGap, EvidenceWindow, GapCause, VersionUse, gaps_of, uses_of
from kafkafeatures.core.clients.evidence import BrokerEvidence, Scrape, evidence_of
from kafkafeatures.core.clients.registry import BrokerRegistry
from kafkafeatures.core.clients.targets import ALIASES, Acceptance, Apis, Targets


class ClientVerdict(StrEnum):
    """Outcome of a check of clients."""

    READY = "Ready"
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"


class UseKind(StrEnum):
    """Meanings of a version that the release does not accept."""

    REMOVED = "Removed"
    """Used within the window: whoever sends it breaks."""
    MAYBE_BEFORE = "MaybeBefore"
    """Removed, and used before the window or in it: its counter was not read when the window began."""
    NEWER = "Newer"
    """Newer than the release, which is older than what runs."""
    UNKNOWN_API = "UnknownApi"


class ApiVersion(NamedTuple):
    """One version of an API."""

    api: str
    version: int


class ApiUse(Struct, frozen=True):
    """Requests of one version to all brokers that had any. `after`, `until`: bounds of the first and the last one."""

    kind: UseKind
    name: str
    version: int
    brokers: tuple[int, ...]
    after: int
    until: int
    requests: int

    @property
    def api_version(self) -> ApiVersion:
        """The version that is used, by the name of its API."""
        return ApiVersion(ALIASES.get(self.name, self.name), self.version)


class BrokerCoverage(Struct, frozen=True):
    """The gaps of a broker that has to be covered; none if it is. `ready_from`: time at which the last is out of
    the window.
    """

    broker: int
    gaps: tuple[EvidenceGap, ...]
    ready_from: int


class ClientCheck(Struct, frozen=True):
    """A verdict with its evidence. `brokers`: None where it is not known which are registered. `ready_from`: earliest
    time at which the verdict can be Ready, if the evidence goes on and shows nothing; None where that is not known.
    """

    release: str
    window: EvidenceWindow
    verdict: ClientVerdict
    is_known_release: bool
    uses: tuple[ApiUse, ...]
    brokers: tuple[BrokerCoverage, ...] | None
    ready_from: int | None

    def breaking(self, consented: Set[ApiVersion] = frozenset()) -> tuple[ApiUse, ...]:
        """Uses of removed versions. `consented`: versions whose clients may break."""
        return tuple(use for use in self.uses if use.kind is UseKind.REMOVED and use.api_version not in consented)

    def without(self, ids: Set[int]) -> ClientCheck:
        """The check without the gaps of these brokers. What they were sent still counts."""
        if self.brokers is None or not ids:
            return self
        brokers = tuple(broker for broker in self.brokers if broker.broker not in ids)
        verdict = _verdict(self.uses, brokers, is_known=self.is_known_release)
        ready_from = _ready_from(self.window, self.uses, brokers) if self.is_known_release else None
        return replace(self, brokers=brokers, verdict=verdict, ready_from=ready_from)

    def verdict_beside(self, consented: Set[ApiVersion]) -> ClientVerdict:
        """The verdict if these versions were not used. What is unknown stays unknown."""
        uses = tuple(use for use in self.uses if use.kind is not UseKind.REMOVED or use.api_version not in consented)
        return _verdict(uses, self.brokers, is_known=self.is_known_release)


_KINDS = {Acceptance.NEWER: UseKind.NEWER, Acceptance.UNKNOWN: UseKind.UNKNOWN_API}


def check_clients(
    release: str,
    targets: Targets,
    scrapes: Iterable[Scrape],
    registry: BrokerRegistry | None,
    window: EvidenceWindow,
    *,
    all_refuse: bool = False,
    logged: Iterable[VersionUse] = (),
) -> ClientCheck:
    """The check of one cluster. `registry`: its brokers; None where they could not be read. `all_refuse`: all of them
    run Kafka 4.0 or newer, so that nothing more breaks. `logged`: by request logs, which may add uses, and cover
    nothing.
    """
    evidence = evidence_of((scrape for scrape in scrapes if scrape.time <= window.end), window.begin)
    uses = tuple(_uses(release, targets, evidence.values(), logged, window))
    known = registry if registry is not None and registry.present else None
    coverage = None if known is None else tuple(_coverage(evidence, known, window, all_refuse)) or None
    is_known = targets.of(release) is not None
    verdict = _verdict(uses, coverage, is_known=is_known)
    ready_from = _ready_from(window, uses, coverage) if is_known else None
    return ClientCheck(release, window, verdict, is_known, uses, coverage, ready_from)


def _ready_from(
    window: EvidenceWindow, uses: tuple[ApiUse, ...], coverage: tuple[BrokerCoverage, ...] | None
) -> int | None:
    if coverage is None or any(use.kind in _KINDS.values() for use in uses):
        return None
    times = [*(broker.ready_from for broker in coverage), *(use.until + window.length for use in uses)]
    return max([window.end, *times])


def _verdict(uses: tuple[ApiUse, ...], coverage: tuple[BrokerCoverage, ...] | None, *, is_known: bool) -> ClientVerdict:
    if any(use.kind is UseKind.REMOVED for use in uses):
        return ClientVerdict.BLOCKED
    if uses or coverage is None or not is_known or any(broker.gaps for broker in coverage):
        return ClientVerdict.UNKNOWN
    return ClientVerdict.READY


def _coverage(
    evidence: Mapping[int, BrokerEvidence], registry: BrokerRegistry, window: EvidenceWindow, all_refuse: bool
) -> Iterator[BrokerCoverage]:
    for broker, span in registry.spans(evidence, window).items():
        its_evidence = evidence.get(broker)
        if its_evidence is not None and not its_evidence.contradiction:
            its_evidence = replace(its_evidence, contradiction=registry.contradiction(its_evidence, window))
        since = registry.running_since(its_evidence)
        gaps = tuple(gaps_of(its_evidence, span, all_refuse=all_refuse, running_since=since))
        ends = [gap.end for gap in gaps if not _may_close_at_once(gap, window)]
        if broker not in registry.present:  # nobody can scrape it any more, and once it has left the window, it is over
            ends = [min(gap.end, registry.last_sign(broker, its_evidence)) for gap in gaps]
        yield BrokerCoverage(broker, gaps, max([window.end, *(end + window.length for end in ends)]))


def _may_close_at_once(gap: EvidenceGap, window: EvidenceWindow) -> bool:
    """Tell whether one more scrape may show what happened in a gap; of a process that ended there is none more."""
    if gap.cause is GapCause.CONTRADICTION:
        return True
    return gap.end == window.end and gap.cause in (GapCause.MAY_REFUSE, GapCause.NO_EVIDENCE, GapCause.STALE)


def _uses(
    release: str,
    targets: Targets,
    evidence: Iterable[BrokerEvidence],
    logged: Iterable[VersionUse],
    window: EvidenceWindow,
) -> Iterator[ApiUse]:
    """The versions that the release does not accept, those that break clients first."""
    target = targets.of(release)
    if target is None:
        return
    counted = _by_kind((use for item in evidence for use in uses_of(item)), targets, target, window)
    by_kind = {**_by_kind(logged, targets, target, window), **counted}  # counters are complete
    order = list(UseKind)
    for kind, name, version in sorted(by_kind, key=lambda key: (order.index(key[0]), key[1], key[2])):
        if (kind, ALIASES.get(name, ""), version) in by_kind:
            continue  # counted by the API itself as well
        if kind is UseKind.MAYBE_BEFORE and (UseKind.REMOVED, name, version) in by_kind:
            continue
        yield _summed(kind, by_kind[kind, name, version])


def _by_kind(
    uses: Iterable[VersionUse], targets: Targets, target: Apis, window: EvidenceWindow
) -> Mapping[tuple[UseKind, str, int], Sequence[VersionUse]]:
    by_kind: dict[tuple[UseKind, str, int], list[VersionUse]] = {}
    for use in uses:
        acceptance = targets.acceptance(target, use.name, use.version)
        if use.until <= window.begin or acceptance in (Acceptance.ACCEPTED, Acceptance.INTERNAL):
            continue
        in_window = UseKind.REMOVED if use.after >= window.begin else UseKind.MAYBE_BEFORE
        kind = _KINDS.get(acceptance, in_window)
        by_kind.setdefault((kind, use.name, use.version), []).append(use)
    return by_kind


def _summed(kind: UseKind, uses: Sequence[VersionUse]) -> ApiUse:
    return ApiUse(
        kind,
        uses[0].name,
        uses[0].version,
        tuple(sorted({use.broker for use in uses})),
        min(use.after for use in uses),
        max(use.until for use in uses),
        sum(use.requests for use in uses),
    )
