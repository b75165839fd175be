"""A Prometheus in memory, for many histories: it answers the expressions of `prometheus/queries.py`, and no others.

`tests/e2e/clients/test_prometheus.py` compares its answers with those of a real Prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MINUTE
from kafkafeatures.core.clients.registry import BrokerRegistry
from kafkafeatures.core.clients.verdict import ClientCheck, check_clients
from kafkafeatures.prometheus.api import HttpAnswer, PrometheusApi
from kafkafeatures.prometheus.brokers import BrokerLabel
from kafkafeatures.prometheus.evidence import PrometheusEvidence, read_evidence
from tests.clients.histories import DAY, DAYS, END, TARGETS, History

Exposed = Sequence[tuple[str, Mapping[str, str], float]]
"""The samples of one scrape: name, labels of the metric, and value."""
LOOKBACK = 5 * MINUTE
"""The age in ms up to which Prometheus answers with the last sample."""

_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
_STARTS = re.compile(r"\{(.*)\} and ignoring \(id\) count without \(request, version, name\) \(\{(.*)\}\)")
_COUNTERS = re.compile(r"last_over_time\(\{(.*)\}\[(\d+)s\]\) or last_over_time\(\{(.*)\}\[\d+s\]\)")
_STORED = re.compile(r"count\(last_over_time\(\{(.*)\}\[1s\]\)\)")
_RANGE = re.compile(r"\{(.*)\}\[(\d+)s\]")


class ScrapedTarget(Struct, frozen=True):
    """A target that is scraped every minute. `expose`: its samples at a minute, None if it cannot be scraped; `drops`:
    True for samples that are exposed and not stored; `offset`: the time of its scrapes within the minute, in ms.
    """

    labels: Mapping[str, str]
    expose: Callable[[int], Exposed | None]
    drops: Callable[[str, Mapping[str, str]], bool] = lambda name, labels: False
    offset: int = 0

    def scrape(self, minute: int) -> Exposed | None:
        """The samples of a minute as they are stored."""
        exposed = self.expose(minute)
        if exposed is None:
            return None
        stored = [sample for sample in exposed if not self.drops(sample[0], sample[1])]
        return [*stored, ("up", {}, 1.0), ("scrape_samples_scraped", {}, float(len(exposed)))]

    def scrapes(self, after: int, until: int) -> Iterator[tuple[int, Exposed]]:
        """The scrapes between two times in ms, the newest first."""
        for minute in range((until - self.offset) // MINUTE, (after - self.offset) // MINUTE - 1, -1):
            time = minute * MINUTE + self.offset
            if after <= time <= until and (samples := self.scrape(minute)) is not None:
                yield time, samples


class FakePrometheus:
    """A transport to a Prometheus with these targets. `expressions`: the expressions of all requests so far."""

    def __init__(self, targets: Iterable[ScrapedTarget]) -> None:
        self.targets = list(targets)
        self.expressions: list[str] = []
        self._values: dict[tuple[object, ...], Sequence[tuple[frozenset[tuple[str, str]], float]]] = {}

    def __call__(self, path: str, form: bytes) -> HttpAnswer:
        words = {name: values[0] for name, values in parse_qs(form.decode()).items()}
        expression = words["query"]
        self.expressions.append(expression)
        if path.endswith("query_range"):
            begin, end, step = (round(float(words[name]) * 1000) for name in ("start", "end", "step"))
            series: dict[frozenset[tuple[str, str]], list[tuple[int, float]]] = {}
            for time in range(begin, end + 1, step):
                for labels, value in self._at(expression, time):
                    series.setdefault(labels, []).append((time, value))
            return answer("matrix", series)
        time = round(float(words["time"]) * 1000)
        if match := _STORED.fullmatch(expression):
            count = sum(1 for _ in self._within(match[1], time, 1000))
            return answer("vector", {frozenset(): [(time, float(count))]} if count else {})
        ranged = _RANGE.fullmatch(expression)
        assert ranged, expression
        series = {}
        for labels, at, value in self._within(ranged[1], time, int(ranged[2]) * 1000):
            series.setdefault(labels, []).insert(0, (at, value))
        return answer("matrix", series)

    def _within(self, selector: str, time: int, span: int) -> Iterator[tuple[frozenset[tuple[str, str]], int, float]]:
        for target in self.targets:
            for at, samples in target.scrapes(time - span, time):
                for labels, value in _matched(target, samples, selector):
                    yield labels, at, value

    def _at(self, expression: str, time: int) -> Sequence[tuple[frozenset[tuple[str, str]], float]]:
        return [
            labelled_value
            for number, target in enumerate(self.targets)
            for labelled_value in self._latest(number, target, expression, time)
        ]

    def _latest(
        self, number: int, target: ScrapedTarget, expression: str, time: int
    ) -> Sequence[tuple[frozenset[tuple[str, str]], float]]:
        """The values of a target, from a cache: they change only with its next scrape, or when the last is too old."""
        key = number, expression, (time - target.offset) // MINUTE, (time - LOOKBACK - target.offset) // MINUTE
        if key not in self._values:
            self._values[key] = list(self._evaluated(target, expression, time))
        return self._values[key]

    def _evaluated(
        self, target: ScrapedTarget, expression: str, time: int
    ) -> Iterator[tuple[frozenset[tuple[str, str]], float]]:
        starts, counters = _STARTS.fullmatch(expression), _COUNTERS.fullmatch(expression)
        _, samples = next(target.scrapes(time - LOOKBACK + 1, time), (0, ()))
        if starts and any(True for _ in _matched(target, samples, starts[2])):
            yield from _matched(target, samples, starts[1])
        elif counters:
            for selector in (counters[1], counters[3]):
                yield from _matched(target, samples, selector)


def _matched(
    target: ScrapedTarget, samples: Exposed, selector: str
) -> Iterator[tuple[frozenset[tuple[str, str]], float]]:
    own = tuple(target.labels.items())
    for name, metric_labels, value in samples:
        labels = _labels(name, own, tuple(metric_labels.items()))
        if _holds(labels, selector):
            yield labels, value


@cache
def _labels(name: str, *labels: tuple[tuple[str, str], ...]) -> frozenset[tuple[str, str]]:
    return frozenset({"__name__": name, **dict(chain(*labels))}.items())


@cache
def _holds(labels: frozenset[tuple[str, str]], selector: str) -> bool:
    values = dict(labels)
    return all(
        (bool(re.fullmatch(text, value)) if "~" in operator else value == text) is operator.startswith("=")
        for label, operator, text in _MATCHER.findall(selector)
        for value in [values.get(label, "")]
    )


def answer(kind: str, series: Mapping[frozenset[tuple[str, str]], Sequence[tuple[int, float]]]) -> HttpAnswer:
    result = []
    for labels, samples in series.items():
        values = [(time / 1000, repr(value)) for time, value in samples]
        shape = {"value": values[0]} if kind == "vector" else {"values": values}
        result.append({"metric": dict(labels), **shape})
    document = {"status": "success", "data": {"resultType": kind, "result": result}}
    return HttpAnswer(200, "application/json", msgspec.json.encode(document))


def exposed(history: History, broker: int, minute: int, clock_error: int = 0) -> Exposed | None:
    """The samples of the exporter of a broker at a minute, with Strimzi's names; None if no process runs."""
    scrape = history.scrape(broker, minute, clock_error=clock_error)
    if scrape is None:
        return None
    name = "kafka_network_requestmetrics_requests_total"
    samples: list[tuple[str, Mapping[str, str], float]] = [
        (name, {"request": api, "version": str(version)}, count) for (api, version), count in scrape.counters.items()
    ]
    samples.append(("process_start_time_seconds", {}, scrape.start / 1000))
    samples.append(("jmx_exporter_build_info", {"name": "jmx_prometheus_javaagent"}, 1.0))
    samples.append(("jmx_scrape_error", {}, 0.0))
    purgatory = "ElectLeader" if scrape.accepts_removed else "Fetch"
    samples.append(
        ("kafka_server_delayedoperationpurgatory_numdelayedoperations", {"delayedOperation": purgatory}, 0.0)
    )
    return samples


def target_of(history: History, broker: int, clock_error: int = 0) -> ScrapedTarget:
    """A broker as a target."""
    labels = {"job": "kafka", "instance": f"kafka-{broker}:9404", "broker_id": str(broker)}
    return ScrapedTarget(
        labels, lambda minute: exposed(history, broker, minute, clock_error), offset=1000 * broker + 500
    )


def evidence_of(
    prometheus: FakePrometheus, *, at: int = END, days: int = DAYS, selector: str = "", label: BrokerLabel | None = None
) -> PrometheusEvidence:
    window = EvidenceWindow((at - days * DAY) * MINUTE, at * MINUTE)
    return read_evidence(PrometheusApi(prometheus), selector, label, window, TARGETS.matters("4.1"))


def checked_by(
    prometheus: FakePrometheus, registered: Iterable[int], *, at: int = END, days: int = DAYS, selector: str = ""
) -> ClientCheck:
    """The check for a window of `days` that ends at the minute `at`."""
    window = EvidenceWindow((at - days * DAY) * MINUTE, at * MINUTE)
    evidence = evidence_of(prometheus, at=at, days=days, selector=selector)
    return check_clients("4.1", TARGETS, evidence.scrapes, BrokerRegistry(frozenset(registered)), window)
