"""Reads scrapes of brokers in Prometheus' text format: their request counters, and when their processes started.

`core/clients/exporters.py` knows the names that exporters use. What this module decides: a text of which a part may be
missing is refused, since that part could have the counter of an old client. A line begins with its "head", the name and
labels before the value. Heads repeat in every scrape, so each is parsed once, and only the values are read again. One
block of a scrape is in memory at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO

from msgspec import Struct

from kafkafeatures.core.clients.exporters import (
    BrokerCounters,
    PartialScrape,
    Sample,
    ScrapeRefused,
    SeriesKind,
    SeriesMeaning,
    meaning_of,
)

MAX_LINE = 64 * 1024
"""Bytes of a line."""
MAX_SCRAPE = 256 * 1024 * 1024
"""Bytes of a scrape."""
_BLOCK = 256 * 1024
"""Bytes that are read at once."""
_MAX_HEADS = 100_000
"""Heads that are remembered at most: a broker has hundreds."""

_PREFIXES = (
    *(b"kafka_network_requestmetrics_requests", b"kafka_network_requestmetrics_count"),
    *(b"kafka_network_RequestMetrics_Requests", b"kafka_network_RequestMetrics_Count"),
    *(b"kafka_network_requestmetrics_totaltimems_count", b"kafka_network_RequestMetrics_TotalTimeMs_Count"),
    *(b"kafka_server_app_info", b"java_lang_", b"jmx_exporter_", b"jmx_scrape_error", b"process_start_"),
    *(b"kafka_server_delayedoperationpurgatory", b"kafka_server_DelayedOperationPurgatory"),
    *(b"kafka_server_sessionexpirelistener", b"kafka_server_SessionExpireListener"),
)
"""Beginnings of all lines that are read: most are not."""

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+([0-9.eE+-]+|[+-]?Inf|NaN)(?:[ \t]+(-?[0-9.]+))?")
_LABEL = re.compile(r'[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_VALUE = re.compile(rb"[0-9]+(?:\.[0-9]+)?(?:E[0-9]+)?")
"""A value as nearly all exporters write it, which `float` reads at once."""


class _Head(Struct, frozen=True):
    """The part of a line before its value. `name`: of the metric, as it is written; `meaning`: None if the series is
    not used.
    """

    name: str
    meaning: SeriesMeaning | None


@dataclass
class _PartialText:
    """The contents of a scrape up to the current line. `is_whole`: another line followed the request counters, which
    are one block, so none of them was cut off.
    """

    scrape: PartialScrape = field(default_factory=PartialScrape)
    is_whole: bool = False


class ExpositionReader:
    """Reads scrapes, one after the other. It remembers the heads of lines between them."""

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}

    def read(self, stream: BinaryIO) -> BrokerCounters:
        """The counters of a scrape. Raises ScrapeRefused."""
        reading = _PartialText()
        may_end = False  # True: the last line was a counter, so the counters may end here
        for number, line in enumerate(chain.from_iterable(_lines(stream)), 1):
            if line.startswith(_PREFIXES):
                self._take(reading, line, number)
                may_end = bool(reading.scrape.family) and not reading.is_whole
            elif may_end and (text := line.decode(errors="replace").strip()):
                may_end, reading.is_whole = False, True
                if not text.startswith("#") and parse_sample(text) is None:
                    raise ScrapeRefused(f"has behind the counters, in line {number}, something that is not of a scrape")
        if reading.scrape.counters and not reading.is_whole:
            text = "ends in the request counters, and may be cut off: keep the whole answer of the exporter"
            raise ScrapeRefused(text)
        return reading.scrape.result()

    def _take(self, reading: _PartialText, line: bytes, number: int) -> None:
        """Add the value of a line. Raises ScrapeRefused."""
        begin, *end = line.rsplit(None, 1)
        head = self._heads.get(begin)
        if head is None or not end or not (end[0].isdigit() or _VALUE.fullmatch(end[0])):
            head, value = self._parse_line(begin, line.decode(errors="replace").strip(), number)
        else:
            value = float(end[0])
        meaning, scrape = head.meaning, reading.scrape
        if not reading.is_whole and scrape.family and head.name != scrape.family:
            reading.is_whole = True
        if meaning is None:
            return
        if reading.is_whole and meaning.kind is SeriesKind.COUNTER and head.name == scrape.family:
            raise ScrapeRefused(f"has {head.name} not in one piece (line {number}), so that lines may be missing")
        scrape.add(meaning, value)

    def _parse_line(self, begin: bytes, line: str, number: int) -> tuple[_Head, float]:
        """The head of a line and its value; the head is remembered. Raises ScrapeRefused."""
        parsed = parse_sample(line)
        if parsed is None:
            written = re.split(r"[{ \t]", line, maxsplit=1)[0]
            raise ScrapeRefused(f"has in line {number} no sample of {written[:80]}")
        sample, has_time = parsed
        head = _Head(sample.name, meaning_of(sample.name, sample.labels))
        if not has_time:
            if len(self._heads) < _MAX_HEADS:
                self._heads[begin] = head
        elif head.meaning is not None:
            text = f"has times of its own (line {number}), and may be old: keep what the exporter of the broker answers"
            raise ScrapeRefused(text)
        return head, sample.value


def _lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a stream, without indentation, many at a time. A last line without a line end is left out: it may be
    cut.
    """
    size, unfinished = 0, b""
    while block := stream.read(_BLOCK):
        size += len(block)
        if size > MAX_SCRAPE:
            raise ScrapeRefused(f"is larger than {MAX_SCRAPE // 1024 // 1024} MiB")
        *lines, unfinished = (unfinished + block).split(b"\n")
        if max(map(len, (*lines, unfinished))) > MAX_LINE:
            raise ScrapeRefused(f"has a line of more than {MAX_LINE // 1024} KiB: it is not a scrape")
        is_indented = any(line[:1].isspace() for line in lines)
        yield [line.lstrip() for line in lines] if is_indented else lines


def parse_sample(line: str) -> tuple[Sample, bool] | None:
    """(the sample of a line, True if it has a time of its own); None if the line is not a sample."""
    match = _SAMPLE.fullmatch(line)
    if match is None:
        return None
    name, text, number, time = match.groups()
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
        return Sample(name, labels, float(number)), time is not None
    except ValueError:
        return None
