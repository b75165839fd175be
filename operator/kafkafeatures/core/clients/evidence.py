"""Evidence about clients: scrapes of brokers' request counters, grouped by the process of the broker that they show.

Pure. A counter of `RequestsPerSec` counts from the start of the process and is never removed, so one whole scrape shows
everything that its process was sent until then. What this module decides: which scrapes show the same process, and
which contradict each other, so that nothing may be concluded from them. All times are in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from kafkafeatures.api.values import replace

MINUTE = 60_000
"""A minute in ms."""
MAX_GAP = 5 * MINUTE
"""Longest span without evidence, in ms, that does not count as a gap."""
MAX_CLOCK_ERROR = 60 * MINUTE
"""Greatest difference, in ms, between the clock of a broker and that of the scrapes for which judgements still hold."""

_SHARE_DURING_SCRAPE, _REQUESTS_DURING_SCRAPE = 0.01, 100
"""Growth of a counter while a scrape is made, which takes seconds: a share of the count, or a number of requests,
whichever is more.
"""

CounterKey = tuple[str, int]
"""Name of a counter (an API, or one of `ALIASES`), and the version of the requests that it counts."""


class Scrape(Struct, frozen=True):
    """The request counters of a broker at one time.

    time: when it was made, by the clock of the scraper.
    start: start of the broker's process, by the broker's clock.
    accepts_removed: the scrape shows that the process accepts, and so counts, the versions that Kafka 4.0 removed.
    source: name of the scrape, for people.
    start_error: the JVM may have started so many ms before or after `start`, as that is the start of Kafka in the JVM,
        or rounded to seconds.
    is_whole: it has all counters that its process had at that time; else a counter that is missing shows nothing.
    """

    broker: int
    time: int
    start: int
    counters: Mapping[CounterKey, float]
    accepts_removed: bool = False
    source: str = ""
    start_error: int = 0
    is_whole: bool = True

    def may_be_of(self, other: Scrape) -> bool:
        """Tell whether both scrapes may show the same process, by its start. If only one scrape has an inexact start,
        the starts may differ by its error. If both are equally exact, the starts must be equal.
        """
        return abs(self.start - other.start) <= abs(self.start_error - other.start_error)


class BrokerProcess(Struct, frozen=True):
    """One process of a broker, as its scrapes show it. `scrapes`: at least one, the oldest first."""

    start: int
    scrapes: tuple[Scrape, ...]

    @property
    def accepts_removed(self) -> bool:
        """Tell whether any scrape shows that the process accepts removed versions: its release does not change."""
        return any(scrape.accepts_removed for scrape in self.scrapes)

    @property
    def first(self) -> int:
        """Time of the first scrape."""
        return self.scrapes[0].time

    @property
    def last(self) -> int:
        """Time of the last scrape."""
        return self.scrapes[-1].time

    @property
    def covered_from(self) -> int:
        """Time from which on its counters certainly count, by the clock of the scrapes. The start is by the broker's
        clock. A scrape just after it shows that both clocks agree; else the broker's may be `MAX_CLOCK_ERROR` behind.
        """
        if self.first - self.start <= MAX_GAP:
            return min(self.start, self.first)
        return min(self.start + MAX_CLOCK_ERROR, self.first)


class BrokerEvidence(Struct, frozen=True):
    """All processes of a broker, the oldest first.

    contradiction: the contradiction between its scrapes, in words; empty if there is none. With one, requests that were
        counted still count, but nothing is covered.
    """

    broker: int
    processes: tuple[BrokerProcess, ...]
    contradiction: str = ""

    @property
    def last(self) -> int:
        """Time of the last scrape; 0 without any."""
        return max((process.last for process in self.processes), default=0)


def evidence_of(scrapes: Iterable[Scrape], begin: int = 0) -> Mapping[int, BrokerEvidence]:
    """Evidence about each broker that has any, by id.

    scrapes: in any order; the same scrape may occur several times.
    begin: begin of the window. If the scrapes before it contradict each other, they are left out.
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
    """The scrapes of one broker without those that change no judgement. Kept are the first and the last scrape of a
    process, the last one before and the first one in the window, those that contradict each other, and those where
    other counters begin to grow than before, so that each use keeps its dates.

    scrapes: in the order of time. matters: tells whether the growth of a counter has to be dated. begin: begin of the
    window.
    """
    # `latest`: the scrape before this one, not yielded yet, as only this one may show that it is needed. `is_needed`:
    # `latest` is needed, whatever this one shows.
    latest, is_needed = None, False
    growing: frozenset[CounterKey] = frozenset()  # counters that matter and grew up to `latest`
    for scrape in scrapes:
        following = scrape
        if latest is None:
            is_needed = True
        elif not scrape.may_be_of(latest) or _lowered_counter(latest, scrape) is not None:
            yield latest
            is_needed, growing = True, frozenset()
        else:
            # The mark of the release is passed on to the next scrape, as the one that shows it may be dropped.
            following = replace(scrape, accepts_removed=scrape.accepts_removed or latest.accepts_removed)
            if scrape.counters == latest.counters:  # maybe a copy that an exporter repeats: no proof of a later time
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
        elif scrape.counters != process[-1].counters:  # equal ones may be a copy: a running broker always counts some
            process.append(scrape)
        elif scrape.accepts_removed:
            process[-1] = replace(process[-1], accepts_removed=True)
    starts = [min(scrape.start for scrape in process) for process in processes]
    whole = tuple(BrokerProcess(start, tuple(process)) for start, process in zip(starts, processes, strict=True))
    return BrokerEvidence(broker, whole, _contradiction(ordered))


def _contradiction(ordered: Iterable[Scrape]) -> str:
    """The first contradiction between scrapes of one broker, in words; empty if there is none. `ordered`: as by
    `_ordered`.
    """
    latest = None
    for scrape in ordered:
        if scrape.start > scrape.time + MAX_GAP:
            return f"{scrape.source} is older than the start of the process that it shows"
        if latest is None:
            latest = scrape
        elif scrape.may_be_of(latest):
            if (key := _lowered_counter(latest, scrape)) is not None:
                name = f"{key[0]} v{key[1]}"
                return f"{scrape.source}: {name} has a lower count than in {latest.source}, without a restart"
            latest = latest if scrape.counters == latest.counters else scrape  # a copy proves no later time
        elif scrape.start < latest.start:
            return f"{scrape.source} shows an older process than {latest.source}, which is of a time before"
        elif latest.time > scrape.start + MAX_GAP:
            return f"{scrape.source} shows a process that ran at the same time as that of {latest.source}"
        else:
            latest = scrape
    return ""


def _ordered(scrapes: Iterable[Scrape]) -> list[Scrape]:
    """The scrapes by time. Those of one time by start and by the sum of their counts, as two exporters may show the
    same process.
    """
    return sorted(scrapes, key=lambda scrape: (scrape.time, scrape.start, sum(scrape.counters.values())))


def _lowered_counter(earlier: Scrape, later: Scrape, *, at_once: bool = False) -> CounterKey | None:
    """The first counter that is lower in the later scrape, or missing there although it is whole; None for none.
    `at_once`: both scrapes may be of the same time, so a counter may be lower by what is counted during a scrape.
    """
    for key, count in earlier.counters.items():
        # -1: above 0 also for a missing counter with count 0
        missing = count - later.counters.get(key, -1 if later.is_whole else count)
        if missing > (max(count * _SHARE_DURING_SCRAPE, _REQUESTS_DURING_SCRAPE) if at_once else 0):
            return key
    return None


def _shared(evidence: Iterable[BrokerEvidence]) -> Iterator[tuple[int, int, BrokerProcess]]:
    """Pairs of brokers whose scrapes may show the same process, in both orders, with the process of the first one. Then
    a label names the wrong broker.
    """
    processes = [(item.broker, process) for item in evidence for process in item.processes]
    processes.sort(key=lambda pair: pair[1].start)  # so that only processes which started together are compared
    for index, (broker, process) in enumerate(processes):
        for other, other_process in processes[index + 1 :]:
            if other_process.start - process.start > MINUTE:
                break
            if other != broker and _may_be_one(process, other_process):
                yield broker, other, process
                yield other, broker, other_process


def _may_be_one(process: BrokerProcess, other: BrokerProcess) -> bool:
    """Tell whether the scrapes of both may show one process. Of any two scrapes of one process, one has counts that are
    all at least as high, whatever the clocks of the scrapers show; if they are more than an hour apart, the later one.
    """
    if not any(scrape.may_be_of(another) for scrape in process.scrapes for another in other.scrapes):
        return False
    for scrape in process.scrapes:
        for another in other.scrapes:
            earlier, later = _ordered((scrape, another))
            if later.time - earlier.time > MAX_CLOCK_ERROR:
                if _lowered_counter(earlier, later) is not None:
                    return False
            elif all(
                _lowered_counter(*pair, at_once=True) is not None for pair in ((earlier, later), (later, earlier))
            ):
                return False
    return True
