"""Coverage of a window by evidence: the gaps of each broker, and the versions that it was sent.

Pure. Called by `verdict.py`. What it decides: a time without evidence is a gap, whatever was before and after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from math import ceil

from msgspec import Struct

from kafkafeatures.core.clients.evidence import MAX_GAP, BrokerEvidence


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


class VersionUse(Struct, frozen=True):
    """Requests of one version to one broker, after one time and not later than another."""

    broker: int
    name: str
    version: int
    after: int
    until: int
    requests: int


def gaps_of(
    evidence: BrokerEvidence | None, window: EvidenceWindow, *, all_refuse: bool = False
) -> Iterator[EvidenceGap]:
    """The gaps of a broker, the oldest first. None of a broker without evidence is one as long as the window.
    `all_refuse`: no registered broker accepts removed versions any more, so that nobody is left to break.
    """
    if evidence is None or not evidence.processes:
        contradicts = evidence is not None and evidence.contradiction
        cause = GapCause.CONTRADICTION if contradicts else GapCause.NO_EVIDENCE
        yield EvidenceGap(window.begin, window.end, cause, evidence.contradiction if evidence is not None else "")
        return
    covered_until, is_first = window.begin, True
    for process in evidence.processes:
        if process.covered_from - covered_until > MAX_GAP:
            cause = GapCause.BEFORE_START if is_first else GapCause.RESTART
            yield EvidenceGap(covered_until, min(process.covered_from, window.end), cause)
        if process.last > window.begin and not (process.accepts_removed or all_refuse):
            is_latest = process is evidence.processes[-1]
            end = window.end if is_latest else process.last
            yield EvidenceGap(max(covered_until, min(process.covered_from, end)), end, GapCause.MAY_REFUSE)
        covered_until, is_first = max(covered_until, process.last), False
    if window.end - covered_until > MAX_GAP:
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
                counts[key] = count
            after = scrape.time
