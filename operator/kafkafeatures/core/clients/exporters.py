"""Samples of a broker's metrics, as exporters name them: request counters, the start of the process, and signs of its
release.

Pure. Samples come from the text of an exporter (`client_files/exposition.py`) or from series of Prometheus
(`prometheus/evidence.py`). The names of the counters depend on the rules of the exporter: those of Strimzi, Bitnami,
Confluent, and of the JMX exporter with and without rules are known. What it decides: a scrape that may be incomplete is
refused, since the counter that is missing could be that of an old client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from kafkafeatures.core.clients.evidence import MINUTE, CounterKey

WITHOUT_RULES = "kafka_network_requestmetrics_count"
"""Name of the counters from a JMX exporter without rules; its label `name` says what is counted (`REQUESTS`)."""
FAMILIES = frozenset(
    (
        "kafka_network_requestmetrics_requests_total",  # Strimzi, the JMX exporter's examples
        "kafka_network_requestmetrics_requestspersec",  # Confluent
        "kafka_network_requestmetrics_requestspersec_count",  # Bitnami
        "kafka_network_requestmetrics_requestspersec_total",
        WITHOUT_RULES,
    )
)
"""Names of the counters, in lower case."""
REQUESTS = "RequestsPerSec"
"""Kafka's name of the counter of requests by version."""
EXPECTED = "kafka.network:type=RequestMetrics,name=RequestsPerSec with its request and version as labels"
CANARY = "ApiVersions"
"""An API of which every running broker has requests: from other brokers, clients and probes. Without its counter, a
rule of the exporter leaves out counters.
"""

EXPORTER = "jmx_exporter_build_info"
"""Metric whose label `name` is the artifact of the JMX exporter, such as jmx_prometheus_javaagent."""
SCRAPE_ERROR = "jmx_scrape_error"
"""Metric by which the JMX exporter shows that its answer is complete. If it breaks off, it returns what it has so far,
and 1 here (`JmxCollector.collect`).
"""
JVM_START, KAFKA_START = "java_lang_runtime_starttime", "kafka_server_app_info_start_time_ms"
PROCESS_START = "process_start_time_seconds"
START_UNITS = {JVM_START: 1, PROCESS_START: 1000, KAFKA_START: 1}
"""Names of the metrics with the start of a process, in lower case, and their units in ms; the most exact first."""
KAFKA_2_0 = 1_532_908_800_000
"""30 July 2018 in ms, the release of Kafka 2.0: no older broker counts requests by version (KIP-272)."""
TOTAL = "kafka_network_requestmetrics_totaltimems_count"
"""Name of the number of all requests of an API, whatever their version, in lower case."""
_TOTAL_TIME = "TotalTimeMs"
"""Label `name` of that number from a JMX exporter without rules."""
MAX_COUNT = 2**53
"""Counts are lower: from here on, a float does not show single requests."""
_LEAST_SHARE = 0.99
"""Share of all requests of an API that its versions must sum to. It is below 1, as requests arrive during the seconds
of a scrape.
"""
PURGATORY = "kafka_server_delayedoperationpurgatory"
"""Beginning of the names of metrics about purgatories, in lower case."""
_ELECT_LEADER = "ElectLeader"
MARK = f"kafka.server:type=DelayedOperationPurgatory,delayedOperation={_ELECT_LEADER}"
"""An MBean that every broker of Kafka 2.4 to 3.9 has, with ZooKeeper and with KRaft, whatever its settings, and no
broker of 4.x. It shows that a broker still accepts, and so counts, the versions that Kafka 4.0 removed.
"""
ZOOKEEPER = "kafka_server_sessionexpirelistener"
"""Beginning of the names of metrics about a session with ZooKeeper (`kafka.server:type=SessionExpireListener`), in
lower case. Every broker in ZooKeeper mode has them, and no broker of 4.x, so they show the same as `MARK`.
"""
_TWO_IN_ONE = re.compile(r"([A-Za-z]{1,80}), ?version=([0-9]{1,4})")
"""Label `request` by Bitnami's rule, which has the version in it: "Fetch, version=11"."""


class ScrapeRefused(Exception):
    """A scrape from which nothing may be concluded. Its text says why, and continues a sentence about the scrape."""


class Sample(Struct, frozen=True):
    """One sample of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


class SeriesKind(Enum):
    """Kinds of series from which evidence is made."""

    COUNTER = "requests of a version"
    TOTAL = "all requests of an API"
    SCRAPE_ERROR = "success of the exporter"
    EXPORTER = "name of the exporter"
    START = "start of a process"
    MARK = "part of an older broker"


class SeriesMeaning(Struct, frozen=True):
    """Meaning of a series, by its name and labels.

    subject: the API of a counter or a total; the metric of a start, in lower case; the artifact of an exporter.
    key: of a counter, the API and the version that it counts.
    identity: of a counter, all its other labels, which are the same for all counters of one broker.
    """

    kind: SeriesKind
    name: str
    subject: str = ""
    key: CounterKey = ("", 0)
    identity: frozenset[tuple[str, str]] = frozenset()


class BrokerCounters(Struct, frozen=True):
    """The request counters of a whole scrape. `start`: start of the broker's process, in ms since 1970. The other
    fields are as in `Scrape` (`evidence.py`).
    """

    start: int
    counters: Mapping[CounterKey, float]
    accepts_removed: bool
    start_error: int = 0


@dataclass
class PartialScrape:
    """A scrape of which the samples are added one by one.

    counters: number of requests by API and version.
    family: name of the counters, as it is written; empty before the first one.
    identity: labels that all counters share; None before the first counter.
    starts: values of each metric with a start, by its name in lower case.
    exporters: artifacts of the exporters.
    totals: number of all requests of each API, whatever their version.
    says_that_it_is_whole: the exporter shows that it did not break off.
    accepts_removed: as in `Scrape` (`evidence.py`).
    """

    counters: dict[CounterKey, float] = field(default_factory=dict)
    family: str = ""
    identity: frozenset[tuple[str, str]] | None = None
    starts: dict[str, set[float]] = field(default_factory=dict)
    exporters: set[str] = field(default_factory=set)
    totals: dict[str, float] = field(default_factory=dict)
    says_that_it_is_whole: bool = False
    accepts_removed: bool = False

    def take(self, sample: Sample) -> None:
        """Add a sample by its name; samples that have no meaning here are ignored. Raises ScrapeRefused."""
        if (meaning := meaning_of(sample.name, sample.labels)) is not None:
            self.add(meaning, sample.value)

    def add(self, meaning: SeriesMeaning, value: float) -> None:
        """Add a sample of a series whose meaning is known. Raises ScrapeRefused."""
        match meaning.kind:
            case SeriesKind.COUNTER:
                self._count(meaning, value)
            case SeriesKind.TOTAL:
                self.totals[meaning.subject] = value
            case SeriesKind.SCRAPE_ERROR:
                if value != 0:
                    text = f"is a part: the exporter broke off ({SCRAPE_ERROR} {value:g}); see its log"
                    raise ScrapeRefused(text)
                self.says_that_it_is_whole = True
            case SeriesKind.EXPORTER:
                self.exporters.add(meaning.subject)
            case SeriesKind.START:
                self.starts.setdefault(meaning.subject, set()).add(value)
            case SeriesKind.MARK:
                self.accepts_removed = True

    def result(self) -> BrokerCounters:
        """The counters, if nothing shows that some are missing. Raises ScrapeRefused."""
        if not self.counters:
            raise ScrapeRefused(f"has no request counters: expected {EXPECTED}")
        if not any(name == CANARY for name, _ in self.counters):
            raise ScrapeRefused(
                f"has no counter of {CANARY} requests: a rule of the exporter leaves out some of the APIs"
            )
        if not self.says_that_it_is_whole:
            raise ScrapeRefused(
                f"has no {SCRAPE_ERROR}, which shows that it is whole: keep all that the exporter answers"
            )
        for name in self._incomplete():
            raise ScrapeRefused(
                f"counts more requests of {name} in all than in its versions: a rule of the exporter, or what stands "
                "before it, leaves out some versions"
            )
        start, error = self._start()
        return BrokerCounters(start, self.counters, self.accepts_removed, error)

    def _incomplete(self) -> Iterator[str]:
        """APIs of which some versions are missing: their counters sum to less than the number of all requests. APIs for
        which the exporter does not show that number are not judged.
        """
        sums: dict[str, float] = {}
        for (name, _), count in self.counters.items():
            sums[name] = sums.get(name, 0) + count
        # - 1: of few requests, a single one may arrive during the scrape.
        return (name for name, total in self.totals.items() if sums.get(name, 0) < total * _LEAST_SHARE - 1)

    def _count(self, meaning: SeriesMeaning, value: float) -> None:
        name, key = meaning.name, meaning.key
        if self.family not in ("", name):
            raise ScrapeRefused(f"has the counters twice, as {self.family} and as {name}")
        self.family = name
        if self.identity not in (None, meaning.identity):
            raise ScrapeRefused(f"has {name} of several brokers; expected the scrape of one")
        self.identity = meaning.identity
        if not (1 <= value < MAX_COUNT and value.is_integer()):
            # A counter exists from its first request on, so it is at least 1. A rate would be 0 for a silent client.
            text = f"has {value:g} for {key[0]} v{key[1]}, which is not a count: export Count, not a rate"
            raise ScrapeRefused(text)
        if self.counters.setdefault(key, value) != value:
            raise ScrapeRefused(f"has two counts of {key[0]} v{key[1]}")

    def _start(self) -> tuple[int, int]:
        """Start of the broker's process, and the error of that time, both in ms. Only an exporter that runs inside the
        broker (as a Java agent) shows the broker's start as `PROCESS_START`; any other shows its own.
        """
        is_agent = bool(self.exporters) and all("javaagent" in exporter for exporter in self.exporters)
        sources = (JVM_START, PROCESS_START, KAFKA_START) if is_agent else (JVM_START, KAFKA_START)
        name = next((name for name in sources if name in self.starts), None)
        if name is not None:
            times = [time * START_UNITS[name] for time in self.starts[name]]
            if not all(KAFKA_2_0 <= time < 2**53 for time in times):
                text = f"shows a start of the broker that cannot be ({name} {min(self.starts[name]):g}): Kafka 2.0 is"
                raise ScrapeRefused(f"{text} of July 2018; check the unit in the rules of the exporter, and the clock")
            start = round(max(times))
            # Kafka starts up to a minute after its JVM. A start in whole seconds was probably cut to them.
            return start, MINUTE if name == KAFKA_START else 999 if start % 1000 == 0 else 0
        if PROCESS_START in self.starts:
            raise ScrapeRefused(
                f"does not show when the broker started: {PROCESS_START} may be that of an exporter beside the broker; "
                "export java.lang:type=Runtime with StartTime"
            )
        raise ScrapeRefused(f"does not show when the broker started: expected {PROCESS_START}")


def meaning_of(name: str, labels: Mapping[str, str]) -> SeriesMeaning | None:
    """Meaning of a series by its name and labels; None for one that has none here. Raises ScrapeRefused for a counter
    whose labels are mangled.
    """
    lower, unused_labels = name.lower(), dict(labels)
    if lower in (TOTAL, WITHOUT_RULES) and unused_labels.get("name", _TOTAL_TIME) == _TOTAL_TIME:
        return SeriesMeaning(SeriesKind.TOTAL, name, unused_labels.get("request", ""))
    if lower in FAMILIES:
        if lower == WITHOUT_RULES and unused_labels.pop("name") != REQUESTS:
            return None
        key = take_key(name, unused_labels)
        return SeriesMeaning(SeriesKind.COUNTER, name, key[0], key, frozenset(unused_labels.items()))
    if lower == SCRAPE_ERROR:
        return SeriesMeaning(SeriesKind.SCRAPE_ERROR, name)
    if lower == EXPORTER:
        return SeriesMeaning(SeriesKind.EXPORTER, name, unused_labels.get("name", ""))
    if lower in START_UNITS:
        return SeriesMeaning(SeriesKind.START, name, lower)
    return SeriesMeaning(SeriesKind.MARK, name) if is_mark(lower, labels) else None


def is_mark(name: str, labels: Mapping[str, str]) -> bool:
    """Tell whether a series shows an older broker, as one of `MARK` or `ZOOKEEPER`. `name`: in lower case. Bitnami's
    rule puts the label `delayedOperation` into the name.
    """
    if name.startswith(ZOOKEEPER):
        return True
    if not name.startswith(PURGATORY):
        return False
    values = {label.lower(): text for label, text in labels.items()}
    return name.endswith(f"_{_ELECT_LEADER.lower()}_value") or values.get("delayedoperation") == _ELECT_LEADER


def take_key(name: str, labels: dict[str, str]) -> CounterKey:
    """API and version of a counter; their labels are removed from `labels`. Raises ScrapeRefused."""
    request, version = labels.pop("request", ""), labels.pop("version", "")
    if match := _TWO_IN_ONE.fullmatch(request):
        request, version = match.groups()
    if re.fullmatch("[A-Za-z]{1,80}", request) and re.fullmatch("[0-9]{1,4}", version):
        return request, int(version)
    mangled = ", ".join([request, version, *labels]).strip(", ")
    raise ScrapeRefused(f"shows that a rule of the exporter mangles {name} ({mangled[:80]}): expected {EXPECTED}")
