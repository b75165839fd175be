"""The rows about one cluster in the pipeline's tables, and texts for them, for pages and for the lines of
`pipeline gate`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.shown import time_of
from kafkafeatures.cli.shell.html_parts import Html, day_and_time, small, table, text
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.words import counted, first_of

Row = Mapping[str, Any]
"""A row of a table by column, or an object in the document of `pipeline gate`."""

MAX_ROWS = 1000
"""Most rows of a table that are shown."""
MOST_IDS = 5
"""Most node ids in one line about nodes that lack the same level."""

VERDICT_STYLES = {"ready": ("good", "Ready"), "blocked": ("bad", "Blocked"), "unknown": ("wait", "Unknown")}
"""CSS class and word by verdict."""


_WORDS = {
    "seen": "first seen",
    "Unattributed": "not known to KafkaFeatures",
    "controlled": "controlled shutdown",
    "fenced": "fenced, without a controlled shutdown",
    "in_sync": "in sync",
    "unfenced": "unfenced, not in sync yet",
    "away": "still away",
    "PRE_MIGRATION": "the quorum waits for the brokers",
    "MIGRATION": "changes are written to both",
    "POST_MIGRATION": "finalized",
}
"""Texts for values in the tables that are not clear by themselves."""


def in_words(value: str) -> str:
    """The text for a value in the tables; the value itself if there is no entry."""
    return _WORDS.get(value, value)


class ClusterTables(Struct, frozen=True):
    """The rows about one cluster. gate: its entry in the document of `pipeline gate`. tables: rows by table name.
    releases: the gate's verdict for each release of Kafka, the oldest first.
    """

    gate: Row
    tables: Mapping[str, Sequence[Row]] = {}
    releases: Mapping[str, str] = {}

    def rows(self, name: str) -> Sequence[Row]:
        """The rows of a table; empty where it has none about this cluster."""
        return self.tables.get(name, ())

    @property
    def ghosts(self) -> list[Row]:
        """Current registrations that may be ghosts."""
        return [row for row in self.rows("node_registrations") if row["is_current"] and row["ghost_suspect"]]

    @property
    def drifted(self) -> list[Row]:
        """Rows of levels that differ from those in the document."""
        return [row for row in self.rows("drift") if row["drift"] == "Drifted"]

    @property
    def migrations(self) -> list[Row]:
        """Migrations that are in progress."""
        return [
            row
            for row in self.rows("migration_timeline")
            if row["is_current"] and row["state_name"] not in ("NONE", "POST_MIGRATION")
        ]

    @property
    def current(self) -> list[Row]:
        """Registrations that exist at the end of the log."""
        return [row for row in self.rows("node_registrations") if row["is_current"]]

    @property
    def blocking(self) -> set[int]:
        """Ids of the nodes that block the target, including ghosts."""
        return {blocker["nodeId"] for blocker in self.gate["blockers"]["nodes"]}

    @property
    def gone(self) -> set[int]:
        """Ids of nodes that may be gone: all their registrations may be ghosts. A combined node registers twice."""
        registrations = [(row["node_id"], row["ghost_suspect"]) for row in self.current]
        registrations += [(blocker["nodeId"], blocker["ghostSuspect"]) for blocker in self.gate["blockers"]["nodes"]]
        return {id_ for id_, _ in registrations} - {id_ for id_, suspected in registrations if suspected is not True}

    @property
    def nodes(self) -> set[int]:
        """Ids of all known nodes, without ghosts."""
        return ({row["node_id"] for row in self.current} | self.blocking) - self.gone

    def behind(self, noun: str = "") -> str:
        """Text with the number of nodes and ghosts that do not support the target. `noun`: word after the number of
        nodes.
        """
        ghosts = len(self.blocking & self.gone)
        words = f"{len(self.blocking - self.gone)} of {counted(len(self.nodes), noun) if noun else len(self.nodes)}"
        return f"{words} and {counted(ghosts, 'ghost')}" if ghosts else words

    def level(self, feature: str) -> int | None:
        """The finalized level at the end of the log; None if the log does not have it."""
        levels = (row["level"] for row in self.rows("feature_timeline") if row["feature"] == feature and _is_last(row))
        return next(levels, None)

    def judged_releases(self, *, downgrades: bool) -> set[str]:
        """The releases that were judged: those that need a downgrade of metadata.version, or those that do not."""
        return {
            row["target"]
            for row in self.rows("upgrade_readiness")
            if row["target_kind"] == "release" and is_downgrade(row["changes"] or ()) is downgrades
        }

    @property
    def newest_reachable(self) -> str:
        """The newest release that the cluster can be raised to; empty: none."""
        upwards = self.judged_releases(downgrades=False)
        ready = (name for name, verdict in self.releases.items() if verdict == "ready" and name in upwards)
        return next(reversed([*ready]), "")


def _is_last(row: Row) -> bool:
    """True for the span of a level that lasts until the end of the log."""
    return row["to_offset"] is None


def is_downgrade(changes: Sequence[Any]) -> bool:
    """True if these changes downgrade metadata.version."""
    return any(
        change["feature"] == METADATA_VERSION and change["to_level"] < change["from_level"] for change in changes
    )


def section(title: str, caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    """A table of at most MAX_ROWS rows under its title; empty without rows."""
    omitted = f"; {len(rows) - MAX_ROWS} more are not shown" if len(rows) > MAX_ROWS else ""
    head_line = Html("<h2>{}</h2>\n").format(title) if title else Html()
    return head_line + table(caption + omitted, head, rows[:MAX_ROWS]) if rows else Html()


def verdict(word: str) -> Html:
    """HTML of a verdict ("ready", "blocked" or "unknown")."""
    return Html('<strong class="{}">{}</strong>').format(*VERDICT_STYLES[word])


def blockers(gate: Row) -> list[tuple[str, str]]:
    """All blockers of a cluster as (kind, text)."""
    return [(blocker["reason"], node_blocker(blocker)) for blocker in gate["blockers"]["nodes"]] + other_blockers(gate)


def other_blockers(gate: Row) -> list[tuple[str, str]]:
    """The blockers that do not concern a single node."""
    losses = [("DowngradeLoss", loss["text"]) for loss in gate["blockers"]["losses"]]
    return losses + [(blocker["kind"], blocker["text"]) for blocker in gate["blockers"]["others"]]


MAY_BE_A_GHOST = "may be a ghost registration"


def summary(gate: Row) -> list[str]:
    """Lines about the blockers of a cluster and unknown facts; nodes that lack the same levels share a line."""
    if gate["verdict"] == "ready":
        return []
    lacks: dict[tuple[str, int, bool], list[str]] = {}
    for blocker in gate["blockers"]["nodes"]:
        feature, level = blocker["feature"], blocker["needed"]
        lack = "a registration" if level is None else f"{feature} {format_level(feature, level)}"
        lacks.setdefault((blocker["role"], blocker["nodeId"], blocker["ghostSuspect"] is True), []).append(lack)
    nodes: dict[tuple[str, bool, tuple[str, ...]], list[int]] = {}
    for (role, id_, suspected), lacking in sorted(lacks.items()):
        nodes.setdefault((role, suspected, tuple(lacking)), []).append(id_)
    lines = []
    for (role, suspected, needed), ids in nodes.items():
        verb = "do not" if len(ids) > 1 else "does not"
        predicate = "have" if needed == ("a registration",) else "support"
        ghosts = f" ({MAY_BE_A_GHOST})" if suspected else ""
        subject = f"{role}{'s' if len(ids) > 1 else ''} {first_of(ids, MOST_IDS)}{ghosts}"
        lines.append(f"{subject} {verb} {predicate} {', '.join(needed)}")
    lines += [words for _, words in other_blockers(gate)]
    if gate["verdict"] == "unknown":
        lines += [reason["text"] for reason in gate["unknownBecause"]]
    return lines


def node_blocker(row: Row) -> str:
    """Sentence about a node and what it lacks."""
    node = f"{row['role']} {row['nodeId']}"
    if row["needed"] is None:
        return f"{node} votes and is not registered"
    needed = format_level(row["feature"], row["needed"])
    return f"{node} supports {row['feature']} {row['supportedMin']}-{row['supportedMax']}; {needed} is required"


def ghost(row: Row) -> tuple[str, str, str]:
    """(node, reason, evidence) of a registration that may be a ghost."""
    return f"{row['role']} {row['node_id']}", row["ghost_reason"], last_registration(row)


def drift(row: Row) -> tuple[str, str, str]:
    """(feature, finalized and desired level, name of the document) of a level that drifted."""
    feature = row["feature"]
    level, desired = (format_level(feature, row[name] or 0) for name in ("level", "desired_level"))
    return feature, f"{level}, desired is {desired}", row["document"] or "-"


def migration(row: Row) -> tuple[str, str, str]:
    """(state of the migration, since when, nodes that it waits for)."""
    remaining = ", ".join(map(str, row["zk_brokers_remaining"] or ())) or "none"
    return in_words(row["state_name"] or f"state {row['state_code']}"), since(row), remaining


def last_registration(row: Row) -> Html:
    """The evidence of a row of `node_registrations`."""
    return evidence(row["registered_node"], row["registered_file"], row["registered_offset"], row["registered_ts"])


def evidence(node: object, file: object, offset: object, at: object) -> Html:
    """HTML of the record that proves a fact: its time and place."""
    return text("-") if file is None else text(moment(at)) + place(node, file, offset)


def place(node: object, file: object, offset: object) -> Html:
    """HTML of the place of a record: node, file and offset."""
    return small(f"{node}/{file}, offset {offset}")


def moment(at: object) -> str:
    """Text of a time in a row."""
    return day_and_time(time_of(at)) if at is not None else "not known"


def since(row: Row) -> str:
    """Text with the time at which a span began; of a span known from a snapshot only, the time by which it had
    begun.
    """
    return moment(row["from_ts"]) if row["from_ts"] is not None else f"{moment(row['not_after'])} or before"
