"""HTML page about a fleet: which clusters may be raised to the target, what blocks the others, and what is unknown.

Pure: it shows the document of `pipeline gate` and rows of the pipeline's tables. Called by `cli/pipeline/gate.py`. The
contents of logs are untrusted, so names in them are never used for file names or links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.shown import time_of
from kafkafeatures.cli.cluster.blocker_cards import kind_in_words
from kafkafeatures.cli.pages import sortable
from kafkafeatures.cli.pages.alike_nodes import alike_nodes
from kafkafeatures.cli.pages.cluster_tables import (
    MAX_ROWS,
    VERDICT_STYLES,
    ClusterTables,
    Row,
    blockers,
    drift,
    ghost,
    migration,
    other_blockers,
    section,
    verdict,
)
from kafkafeatures.cli.pages.fleet_clients import CLIENT_STYLE, client_sections
from kafkafeatures.cli.pages.lanes import FLAPPING, Lane, flapping
from kafkafeatures.cli.pages.roll import STYLE_OF_ROLLS
from kafkafeatures.cli.shell.html_parts import Html, box, day_and_time, filled, folded, lines, table, text, whole_page
from kafkafeatures.core.facts.releases import format_level, level_name, releases
from kafkafeatures.core.words import counted

_OPEN_GRID = 60
"""Most clusters with which the grid is open at first."""
STYLE = STYLE_OF_ROLLS + Html("""
a { color: var(--bar); }
@media print { a { color: inherit; } }
""")


def fleet_page(gate: Row, clusters: Sequence[tuple[str, ClusterTables]]) -> str:
    """The whole page. `gate`: the document of `pipeline gate`. `clusters`: (file name of its page, its rows)."""
    target = f"{gate['target']['kind']} {gate['target']['name']}"
    flaps = {link: flapping(cluster) for link, cluster in clusters}
    sections = (
        Html("<h1>Fleet: {}</h1>").format(text(target)),
        _facts(gate, target),
        _grid(clusters),
        _clusters(gate, clusters, flaps),
        section("What blocks", "Why clusters are blocked", ("Cause", "Clusters", "Nodes"), _kinds(clusters)),
        section(
            "Flapping nodes",
            f"A node is flapping if it was {FLAPPING}",
            ("Cluster", "Node", "Times away", "Last", "Away in all"),
            [
                (_link(link, cluster), flap.node, str(len(flap.rows)), day_and_time(flap.last), flap.time_away)
                for link, cluster in clusters
                for flap in flaps[link]
            ],
        ),
        section(
            "Ghost registrations",
            "Registered, though such a node seems to exist no longer",
            ("Cluster", "Node", "Why", "Last registration"),
            [(_link(link, cluster), *ghost(row)) for link, cluster in clusters for row in cluster.ghosts],
        ),
        section(
            "Drift",
            "Levels that are not what the document of the cluster names",
            ("Cluster", "Feature", "Level", "Document"),
            [(_link(link, cluster), *drift(row)) for link, cluster in clusters for row in cluster.drifted],
        ),
        section(
            "Migrations from ZooKeeper",
            "In progress at the end of what was read",
            ("Cluster", "State", "Since", "Brokers in ZooKeeper mode"),
            [(_link(link, cluster), *migration(row)) for link, cluster in clusters for row in cluster.migrations],
        ),
        section(
            "Gaps in what was seen",
            "Damaged, missing or contradictory inputs",
            ("Cluster", "Kind", "How many"),
            [
                (_link(link, cluster), kind, str(count))
                for link, cluster in clusters
                for kind, count in sorted(Counter(row["kind"] for row in cluster.rows("data_quality")).items())
            ],
        ),
        *client_sections([(_link(link, cluster), cluster) for link, cluster in clusters]),
    )
    style = STYLE + CLIENT_STYLE + sortable.STYLE
    return whole_page(f"Fleet: {target} - KafkaFeatures", sections, style, sortable.SCRIPT)


def _facts(gate: Row, target: str) -> Html:
    counts = gate["counts"]
    style, _ = VERDICT_STYLES[gate["verdict"]]
    fact = Html('<li><strong class="{}">{}</strong>{}</li>')
    at = day_and_time(time_of(gate["evaluatedAt"]))
    source = f"Judged at {at} from the tables of the last run; the operator checks again before it changes anything."
    facts = Html().join(
        fact.format(style, counts[key], label.lower()) for key, (style, label) in VERDICT_STYLES.items()
    )
    return box(style, headline(counts, target), source) + Html('\n<ul class="facts">{}</ul>').format(facts)


def headline(counts: Mapping[str, int], target: str) -> str:
    """Sentence with the verdict of the fleet. `counts`: number of clusters by verdict."""
    total = sum(counts.values())
    if not total:
        return f"No cluster was read, so nothing is known for {target}"
    verdicts = [verdict for verdict in ("blocked", "unknown") if counts[verdict]] or ["ready"]
    of_all = f"of {counted(total, 'cluster')}"
    parts = [f"{counts[verdict]} {of_all} {'is' if counts[verdict] == 1 else 'are'} {verdict}" for verdict in verdicts]
    return f"{' and '.join(parts)} for {target}"


def _grid(clusters: Sequence[tuple[str, ClusterTables]]) -> Html:
    """The table of clusters by releases, if any was judged."""
    judged = {release for _, cluster in clusters for release in cluster.judged_releases(downgrades=False)}
    columns = [release for release in releases() if release in judged]
    if not columns:
        return Html()
    rows = [(_link(link, cluster), *(_grid_cells(cluster, columns))) for link, cluster in clusters[:MAX_ROWS]]
    omitted = f"; {len(clusters) - MAX_ROWS} more are not shown" if len(clusters) > MAX_ROWS else ""
    caption = f"Which cluster can be raised to which release of Kafka, by the gate; - is below its level{omitted}"
    grid = table(caption, ("Cluster", *columns), rows, "matrix")
    heading = Html("<h2>Clusters and releases</h2>\n{}")
    return heading.format(grid if len(rows) <= _OPEN_GRID else folded(counted(len(rows), "cluster"), grid))


def _grid_cells(cluster: ClusterTables, columns: Iterable[str]) -> Iterator[Html]:
    """A cell for each release with its verdict; a dash for one below the cluster's level."""
    below = cluster.judged_releases(downgrades=True)
    for release in columns:
        verdict = cluster.releases.get(release, "unknown")
        yield filled("none", "-") if release in below else filled(*VERDICT_STYLES[verdict])


def _clusters(gate: Row, clusters: Sequence[tuple[str, ClusterTables]], flaps: Mapping[str, Sequence[Lane]]) -> Html:
    """The table with a row for each cluster. `flaps`: flapping nodes by the file name of their cluster's page."""
    if not clusters:
        return Html()
    order = {"blocked": 0, "unknown": 1, "ready": 2}  # what needs action comes first
    feature = gate["target"]["name"].partition("=")[0] if gate["target"]["kind"] == "feature" else METADATA_VERSION
    rows = [
        (
            _link(link, cluster),
            verdict(cluster.gate["verdict"]),
            _finalized(cluster, feature),
            _reachable(cluster),
            _behind(cluster),
            lines(_remarks(cluster, flaps[link])) or "-",
            day_and_time(time_of(cluster.gate["watermark"]["time"])),
        )
        for link, cluster in sorted(clusters, key=lambda item: order[item[1].gate["verdict"]])
    ]
    omitted = f"; {len(rows) - MAX_ROWS} more are not shown" if len(rows) > MAX_ROWS else ""
    head = ("Cluster", "Verdict", "Finalized", "Can reach", "Nodes behind", "Why, and what else", "Read until")
    words = [word for _, word in VERDICT_STYLES.values()]
    clusters_table = sortable.sortable(f"The blocked ones first{omitted}", head, rows[:MAX_ROWS], "Verdict", words)
    return Html("<h2>Clusters</h2>\n{}").format(clusters_table)


def _reachable(cluster: ClusterTables) -> str:
    """Text with the highest release that the cluster certainly can be raised to; "none" only if every release was
    judged.
    """
    is_open = "unknown" in (cluster.gate["verdict"], *cluster.releases.values())
    return cluster.newest_reachable or ("not known" if is_open else "none")


def _behind(cluster: ClusterTables) -> str:
    """Text with the number of nodes that do not support the target; a dash if unknown."""
    return cluster.behind() if cluster.blocking or cluster.gate["verdict"] != "unknown" else "-"


def _finalized(cluster: ClusterTables, feature: str) -> str:
    """The level of this feature as text, by its name if it has one."""
    level = cluster.level(feature)
    if level is None:
        return "not known"
    return level_name(feature, level) or format_level(feature, level)


def _remarks(cluster: ClusterTables, flaps: Sequence[Lane]) -> Iterable[str]:
    """Short lines: what blocks a cluster or is not known, other ghosts, drift, and which nodes are flapping."""
    gate = cluster.gate
    if gate["verdict"] != "ready":
        yield from (alike_node.in_short for alike_node in alike_nodes(cluster))
        yield from (words for _, words in other_blockers(gate))
    if gate["verdict"] == "unknown":
        yield from (reason["text"] for reason in gate["unknownBecause"])
    blocking = {(blocker["role"], blocker["nodeId"]) for blocker in gate["blockers"]["nodes"]}
    if ghosts := [row for row in cluster.ghosts if (row["role"], row["node_id"]) not in blocking]:
        yield counted(len(ghosts), "ghost registration")
    if cluster.drifted:
        yield f"drift: {', '.join(row['feature'] for row in cluster.drifted)}"
    yield from (Html('<strong class="wait">{} is flapping</strong>').format(text(flap.node)) for flap in flaps)


def _kinds(clusters: Iterable[tuple[str, ClusterTables]]) -> list[tuple[str, ...]]:
    """(kind of blocker in words, number of clusters that it blocks, number of nodes that it is about)."""
    counts: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for _, cluster in clusters:
        counts.update({kind for kind, _ in blockers(cluster.gate)})
        nodes.update(
            kind
            for kind, _ in {(blocker["reason"], blocker["nodeId"]) for blocker in cluster.gate["blockers"]["nodes"]}
        )
    return [(kind_in_words(kind), str(counts[kind]), str(nodes[kind] or "-")) for kind in sorted(counts)]


def _link(link: str, cluster: ClusterTables) -> Html:
    """A link to the page of a cluster. `link`: its file name, which is our own, not from a log."""
    return Html('<a href="{}">{}</a>').format(link, text(cluster.gate["cluster"]))
