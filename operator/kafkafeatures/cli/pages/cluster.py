"""HTML page about one cluster of a fleet: may it be upgraded, what blocks it, and its history by the metadata log.

Pure; `cli/pages/fleet.py` makes the page about all clusters. Called by `cli/pipeline/gate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkafeatures.api.shown import time_of
from kafkafeatures.cli.cluster.blocker_cards import card, kind_in_words
from kafkafeatures.cli.pages.alike_nodes import AlikeNodes, alike_nodes, release_of
from kafkafeatures.cli.pages.cluster_tables import (
    MAY_BE_A_GHOST,
    VERDICT_STYLES,
    ClusterTables,
    Row,
    drift,
    evidence,
    in_words,
    is_downgrade,
    last_registration,
    migration,
    moment,
    other_blockers,
    place,
    section,
    since,
    verdict,
)
from kafkafeatures.cli.pages.fleet import STYLE
from kafkafeatures.cli.pages.lanes import rolls
from kafkafeatures.cli.shell.html_parts import Html, box, day_and_time, folded, remedy, text, whole_page
from kafkafeatures.core.engine.blockers import shortened
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.words import counted

_MAX_OPEN_ROWS = 20
"""Most rows of the table of registrations with which it is open at first; with more it is folded."""


def cluster_page(gate: Row, cluster: ClusterTables, back: str = "") -> str:
    """The whole page. `gate`: the document of `pipeline gate` about the fleet. `back`: file name of the fleet's page,
    for a link to it.
    """
    name, target = cluster.gate["cluster"], f"{gate['target']['kind']} {gate['target']['name']}"
    sections = (
        Html('<nav><a href="{}">Fleet: {}</a></nav>').format(back, text(target)) if back else Html(),
        Html("<h1>{}</h1>").format(text(name)),
        _head(gate, cluster, target),
        _blockers(cluster),
        _levels(cluster, target),
        _targets(cluster),
        _features(cluster),
        _registrations(cluster),
        _migration(cluster),
        rolls(cluster),
        _quality(cluster),
    )
    return whole_page(f"{name} - KafkaFeatures", sections, STYLE)


def _head(gate: Row, cluster: ClusterTables, target: str) -> Html:
    row = cluster.gate
    coverage, watermark = row["coverage"], row["watermark"]
    voters = "not known" if coverage["voters"] is None else ", ".join(map(str, coverage["voters"]))
    facts = {
        "Cluster id": row["clusterId"] or "not known",
        "Judged": day_and_time(time_of(gate["evaluatedAt"])),
        "Read until": f"{day_and_time(time_of(watermark['time']))}, offset {watermark['offset']}",
        "Valid until": day_and_time(time_of(row["validUntil"])),
        "Copies read": ", ".join(coverage["copies"]) or "none",
        "Voters": voters,
    }
    details = Html(" | ").join(Html("{}: {}").format(label, text(fact)) for label, fact in facts.items())
    reasons = [doubt["text"] for doubt in row["unknownBecause"]] if row["verdict"] == "unknown" else []
    if cluster.blocking:
        reasons.insert(0, f"Not supported by {cluster.behind('node')}")
    reasons += [words for _, words in other_blockers(row)]
    style, word = VERDICT_STYLES[row["verdict"]]
    return box(style, f"{word} for {target}", *reasons) + Html('\n<p class="muted">{}</p>').format(details)


def _blockers(cluster: ClusterTables) -> Html:
    cards = [
        card(
            f"{group.title}, Kafka {group.release}" if group.release else group.title,
            group.kinds + (f", {MAY_BE_A_GHOST}" if group.is_ghost else ""),
            group.lacks,
            Html("<p>{}</p>").format(remedy(group.remedy)),
            folded("Evidence", _evidence(group)),
        )
        for group in alike_nodes(cluster)
    ]
    cards += [card("The cluster", kind_in_words(kind), (message,)) for kind, message in other_blockers(cluster.gate)]
    html = Html('<h2>Blockers</h2>\n<div class="cards">\n{}\n</div>')
    return html.format(Html("\n").join(cards)) if cards else Html()


def _evidence(nodes: AlikeNodes) -> Html:
    """HTML with the last registration of each node of a group."""
    return _by_node(
        nodes.role,
        {id_: evidence(row["node"], row["file"], row["offset"], row["ts"]) for id_, (row, *_) in nodes.rows.items()},
    )


def _by_node(role: str, registrations: Mapping[int, Html]) -> Html:
    """A line for each node. `registrations`: the HTML by node id."""
    line = Html("<div>{}: {}</div>")
    return Html().join(line.format(text(f"{role} {id_}"), html) for id_, html in registrations.items())


def _levels(cluster: ClusterTables, target: str) -> Html:
    """Table of the levels that would change, before and after."""
    rows = [
        (change["feature"], *(format_level(change["feature"], change[name]) for name in ("fromLevel", "toLevel")))
        for change in cluster.gate["changes"]
    ]
    return section("Levels", f"What {target} would change", ("Feature", "Finalized", "Afterwards"), rows)


def _targets(cluster: ClusterTables) -> Html:
    rows = [
        (row["target"], verdict(cluster.releases.get(row["target"], "unknown")), _changes(row["changes"] or ()))
        for row in cluster.rows("upgrade_readiness")
        if row["target_kind"] == "release" and not is_downgrade(row["changes"] or ())
    ]
    head = ("Release", "Verdict", "Levels that would change")
    return section("Releases", "Every release of Kafka that needs no downgrade of metadata.version", head, rows)


def _changes(changes: Sequence[Any]) -> str:
    descriptions = (
        f"{change['feature']} "
        + " -> ".join(format_level(change["feature"], change[end]) for end in ("from_level", "to_level"))
        for change in changes
    )
    return ", ".join(descriptions) or "none"


def _features(cluster: ClusterTables) -> Html:
    spans = sorted(cluster.rows("feature_timeline"), key=lambda row: (row["feature"], row["from_offset"] or 0))
    previous_spans = [None, *spans][: len(spans)]
    rows = [
        (
            row["feature"],
            format_level(row["feature"], before["level"]) if before and before["feature"] == row["feature"] else "-",
            format_level(row["feature"], row["level"]),
            in_words(row["change"]),
            text(since(row))
            + folded("Evidence", place(row["evidence_node"], row["evidence_file"], row["evidence_offset"])),
            moment(row["to_ts"]) if row["to_offset"] is not None else "now",
            in_words(row["attribution"]),
        )
        for before, row in zip(previous_spans, spans, strict=True)
    ]
    head = ("Feature", "Before", "After", "Change", "From", "Until", "By")
    timeline = section("Feature timeline", "Finalized levels, as far as the log goes back", head, rows)
    drifted = [drift(row) for row in cluster.drifted]
    return timeline + section("Drift", "Not what the document names", ("Feature", "Level", "Document"), drifted)


def _registrations(cluster: ClusterTables) -> Html:
    """Table of registrations; nodes with equal facts share a row."""
    alike: dict[tuple[str, ...], dict[int, Html]] = {}
    for row in cluster.current:
        supports = ", ".join(f"{name} {range_}" for name, range_ in _ranges(row["features"]))
        facts = (row["role"], release_of(row["features"]) or "-", _state(row), supports)
        alike.setdefault(facts, {})[row["node_id"]] = last_registration(row)
    rows = [
        (f"{role}{'s' * (len(ids) > 1)} {shortened(ids)}", *facts, _last(role, ids))
        for (role, *facts), ids in alike.items()
    ]
    head = ("Node", "Kafka (inferred)", "State", "Supports", "Last registration")
    html = section("", "At the end of what was read", head, rows)
    words = counted(len(cluster.current), "registration")
    shown = Html("<h2>Registrations</h2>\n{}").format(folded(words, html, is_open=len(rows) <= _MAX_OPEN_ROWS))
    return shown if rows else Html()


def _last(role: str, registrations: Mapping[int, Html]) -> Html:
    """The last registration of a node; of several nodes a folded list."""
    if len(registrations) == 1:
        return next(iter(registrations.values()))
    return folded(f"{len(registrations)} registrations", _by_node(role, registrations))


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
    """(feature, range as text) of a map as Arrow gives it: pairs of name and bounds, or None."""
    return [
        (name, f"{bounds['min']}-{bounds['max']}") for name, bounds in sorted(features or (), key=lambda pair: pair[0])
    ]


def _migration(cluster: ClusterTables) -> Html:
    head = ("State", "Since", "Brokers in ZooKeeper mode")
    return section("Migration from ZooKeeper", "In progress", head, [migration(row) for row in cluster.migrations])


def _quality(cluster: ClusterTables) -> Html:
    rows = [
        (row["kind"], row["text"], "/".join(filter(None, (row["node"], row["file"]))) or "-")
        for row in cluster.rows("data_quality")
    ]
    return section("Gaps in what was seen", "Of the inputs", ("Kind", "What", "Where"), rows)
