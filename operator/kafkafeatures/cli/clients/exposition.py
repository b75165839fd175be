"""A scrape of a broker in Prometheus' text format: its request counters, and when its process started.

Called by `scrapes.py`. Exporters name the counters as their rules have it: those of Strimzi, Bitnami, Confluent and of
the JMX exporter, with and without rules, are known. What it decides: a scrape of which a part may be missing is
refused, for what is missing could be the counter of an old client. Of a scrape one line at a time is in memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from msgspec import Struct

from kafkafeatures.core.clients.evidence import CounterKey

MAX_LINE = 64 * 1024
MAX_SCRAPE = 256 * 1024 * 1024

FAMILIES = frozenset(
    (
        "kafka_network_requestmetrics_requests_total",  # Strimzi, the JMX exporter's examples
        "kafka_network_requestmetrics_requestspersec",  # Confluent
        "kafka_network_requestmetrics_requestspersec_count",  # Bitnami
        "kafka_network_requestmetrics_requestspersec_total",
        "kafka_network_requestmetrics_count",  # the JMX exporter without rules; its label `name` tells what is counted
    )
)
"""Names of the counters, in lower case."""
WITHOUT_RULES = "kafka_network_requestmetrics_count"
REQUESTS = "RequestsPerSec"
EXPECTED = "kafka.network:type=RequestMetrics,name=RequestsPerSec with its request and version as labels"

_PROCESS_START = "process_start_time_seconds"
_EXPORTER = "jmx_exporter_build_info"
_JVM_START, _KAFKA_START = "java_lang_runtime_starttime", "kafka_server_app_info_start_time_ms"
_UNITS = {_JVM_START: 1, _PROCESS_START: 1000, _KAFKA_START: 1}
"""Names of the start of a process, with what a unit is in ms."""
_PREFIXES = (
    *(b"kafka_network_requestmetrics_requests", b"kafka_network_requestmetrics_count"),
    *(b"kafka_network_RequestMetrics_Requests", b"kafka_network_RequestMetrics_Count"),
    *(b"kafka_server_app_info", b"java_lang_", b"jmx_exporter_", b"process_start_"),
    *(b"kafka_server_delayedoperationpurgatory", b"kafka_server_DelayedOperationPurgatory"),
)
"""Beginnings of all lines that are read: most are not."""
_PURGATORY = "kafka_server_delayedoperationpurgatory"
_ELECT_LEADER = "ElectLeader"
MARK = f"kafka.server:type=DelayedOperationPurgatory,delayedOperation={_ELECT_LEADER}"
"""A part of every broker of Kafka 2.4 to 3.9, with ZooKeeper and with KRaft, whatever its settings; of none of 4.x."""
_CANARY = "ApiVersions"
"""An API that every broker is asked for: by other brokers, by clients, by probes."""

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+([0-9.eE+-]+|[+-]?Inf|NaN)(?:[ \t]+-?[0-9.]+)?")
_LABEL = re.compile(r'[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_TWO_IN_ONE = re.compile(r"([A-Za-z]{1,80}), ?version=([0-9]{1,4})")
"""What Bitnami's rule makes of the request: the version is in it."""


class ScrapeRefused(Exception):
    """Nothing may be concluded from a scrape, and why."""


class Sample(Struct, frozen=True):
    """One line of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


class BrokerCounters(Struct, frozen=True):
    """The counters of a scrape. `start`: of the process of the broker, in ms. `accepts_removed`: as of `Scrape`."""

    start: int
    counters: Mapping[CounterKey, float]
    accepts_removed: bool


@dataclass
class _PartialScrape:
    """Contents up to a line. `family`: the name of the counters as it is written; `is_whole`: a line follows them."""

    counters: dict[CounterKey, float] = field(default_factory=dict)
    family: str = ""
    is_whole: bool = False
    identity: frozenset[tuple[str, str]] | None = None
    starts: dict[str, set[float]] = field(default_factory=dict)
    exporters: set[str] = field(default_factory=set)
    accepts_removed: bool = False


def read_exposition(stream: BinaryIO) -> BrokerCounters:
    """The counters of a scrape. Raises ScrapeRefused."""
    reading = _PartialScrape()
    for number, line in enumerate(_lines(stream), 1):
        if line.startswith(_PREFIXES):
            _take(reading, line.decode(errors="replace").strip(), number)
        elif reading.family and line.strip():
            reading.is_whole = True
    if not reading.counters:
        raise ScrapeRefused(f"has no request counters: expected {EXPECTED}")
    if not reading.is_whole:
        raise ScrapeRefused("ends in the request counters, and may be cut off: keep the whole answer of the exporter")
    if not any(name == _CANARY for name, _ in reading.counters):
        raise ScrapeRefused(f"has no counter of {_CANARY} requests: a rule of the exporter leaves out some of the APIs")
    return BrokerCounters(_start(reading), reading.counters, reading.accepts_removed)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Every line that has an end, from its first letter on; what follows the last one is cut off."""
    size = 0
    while line := stream.readline(MAX_LINE + 1):
        size += len(line)
        if len(line) > MAX_LINE:
            raise ScrapeRefused(f"has a line of more than {MAX_LINE // 1024} KiB: it is not a scrape")
        if size > MAX_SCRAPE:
            raise ScrapeRefused(f"is larger than {MAX_SCRAPE // 1024 // 1024} MiB")
        if not line.endswith(b"\n"):
            return
        yield line.lstrip() if line[:1].isspace() else line


def _take(reading: _PartialScrape, line: str, number: int) -> None:
    written = re.split(r"[{ \t]", line, maxsplit=1)[0]
    name = written.lower()
    if written != reading.family:
        reading.is_whole = reading.is_whole or bool(reading.family)
        if name.startswith(_PURGATORY):
            reading.accepts_removed = reading.accepts_removed or is_mark(line)
            return
        if name not in FAMILIES and name not in _UNITS and name != _EXPORTER:
            return
    sample = parse_sample(line)
    if sample is None:
        raise ScrapeRefused(f"line {number} is not a sample of {written[:80]}")
    if name in FAMILIES:
        _count(reading, sample, number)
    elif name == _EXPORTER:
        reading.exporters.add(sample.labels.get("name", ""))
    else:
        reading.starts.setdefault(name, set()).add(sample.value)


def is_mark(line: str) -> bool:
    """Tell whether a line is a sample of `MARK`. Bitnami's rule makes the label a part of the name."""
    sample = parse_sample(line)
    if sample is None:
        return False
    name = sample.name.lower()
    in_name = name.startswith(_PURGATORY) and name.endswith(f"_{_ELECT_LEADER.lower()}_value")
    labels = {label.lower(): text for label, text in sample.labels.items()}
    return in_name or (name.startswith(_PURGATORY) and labels.get("delayedoperation") == _ELECT_LEADER)


def _count(reading: _PartialScrape, sample: Sample, number: int) -> None:
    labels = dict(sample.labels)
    if sample.name.lower() == WITHOUT_RULES and labels.pop("name", REQUESTS) != REQUESTS:
        return
    if not reading.family:
        reading.family = sample.name
    elif sample.name != reading.family:
        raise ScrapeRefused(f"has the counters twice, as {reading.family} and as {sample.name}")
    elif reading.is_whole:
        raise ScrapeRefused(f"line {number}: {sample.name} is not in one piece, so that lines may be missing")
    key = _key(sample.name, labels)
    identity = frozenset(labels.items())
    if reading.identity not in (None, identity):
        raise ScrapeRefused(f"line {number}: {sample.name} is of several brokers; expected the scrape of one")
    reading.identity = identity
    if not (math.isfinite(sample.value) and sample.value >= 0):
        raise ScrapeRefused(f"line {number}: {sample.value} is not a count")
    if reading.counters.setdefault(key, sample.value) != sample.value:
        raise ScrapeRefused(f"line {number}: {key[0]} v{key[1]} has two counts")


def _key(name: str, labels: dict[str, str]) -> CounterKey:
    """The API and the version, which are taken out of the labels."""
    request, version = labels.pop("request", ""), labels.pop("version", "")
    if match := _TWO_IN_ONE.fullmatch(request):
        request, version = match.groups()
    if re.fullmatch("[A-Za-z]{1,80}", request) and re.fullmatch("[0-9]{1,4}", version):
        return request, int(version)
    mangled = ", ".join([request, version, *labels]).strip(", ")
    raise ScrapeRefused(f"a rule of the exporter mangles {name} ({mangled[:80]}): expected {EXPECTED}")


def _start(reading: _PartialScrape) -> int:
    """The start that the JVM of the broker names: an exporter beside the broker has one of its own."""
    is_agent = bool(reading.exporters) and all("javaagent" in exporter for exporter in reading.exporters)
    sources = (_JVM_START, _PROCESS_START, _KAFKA_START) if is_agent else (_JVM_START, _KAFKA_START)
    for name in sources:
        times = [time * _UNITS[name] for time in reading.starts.get(name, ())]
        if times and all(0 < time < 2**53 for time in times):
            return round(max(times))
    if _PROCESS_START in reading.starts:
        raise ScrapeRefused(
            f"does not show when the broker started: {_PROCESS_START} may be that of an exporter beside the broker; "
            "export java.lang:type=Runtime with StartTime"
        )
    raise ScrapeRefused(f"does not show when the broker started: expected {_PROCESS_START}")


def parse_sample(line: str) -> Sample | None:
    """A line with a sample; None for one that is none."""
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return None
    name, text, number = match.groups()
    labels: dict[str, str] = {}
    position = 0
    text = text or ""
    while position < len(text.rstrip()):
        label = _LABEL.match(text, position)
        if label is None or label[1] in labels:
            return None
        labels[label[1]] = re.sub(r"\\(.)", lambda escape: "\n" if escape[1] == "n" else escape[1], label[2])
        position = label.end()
    try:
        return Sample(name, labels, float(number))
    except ValueError:
        return None
