"""Evidence about clients: what scrapes of brokers' request counters show, process by process.

Pure. Called by `verdict.py`. A counter of `RequestsPerSec` counts from the start of the process and is never removed,
so one scrape tells all that its process was sent until then. What it decides: which scrapes show one process, and which
contradict each other, so that nothing may be concluded from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from kafkafeatures.api.values import replace

MINUTE = 60_000
MAX_GAP = 5 * MINUTE
"""Longest time without evidence that is not called a gap."""
MAX_CLOCK_ERROR = 60 * MINUTE
"""The clock of a broker may differ so much from that of the scrapes, before evidence is taken that is none."""

CounterKey = tuple[str, int]
"""The name of a counter, which is that of an API or one of `ALIASES`, and the version of the requests it counts."""


class Scrape(Struct, frozen=True):
    """The request counters of a broker at one time. `time`: in ms by the clock of the scrapes; `start`: of the process,
    in ms by the clock of the broker. `accepts_removed`: it shows that the process accepts, and so counts, the versions
    that Kafka 4.0 removed. `source`: for people.
    """

    broker: int
    time: int
    start: int
    counters: Mapping[CounterKey, float]
    accepts_removed: bool = False
    source: str = ""


class BrokerProcess(Struct, frozen=True):
    """One process of a broker, from its start to its end. `scrapes`: at least one, the oldest first."""

    start: int
    scrapes: tuple[Scrape, ...]

    @property
    def accepts_removed(self) -> bool:
        """Tell whether a scrape shows it: the release of a process does not change."""
        return any(scrape.accepts_removed for scrape in self.scrapes)

    @property
    def first(self) -> int:
        """The time of the first scrape."""
        return self.scrapes[0].time

    @property
    def last(self) -> int:
        """The time of the last scrape."""
        return self.scrapes[-1].time

    @property
    def covered_from(self) -> int:
        """Time from which on its counters count for certain, whatever the clock of the broker shows. A scrape just
        after the start shows that both clocks agree.
        """
        if self.first - self.start <= MAX_GAP:
            return min(self.start, self.first)
        return min(self.start + MAX_CLOCK_ERROR, self.first)


class BrokerEvidence(Struct, frozen=True):
    """The processes of a broker, the oldest first; none where its scrapes contradict each other."""

    broker: int
    processes: tuple[BrokerProcess, ...]
    contradiction: str = ""


def evidence_of(scrapes: Iterable[Scrape]) -> Mapping[int, BrokerEvidence]:
    """The evidence about each broker that has any, of scrapes in any order, each as often as it likes."""
    by_broker: dict[int, list[Scrape]] = {}
    for scrape in scrapes:
        by_broker.setdefault(scrape.broker, []).append(scrape)
    evidence = {broker: _evidence(broker, its_scrapes) for broker, its_scrapes in sorted(by_broker.items())}
    for broker, other, process in _shared(evidence.values()):
        text = f"its scrapes and those of broker {other} show the same process, such as {process.scrapes[-1].source}"
        evidence[broker] = BrokerEvidence(broker, (), text)
    return evidence


def _evidence(broker: int, scrapes: Iterable[Scrape]) -> BrokerEvidence:
    processes: list[list[Scrape]] = []
    for scrape in _ordered(scrapes):
        if scrape.start > scrape.time + MAX_GAP:
            return BrokerEvidence(broker, (), f"{scrape.source} is older than the start of the process that it shows")
        latest = processes[-1][-1] if processes else None
        if latest is None or scrape.start > latest.start:
            if latest is not None and latest.time > scrape.start + MAX_GAP:
                text = f"{scrape.source} shows a process that ran at the same time as that of {latest.source}"
                return BrokerEvidence(broker, (), text)
            processes.append([scrape])
        elif scrape.start < latest.start:
            text = f"{scrape.source} shows an older process than {latest.source}, which is of a time before"
            return BrokerEvidence(broker, (), text)
        elif (key := _first_that_goes_back(latest, scrape)) is not None:
            text = f"{scrape.source}: {key[0]} v{key[1]} has a lower count than in {latest.source}, without a restart"
            return BrokerEvidence(broker, (), text)
        elif scrape.counters != latest.counters:  # else it may be a copy: a broker that runs is asked all the time
            processes[-1].append(scrape)
        elif scrape.accepts_removed:
            processes[-1][-1] = replace(latest, accepts_removed=True)
    return BrokerEvidence(broker, tuple(BrokerProcess(process[0].start, tuple(process)) for process in processes))


def _ordered(scrapes: Iterable[Scrape]) -> list[Scrape]:
    """By time; of one time by start and by what is counted, for two exporters may show one process."""
    return sorted(scrapes, key=lambda scrape: (scrape.time, scrape.start, sum(scrape.counters.values())))


def _first_that_goes_back(earlier: Scrape, later: Scrape) -> CounterKey | None:
    """The first counter that is lower than before, or no longer there."""
    return next((key for key, count in earlier.counters.items() if later.counters.get(key, -1) < count), None)


def _shared(evidence: Iterable[BrokerEvidence]) -> Iterator[tuple[int, int, BrokerProcess]]:
    """Brokers with a process that another broker has too, and that broker: of one start, and with counts that fit."""
    by_start: dict[int, list[tuple[int, BrokerProcess]]] = {}
    for item in evidence:
        for process in item.processes:
            by_start.setdefault(process.start, []).append((item.broker, process))
    for processes in by_start.values():
        for broker, process in processes:
            for other, other_process in processes:
                if other != broker and _is_monotonic(_ordered((*process.scrapes, *other_process.scrapes))):
                    yield broker, other, process


def _is_monotonic(scrapes: Sequence[Scrape]) -> bool:
    return all(_first_that_goes_back(earlier, later) is None for earlier, later in pairwise(scrapes))
