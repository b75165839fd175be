"""Evidence about clients: what scrapes of brokers' request counters show, process by process.

Pure. Called by `verdict.py`. A counter of `RequestsPerSec` counts from the start of the process and is never removed,
so one scrape tells all that its process was sent until then. What it decides: which scrapes show one process, and which
contradict each other, so that nothing may be concluded from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from kafkafeatures.api.values import replace

MINUTE = 60_000
MAX_GAP = 5 * MINUTE
"""Longest time without evidence that is not called a gap."""
MAX_CLOCK_ERROR = 60 * MINUTE
"""The clock of a broker may differ so much from that of the scrapes, before evidence is taken that is none."""

_AT_ONCE, _FEW = 0.01, 100
"""Share of a count, and requests, that may be counted while a scrape is made."""

CounterKey = tuple[str, int]
"""The name of a counter, which is that of an API or one of `ALIASES`, and the version of the requests it counts."""


class Scrape(Struct, frozen=True):
    """The request counters of a broker at one time. `time`: in ms by the clock of the scrapes; `start`: of the process,
    in ms by the clock of the broker. `accepts_removed`: it shows that the process accepts, and so counts, the versions
    that Kafka 4.0 removed. `source`: for people. `start_error`: the start of its JVM may be so many ms before or after,
    as the start of Kafka is named, or a rounded one.
    """

    broker: int
    time: int
    start: int
    counters: Mapping[CounterKey, float]
    accepts_removed: bool = False
    source: str = ""
    start_error: int = 0

    def may_be_of(self, other: Scrape) -> bool:
        """Tell whether it shows the process of another one by its start: two sources of it differ by their errors."""
        return abs(self.start - other.start) <= abs(self.start_error - other.start_error)


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
    """The processes of a broker, the oldest first. `contradiction`: why nothing may be concluded from them but that
    requests were counted; "" if they fit.
    """

    broker: int
    processes: tuple[BrokerProcess, ...]
    contradiction: str = ""

    @property
    def last(self) -> int:
        """The time of the last scrape."""
        return max((process.last for process in self.processes), default=0)


def evidence_of(scrapes: Iterable[Scrape], begin: int = 0) -> Mapping[int, BrokerEvidence]:
    """The evidence about each broker that has any, of scrapes in any order, each as often as it likes. `begin`: of the
    window; what contradicts itself before it is left out.
    """
    by_broker: dict[int, list[Scrape]] = {}
    for scrape in scrapes:
        by_broker.setdefault(scrape.broker, []).append(scrape)
    evidence = {broker: _evidence(broker, its_scrapes, begin) for broker, its_scrapes in sorted(by_broker.items())}
    for broker, other, process in _shared(evidence.values()):
        text = (
            f"its scrapes and those of broker {other} show the same process, such as {process.scrapes[-1].source}; if "
            "they are two, scrape both once more after an hour"
        )
        evidence[broker] = replace(evidence[broker], contradiction=text)
    return evidence


def thinned(scrapes: Iterable[Scrape], matters: Callable[[CounterKey], bool], begin: int) -> Iterator[Scrape]:
    """The scrapes of a broker that evidence needs, in their order, which is that of time: the first and the last of a
    process, those between which other counters that matter grow than before, those beside the begin of the window, and
    those that contradict each other.
    """
    latest, is_needed = None, False
    growing: frozenset[CounterKey] = frozenset()
    for scrape in scrapes:
        following = scrape
        if latest is None:
            is_needed = True
        elif not scrape.may_be_of(latest) or _first_that_goes_back(latest, scrape) is not None:
            yield latest
            is_needed, growing = True, frozenset()
        else:
            following = replace(scrape, accepts_removed=scrape.accepts_removed or latest.accepts_removed)
            if scrape.counters == latest.counters:
                latest = replace(latest, accepts_removed=following.accepts_removed)
                continue
            counts = latest.counters
            grown = frozenset(
                key for key, count in scrape.counters.items() if count > counts.get(key, 0) and matters(key)
            )
            is_beside = latest.time <= begin < scrape.time
            if is_needed or is_beside or grown != growing:
                yield latest
            is_needed, growing = is_beside, grown
        latest = following
    if latest is not None:
        yield latest


def _evidence(broker: int, scrapes: Iterable[Scrape], begin: int) -> BrokerEvidence:
    ordered = _ordered(scrapes)
    if _contradiction([scrape for scrape in ordered if scrape.time <= begin]):
        ordered = [scrape for scrape in ordered if scrape.time > begin]
    processes: list[list[Scrape]] = []
    for scrape in ordered:
        process = next((process for process in reversed(processes) if scrape.may_be_of(process[-1])), None)
        if process is None:
            processes.append([scrape])
        elif scrape.counters != process[-1].counters:  # else it may be a copy: a broker that runs is asked all the time
            process.append(scrape)
        elif scrape.accepts_removed:
            process[-1] = replace(process[-1], accepts_removed=True)
    starts = [min(scrape.start for scrape in process) for process in processes]
    whole = tuple(BrokerProcess(start, tuple(process)) for start, process in zip(starts, processes, strict=True))
    return BrokerEvidence(broker, whole, _contradiction(ordered))


def _contradiction(ordered: Iterable[Scrape]) -> str:
    """The first contradiction between scrapes of a broker, in words; "" if there is none."""
    latest = None
    for scrape in ordered:
        if scrape.start > scrape.time + MAX_GAP:
            return f"{scrape.source} is older than the start of the process that it shows"
        if latest is None:
            latest = scrape
        elif scrape.may_be_of(latest):
            if (key := _first_that_goes_back(latest, scrape)) is not None:
                name = f"{key[0]} v{key[1]}"
                return f"{scrape.source}: {name} has a lower count than in {latest.source}, without a restart"
            latest = latest if scrape.counters == latest.counters else scrape
        elif scrape.start < latest.start:
            return f"{scrape.source} shows an older process than {latest.source}, which is of a time before"
        elif latest.time > scrape.start + MAX_GAP:
            return f"{scrape.source} shows a process that ran at the same time as that of {latest.source}"
        else:
            latest = scrape
    return ""


def _ordered(scrapes: Iterable[Scrape]) -> list[Scrape]:
    """By time; of one time by start and by what is counted, for two exporters may show one process."""
    return sorted(scrapes, key=lambda scrape: (scrape.time, scrape.start, sum(scrape.counters.values())))


def _first_that_goes_back(earlier: Scrape, later: Scrape, *, at_once: bool = False) -> CounterKey | None:
    """The first counter that is lower than before, or no longer there. `at_once`: by more than two scrapes that are
    made at the same time may differ.
    """
    for key, count in earlier.counters.items():
        missing = count - later.counters.get(key, -1)
        if missing > (max(count * _AT_ONCE, _FEW) if at_once else 0):
            return key
    return None


def _shared(evidence: Iterable[BrokerEvidence]) -> Iterator[tuple[int, int, BrokerProcess]]:
    """Brokers with a process that may be one that another broker has too, and that broker."""
    processes = [(item.broker, process) for item in evidence for process in item.processes]
    processes.sort(key=lambda pair: pair[1].start)
    for index, (broker, process) in enumerate(processes):
        for other, other_process in processes[index + 1 :]:
            if other_process.start - process.start > MINUTE:
                break
            if other != broker and _may_be_one(process, other_process):
                yield broker, other, process
                yield other, broker, other_process


def _may_be_one(process: BrokerProcess, other: BrokerProcess) -> bool:
    """Tell whether nothing shows that two processes are two: of one process one of two scrapes always has the higher
    counts, whatever the clocks of the scrapers show, but for what is counted while a scrape is made; and of two that
    are more than an hour apart it is the later one.
    """
    if not any(scrape.may_be_of(another) for scrape in process.scrapes for another in other.scrapes):
        return False
    for scrape in process.scrapes:
        for another in other.scrapes:
            earlier, later = _ordered((scrape, another))
            if later.time - earlier.time > MAX_CLOCK_ERROR:
                if _first_that_goes_back(earlier, later) is not None:
                    return False
            elif all(
                _first_that_goes_back(*pair, at_once=True) is not None for pair in ((earlier, later), (later, earlier))
            ):
                return False
    return True
