"""A cluster of a fleet as one HTML page: may it be upgraded, what blocks it, and what its log says of it.

Pure; the other half of `cli/pages/fleet.py`. Called by `cli/pipeline/gate.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.shown import time_of
from kafkafeatures.cli.pages.fleet import (
    MAX_ROWS,
    MAY_BE_A_GHOST,
    STYLE,
    ClusterTables,
    Row,
    drift,
    evidence,
    last_registration,
    migration,
    moment,
    node_blocker,
    other_blockers,
    section,
    since,
    summary,
    verdict,
)
from kafkafeatures.cli.pages.html_parts import day_and_time, lasting, table, text, whole_page
from kafkafeatures.cli.pages.timeline import Axis
from kafkafeatures.core.facts.releases import format_level

_GHOST = f'<span class="at">{MAY_BE_A_GHOST}</span>'
_MOMENTS = ("stopping_ts", "fenced_ts", "registered_ts", "unfenced_ts", "in_sync_ts")
"""The columns of a row of `rolls` that hold times."""


def cluster_page(gate: Row, cluster: ClusterTables) -> str:
    """The whole document. `gate`: the fleet's, for the target."""
    name, target = cluster.gate["cluster"], f"{gate['target']['kind']} {gate['target']['name']}"
    sections = (
        f"<h1>{text(name)}</h1>",
        _head(gate, cluster, target),
        _blockers(cluster),
        _targets(cluster),
        _features(cluster),
        _registrations(cluster),
        _migration(cluster),
        _rolls(cluster),
        _quality(cluster),
    )
    return whole_page(f"{name} - KafkaFeatures", sections, STYLE)


def _head(gate: Row, cluster: ClusterTables, target: str) -> str:
    one = cluster.gate
    coverage, watermark = one["coverage"], one["watermark"]
    voters = "not known" if coverage["voters"] is None else ", ".join(map(str, coverage["voters"]))
    facts = {
        "Cluster id": one["clusterId"] or "not known",
        "Judged": day_and_time(time_of(gate["evaluatedAt"])),
        "Read until": f"{day_and_time(time_of(watermark['time']))}, offset {watermark['offset']}",
        "Valid until": day_and_time(time_of(one["validUntil"])),
        "Copies read": ", ".join(coverage["copies"]) or "none",
        "Voters": voters,
    }
    shown = " | ".join(f"{label}: {text(fact)}" for label, fact in facts.items())
    why = "".join(f"<br>{text(line)}" for line in summary(one))
    return f'<p class="box">{verdict(one["verdict"])} for {text(target)}{why}</p>\n<p class="muted">{shown}</p>'


def _blockers(cluster: ClusterTables) -> str:
    one = cluster.gate
    rows = [
        (
            text(each["reason"]),
            text(node_blocker(each)) + (_GHOST if each["ghostSuspect"] else ""),
            evidence(each["node"], each["file"], each["offset"], each["ts"]),
        )
        for each in one["blockers"]["nodes"]
    ]
    rows += [(text(kind), text(why), "-") for kind, why in other_blockers(one)]
    return section("Blockers", "What prevents the change", ("Kind", "What", "Last registration"), rows)


def _targets(cluster: ClusterTables) -> str:
    rows = [
        (text(row["target"]), text(row["verdict"]), text(_changes(row["changes"] or ())))
        for row in cluster.rows("upgrade_readiness")
        if row["target_kind"] == "release" and not _is_downgrade(row["changes"] or ())
    ]
    head = ("Release", "By the log alone", "Levels that would change")
    return section("Releases", "Every release of Kafka that needs no downgrade of metadata.version", head, rows)


def _is_downgrade(changes: Sequence[Any]) -> bool:
    return any(one["feature"] == METADATA_VERSION and one["to_level"] < one["from_level"] for one in changes)


def _changes(changes: Sequence[Any]) -> str:
    shown = (
        f"{one['feature']} {one['from_level']} -> {format_level(one['feature'], one['to_level'])}" for one in changes
    )
    return ", ".join(shown) or "none"


def _features(cluster: ClusterTables) -> str:
    rows = [
        (
            text(row["feature"]),
            text(format_level(row["feature"], row["level"])),
            text(row["change"]),
            text(since(row)),
            text(moment(row["to_ts"]) if row["to_offset"] is not None else "now"),
            text(row["attribution"]),
            text(f"{row['evidence_node']}/{row['evidence_file']}, offset {row['evidence_offset']}"),
        )
        for row in sorted(cluster.rows("feature_timeline"), key=lambda row: (row["feature"], row["from_offset"] or 0))
    ]
    head = ("Feature", "Level", "Change", "From", "Until", "By", "Evidence")
    found = section("Feature timeline", "Finalized levels, as far as the log goes back", head, rows)
    drifted = [drift(row) for row in cluster.drifted]
    return found + section("Drift", "Not what the document names", ("Feature", "Level", "Document"), drifted)


def _registrations(cluster: ClusterTables) -> str:
    rows = [
        (
            text(f"{row['role']} {row['node_id']}"),
            text(_state(row)),
            text(", ".join(f"{name} {range_}" for name, range_ in _ranges(row["features"]))),
            last_registration(row),
        )
        for row in cluster.rows("node_registrations")
        if row["is_current"]
    ]
    head = ("Node", "State", "Supports", "Last registration")
    return section("Registrations", "At the end of what was read", head, rows)


def _state(row: Row) -> str:
    states = [
        "may be a ghost: " + row["ghost_reason"] if row["ghost_suspect"] and row["ghost_reason"] else "",
        "fenced" if row["fenced"] else "",
        "in controlled shutdown" if row["in_controlled_shutdown"] else "",
        "in ZooKeeper mode" if row["is_migrating_zk_broker"] else "",
        "voter" if row["is_voter"] else "",
    ]
    return ", ".join(filter(None, states)) or "registered"


def _ranges(features: Any) -> list[tuple[str, str]]:
    """A map as Arrow gives it: pairs."""
    return [(name, f"{held['min']}-{held['max']}") for name, held in sorted(features or (), key=lambda one: one[0])]


def _migration(cluster: ClusterTables) -> str:
    head = ("State", "Since", "Brokers in ZooKeeper mode")
    return section("Migration from ZooKeeper", "In progress", head, [migration(row) for row in cluster.migrations])


def _rolls(cluster: ClusterTables) -> str:
    """Each time that a node was away, on one time axis."""
    rows = sorted(cluster.rows("rolls"), key=lambda row: (row["roll_id"], row["step"]))[-MAX_ROWS:]
    spans = [(row, begin) for row in rows if (begin := _first_time(row)) is not None]
    if not spans:
        return ""
    axis = Axis(min(begin for _, begin in spans), max(max(_times(row)) for row, _ in spans))
    shown = [
        (
            text(f"{row['role']} {row['node_id']}")
            + f'<span class="at">{text(row["kind"])}, {text(row["outcome"])}</span>',
            axis.track([("down", begin, max(_times(row)))]),
            text(day_and_time(begin)),
            text(lasting(row["duration_ms"] / 1000) if row["duration_ms"] is not None else "not known"),
        )
        for row, begin in spans
    ]
    window = f"{day_and_time(axis.begin)} to {day_and_time(axis.end)}"
    drawn = table(f"Times that a node was away, {window}", ("Node", "When", "From", "Took"), shown, "drawn")
    return f"<h2>Rolls</h2>\n{drawn}"


def _first_time(row: Row) -> datetime | None:
    return min(_times(row), default=None)


def _times(row: Row) -> list[datetime]:
    return [row[name] for name in _MOMENTS if row[name] is not None]


def _quality(cluster: ClusterTables) -> str:
    rows = [
        (text(row["kind"]), text(row["text"]), text("/".join(filter(None, (row["node"], row["file"]))) or "-"))
        for row in cluster.rows("data_quality")
    ]
    return section("Gaps in what was seen", "Of the inputs", ("Kind", "What", "Where"), rows)
