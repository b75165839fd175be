"""Coverage of a window by evidence: the gaps of each broker, and the versions that it was sent.

Pure. Called by `verdict.py`. What it decides: a time without evidence is a gap, whatever was before and after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from math import ceil

from msgspec import Struct

from kafkafeatures.core.clients.evidence import MAX_GAP, MINUTE, BrokerEvidence

MAX_UNSEEN = 60 * MINUTE
"""Most of a window that may be without evidence in times each too short to be a gap."""


class EvidenceWindow(Struct, frozen=True):
    """The time that evidence has to cover, in ms."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        """The length of it in ms."""
        return self.end - self.begin


class GapCause(StrEnum):
    """Reasons why nothing is known about a time."""

    NO_EVIDENCE = "NoEvidence"
    CONTRADICTION = "Contradiction"
    BEFORE_START = "BeforeStart"
    RESTART = "Restart"
    STALE = "Stale"
    MAY_REFUSE = "MayRefuse"
    """The process may be one of Kafka 4.x, which refuses removed versions and counts none of what it refuses."""


class EvidenceGap(Struct, frozen=True):
    """A time of which nothing is known. `detail`: of a contradiction."""

    begin: int
    end: int
    cause: GapCause
    detail: str = ""

    @property
    def length(self) -> int:
        """The length of it in ms."""
        return self.end - self.begin


class VersionUse(Struct, frozen=True):
    """Requests of one version to one broker, after one time and not later than another."""

    broker: int
    name: str
    version: int
    after: int
    until: int
    requests: int


def gaps_of(
    evidence: BrokerEvidence | None,
    window: EvidenceWindow,
    *,
    all_refuse: bool = False,
    running_since: int | None = None,
) -> Sequence[EvidenceGap]:
    """The gaps of a broker, the oldest first. That of a broker without evidence is as long as the window.
    `all_refuse`: no registered broker accepts removed versions any more, so that nobody is left to break.
    `running_since`: the latest process ran then, by the cluster.
    """
    if evidence is None or evidence.contradiction or not evidence.processes:
        text = evidence.contradiction if evidence is not None else ""
        cause = GapCause.CONTRADICTION if text else GapCause.NO_EVIDENCE
        return (EvidenceGap(window.begin, window.end, cause, text),)
    gaps = [gap for gap in _gaps(evidence, window, all_refuse, running_since) if gap.begin < gap.end]
    short = [gap for gap in gaps if gap.length <= MAX_GAP and gap.cause is not GapCause.MAY_REFUSE]
    tolerated = short if sum(gap.length for gap in short) <= MAX_UNSEEN else []
    return [gap for gap in gaps if gap not in tolerated]


def _gaps(
    evidence: BrokerEvidence, window: EvidenceWindow, all_refuse: bool, running_since: int | None
) -> Iterator[EvidenceGap]:
    """All times without evidence, however short they are; also some that are empty."""
    covered_until, is_first = window.begin, True
    for process in evidence.processes:
        is_latest = process is evidence.processes[-1]
        covered_from = process.covered_from
        if is_latest and running_since is not None:
            covered_from = min(covered_from, running_since)
        covered_from = min(covered_from, window.end)
        yield EvidenceGap(covered_until, covered_from, GapCause.BEFORE_START if is_first else GapCause.RESTART)
        if process.last > window.begin and not (process.accepts_removed or all_refuse):
            end = window.end if is_latest else min(process.last, window.end)
            yield EvidenceGap(max(covered_until, min(covered_from, end)), end, GapCause.MAY_REFUSE)
        covered_until, is_first = max(covered_until, process.last), False
    yield EvidenceGap(covered_until, window.end, GapCause.STALE)


def uses_of(evidence: BrokerEvidence) -> Iterator[VersionUse]:
    """Every version that a broker was sent, in each span between two scrapes in which its counter grew."""
    for process in evidence.processes:
        after = process.start
        counts: dict[tuple[str, int], float] = {}
        for scrape in process.scrapes:
            for key, count in scrape.counters.items():
                requests = count - counts.get(key, 0)
                if requests > 0:
                    yield VersionUse(evidence.broker, *key, min(after, scrape.time), scrape.time, ceil(requests))
                counts[key] = max(count, counts.get(key, 0))  # one that goes back is a contradiction, told elsewhere
            after = scrape.time
