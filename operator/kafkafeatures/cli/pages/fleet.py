"""A fleet as one HTML page: which clusters may be taken to the target, what blocks the others, and what was not seen.

Pure: it shows the gate's document and the rows of the pipeline's tables, and adds nothing to them. Called by
`cli/pipeline/gate.py`. What a log holds is not trusted: every text is escaped, and no name
becomes a name of a file or a link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kafkafeatures.api.shown import time_of
from kafkafeatures.cli.pages.html_parts import day_and_time, table, text, whole_page
from kafkafeatures.cli.pages.roll import STYLE_OF_ROLLS
from kafkafeatures.core.facts.releases import format_level

Row = Mapping[str, Any]

MAX_ROWS = 1000
"""How many rows of a table are shown."""
MOST_IDS = 5
"""How many node ids are listed in one line, where several nodes lack the same level."""

STYLE = (
    STYLE_OF_ROLLS
    + """
a { color: var(--bar); }
@media print { a { color: inherit; } }
"""
)

LOOKS = {"ready": ("good", "Ready"), "blocked": ("bad", "Blocked"), "unknown": ("wait", "Unknown")}


class ClusterTables(Struct, frozen=True):
    """What the pipeline's tables say of one cluster. gate: its part of the gate's document. tables: rows by table."""

    gate: Row
    tables: Mapping[str, Sequence[Row]] = {}

    def rows(self, name: str) -> Sequence[Row]:
        """The rows of a table; empty where it has none about this cluster."""
        return self.tables.get(name, ())

    @property
    def ghosts(self) -> list[Row]:
        """Current registrations that may be a ghost's."""
        return [row for row in self.rows("node_registrations") if row["is_current"] and row["ghost_suspect"]]

    @property
    def drifted(self) -> list[Row]:
        """Levels that are not what the document wants."""
        return [row for row in self.rows("drift") if row["drift"] == "Drifted"]

    @property
    def migrations(self) -> list[Row]:
        """What is in progress."""
        return [
            row
            for row in self.rows("migration_timeline")
            if row["is_current"] and row["state_name"] not in ("NONE", "POST_MIGRATION")
        ]


def fleet_page(gate: Row, clusters: Sequence[tuple[str, ClusterTables]]) -> str:
    """The whole document. `clusters`: each with the name of its page's file."""
    target = f"{gate['target']['kind']} {gate['target']['name']}"
    sections = (
        f"<h1>Fleet: {text(target)}</h1>",
        _facts(gate),
        _clusters(clusters),
        section("What blocks", "Why clusters are blocked", ("Kind", "Clusters", "Blockers"), _kinds(clusters)),
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
                (_link(link, cluster), text(kind), str(count))
                for link, cluster in clusters
                for kind, count in sorted(Counter(row["kind"] for row in cluster.rows("data_quality")).items())
            ],
        ),
    )
    return whole_page(f"Fleet: {target} - KafkaFeatures", sections, STYLE)


def _facts(gate: Row) -> str:
    counts = gate["counts"]
    style, word = LOOKS[gate["verdict"]]
    facts = "".join(
        f'<li><strong class="{LOOKS[one][0]}">{counts[one]}</strong>{LOOKS[one][1].lower()}</li>' for one in LOOKS
    )
    return (
        f'<p class="box"><strong class="{style}">{word}</strong>: {sum(counts.values())} clusters. Based on their '
        f"metadata logs, evaluated at {text(day_and_time(time_of(gate['evaluatedAt'])))}. "
        "It does not replace the checks before a change.</p>\n"
        f'<ul class="facts">{facts}</ul>'
    )


def _clusters(clusters: Sequence[tuple[str, ClusterTables]]) -> str:
    order = {"blocked": 0, "unknown": 1, "ready": 2}
    rows = [
        (
            _link(link, cluster),
            verdict(cluster.gate["verdict"]),
            "<br>".join(map(text, summary(cluster.gate))) or "-",
            text(day_and_time(time_of(cluster.gate["watermark"]["time"]))),
        )
        for link, cluster in sorted(clusters, key=lambda each: order[each[1].gate["verdict"]])
    ]
    return section("Clusters", "The blocked ones first", ("Cluster", "Verdict", "Why", "Read until"), rows)


def _kinds(clusters: Iterable[tuple[str, ClusterTables]]) -> list[tuple[str, ...]]:
    where: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for _, cluster in clusters:
        kinds = Counter(kind for kind, _ in blockers(cluster.gate))
        where.update(kinds.keys())
        count.update(kinds)
    return [(text(kind), str(where[kind]), str(count[kind])) for kind in sorted(where)]


def _link(link: str, cluster: ClusterTables) -> str:
    """To the page beside this one; `link` is a name that we chose."""
    return f'<a href="{link}">{text(cluster.gate["cluster"])}</a>'


# --- what both pages say ---


def section(title: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of at most MAX_ROWS rows under its title; empty where there are no rows."""
    more = f"; {len(rows) - MAX_ROWS} more are not shown" if len(rows) > MAX_ROWS else ""
    return f"<h2>{title}</h2>\n{table(caption + more, head, rows[:MAX_ROWS])}" if rows else ""


def verdict(word: str) -> str:
    """The gate's answer for a cluster, in HTML."""
    style, shown = LOOKS[word]
    return f'<strong class="{style}">{shown}</strong>'


def blockers(gate: Row) -> list[tuple[str, str]]:
    """All blockers of a cluster as (kind, text)."""
    return [(one["reason"], node_blocker(one)) for one in gate["blockers"]["nodes"]] + other_blockers(gate)


def other_blockers(gate: Row) -> list[tuple[str, str]]:
    """The blockers that do not concern a single node."""
    losses = [("DowngradeLoss", one["text"]) for one in gate["blockers"]["losses"]]
    return losses + [(one["kind"], one["text"]) for one in gate["blockers"]["others"]]


MAY_BE_A_GHOST = "may be a ghost registration"


def summary(gate: Row) -> list[str]:
    """A line for nodes that lack the same, one for each other blocker, and for each thing that is not known."""
    if gate["verdict"] == "ready":
        return []
    lacks: dict[tuple[str, int, bool], list[str]] = {}
    for one in gate["blockers"]["nodes"]:
        feature, level = one["feature"], one["needed"]
        lack = "a registration" if level is None else f"{feature} {format_level(feature, level)}"
        lacks.setdefault((one["role"], one["nodeId"], one["ghostSuspect"] is True), []).append(lack)
    nodes: dict[tuple[str, bool, tuple[str, ...]], list[int]] = {}
    for (role, id_, suspected), lacking in sorted(lacks.items()):
        nodes.setdefault((role, suspected, tuple(lacking)), []).append(id_)
    lines = []
    for (role, suspected, needed), ids in nodes.items():
        shown = ", ".join(map(str, ids[:MOST_IDS])) + (f" and {len(ids) - MOST_IDS} more" if ids[MOST_IDS:] else "")
        verb = "do not" if len(ids) > 1 else "does not"
        what = "have" if needed == ("a registration",) else "support"
        ghosts = f" ({MAY_BE_A_GHOST})" if suspected else ""
        lines.append(f"{role}{'s' if len(ids) > 1 else ''} {shown}{ghosts} {verb} {what} {', '.join(needed)}")
    lines += [words for _, words in other_blockers(gate)]
    if gate["verdict"] == "unknown":
        lines += [one["text"] for one in gate["unknownBecause"]]
    return lines


def node_blocker(one: Row) -> str:
    """What a node lacks."""
    who = f"{one['role']} {one['nodeId']}"
    if one["needed"] is None:
        return f"{who} votes and is not registered"
    needed = format_level(one["feature"], one["needed"])
    return f"{who} supports {one['feature']} {one['supportedMin']}-{one['supportedMax']}; {needed} is required"


def ghost(row: Row) -> tuple[str, str, str]:
    """Who, why, and the evidence."""
    return text(f"{row['role']} {row['node_id']}"), text(row["ghost_reason"]), last_registration(row)


def drift(row: Row) -> tuple[str, str, str]:
    """The feature, both levels, and whose document it is."""
    feature = row["feature"]
    level, wanted = (format_level(feature, row[name] or 0) for name in ("level", "desired_level"))
    return text(feature), text(f"{level}, desired is {wanted}"), text(row["document"] or "-")


def migration(row: Row) -> tuple[str, str, str]:
    """How far it is, since when, and who is waited for."""
    left = ", ".join(map(str, row["zk_brokers_remaining"] or ())) or "none"
    return text(row["state_name"] or f"state {row['state_code']}"), text(since(row)), text(left)


def last_registration(row: Row) -> str:
    """The evidence of a row of `node_registrations`."""
    return evidence(row["registered_node"], row["registered_file"], row["registered_offset"], row["registered_ts"])


def evidence(node: object, file: object, offset: object, at: object) -> str:
    """The record that says so: when, and where it lies."""
    if file is None:
        return "-"
    return f'{text(moment(at))}<span class="at">{text(f"{node}/{file}, offset {offset}")}</span>'


def moment(at: object) -> str:
    """A time of a row."""
    return day_and_time(time_of(at)) if at is not None else "not known"


def since(row: Row) -> str:
    """When a span began. A snapshot does not say that; only that it was so by then."""
    return moment(row["from_ts"]) if row["from_ts"] is not None else f"{moment(row['not_after'])} or before"
