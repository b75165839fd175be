"""The table `api_counters`: the request counters of brokers, out of scrapes of their exporters.

Its rows are also what the pipeline keeps of scrapes. So a scrape becomes rows and is restored from them here. What it
decides: of each day and process, the first and the last scrape stay, and those at which other counters begin to grow.
So the dates of the use of a version change by less than a day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from featurelog.tables.table import TIME, WHERE, Column, Table, in_ms
from kafkafeatures.core.clients.evidence import CounterKey, Scrape, thinned

TABLE = Table(
    "api_counters",
    "A row for each request counter in a scrape of a broker. A counter counts from the start of the process, so a "
    "scrape shows all that its process was sent. Of the scrapes of a day only those stay that a verdict needs.",
    ("cluster", "broker_id", "scraped_ts", "process_start_ts", "evidence_file", "api", "version"),
    (
        WHERE[0],
        Column("broker_id", pa.int32(), "the broker, by the name of its folder"),
        Column("process_start_ts", TIME, "start of its process, by its own clock"),
        Column("start_error_ms", pa.int64(), "the process may have started so many ms before or after"),
        Column("scraped_ts", TIME, "time of the scrape, by the name of its file"),
        Column("api", pa.string(), "name of the counter: an API, or a part of one, such as `FetchConsumer`"),
        Column("version", pa.int32(), "version of the requests"),
        Column("count", pa.int64(), "requests since the start of the process"),
        Column("accepts_removed", pa.bool_(), "the process accepts, and so counts, the versions that 4.0 removed"),
        Column("evidence_file", pa.string(), "file in the folder of the broker"),
    ),
)
_DAY = 86_400_000  # ms


def needed(scrapes: Iterable[Scrape], matters: Callable[[CounterKey], bool]) -> Iterator[Scrape]:
    """The scrapes of one broker that stay. matters: see `thinned`."""
    ordered = sorted(scrapes, key=lambda scrape: (scrape.time, scrape.start, scrape.source))
    for _, of_day in groupby(ordered, key=lambda scrape: scrape.time // _DAY):
        yield from thinned(of_day, matters, 0)


def rows_of(cluster: str, scrapes: Iterable[Scrape]) -> pa.Table:
    """The rows of these scrapes."""
    return TABLE.of(
        {
            "cluster": cluster, "broker_id": scrape.broker, "process_start_ts": scrape.start,
            "start_error_ms": scrape.start_error, "scraped_ts": scrape.time, "api": api, "version": version,
            "count": int(count), "accepts_removed": scrape.accepts_removed, "evidence_file": scrape.source,
        }
        for scrape in scrapes for (api, version), count in scrape.counters.items()
    )  # fmt: skip


def scrapes_of(rows: pa.Table) -> Iterator[Scrape]:
    """The scrapes from which these rows were made."""

    def of_scrape(row: dict[str, Any]) -> tuple[object, ...]:
        return row["broker_id"], row["scraped_ts"], row["process_start_ts"], row["evidence_file"]

    for _, group in groupby(in_ms(rows).to_pylist(), key=of_scrape):  # rows are in the order of the key
        its_rows = list(group)
        first = its_rows[0]
        counters = {(row["api"], row["version"]): float(row["count"]) for row in its_rows}
        yield Scrape(
            first["broker_id"], first["scraped_ts"], first["process_start_ts"], counters, first["accepts_removed"],
            first["evidence_file"], first["start_error_ms"],
        )  # fmt: skip
