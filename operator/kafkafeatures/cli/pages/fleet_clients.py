"""Sections of the fleet's page about clients: verdicts, who would break, and a calendar of the evidence.

Pure. Called by `fleet.py`. Rows are of the pipeline's tables about clients. Names come from clients, so they are cut,
and shown as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkafeatures.cli.pages.cluster_tables import MAX_ROWS, ClusterTables, Row, section, verdict
from kafkafeatures.cli.pages.timeline import Axis, Piece, legend, with_axis
from kafkafeatures.cli.shell.html_parts import Html, day_and_time, lines, table
from kafkafeatures.core.words import cut

CLIENT_STYLE = Html("""
.track .all, .key .all { background: var(--good); height: 45%; }
.track .part, .key .part { background: var(--wait); height: 20%; }
.track .gap, .key .gap { background: var(--bad); }
""")
_LEGEND = (("all", "counters of all requests"), ("part", "request log, or counters that may lack some"), ("gap", "gap"))
_LONGEST = 120
"""Characters of a client id, or of another name, that are shown."""
Linked = tuple[Html, ClusterTables]
"""A link to the page of a cluster, and its rows."""


def client_sections(clusters: Sequence[Linked]) -> Iterator[Html]:
    """The sections; none without evidence about clients."""
    yield section(
        "Clients",
        "Whether clients use API versions that a release lacks",
        ("Cluster", "Release", "Clients", "As of", "Versions used, and what is unknown"),
        [(link, *_readiness(row)) for link, cluster in clusters for row in cluster.rows("client_readiness")],
    )
    blockers = [(link, row) for link, cluster in clusters for row in cluster.rows("client_blockers")]
    blockers.sort(key=lambda pair: pair[1]["last_seen"], reverse=True)
    yield section(
        "Clients that would break",
        "Those that were seen last come first",
        ("Last seen", "Cluster", "Client id", "Principal", "Version", "Release", "Brokers", "Owner", "What to do"),
        [_blocker(link, row) for link, row in blockers],
    )
    yield _calendar(clusters)


def _readiness(row: Row) -> tuple[str, ...]:
    reasons = [*row["blocking_versions"], *(reason["text"] for reason in row["unknown_because"])]
    return row["target"], verdict(row["verdict"]), day_and_time(row["window_to"]), lines(_first(reasons)) or "-"


def _first(reasons: Sequence[str], most: int = 10) -> Iterable[str]:
    yield from (cut(reason, 2 * _LONGEST) for reason in reasons[:most])
    if len(reasons) > most:
        yield f"and {len(reasons) - most} more"


def _blocker(link: Html, row: Row) -> tuple[str, ...]:
    names = (_name(row[column], "not known") for column in ("client_id", "principal"))
    version = f"{row['api']} v{row['version']}"
    brokers = ", ".join(map(str, row["brokers"]))
    return (
        day_and_time(row["last_seen"]), link, *names, _name(version), row["target"], cut(brokers, _LONGEST),
        _name(row["owner"]), row["remedy"] or "-",
    )  # fmt: skip


def _name(value: str | None, absent: str = "-") -> str:
    return absent if value is None else cut(value, _LONGEST) or "-"


def _calendar(clusters: Sequence[Linked]) -> Html:
    """A track for each broker, with its evidence and its gaps."""
    spans = [
        (link, row)
        for link, cluster in clusters
        for row in cluster.rows("evidence_coverage")
        if row["from_ts"] is not None
    ]
    windows = [row for _, cluster in clusters for row in cluster.rows("client_readiness")]
    if not spans or not windows:
        return Html()
    axis = Axis(min(row["window_from"] for row in windows), max(row["window_to"] for row in windows))
    tracks: dict[tuple[Html, int], list[Piece]] = {}
    for link, row in spans:
        pieces = tracks.setdefault((link, row["broker_id"]), [])
        begin, end = max(row["from_ts"], axis.begin), min(row["to_ts"], axis.end)
        if begin < end:
            pieces.append((_style(row), begin, end))
    rows = [(link, axis.track(pieces), str(broker)) for (link, broker), pieces in list(tracks.items())[:MAX_ROWS]]
    omitted = f"; {len(tracks) - MAX_ROWS} more are not shown" if len(tracks) > MAX_ROWS else ""
    picture = table(f"By broker{omitted}", ("Cluster", "When", "Broker"), rows, "drawn")
    return Html("<h2>Evidence about clients</h2>\n{}\n{}").format(with_axis(picture, axis), legend(_LEGEND))


def _style(row: Row) -> str:
    if row["source"] is None:
        return "gap"
    return "all" if (row["source"], row["covers"]) == ("counters", "all") else "part"
