"""The table `evidence_coverage`: from when to when there is evidence about clients of a broker, and where it has gaps.

`core/clients/coverage.py` finds the gaps. Called by `client_tables`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from featurelog.tables.client_evidence import ClusterClients
from featurelog.tables.inputs import RowsOfTable
from featurelog.tables.table import TIME, WHERE, Column, Row, Table, in_ms
from kafkafeatures.core.clients.evidence import evidence_of

TABLE = Table(
    "evidence_coverage",
    "A row for each span of time with evidence about a broker, and for each gap in the window.",
    ("cluster", "cluster_id", "broker_id", "from_ts", "source", "gap_reason"),
    (
        *WHERE,
        Column("broker_id", pa.int32(), "the broker"),
        Column("from_ts", TIME, "begin of the span"),
        Column("to_ts", TIME, "end of the span"),
        Column(
            "source",
            pa.string(),
            "`counters` (of one process), `log_debug`, `log_info` (hours of a request log); null: a gap",
        ),
        Column(
            "covers",
            pa.string(),
            "`all`: each request; `flagged`: those of deprecated versions; null: a gap, or what is refused is not "
            "counted. Only `counters` make a cluster ready: a log may lack lines",
        ),
        Column("gap_reason", pa.string(), "why nothing is known, such as `Restart` or `NoEvidence`; null: not a gap"),
        Column("detail", pa.string(), "the contradiction, if this is the reason"),
    ),
)
_HOUR = 3_600_000  # ms
_NONE: Row = dict.fromkeys(("covers", "gap_reason", "detail"))


def rows(clients: ClusterClients, usage: Iterable[RowsOfTable]) -> Iterator[Row]:
    """The rows of one cluster. usage: rows of `client_api_usage`, made of its request logs."""
    return ({**_NONE, **row} for row in chain(_of_counters(clients), _of_logs(usage), _gaps(clients)))


def _of_counters(clients: ClusterClients) -> Iterator[Row]:
    for evidence in evidence_of(clients.scrapes, clients.window.begin).values():
        for process in evidence.processes:
            counts_all = process.accepts_removed or clients.all_refuse
            yield {
                "broker_id": evidence.broker, "from_ts": process.covered_from, "to_ts": process.last,
                "source": "counters", "covers": "all" if counts_all else None,
            }  # fmt: skip


def _of_logs(usage: Iterable[RowsOfTable]) -> Iterator[Row]:
    spans: dict[tuple[int, bool], list[list[int]]] = {}
    keys = ["broker_id", "logs_all", "hour"]
    for load in usage:
        hours = in_ms(load()).group_by(keys, use_threads=False).aggregate([("first_ts", "min"), ("last_ts", "max")])
        for hour in hours.sort_by("hour").to_pylist():
            its_spans = spans.setdefault((hour["broker_id"], hour["logs_all"]), [])
            if its_spans and its_spans[-1][2] + _HOUR == hour["hour"]:
                its_spans[-1][1:] = hour["last_ts_max"], hour["hour"]
            else:
                its_spans.append([hour["first_ts_min"], hour["last_ts_max"], hour["hour"]])
    for (broker, logs_all), its_spans in spans.items():
        for begin, end, _ in its_spans:
            yield {
                "broker_id": broker, "from_ts": begin, "to_ts": end, "source": "log_debug" if logs_all else "log_info",
                "covers": "all" if logs_all else "flagged",
            }  # fmt: skip


def _gaps(clients: ClusterClients) -> Iterator[Row]:
    check = next(iter(clients.checks.values()))  # gaps do not depend on the release
    for broker in check.brokers or ():
        for gap in broker.gaps:
            yield {
                "broker_id": broker.broker, "from_ts": gap.begin, "to_ts": gap.end, "source": None,
                "gap_reason": gap.cause.value, "detail": gap.detail or None,
            }  # fmt: skip
