"""Samples of a broker's metrics, as exporters name them: request counters, the start of the process, and its release.

Pure. Called for text by `cli/clients/exposition.py`, and for series by `prometheus/evidence.py`. Exporters name the
counters as their rules have it: those of Strimzi, Bitnami, Confluent and of the JMX exporter, with and without rules,
are known. What it decides: samples of which a part may be missing are refused, for what is missing could be the counter
of an old client.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from kafkafeatures.core.clients.evidence import CounterKey

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
JVM_START, KAFKA_START = "java_lang_runtime_starttime", "kafka_server_app_info_start_time_ms"
PROCESS_START = "process_start_time_seconds"
START_UNITS = {JVM_START: 1, PROCESS_START: 1000, KAFKA_START: 1}
"""Names of the start of a process, in lower case, with what a unit is in ms; the best first."""
PURGATORY = "kafka_server_delayedoperationpurgatory"
_ELECT_LEADER = "ElectLeader"
MARK = f"kafka.server:type=DelayedOperationPurgatory,delayedOperation={_ELECT_LEADER}"
"""A part of every broker of Kafka 2.4 to 3.9, with ZooKeeper and with KRaft, whatever its settings; of none of 4.x."""
_TWO_IN_ONE = re.compile(r"([A-Za-z]{1,80}), ?version=([0-9]{1,4})")
"""What Bitnami's rule makes of the request: the version is in it."""


class ScrapeRefused(Exception):
    """Nothing may be concluded from a scrape, and why."""


class Sample(Struct, frozen=True):
    """One sample of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


class BrokerCounters(Struct, frozen=True):
    """The counters of a scrape. `start`: of the process of the broker, in ms. `accepts_removed`: as of `Scrape`."""

    start: int
    counters: Mapping[CounterKey, float]
    accepts_removed: bool


@dataclass
class PartialScrape:
    """Samples of a scrape up to one of them. `family`: the name of the counters as it is written."""

    counters: dict[CounterKey, float] = field(default_factory=dict)
    family: str = ""
    identity: frozenset[tuple[str, str]] | None = None
    starts: dict[str, set[float]] = field(default_factory=dict)
    exporters: set[str] = field(default_factory=set)
    accepts_removed: bool = False

    def take(self, sample: Sample) -> bool:
        """Add a sample, and tell whether it is a request counter; one of another name means nothing. Raises
        ScrapeRefused.
        """
        name = sample.name.lower()
        if name in FAMILIES:
            return self._count(sample)
        if name == EXPORTER:
            self.exporters.add(sample.labels.get("name", ""))
        elif name in START_UNITS:
            self.starts.setdefault(name, set()).add(sample.value)
        elif is_mark(sample):
            self.accepts_removed = True
        return False

    def result(self) -> BrokerCounters:
        """The counters, if nothing shows that some are missing. Raises ScrapeRefused."""
        if not self.counters:
            raise ScrapeRefused(f"has no request counters: expected {EXPECTED}")
        if not any(name == CANARY for name, _ in self.counters):
            raise ScrapeRefused(
                f"has no counter of {CANARY} requests: a rule of the exporter leaves out some of the APIs"
            )
        return BrokerCounters(self._start(), self.counters, self.accepts_removed)

    def _count(self, sample: Sample) -> bool:
        labels = dict(sample.labels)
        if sample.name.lower() == WITHOUT_RULES and labels.pop("name", REQUESTS) != REQUESTS:
            return False
        if self.family not in ("", sample.name):
            raise ScrapeRefused(f"has the counters twice, as {self.family} and as {sample.name}")
        self.family = sample.name
        key = take_key(sample.name, labels)
        identity = frozenset(labels.items())
        if self.identity not in (None, identity):
            raise ScrapeRefused(f"has {sample.name} of several brokers; expected the scrape of one")
        self.identity = identity
        if not (math.isfinite(sample.value) and sample.value >= 0):
            raise ScrapeRefused(f"has {sample.value} for {key[0]} v{key[1]}, which is not a count")
        if self.counters.setdefault(key, sample.value) != sample.value:
            raise ScrapeRefused(f"has two counts of {key[0]} v{key[1]}")
        return True

    def _start(self) -> int:
        """The start that the JVM of the broker names: an exporter beside the broker has one of its own."""
        is_agent = bool(self.exporters) and all("javaagent" in exporter for exporter in self.exporters)
        sources = (JVM_START, PROCESS_START, KAFKA_START) if is_agent else (JVM_START, KAFKA_START)
        for name in sources:
            times = [time * START_UNITS[name] for time in self.starts.get(name, ())]
            if times and all(0 < time < 2**53 for time in times):
                return round(max(times))
        if PROCESS_START in self.starts:
            raise ScrapeRefused(
                f"does not show when the broker started: {PROCESS_START} may be that of an exporter beside the broker; "
                "export java.lang:type=Runtime with StartTime"
            )
        raise ScrapeRefused(f"does not show when the broker started: expected {PROCESS_START}")


def is_mark(sample: Sample) -> bool:
    """Tell whether a sample is of `MARK`. Bitnami's rule makes the label a part of the name."""
    name = sample.name.lower()
    in_name = name.startswith(PURGATORY) and name.endswith(f"_{_ELECT_LEADER.lower()}_value")
    labels = {label.lower(): text for label, text in sample.labels.items()}
    return in_name or (name.startswith(PURGATORY) and labels.get("delayedoperation") == _ELECT_LEADER)


def take_key(name: str, labels: dict[str, str]) -> CounterKey:
    """The API and the version, which are taken out of the labels. Raises ScrapeRefused."""
    request, version = labels.pop("request", ""), labels.pop("version", "")
    if match := _TWO_IN_ONE.fullmatch(request):
        request, version = match.groups()
    if re.fullmatch("[A-Za-z]{1,80}", request) and re.fullmatch("[0-9]{1,4}", version):
        return request, int(version)
    mangled = ", ".join([request, version, *labels]).strip(", ")
    raise ScrapeRefused(f"shows that a rule of the exporter mangles {name} ({mangled[:80]}): expected {EXPECTED}")
