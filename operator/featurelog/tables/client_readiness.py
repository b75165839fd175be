"""The table `client_readiness`: do clients use API versions that a release of Kafka lacks, by counters and logs?

`client_evidence` judges. The table says from when to when, and what prevents `ready`. Called by `client_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from featurelog.tables.client_evidence import ClusterClients
from featurelog.tables.table import TIME, WHERE, Column, Row, Table
from kafkafeatures.core.clients.verdict import ClientCheck, ClientVerdict, UseKind
from kafkafeatures.core.words import format_time

_WHY = pa.struct([pa.field("kind", pa.string()), pa.field("text", pa.string())])
TABLE = Table(
    "client_readiness",
    "A row for each release in the configuration: the verdict on the clients of a cluster with evidence about them. "
    "`ready` needs a metadata log that says which brokers are registered, and counters of each through the whole "
    "window. Logs alone never make a cluster ready.",
    ("cluster", "cluster_id", "target"),
    (
        *WHERE,
        Column("target", pa.string(), "release of Kafka, such as `4.1`"),
        Column("verdict", pa.string(), "`ready`, `blocked` (a removed version was used), or `unknown`"),
        Column(
            "unknown_because",
            pa.list_(_WHY),
            "facts that prevent the verdict `ready`: gaps of brokers by their reason, uses that are not certain, "
            "doubts about the metadata log",
        ),
        Column("blocking_versions", pa.list_(pa.string()), "removed versions that were used, such as `Produce v2`"),
        Column("window_from", TIME, "begin of the time that has to be covered"),
        Column("window_to", TIME, "end of that time: the newest scrape, or the end of the metadata log if earlier"),
        Column("ready_from", TIME, "earliest time at which the verdict can be `ready`; null: not known"),
        Column("evaluated_at", TIME, "when the verdict was made"),
        Column("valid_until", TIME, "from then on the evidence is too old: treat `ready` as `unknown`"),
    ),
)


def rows(clients: ClusterClients, at_ms: int, valid_for_ms: int) -> Iterator[Row]:
    """The rows of one cluster."""
    for release, check in clients.checks.items():
        valid_until = check.window.end + valid_for_ms
        reasons = [*clients.doubts, *_reasons(check)]
        if at_ms > valid_until:
            reasons.append(("too_old", f"the evidence ends at {format_time(check.window.end)}"))
        verdict = check.verdict
        if verdict is ClientVerdict.READY and reasons:
            verdict = ClientVerdict.UNKNOWN
        yield {
            "target": release,
            "verdict": verdict.value.lower(),
            "unknown_because": [{"kind": kind, "text": text} for kind, text in reasons],
            "blocking_versions": [f"{use.name} v{use.version}" for use in check.breaking()],
            "window_from": check.window.begin,
            "window_to": check.window.end,
            "ready_from": check.ready_from,
            "evaluated_at": at_ms,
            "valid_until": valid_until,
        }


def _reasons(check: ClientCheck) -> Iterator[tuple[str, str]]:
    """Reasons why the check itself is not Ready, as kind and text, but for removed versions."""
    if not check.is_known_release:
        yield "release", f"the API versions of Kafka {check.release} are not known"
    for broker in check.brokers or ():
        for gap in broker.gaps:
            span = f"from {format_time(gap.begin)} to {format_time(gap.end)}"
            yield gap.cause.value, f"broker {broker.broker}: no evidence {span}{gap.detail and f': {gap.detail}'}"
    for use in check.uses:
        if use.kind is not UseKind.REMOVED:
            yield use.kind.value, f"{use.name} v{use.version} was used until {format_time(use.until)}"
