"""Draws the times that nodes were away, one lane for each node and one time axis for each roll, and finds nodes that
are flapping.

Pure. A node is away from its controlled shutdown, or from being fenced, until it is in sync again: the rows of the
pipeline's table `rolls`. Called by `fleet.py` and `cluster.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from kafkafeatures.cli.pages.cluster_tables import MAX_ROWS, ClusterTables, Row, in_words
from kafkafeatures.cli.pages.timeline import Axis, Piece, legend, with_axis
from kafkafeatures.cli.shell.html_parts import Html, day_and_time, folded, lasting, small, table, text
from kafkafeatures.core.words import counted

FLAPS, WITHIN = 5, timedelta(hours=24)
"""A node that was away so often in so short a time, each time without a controlled shutdown, is flapping."""
FLAPPING = f"away {FLAPS} times within 24 h without a controlled shutdown"
"""The definition of flapping, as text."""

# (style, text) of each kind of piece, for the legend
_LEGEND = (
    ("down", "away, as far as the metadata log tells of it"),
    ("moment", "known of one moment only: how long it was away is not known"),
)

_OPEN_ROLLS = 3
"""Rolls whose drawings are open at first: the latest ones."""
_MOMENTS = ("stopping_ts", "fenced_ts", "registered_ts", "unfenced_ts", "in_sync_ts")
"""The columns of a row of `rolls` that hold times."""


class Lane(Struct, frozen=True):
    """A node with the times that it was away (at least one), the oldest first."""

    node: str
    rows: Sequence[Row]

    @property
    def is_flapping(self) -> bool:
        """True if the node was away FLAPS times WITHIN a time, without a controlled shutdown."""
        begins = sorted(_begin(row) for row in self.rows if row["kind"] != "controlled")
        # the n-th begin and the one FLAPS - 1 later are the first and last of FLAPS times
        return any(last - first <= WITHIN for first, last in zip(begins, begins[FLAPS - 1 :], strict=False))

    @property
    def last(self) -> datetime:
        """Time at which it went away for the last time."""
        return max(map(_begin, self.rows))

    @property
    def time_away(self) -> str:
        """Time that the node was away in all, as text."""
        durations = [row["duration_ms"] for row in self.rows if row["duration_ms"] is not None]
        if not durations:
            return "not known"
        total = lasting(sum(durations) / 1000)
        return total if len(durations) == len(self.rows) else f"at least {total}"


def flapping(cluster: ClusterTables) -> list[Lane]:
    """The nodes that are flapping."""
    return [lane for lane in _lanes(_rows(cluster)) if lane.is_flapping]


def rolls(cluster: ClusterTables) -> Html:
    """The section of a page; empty if no node was away. Each roll of several nodes has a drawing with an axis of its
    own, the latest first; all other times are in one drawing.
    """
    rows = _rows(cluster)
    if not rows:
        return Html()
    rows_by_roll: dict[int, list[Row]] = {}
    for row in rows:
        rows_by_roll.setdefault(row["roll_id"], []).append(row)
    nodes = {id_: {(row["role"], row["node_id"]) for row in roll} for id_, roll in rows_by_roll.items()}
    flags = {lane.node for lane in _lanes(rows) if lane.is_flapping}
    latest = [id_ for id_ in reversed(rows_by_roll) if len(nodes[id_]) > 1]
    drawings = [
        _drawing(f"Roll of {len(nodes[id_])} nodes", rows_by_roll[id_], flags, is_open=number < _OPEN_ROLLS)
        for number, id_ in enumerate(latest)
    ]
    if single_rows := [row for row in rows if len(nodes[row["roll_id"]]) == 1]:
        drawings.append(_drawing("Times that a node was away", single_rows, flags, is_open=True))
    used = {_piece(row)[0] for row in rows}
    key = legend((style, words) for style, words in _LEGEND if style in used)
    return Html("<h2>Rolls</h2>\n") + Html("\n").join((*drawings, key, _times_table(rows)))


def _rows(cluster: ClusterTables) -> list[Row]:
    """The latest rows of `rolls` that have a time, the oldest roll first."""
    rows = sorted(cluster.rows("rolls"), key=lambda row: (row["roll_id"], row["step"]))[-MAX_ROWS:]
    return [row for row in rows if _times(row)]


def _lanes(rows: Sequence[Row]) -> list[Lane]:
    """The lanes of all nodes in these rows, by role and id."""
    rows_by_node: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        rows_by_node.setdefault((row["role"], row["node_id"]), []).append(row)
    return [Lane(f"{role} {id_}", rows_by_node[role, id_]) for role, id_ in sorted(rows_by_node)]


def _drawing(title: str, rows: Sequence[Row], flags: Collection[str], *, is_open: bool) -> Html:
    """A lane for each node on one axis; folded below its caption if not `is_open`. `flags`: nodes that are flapping."""
    axis = Axis(min(map(_begin, rows)), max(map(_end, rows)))
    flag = Html(', <strong class="wait">flapping</strong>')
    tracks = [
        (
            text(lane.node)
            + small(Html("{}{}").format(counted(len(lane.rows), "time"), flag if lane.node in flags else "")),
            axis.track(map(_piece, lane.rows)),
            day_and_time(lane.last),
            lane.time_away,
        )
        for lane in _lanes(rows)
    ]
    caption = f"{title}, {day_and_time(axis.begin)} to {day_and_time(axis.end)}"
    picture = with_axis(table(caption, ("Node", "When", "Last", "Away in all"), tracks, "drawn"), axis)
    return picture if is_open else folded(caption, picture)


def _times_table(rows: Sequence[Row]) -> Html:
    """The folded table of all times."""
    times = [
        (
            lane.node,
            day_and_time(_begin(row)),
            in_words(row["kind"]),
            in_words(row["outcome"]),
            lasting(row["duration_ms"] / 1000) if row["duration_ms"] is not None else "not known",
        )
        for lane in _lanes(rows)
        for row in lane.rows
    ]
    head = ("Node", "From", "How it went", "How it is back", "Took")
    return folded(counted(len(times), "time"), table("Each time that a node was away", head, times), is_printed=False)


def _piece(row: Row) -> Piece:
    """The piece of a track for one time away; a moment if only one time is known."""
    begin, end = _begin(row), _end(row)
    return "down" if begin < end else "moment", begin, end


def _begin(row: Row) -> datetime:
    return min(_times(row))


def _end(row: Row) -> datetime:
    return max(_times(row))


def _times(row: Row) -> list[datetime]:
    return [row[name] for name in _MOMENTS if row[name] is not None]
