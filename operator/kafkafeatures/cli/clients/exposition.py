"""A scrape of a broker in Prometheus' text format: its request counters, and when its process started.

Called by `scrapes.py`. The names of exporters are those of `core/clients/exporters.py`. What it decides: a text of
which a part may be missing is refused, for what is missing could be the counter of an old client. Of a scrape one line
at a time is in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from kafkafeatures.core.clients.exporters import (
    EXPORTER,
    FAMILIES,
    PURGATORY,
    START_UNITS,
    BrokerCounters,
    PartialScrape,
    Sample,
    ScrapeRefused,
)

MAX_LINE = 64 * 1024
MAX_SCRAPE = 256 * 1024 * 1024

_PREFIXES = (
    *(b"kafka_network_requestmetrics_requests", b"kafka_network_requestmetrics_count"),
    *(b"kafka_network_RequestMetrics_Requests", b"kafka_network_RequestMetrics_Count"),
    *(b"kafka_server_app_info", b"java_lang_", b"jmx_exporter_", b"process_start_"),
    *(b"kafka_server_delayedoperationpurgatory", b"kafka_server_DelayedOperationPurgatory"),
)
"""Beginnings of all lines that are read: most are not."""

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+([0-9.eE+-]+|[+-]?Inf|NaN)(?:[ \t]+-?[0-9.]+)?")
_LABEL = re.compile(r'[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')


@dataclass
class _PartialText:
    """Contents up to a line. `is_whole`: a line follows the counters."""

    scrape: PartialScrape = field(default_factory=PartialScrape)
    is_whole: bool = False


def read_exposition(stream: BinaryIO) -> BrokerCounters:
    """The counters of a scrape. Raises ScrapeRefused."""
    reading = _PartialText()
    for number, line in enumerate(_lines(stream), 1):
        if line.startswith(_PREFIXES):
            _take(reading, line.decode(errors="replace").strip(), number)
        elif reading.scrape.family and line.strip():
            reading.is_whole = True
    if reading.scrape.counters and not reading.is_whole:
        raise ScrapeRefused("ends in the request counters, and may be cut off: keep the whole answer of the exporter")
    return reading.scrape.result()


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


def _take(reading: _PartialText, line: str, number: int) -> None:
    written = re.split(r"[{ \t]", line, maxsplit=1)[0]
    name, family = written.lower(), reading.scrape.family
    is_mark = name.startswith(PURGATORY)
    if written != family:
        reading.is_whole = reading.is_whole or bool(family)
        if name not in FAMILIES and name not in START_UNITS and name != EXPORTER and not is_mark:
            return
    sample = parse_sample(line)
    if sample is None and not is_mark:
        raise ScrapeRefused(f"line {number} is not a sample of {written[:80]}")
    if sample is None:
        return
    if reading.scrape.take(sample) and reading.is_whole:
        raise ScrapeRefused(f"line {number}: {sample.name} is not in one piece, so that lines may be missing")


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
