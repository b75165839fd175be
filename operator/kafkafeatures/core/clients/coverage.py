"""Coverage of a window by evidence: for one broker, the gaps in which its requests are not known, and the API versions
that it was sent.

Pure. What it decides: a time without evidence is a gap, whatever was before and after it: an old client may have sent
requests just then. Only a few short spans are tolerated (`MAX_UNSEEN`). All times are in ms since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from math import ceil

from msgspec import Struct

from kafkafeatures.core.clients.evidence import MAX_GAP, MINUTE, BrokerEvidence

_UNITS = {"h": 60 * MINUTE, "d": 24 * 60 * MINUTE}
MAX_UNSEEN = 60 * MINUTE
"""Most ms of a window, in all, that may be without evidence in spans of at most `MAX_GAP` each. Above it these spans
are gaps too.
"""


class EvidenceWindow(Struct, frozen=True):
    """The span of time that evidence has to cover, from `begin` to `end` in ms."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        """Length in ms."""
        return self.end - self.begin


def window_length(text: str) -> int | None:
    """Length of a window in ms, of a text such as 35d or 840h; None if the text is not one."""
    match = re.fullmatch("([0-9]{1,4})([dh])", text)
    return int(match[1]) * _UNITS[match[2]] or None if match else None


class GapCause(StrEnum):
    """Reasons why it is not known which requests a broker was sent in a span of time."""

    NO_EVIDENCE = "NoEvidence"
    """The broker has no scrape at all."""
    CONTRADICTION = "Contradiction"
    """The scrapes of the broker contradict each other, so they cover no time. Requests that they show still count."""
    BEFORE_START = "BeforeStart"
    """From the begin of the window to the start of the first process that was scraped."""
    RESTART = "Restart"
    """From the last scrape of a process to the start of the next process."""
    STALE = "Stale"
    """From the last scrape of all to the end of the window."""
    MAY_REFUSE = "MayRefuse"
    """The process may be one of Kafka 4.x, which refuses removed versions and counts none of what it refuses."""


class EvidenceGap(Struct, frozen=True):
    """A span of time for which it is not known which requests a broker was sent.

    begin, end: in ms.
    detail: the contradiction in words, if that is the cause; else empty.
    """

    begin: int
    end: int
    cause: GapCause
    detail: str = ""

    @property
    def length(self) -> int:
        """Length in ms."""
        return self.end - self.begin


class VersionUse(Struct, frozen=True):
    """Requests of one version to one broker.

    name: name of the counter: of an API, or one of `ALIASES`.
    after, until: the requests were sent after the first of these times, and not later than the second, in ms.
    requests: their number.
    """

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
    """Gaps of a broker, the oldest first. A broker without evidence has one gap, as long as the window.

    all_refuse: all registered brokers refuse removed versions already, so an old client would have failed by now.
    running_since: a time, in ms, at which the broker's latest process certainly ran, as it was registered; None where
        the cluster does not show it.
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
    """All spans without evidence, however short; also empty ones, which end before or where they begin."""
    covered_until, is_first = window.begin, True  # everything up to `covered_until` was judged
    for process in evidence.processes:
        is_latest = process is evidence.processes[-1]
        covered_from = process.covered_from
        if is_latest and running_since is not None:
            covered_from = min(covered_from, running_since)  # certain, while the broker's clock may be wrong
        covered_from = min(covered_from, window.end)
        yield EvidenceGap(covered_until, covered_from, GapCause.BEFORE_START if is_first else GapCause.RESTART)
        if process.last > window.begin and not (process.accepts_removed or all_refuse):
            # An older process is not known to have run after its last scrape: from there on the gap is RESTART.
            end = window.end if is_latest else min(process.last, window.end)
            yield EvidenceGap(max(covered_until, min(covered_from, end)), end, GapCause.MAY_REFUSE)
        covered_until, is_first = max(covered_until, process.last), False
    yield EvidenceGap(covered_until, window.end, GapCause.STALE)


def uses_of(evidence: BrokerEvidence) -> Iterator[VersionUse]:
    """Every version that a broker was sent: one use for each span in which its counter grew. A span is from the start
    of the process to its first scrape, or from one scrape to the next.
    """
    for process in evidence.processes:
        after = process.start
        counts: dict[tuple[str, int], float] = {}
        for scrape in process.scrapes:
            for key, count in scrape.counters.items():
                requests = count - counts.get(key, 0)
                if requests > 0:
                    # The start of a process is by the broker's clock, which may be ahead of that of the scrape.
                    yield VersionUse(evidence.broker, *key, min(after, scrape.time), scrape.time, ceil(requests))
                counts[key] = max(count, counts.get(key, 0))  # a lower count is a contradiction: see `evidence.py`
            after = scrape.time
