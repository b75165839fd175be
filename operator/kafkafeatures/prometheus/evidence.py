"""Evidence about clients out of a Prometheus: the scrapes of each broker that matter, taken from its series.

    read_evidence(PrometheusApi(transport), 'namespace="kafka"', None, window, matters)

Called by `clients check` and, for the operator, by `operator_source.py`. A counter counts from the start of its process
on and is never removed, so the last scrape of a process shows all requests that it got. Of 35 days only a few scrapes
are fetched, exactly as they were, and some more counters to show when versions in question were used.

1. Find the processes that had request counters, hour by hour, and more closely where they change.
2. Fetch the first and the last scrape of each: Prometheus gives all samples of a scrape one time.
3. Take the last one only if a counter has grown since a scrape at most five minutes older: an exporter may repeat old
   values. And only if Prometheus holds as many samples of it as the exporter exposed: rules for relabelling, remote
   writing and limits drop counters, and the one that was dropped may be that of an old client.

What is missing makes a gap, and a line says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import isfinite

from msgspec import Struct

from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MAX_CLOCK_ERROR, MAX_GAP, MINUTE, CounterKey, Scrape
from kafkafeatures.core.clients.exporters import (
    CANARY,
    EXPECTED,
    JVM_START,
    KAFKA_START,
    MAX_COUNT,
    PROCESS_START,
    START_UNITS,
    BrokerCounters,
    PartialScrape,
    Sample,
    ScrapeRefused,
    take_key,
)
from kafkafeatures.core.words import counted, printable
from kafkafeatures.prometheus import queries
from kafkafeatures.prometheus.api import Labels, PrometheusApi, PrometheusFailed, Series
from kafkafeatures.prometheus.brokers import (
    BrokerLabel,
    BrokersNotNamed,
    SeveralClusters,
    broker_id,
    refuse_several,
    values_of,
)

_HOUR = 60 * MINUTE
_MOST_STEPS = 8000
"""Steps of a query, at most: Prometheus refuses more than 11,000."""
_MOST_PROCESSES = 1000
"""Processes of all brokers, at most: each costs several requests."""
_PARTS_OF_STEP = 240
"""Parts into which a step is divided if a process begins or ends in it: 15 seconds of an hour. A process that runs only
between two of them is overlooked, which leaves a gap if it matters.
"""
_MOST_CHANGES = 200
"""Steps that are divided so, at most: the latest ones."""
_DATES = 35
"""Times in the window at which counters are read to show when a version was used."""
_STEADY = (CANARY, "Fetch", "Heartbeat", "Metadata", "Produce")
"""APIs of which some counter grows all the time: they show the date of a scrape, also of one from before a counter that
matters existed.
"""
_SPAN = f"{MAX_GAP // 1000}s"
"""Span of range selectors, as PromQL has it."""
_METRICS = (JVM_START, KAFKA_START, PROCESS_START)
"""Metrics with the start of a process, the best first: from an exporter beside the broker, the last one is the start of
the exporter.
"""


class PrometheusEvidence(Struct, frozen=True):
    """The scrapes of the brokers of one cluster. `problems`: a line for each target or process that was not used."""

    scrapes: tuple[Scrape, ...]
    problems: tuple[str, ...]


class _Process(Struct, frozen=True):
    """A process of a target. `metric`: the one that has its start; `start`: the value of that metric, in its unit;
    `first`, `last`: the first and the last time in ms at which the process is known to run.
    """

    target: frozenset[tuple[str, str]]
    broker: int
    metric: str
    start: float
    first: int
    last: int

    @property
    def labels(self) -> Labels:
        """The labels of the target."""
        return dict(self.target)

    @property
    def source(self) -> str:
        """Name of the target for people."""
        labels = self.labels
        return printable(f"target {labels.get('instance') or sorted(labels.items())}")[:200]


class _WholeScrape(Struct, frozen=True):
    """The samples of a target at one time in ms. `exposed`: how many the exporter sent, None if that is not known."""

    time: int
    counters: BrokerCounters
    exposed: float | None


class _ProcessScrapes(Struct, frozen=True):
    """Scrapes of a process: its first one, if it began in the window, and two of its end with different counts."""

    first: _WholeScrape | None
    earlier: _WholeScrape
    latest: _WholeScrape


def read_evidence(
    api: PrometheusApi,
    selector: str,
    label: BrokerLabel | None,
    window: EvidenceWindow,
    matters: Callable[[CounterKey], bool],
) -> PrometheusEvidence:
    """The evidence about one cluster. `selector`: label matchers; `label`: which one has the id of a broker, None for
    those that are known; `matters`: True for counters of which it has to be known when they grew. Raises
    PrometheusFailed, BrokersNotNamed, SeveralClusters.
    """
    step = max(_HOUR, window.length // _MOST_STEPS)
    processes, problems = _processes(api, selector, label, window, step)
    _refuse_overlaps(processes, step)
    ends: list[tuple[_Process, _ProcessScrapes]] = []
    for process in processes:
        try:
            scrapes = _scrapes(api, process, window, step)
        except ScrapeRefused as refused:
            problems.append(f"broker {process.broker}, {process.source}: not used: it {refused}")
            continue
        if scrapes is not None:
            ends.append((process, scrapes))
    # To read all counters at all dates would cost the server ten times as much as everything else.
    apis = {key[0] for _, scrapes in ends for key in scrapes.latest.counters.counters if matters(key)}
    dated = _dated(api, selector, window, {*apis, *_STEADY}) if apis else {}
    in_order = (_in_order(process, scrapes, dated.get(process.target, {})) for process, scrapes in ends)
    return PrometheusEvidence(tuple(scrape for scrapes in in_order for scrape in scrapes), tuple(problems))


def _processes(
    api: PrometheusApi, selector: str, label: BrokerLabel | None, window: EvidenceWindow, step: int
) -> tuple[list[_Process], list[str]]:
    """(the processes of all brokers, a line for each target whose broker is not known). `step`: in ms."""
    by_target: dict[frozenset[tuple[str, str]], dict[str, dict[int, float]]] = {}
    ids: dict[frozenset[tuple[str, str]], set[str]] = {}
    for series in _starts(api, selector, window, step):
        labels = dict(series.labels)
        name = labels.pop("__name__", "")
        node = labels.pop("id", None) if name.lower() == KAFKA_START else None  # the broker's id, by Kafka itself
        target = frozenset(labels.items())
        ids.setdefault(target, set()).update(() if node is None else (node,))
        by_target.setdefault(target, {}).setdefault(name, {}).update(series.samples)
    if not by_target:
        raise PrometheusFailed(f"has no brokers with request counters and the start of their process: {EXPECTED}")
    refuse_several(dict(target) for target in by_target)
    processes: list[_Process] = []
    problems: list[str] = []
    for target, metrics in by_target.items():
        broker = _broker(dict(target), ids[target], label)
        if broker is None:
            problems.append(f"target {printable(str(sorted(target)))[:300]}: not used: no label shows one broker id")
            continue
        metric = min(metrics, key=_rank)
        processes += [_Process(target, broker, metric, *run) for run in _runs(sorted(metrics[metric].items()))]
    if len(processes) > _MOST_PROCESSES:
        raise PrometheusFailed(f"shows {len(processes)} processes of brokers: narrow the selector or the window")
    if not processes:
        raise BrokersNotNamed(dict(next(iter(by_target))))
    return processes, problems


def _starts(api: PrometheusApi, selector: str, window: EvidenceWindow, step: int) -> Iterator[Series]:
    """The starts of processes at each step, and more closely in the steps within which one began or ended."""
    expression = queries.starts(selector)
    begin = window.end - (-(-window.length // step) + 1) * step  # whole steps before the end, and one before the window
    coarse = api.query_range(expression, begin, window.end, step)
    yield from coarse
    changes = {time for series in coarse for time in _changes(series.samples, begin, window.end, step)}
    for time in sorted(changes)[-_MOST_CHANGES:]:
        yield from api.query_range(expression, time, time + step, step // _PARTS_OF_STEP)


def _changes(samples: Sequence[tuple[int, float]], begin: int, end: int, step: int) -> Iterator[int]:
    """Begins of the steps within which a series has another value, begins or ends."""
    none = float("nan")  # differs from every start
    for (time, start), (later, later_start) in pairwise([(begin, none), *samples, (end, none)]):
        if start != later_start and time < later:
            yield time
            yield later - step


def _rank(name: str) -> int:
    """Place of a metric in `_METRICS`; the lowest is the best."""
    return _METRICS.index(name.lower()) if name.lower() in _METRICS else len(_METRICS)


def _broker(target: Labels, ids: set[str], label: BrokerLabel | None) -> int | None:
    """The id of a broker. What its label says and what Kafka itself says (`ids`) have to agree; None if they do not, or
    if nothing shows the id.
    """
    by_kafka = {broker_id({"broker": text}, None) for text in ids}
    by_label = broker_id(target, label)
    numbers = by_kafka | ({by_label} if by_label is not None or label is not None else set())
    return numbers.pop() if len(numbers) == 1 else None


def _runs(samples: Sequence[tuple[int, float]]) -> Iterator[tuple[float, int, int]]:
    """The start of each process, with the first and the last time at which it was seen."""
    times: dict[float, list[int]] = {}
    for time, start in samples:
        times.setdefault(start, []).append(time)
    for start, its_times in times.items():
        yield start, its_times[0], its_times[-1]


def _refuse_overlaps(processes: Iterable[_Process], step: int) -> None:
    """Raise SeveralClusters if a broker has two processes at one time."""
    by_broker: dict[int, list[_Process]] = {}
    for process in processes:
        by_broker.setdefault(process.broker, []).append(process)
    for its_processes in by_broker.values():
        for first, second in combinations(its_processes, 2):
            # One process may be two targets, whose metrics for its start differ by some seconds.
            is_other = abs(_start_of(first) - _start_of(second)) > MINUTE
            if is_other and min(first.last, second.last) - max(first.first, second.first) > step:
                raise SeveralClusters(values_of((first.labels, second.labels)))


def _start_of(process: _Process) -> float:
    """The start of a process in ms, whatever the unit of its metric is."""
    return process.start * START_UNITS.get(process.metric.lower(), 1)


def _dated(
    api: PrometheusApi, selector: str, window: EvidenceWindow, apis: Iterable[str]
) -> Mapping[frozenset[tuple[str, str]], Mapping[int, Mapping[CounterKey, float]]]:
    """By target and time in ms, the counters of these APIs: up to five minutes old, and maybe not all. They only show
    when a version was used; nothing is concluded from a counter that is missing.
    """
    dated: dict[frozenset[tuple[str, str]], dict[int, dict[CounterKey, float]]] = {}
    step = max(_HOUR, window.length // _DATES)
    for series in api.query_range(queries.counters(selector, apis, _SPAN), window.begin, window.end, step):
        labels = {name: value for name, value in series.labels.items() if name not in ("__name__", "name")}
        try:
            key = take_key(series.labels.get("__name__", ""), labels)  # removes API and version from `labels`
        except ScrapeRefused:
            continue  # `_whole` meets the same name, and reports it
        counts = dated.setdefault(frozenset(labels.items()), {})
        for time, count in series.samples:
            if 0 <= count < MAX_COUNT:
                counts.setdefault(time, {})[key] = count
    return dated


def _scrapes(api: PrometheusApi, process: _Process, window: EvidenceWindow, step: int) -> _ProcessScrapes | None:
    """The needed scrapes of a process; None if no scrape shows it. Raises ScrapeRefused if none shows its end."""
    end = max(_times(api, process, min(process.last + step, window.end), step), default=None)
    if end is None:
        return None
    latest, *before = reversed(_whole(api, process, end, _SPAN))
    _refuse_incomplete(api, process, latest)
    # The oldest within the span with other counts: then the exporter did not just repeat the latest ones.
    earlier = next((scrape for scrape in reversed(before) if _is_later(latest, scrape)), None)
    if earlier is None:
        text = f"has no two scrapes with other counts within {MAX_GAP // MINUTE} minutes at its end"
        raise ScrapeRefused(f"{text}: scrape it at least every two minutes")
    first = None
    if _start_of(process) > window.begin - MAX_CLOCK_ERROR:  # it began in the window: its first scrape is needed
        begin = min(_times(api, process, process.first, step), default=end)
        of_begin = _whole(api, process, min(begin + MAX_GAP, end), _SPAN)
        first = next((scrape for scrape in of_begin if scrape.counters.start == latest.counters.start), None)
    return _ProcessScrapes(first, earlier, latest)


def _in_order(
    process: _Process, scrapes: _ProcessScrapes, dated: Mapping[int, Mapping[CounterKey, float]]
) -> Iterator[Scrape]:
    """The scrapes of a process, and between them those that show when versions were used."""
    first, latest = scrapes.first, scrapes.latest
    dated_from = process.first
    if first is not None:
        dated_from = max(process.first, first.time)
        yield _scrape(process, first.time, first.counters)
    for time, counters in dated.items():
        if dated_from + MAX_GAP <= time <= latest.time - _HOUR:
            dates = BrokerCounters(latest.counters.start, counters, False, latest.counters.start_error)
            yield _scrape(process, time, dates, is_whole=False)
    yield _scrape(process, scrapes.earlier.time, scrapes.earlier.counters)
    yield _scrape(process, latest.time, latest.counters)


def _is_later(scrape: _WholeScrape, other: _WholeScrape) -> bool:
    """True if `scrape` shows the same process as `other`, with a counter that has grown."""
    counts = scrape.counters.counters
    has_grown = any(count < counts.get(key, 0) for key, count in other.counters.counters.items())
    return has_grown and scrape.counters.start == other.counters.start


def _scrape(process: _Process, time: int, counters: BrokerCounters, *, is_whole: bool = True) -> Scrape:
    source = f"{process.source} at {time // 1000}"
    shown = (counters.start, counters.counters, counters.accepts_removed)
    return Scrape(process.broker, time, *shown, source, counters.start_error, is_whole)


def _times(api: PrometheusApi, process: _Process, end: int, step: int) -> list[int]:
    """Times of scrapes that show the process, in the two steps before a time."""
    span = f"{2 * step // 1000}s"
    return [
        time
        for series in api.query(queries.named(process.metric, process.labels, span), end)
        for time, start in series.samples
        if start == process.start
    ]


def _whole(api: PrometheusApi, process: _Process, end: int, span: str) -> list[_WholeScrape]:
    """The whole scrapes of a target in the span before a time, the oldest first: at least one. A scrape without
    counters is left out: a broker that starts or stops has none for a while. Raises ScrapeRefused if none is whole.
    """
    samples: dict[int, list[Sample]] = {}
    for series in api.query(queries.scrapes(process.labels, span), end):
        labels = dict(series.labels)
        name = labels.pop("__name__", "")
        for time, value in series.samples:
            samples.setdefault(time, []).append(Sample(name, labels, value))
    whole: list[_WholeScrape] = []
    refusal = ScrapeRefused("has no scrape at its end")
    for time, its_samples in sorted(samples.items()):
        try:
            whole.append(_joined(time, its_samples))
        except ScrapeRefused as refused:
            refusal = refused
    if not whole:
        raise refusal
    return whole


def _joined(time: int, samples: Iterable[Sample]) -> _WholeScrape:
    scrape = PartialScrape()
    exposed = None
    for sample in samples:
        scrape.take(sample)
        if sample.name == queries.EXPOSED and isfinite(sample.value):
            exposed = sample.value
    return _WholeScrape(time, scrape.result(), exposed)


def _refuse_incomplete(api: PrometheusApi, process: _Process, scrape: _WholeScrape) -> None:
    if scrape.exposed is None:
        raise ScrapeRefused(f"has no {queries.EXPOSED}, which shows whether samples were dropped")
    stored = sum(
        value for series in api.query(queries.stored(process.labels), scrape.time) for _, value in series.samples
    )
    if stored != scrape.exposed:
        raise ScrapeRefused(
            f"exposed {counted(round(scrape.exposed), 'sample')}, of which Prometheus has {stored:.0f}: what was "
            "dropped (metric_relabel_configs, remote write, limits) may be the counter of an old client"
        )
