"""Samples of a broker's metrics, as exporters name them: request counters, the start of the process, and its release.

Pure. Called for text by `cli/clients/exposition.py`, and for series by `prometheus/evidence.py`. Exporters name the
counters as their rules have it: those of Strimzi, Bitnami, Confluent and of the JMX exporter, with and without rules,
are known. What it decides: samples of which a part may be missing are refused, for what is missing could be the counter
of an old client.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from kafkafeatures.core.clients.evidence import MINUTE, CounterKey

WITHOUT_RULES = "kafka_network_requestmetrics_count"
"""Name that the JMX exporter has without rules; the label `name` tells what is counted."""
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
EXPECTED = "kafka.network:type=RequestMetrics,name=RequestsPerSec with its request and version as labels"
CANARY = "ApiVersions"
"""An API that every broker is asked for: by other brokers, by clients, by probes."""

EXPORTER = "jmx_exporter_build_info"
SCRAPE_ERROR = "jmx_scrape_error"
"""The JMX exporter's word on its own answer: it answers with what it has when it breaks off, and 1 here
(`JmxCollector.collect`).
"""
JVM_START, KAFKA_START = "java_lang_runtime_starttime", "kafka_server_app_info_start_time_ms"
PROCESS_START = "process_start_time_seconds"
START_UNITS = {JVM_START: 1, PROCESS_START: 1000, KAFKA_START: 1}
"""Names of the start of a process, in lower case, with what a unit is in ms; the best first."""
KAFKA_2_0 = 1_532_908_800_000
"""30 July 2018 in ms, the release of Kafka 2.0: no broker before it counts by version (KIP-272)."""
TOTAL = "kafka_network_requestmetrics_totaltimems_count"
_TOTAL_TIME = "TotalTimeMs"
"""Name of the count of all requests of an API, in lower case; and without rules, the label `name` of it."""
_LEAST_SHARE = 0.99
"""Share of all requests of an API that its versions have to sum to; a scrape takes seconds."""
PURGATORY = "kafka_server_delayedoperationpurgatory"
_ELECT_LEADER = "ElectLeader"
MARK = f"kafka.server:type=DelayedOperationPurgatory,delayedOperation={_ELECT_LEADER}"
"""A part of every broker of Kafka 2.4 to 3.9, with ZooKeeper and with KRaft, whatever its settings; of none of 4.x."""
ZOOKEEPER = "kafka_server_sessionexpirelistener"
"""Beginning of names of metrics about a session with ZooKeeper (`kafka.server:type=SessionExpireListener`), in lower
case: a part of every broker in ZooKeeper mode, of none of 4.x.
"""
_TWO_IN_ONE = re.compile(r"([A-Za-z]{1,80}), ?version=([0-9]{1,4})")
"""What Bitnami's rule makes of the request: the version is in it."""


class ScrapeRefused(Exception):
    """Nothing may be concluded from a scrape, and why."""


class Sample(Struct, frozen=True):
    """One sample of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


class SeriesKind(Enum):
    """Meanings of series that evidence is made of."""

    COUNTER = "requests of a version"
    TOTAL = "all requests of an API"
    SCRAPE_ERROR = "success of the exporter"
    EXPORTER = "name of the exporter"
    START = "start of a process"
    MARK = "part of an older broker"


class SeriesMeaning(Struct, frozen=True):
    """Meaning of a series, by its name and its labels. `subject`: the API, the name of the start in lower case, or the
    name of the exporter. `key` and `identity`, which is the other labels: of a counter.
    """

    kind: SeriesKind
    name: str
    subject: str = ""
    key: CounterKey = ("", 0)
    identity: frozenset[tuple[str, str]] = frozenset()


class BrokerCounters(Struct, frozen=True):
    """The counters of a scrape. `start`: of the process of the broker, in ms. `accepts_removed`, `start_error`: as of
    `Scrape`.
    """

    start: int
    counters: Mapping[CounterKey, float]
    accepts_removed: bool
    start_error: int = 0


@dataclass
class PartialScrape:
    """Samples of a scrape up to one of them. `family`: the name of the counters as it is written."""

    counters: dict[CounterKey, float] = field(default_factory=dict)
    family: str = ""
    identity: frozenset[tuple[str, str]] | None = None
    starts: dict[str, set[float]] = field(default_factory=dict)
    exporters: set[str] = field(default_factory=set)
    totals: dict[str, float] = field(default_factory=dict)
    says_that_it_is_whole: bool = False
    accepts_removed: bool = False

    def take(self, sample: Sample) -> None:
        """Add a sample; one of another name means nothing. Raises ScrapeRefused."""
        if (meaning := meaning_of(sample.name, sample.labels)) is not None:
            self.add(meaning, sample.value)

    def add(self, meaning: SeriesMeaning, value: float) -> None:
        """Add a sample of a series. Raises ScrapeRefused."""
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
        """APIs of which some versions are missing, where the exporter shows the number of all requests as well."""
        sums: dict[str, float] = {}
        for (name, _), count in self.counters.items():
            sums[name] = sums.get(name, 0) + count
        return (name for name, total in self.totals.items() if sums.get(name, 0) < total * _LEAST_SHARE - 1)

    def _count(self, meaning: SeriesMeaning, value: float) -> None:
        name, key = meaning.name, meaning.key
        if self.family not in ("", name):
            raise ScrapeRefused(f"has the counters twice, as {self.family} and as {name}")
        self.family = name
        if self.identity not in (None, meaning.identity):
            raise ScrapeRefused(f"has {name} of several brokers; expected the scrape of one")
        self.identity = meaning.identity
        if not (math.isfinite(value) and value >= 1 and value.is_integer()):
            # A counter is made by its first request. Of a client that is silent a rate is 0.
            text = f"has {value:g} for {key[0]} v{key[1]}, which is not a count: export Count, not a rate"
            raise ScrapeRefused(text)
        if self.counters.setdefault(key, value) != value:
            raise ScrapeRefused(f"has two counts of {key[0]} v{key[1]}")

    def _start(self) -> tuple[int, int]:
        """The start that the JVM of the broker names, and its error, in ms: an exporter beside the broker has one of
        its own.
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
            return start, MINUTE if name == KAFKA_START else 999 if start % 1000 == 0 else 0
        if PROCESS_START in self.starts:
            raise ScrapeRefused(
                f"does not show when the broker started: {PROCESS_START} may be that of an exporter beside the broker; "
                "export java.lang:type=Runtime with StartTime"
            )
        raise ScrapeRefused(f"does not show when the broker started: expected {PROCESS_START}")


def meaning_of(name: str, labels: Mapping[str, str]) -> SeriesMeaning | None:
    """The meaning of a series; None for one that means nothing here. Raises ScrapeRefused for a mangled counter."""
    lower, others = name.lower(), dict(labels)
    if lower in (TOTAL, WITHOUT_RULES) and others.get("name", _TOTAL_TIME) == _TOTAL_TIME:
        return SeriesMeaning(SeriesKind.TOTAL, name, others.get("request", ""))
    if lower in FAMILIES:
        if lower == WITHOUT_RULES and others.pop("name") != REQUESTS:
            return None
        key = take_key(name, others)
        return SeriesMeaning(SeriesKind.COUNTER, name, key[0], key, frozenset(others.items()))
    if lower == SCRAPE_ERROR:
        return SeriesMeaning(SeriesKind.SCRAPE_ERROR, name)
    if lower == EXPORTER:
        return SeriesMeaning(SeriesKind.EXPORTER, name, others.get("name", ""))
    if lower in START_UNITS:
        return SeriesMeaning(SeriesKind.START, name, lower)
    return SeriesMeaning(SeriesKind.MARK, name) if is_mark(lower, labels) else None


def is_mark(name: str, labels: Mapping[str, str]) -> bool:
    """Tell whether a series is of `MARK` or of `ZOOKEEPER`, by its name in lower case. Bitnami's rule makes the label a
    part of the name.
    """
    if name.startswith(ZOOKEEPER):
        return True
    if not name.startswith(PURGATORY):
        return False
    values = {label.lower(): text for label, text in labels.items()}
    return name.endswith(f"_{_ELECT_LEADER.lower()}_value") or values.get("delayedoperation") == _ELECT_LEADER


def take_key(name: str, labels: dict[str, str]) -> CounterKey:
    """The API and the version, which are taken out of the labels. Raises ScrapeRefused."""
    request, version = labels.pop("request", ""), labels.pop("version", "")
    if match := _TWO_IN_ONE.fullmatch(request):
        request, version = match.groups()
    if re.fullmatch("[A-Za-z]{1,80}", request) and re.fullmatch("[0-9]{1,4}", version):
        return request, int(version)
    mangled = ", ".join([request, version, *labels]).strip(", ")
    raise ScrapeRefused(f"shows that a rule of the exporter mangles {name} ({mangled[:80]}): expected {EXPECTED}")
