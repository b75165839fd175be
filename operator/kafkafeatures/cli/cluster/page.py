"""HTML page of a cluster: the verdict, every feature on every node, a card for each blocker.

Pure: it shows an observation in the words of `matrix.py`. Called by `describe -o html`; parts of it by the page of a
plan and by `serve`. The colour of a cell has its sign or its word beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.cli.cluster.blocker_cards import blocker_cards
from kafkafeatures.cli.cluster.matrix import (
    ABSENT_CELL,
    apart,
    api_rows,
    counted_groups,
    feature_rows,
    identity,
    observing,
    protocol_of,
    quorum_lost,
    source_of,
    unread_of,
)
from kafkafeatures.cli.cluster.matrix_table import Group, MatrixRow
from kafkafeatures.cli.shell.html_parts import Html, box, day_and_time, filled, remedy, table, text, whole_page
from kafkafeatures.core.engine.blockers import Blocker, grouped
from kafkafeatures.core.facts.observation import NodeKey, Observation, Unknown
from kafkafeatures.core.facts.readings import ANY_CLUSTER
from kafkafeatures.core.report.blockers import blocker_status
from kafkafeatures.core.report.reach import blockers_of, headline, highest_levels, nodes_away, other_raises, raises_of

STYLE = Html("""
.matrix td:nth-child(2) { padding-right: 1.5rem; }
.signs { display: flex; flex-wrap: wrap; gap: .4rem; padding: 0; list-style: none; font-size: .85rem; }
""")
_CELLS = {"bold red": "bad", "yellow": "wait"}
"""CSS class of a cell by its style on a terminal."""
_SIGNS = (
    ("", "+ can be raised"),
    ("good", "reaches the highest level of a live node"),
    ("bad", "! blocks it"),
    ("none", "- not supported"),
    ("wait", "? unknown, or not the finalized level yet"),
)
"""(CSS class, meaning) of the cells, for the legend."""


def cluster_page(observation: Observation, flags: str = "", api_names: dict[int, str] | None = None) -> str:
    """The whole page. Arguments: see `sections`."""
    title = f"Kafka cluster {identity(observation)[0]}"
    shown = (Html("<h1>{}</h1>").format(text(title)), *sections(observation, flags, api_names))
    return whole_page(f"{title} - KafkaFeatures", shown, STYLE)


def sections(observation: Observation, flags: str = "", api_names: dict[int, str] | None = None) -> tuple[Html, ...]:
    """The sections below the title. `flags`: connection flags for the commands in remedies. `api_names`: names of APIs
    by key; if given, the APIs of each node are shown, instead of its features.
    """
    if api_names is not None:
        rows = api_rows(observation, api_names)
        apis = matrix("Version ranges of every API on every node (KIP-35)", ("API (key)", ""), observation, rows)
        return facts(observation), apis, *nodes_apart(observation, "", set()), not_read(observation)
    highest = highest_levels(observation)
    blockers = blockers_of(observation, highest, flags or ANY_CLUSTER)
    cards = blocker_cards(map(blocker_status, grouped(blockers)))
    heading = Html("<h2>Blockers of the highest levels that a live node supports</h2>\n{}")
    return (
        _verdict(observation, highest, blockers),
        facts(observation),
        features(observation),
        heading.format(cards) if cards else Html(),
        *nodes_apart(observation, flags, {node.key for blocker in blockers for node in blocker.nodes}),
        not_read(observation, flags),
    )


def facts(observation: Observation) -> Html:
    """The line with what was read, when, and from where."""
    _, mode, nodes = identity(observation)
    read = f"read at {day_and_time(observation.at)} from {source_of(observation)}"
    parts = filter(None, (mode, nodes, protocol_of(observation), read))
    return Html('<p class="muted">{}</p>').format(Html(" | ").join(map(text, parts)))


def features(observation: Observation) -> Html:
    """The table of every feature on every node."""
    caption = "Every feature on every node: the range that it supports"
    highest = highest_levels(observation)
    raises = raises_of(observation, highest, blockers_of(observation, highest, ANY_CLUSTER))
    rows = feature_rows(observation, highest, raises)
    return matrix(caption, ("Feature", "Finalized"), observation, rows)


def matrix(caption: str, corner: tuple[str, str], observation: Observation, rows: Sequence[MatrixRow]) -> Html:
    """A table with a column for each group of nodes with equal cells. `corner`: titles of the first two columns; the
    second one is empty if rows have no level, and then no cell is filled.
    """
    groups = counted_groups(observation, rows)
    if not groups:
        return Html('<p class="bad">No live node.</p>')
    cells = []
    for number, row in enumerate(rows):
        if not row.is_below:
            level = [row.marked_level] if corner[1] else []
            cells.append((row.title, *level, *(_cell(group, rows, number) for group in groups)))
    head = (corner[0], *filter(None, corner[1:]), *(group.title for group in groups))
    signs = Html().join(Html("<li>{}</li>").format(filled(*kind)) for kind in _SIGNS) if corner[1] else ""
    return table(caption, head, cells, "matrix") + Html('\n<ul class="signs">{}</ul>').format(signs) * bool(signs)


def nodes_apart(observation: Observation, flags: str, blocking: set[NodeKey]) -> tuple[Html, ...]:
    """The table of nodes that are not live or have no vote; nothing if there is none. Arguments: see `matrix.apart`."""
    rows = [
        (state, words, remedy(advice) if advice else "-")
        for state, words, advice in (*apart(observation, flags, blocking), *observing(observation))
    ]
    caption = "Not live, or without a vote"
    return (Html("<h2>Other nodes</h2>\n") + table(caption, ("State", "Node", "What to do"), rows),) if rows else ()


def not_read(observation: Observation, flags: str = "") -> Html:
    """The list of what could not be read, with remedies. `flags`: connection flags for the commands in them."""
    item = Html("<li>{}</li>")
    gaps = Html().join(item.format(remedy(gap)) for gap in unread_of(observation, flags))
    return Html('<h2>Not read</h2>\n<ul class="wait">{}</ul>').format(gaps) if gaps else Html()


def _verdict(observation: Observation, highest: dict[str, int], blockers: tuple[Blocker, ...]) -> Html:
    possible, blocked = headline(observation, highest.get(METADATA_VERSION, 0), blockers)
    away = nodes_away(observation, blockers)
    details = [*filter(None, [away, other_raises(raises_of(observation, highest, blockers))])]
    if isinstance(observation.finalized, Unknown):
        details.append(f"Finalized levels unknown: {observation.finalized.failure}")
    words = f"{possible}{blocked}" or "How far the levels can be raised is unknown"
    if lost := quorum_lost(observation):
        return box("bad" if "red" in str(lost.style) else "wait", lost.plain, words, *details)
    style = "bad" if blockers else "good" if possible and not away else "wait"
    return box(style, words, *details)


def _cell(group: Group, rows: Sequence[MatrixRow], number: int) -> Html:
    """A cell with that of the row below it, if that belongs to it."""
    cell = group.cells[number]
    below = group.cells[number + 1].plain if rows[number + 1 : number + 2] and rows[number + 1].is_below else ""
    return filled(_style_of(cell, rows[number]), cell.plain, below)


def _style_of(cell: Text, row: MatrixRow) -> str:
    if not row.level:
        return ""
    return _CELLS.get(str(cell.style)) or ("none" if cell.plain == ABSENT_CELL else "good")
