"""Files with unchanged answers of exporters: broker and time by their names, and the scrapes in them.

A name is `BROKER/TIME.prom` for a file in a folder, `BROKER-TIME.prom` for an entry of a ConfigMap.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from msgspec import Struct

from kafkafeatures.client_files.exposition import ExpositionReader
from kafkafeatures.core.clients.evidence import Scrape

SUFFIX = ".prom"
_BROKER = re.compile(r"[0-9]{1,9}")
"""The id and nothing else: the number of a pod is not always that of its broker."""
_TIME = re.compile(r"[0-9]{9,11}|[0-9]{12,14}")
"""A time since 1970, in seconds or in ms."""


class ScrapeName(Struct, frozen=True):
    """The broker of a scrape, and its time in ms since 1970."""

    broker: int
    time: int


def parse_name(broker: str, time: str) -> ScrapeName | None:
    """The broker and the time in the name of a file; None if one of them is not valid."""
    if _BROKER.fullmatch(broker) is None or _TIME.fullmatch(time) is None:
        return None
    return ScrapeName(int(broker), int(time) * (1000 if len(time) < 12 else 1))


def read_scrape(name: ScrapeName, source: str, stream: BinaryIO, reader: ExpositionReader) -> Scrape:
    """The scrape in a stream. `source`: its name, for people. Raises ScrapeRefused, OSError."""
    counters = reader.read(stream)
    return Scrape(
        name.broker, name.time, counters.start, counters.counters, counters.accepts_removed, source,
        counters.start_error,
    )  # fmt: skip
