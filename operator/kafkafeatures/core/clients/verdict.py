"""The verdict on a release of Kafka: whether clients are ready for it, or some would break, or it is unknown; with the
uses of removed versions, and the gaps of the evidence.

Pure. What it decides: `Ready` only if every broker that has to be covered is covered in all of its part of the window
(`registry.py`), and none was sent a version in the window that the release lacks. Less evidence never makes a cluster
ready. All times are in ms since 1970.
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
    """Every broker is covered, and no client used a version that the release does not accept."""
    BLOCKED = "Blocked"
    """Some client used a version that the release removed."""
    UNKNOWN = "Unknown"
    """Neither is proven."""


class UseKind(StrEnum):
    """Kinds of uses of versions that the release does not accept, the most severe first."""

    REMOVED = "Removed"
    """A removed version, used within the window: whoever sends it breaks."""
    MAYBE_BEFORE = "MaybeBefore"
    """A removed version, used in the window or just before: its counter was not read when the window began."""
    NEWER = "Newer"
    """A version newer than the release: the release is older than the Kafka that runs."""
    UNKNOWN_API = "UnknownApi"
    """An API that no release of Apache Kafka has."""


class ApiVersion(NamedTuple):
    """One version of an API."""

    api: str
    version: int


class ApiUse(Struct, frozen=True):
    """Requests of one version to all brokers together.

    name: name of the counter: an API, or one of `ALIASES`.
    brokers: ids of the brokers that were sent any.
    after, until: all were sent after the first of these times, and not later than the second.
    """

    kind: UseKind
    name: str
    version: int
    brokers: tuple[int, ...]
    after: int
    until: int
    requests: int

    @property
    def api_version(self) -> ApiVersion:
        """The version with the name of its API in place of the name of the counter."""
        return ApiVersion(ALIASES.get(self.name, self.name), self.version)


class BrokerCoverage(Struct, frozen=True):
    """Coverage of one broker. `gaps`: spans without evidence; empty if it is covered. `ready_from`: time at which the
    last gap has left the window, or can be closed by another scrape.
    """

    broker: int
    gaps: tuple[EvidenceGap, ...]
    ready_from: int


class ClientCheck(Struct, frozen=True):
    """A verdict with its evidence.

    is_known_release: the table of API versions has the release.
    uses: uses of versions that the release does not accept; if there are any, the verdict is not Ready.
    brokers: coverage of each broker that has to be covered; None if it is not known which are registered.
    ready_from: earliest time at which the verdict can be Ready, if from now on all brokers are covered and no such
        version is used; None if that is not known.
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
        """The check in which these brokers need not be covered. Versions that they were sent still count."""
        if self.brokers is None or not ids:
            return self
        brokers = tuple(broker for broker in self.brokers if broker.broker not in ids)
        verdict = _verdict(self.uses, brokers, is_known=self.is_known_release)
        ready_from = _ready_from(self.window, self.uses, brokers) if self.is_known_release else None
        return replace(self, brokers=brokers, verdict=verdict, ready_from=ready_from)

    def verdict_with_consents(self, consented: Set[ApiVersion]) -> ClientVerdict:
        """The verdict if these versions were not used within the window. Uses that are not certain still count."""
        uses = tuple(use for use in self.uses if use.kind is not UseKind.REMOVED or use.api_version not in consented)
        return _verdict(uses, self.brokers, is_known=self.is_known_release)


_KINDS = {Acceptance.NEWER: UseKind.NEWER, Acceptance.UNKNOWN: UseKind.UNKNOWN_API}
"""Kinds of uses that do not depend on the time of the use."""


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
    """Check the clients of one cluster.

    registry: its brokers; None if they could not be read.
    all_refuse: all brokers run Kafka 4.0 or newer already, so no client that works today sends a removed version.
    logged: uses by request logs; they add to those of the counters, but cover nothing.
    """
    evidence = evidence_of((scrape for scrape in scrapes if scrape.time <= window.end), window.begin)
    uses = tuple(_uses(release, targets, evidence.values(), logged, window))
    known = registry if registry is not None and registry.present else None  # no broker at all: an answer not to trust
    coverage = None if known is None else tuple(_coverage(evidence, known, window, all_refuse)) or None
    is_known = targets.of(release) is not None
    verdict = _verdict(uses, coverage, is_known=is_known)
    ready_from = _ready_from(window, uses, coverage) if is_known else None
    return ClientCheck(release, window, verdict, is_known, uses, coverage, ready_from)


def _ready_from(
    window: EvidenceWindow, uses: tuple[ApiUse, ...], coverage: tuple[BrokerCoverage, ...] | None
) -> int | None:
    if coverage is None or any(use.kind in _KINDS.values() for use in uses):
        return None  # no time removes these uses: the release or the brokers have to be others
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
        if broker in registry.present:
            ends = [gap.end for gap in gaps if not _may_close_at_once(gap, window)]
        else:  # it can no longer be scraped; but once its last sign has left the window, it need not be covered
            ends = [min(gap.end, registry.last_sign(broker, its_evidence)) for gap in gaps]
        yield BrokerCoverage(broker, gaps, max([window.end, *(end + window.length for end in ends)]))


def _may_close_at_once(gap: EvidenceGap, window: EvidenceWindow) -> bool:
    """Tell whether the next scrape may close the gap. Counters show all requests since the process started, so a later
    scrape also covers the time before it; but not the last time of a process that has ended.
    """
    if gap.cause is GapCause.CONTRADICTION:
        return True  # it is gone as soon as the wrong scrape is removed
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
    by_kind = {**_by_kind(logged, targets, target, window), **counted}  # counters win: logs may lack requests
    order = list(UseKind)
    for kind, name, version in sorted(by_kind, key=lambda key: (order.index(key[0]), key[1], key[2])):
        if (kind, ALIASES.get(name, ""), version) in by_kind:
            continue  # the counter of the API itself counts these requests too
        if kind is UseKind.MAYBE_BEFORE and (UseKind.REMOVED, name, version) in by_kind:
            continue  # certain uses of the same version say more
        yield _summed(kind, by_kind[kind, name, version])


def _by_kind(
    uses: Iterable[VersionUse], targets: Targets, target: Apis, window: EvidenceWindow
) -> Mapping[tuple[UseKind, str, int], Sequence[VersionUse]]:
    """Uses of versions that the release does not accept, by kind, counter and version; without those before the
    window.
    """
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
