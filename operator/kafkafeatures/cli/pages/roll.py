"""Section about a roll on a report's page: the phases of each node's restart, and the state of partitions, on a time
axis.

Pure. Called by `cli/pages/resource.py`; the picture of a roll in README has its phases and words. Each drawing has its
numbers beside it; the times of nodes name the record of the metadata log that proves them. Unknown facts are shown as
unknown. Each phase has a pattern or height in addition to its colour.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.values import replace
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.roll_rows import NodeAbsence, Point, restarts_of, rows_of, window_begins
from kafkafeatures.cli.pages.timeline import Axis, Piece, clock, legend, with_axis
from kafkafeatures.cli.shell.html_parts import Html, day_and_time, folded, lasting, small, table, text, time_in_log
from kafkafeatures.cli.shell.values import duration
from kafkafeatures.core.words import counted
from kraftlog.rolls import RollHistory
from kraftlog.strips import Stretch, Strip

MAX_STRIPS = 50
"""Most partitions that are drawn: the worst ones."""
MAX_ROWS = 2000
"""Most restarts in the table: the latest ones."""
MAX_PIECES = 500
"""Most pieces of a strip: the latest ones. More would not be visible on a screen."""

STYLE_OF_ROLLS = Html("""
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .6rem; padding: 0;
  list-style: none; }
.facts li { background: var(--box); border-radius: .4rem; padding: .5rem .9rem; }
.facts strong { display: block; font-size: 1.25rem; line-height: 1.3; }
.drawn th, .drawn td { padding-bottom: .35rem; vertical-align: middle; } .drawn tbody th { white-space: nowrap; }
.drawn td { min-width: 5rem; }
.drawn td:nth-child(2) { width: 100%; min-width: 16rem; }
.track { background: var(--box); border-right: 4px solid var(--box); height: 1.1rem; position: relative; }
.track span, .key span { position: absolute; bottom: 0; height: 100%; min-width: 2px; box-sizing: border-box; }
.axis { position: relative; height: 1.3rem; font-weight: normal; color: var(--muted); font-size: .85rem; }
.axis span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.axis span:last-child { transform: translateX(-100%); } .axis span:first-child { transform: none; }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; margin: .6rem 0; list-style: none;
  font-size: .9rem; } .key { display: flex; align-items: center; gap: .4rem; }
.key i { position: relative; width: 1.8rem; height: 1.1rem; background: var(--box); display: inline-block; }
.key i span { left: 0; width: 100%; }
.stopping { background: repeating-linear-gradient(135deg, var(--bar) 0 3px, transparent 3px 6px); }
.down { background: var(--bar); }
.track .moment, .key .moment { background: var(--bar); width: 4px !important; }
.fenced { background: repeating-linear-gradient(90deg, var(--bar) 0 2px, transparent 2px 5px); }
.track .catching, .key .catching { background: var(--wait); height: 60%; }
.track .watched, .key .watched { background: var(--good); height: 25%; }
.unclear { border: 2px dashed var(--muted); }
.track .fewer, .key .fewer { background: var(--wait); height: 50%; }
.below { background: repeating-linear-gradient(135deg, var(--bad) 0 5px, var(--box) 5px 7px); }
.leaderless { background: var(--bad); }
@media (max-width: 44rem) {
  .drawn thead { position: static; width: auto; height: auto; overflow: visible; clip-path: none; }
  .drawn thead th:not(:nth-child(2)), .axis span:nth-child(2) { display: none; }
  .drawn td:nth-child(2) { width: auto; min-width: 0; } .drawn td:nth-child(2)::before { content: none; }
  .drawn tbody th { white-space: normal; }
}
@media print { * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
""")

# (style, text) of each kind of piece, for the legends: of nodes, and of partitions
PHASES = (
    ("stopping", "stopping: leaders move away"),
    ("down", "stopped, and started again"),
    ("fenced", "runs, and is fenced: recovers its log, loads the metadata"),
    ("catching", "unfenced, replicas catch up"),
    ("watched", "in sync, to stay so"),
    ("unclear", "phases not known"),
)
STATES = (
    ("fewer", "a replica is not in sync"),
    ("below", "below min.insync.replicas: acks=all is refused"),
    ("leaderless", "without a leader: unavailable"),
)


def roll(resource: KubeResource, events: Sequence[SeenEvent], current_time: datetime, log: RollHistory | str) -> Html:
    """The section; empty if there was no roll and no node was away. `log`: the history by the metadata log, or the
    reason why it was not read.
    """
    status = resource.status
    rollout, workloads = status.rollout, status.workloads
    history = log if isinstance(log, RollHistory) else None
    since, stable_for = window_begins(status, current_time), _stable_for(resource)
    rows = rows_of(restarts_of(status, events), history, stable_for, since, current_time)
    if not (rollout or workloads or rows or (history and history.affected)):
        return Html()
    parts = [Html("<h2>Roll</h2>")]
    if rollout:
        ready = status.condition(Condition.READY)
        is_said = ready is not None and ready.message.startswith(rollout.waiting_for)
        waits = "" if is_said else f"; {rollout.waiting_for}"  # the head of the page has the message of Ready
        current = text(f"{rollout.done} of {rollout.total} nodes are current{waits}")
        parts.append(Html("<p>{}</p>").format(current))
    if history is not None:
        parts.append(_facts(rows, history, current_time))
    if workloads:
        sets = [
            (workload.name or "?", workload.update_revision or "?", str(workload.updated), str(workload.total))
            for workload in workloads
        ]
        head = ("Name", "Update revision", "Pods at it", "All pods")
        parts.append(table("StatefulSets", head, sets))
    axis = _axis(rows, history, current_time)
    if rows:
        parts += _timeline(rows, axis, history, current_time)
    parts.append(_source(history, since) if history is not None else _not_read(str(log)))
    if history is not None:
        parts.append(_partitions(history, axis))
    return Html("\n").join(parts)


def _stable_for(resource: KubeResource) -> timedelta:
    """The duration in `spec.rollout.stableFor`; its default if the text is not valid."""
    try:
        return timedelta(seconds=duration(resource.stable_for))
    except (ValueError, ArgumentTypeError):
        return timedelta(seconds=30)


def _axis(rows: Iterable[NodeAbsence], log: RollHistory | None, current_time: datetime) -> Axis:
    """The axis from the first to the last moment of any node or partition; to now if a restart is not over."""
    moments = [point.at for row in rows for point in row.points if point is not None]
    if not all(row.is_over for row in rows):
        moments.append(current_time)
    for strip in log.strips if log is not None else ():
        moments += [time_in_log(ms) for stretch in strip.stretches for ms in (stretch.begin_ms, stretch.end_ms)]
    return Axis(min(moments, default=current_time), max(moments, default=current_time))


def _facts(rows: Sequence[NodeAbsence], log: RollHistory, current_time: datetime) -> Html:
    """List of the facts that people ask for first."""
    restarts = sum(row.is_restart for row in rows)
    ends = [row.last if row.is_over else current_time for row in rows]
    whole_time = lasting((max(ends) - min(row.begin for row in rows)).total_seconds()) if rows else "-"
    below = str(log.below_minimum) if log.minimum_known else f"at least {log.below_minimum}"
    longest = max((strip.under_replicated_ms for strip in log.strips), default=0)
    facts = (
        (str(restarts), f"restart{'' if restarts == 1 else 's'}"),
        (whole_time, "from the first to the last"),
        (str(_most_at_once(rows, current_time)), "most nodes away at once"),
        (f"{log.without_leader} of {log.partitions}", "partitions without a leader"),
        (f"{below} of {log.partitions}", "partitions below min.insync.replicas"),
        (lasting(longest / 1000), "most time that a partition lacked a replica"),
    )
    item = Html("<li><strong>{}</strong>{}</li>")
    return Html('<ul class="facts">{}</ul>').format(Html().join(item.format(*fact) for fact in facts))


def _most_at_once(rows: Iterable[NodeAbsence], current_time: datetime) -> int:
    """Most nodes that were away at once. A node is away from the request to stop until it is in sync."""
    changes = []
    for row in rows:
        back = row.in_sync.at if row.in_sync is not None else row.last if row.is_over else current_time
        changes += [(row.begin, 1), (back, -1)]
    away = most = 0
    for _, change in sorted(changes):
        away += change
        most = max(most, away)
    return most


# --- nodes ---


def _timeline(rows: Sequence[NodeAbsence], axis: Axis, log: RollHistory | None, current_time: datetime) -> list[Html]:
    """The drawing with a lane for each node, its legend, and the folded table of times."""
    latest_rows = rows[-MAX_ROWS:]
    omitted = f"; the {len(rows) - len(latest_rows)} earlier ones are not shown" if len(latest_rows) < len(rows) else ""
    words = "as the metadata log and the operator tell it" if log is not None else "as far as Events tell of it"
    window = f"{day_and_time(axis.begin)} to {day_and_time(axis.end)}"
    caption = f"Timeline of {counted(sum(row.is_restart for row in rows), 'restart')}, {window}, {words}{omitted}"
    phases = [pieces_of(row, current_time) for row in latest_rows]
    lanes: dict[str, list[int]] = {}  # indexes of rows and of their phases, by node
    for index, row in enumerate(latest_rows):
        lanes.setdefault(row.node, []).append(index)
    pictures = [
        (
            _name([latest_rows[index] for index in lane]),
            axis.track(piece for index in lane for piece in phases[index]),
            _all_took([latest_rows[index] for index in lane], current_time),
        )
        for lane in lanes.values()
    ]
    used = {style for phase in phases for style, _, _ in phase}
    times = [(row.node, *map(_cell, row.points), _took(row, current_time)) for row in latest_rows]
    head = ("Node", "Stop", "Down", "Start", "Unfenced", "In sync", "Stable", "Took")
    details = table("When, and the offset of the record that says so; without one the operator says so", head, times)
    return [
        with_axis(table(caption, ("Node", "When", "Took"), pictures, "drawn"), axis),
        legend((style, words) for style, words in PHASES if style in used),
        folded("Times of each phase", details),
    ]


def _name(rows: Sequence[NodeAbsence]) -> Html:
    """The name of a lane: the node, its pod or the one who restarted it last, and how often it was away."""
    row = rows[-1]
    restarted_by = row.pod or ("by hand" if row.pod == "" else "")
    cause = restarted_by if row.is_restart else "not restarted"
    count = f"{len(rows)} times" if len(rows) > 1 else ""
    return text(row.node) + small(", ".join(filter(None, (cause, count))))


def pieces_of(row: NodeAbsence, current_time: datetime) -> list[Piece]:
    """Pieces to draw, in order: each from one known moment to the next one, in the style of the moment that it begins
    with (stop, down, start, unfenced, in sync).
    """
    before_unfenced = ("stopping" if row.down is not None else "down", "down", "fenced")
    if row.start is None and row.unfenced is not None:
        before_unfenced = ("fenced",) * 3  # the process may not have ended
    elif row.start is None and (row.down is None or row.in_sync is not None):
        # Without a start, phases are certain only while a broker that was shut down is still away.
        before_unfenced = ("unclear",) * 3
    styles = (*before_unfenced, "catching", "watched")
    points = [(index, point) for index, point in enumerate(row.points) if point is not None]
    pieces = []
    for (index, begin), (_, end) in pairwise(points):
        pieces.append((styles[index], begin.at, max(end.at, begin.at)))
    last, point = points[-1]
    if not row.is_over:
        pieces.append((styles[last], point.at, max(current_time, point.at)))
    return pieces or [("unclear", point.at, point.at)]


def _took(row: NodeAbsence, current_time: datetime) -> str:
    """Text with the time from the stop to being stable; "?" if one of the two is not known."""
    if not row.is_over:
        return f"{lasting((current_time - row.begin).total_seconds())} so far"
    return lasting((row.last - row.begin).total_seconds()) if row.stop is not None and row.stable is not None else "?"


def _all_took(rows: Sequence[NodeAbsence], current_time: datetime) -> str:
    """Text with the time that a node was away in all."""
    if len(rows) == 1:
        return _took(rows[0], current_time)
    timed_rows = [row for row in rows if not row.is_over or (row.stop is not None and row.stable is not None)]
    total = sum(((row.last if row.is_over else current_time) - row.begin).total_seconds() for row in timed_rows)
    words = (
        f"{lasting(total)} in all"
        if len(timed_rows) == len(rows)
        else f"at least {lasting(total)}"
        if timed_rows
        else "?"
    )
    return words if all(row.is_over for row in rows) else f"{words}, so far"


def _cell(point: Point | None) -> str:
    if point is None:
        return "-"
    source = point.by if point.offset is None else f"offset {point.offset}"
    return text(f"{'by ' * point.is_upper_bound}{clock(point.at)}") + small(source)


# --- partitions ---


def _partitions(log: RollHistory, axis: Axis) -> Html:
    """The drawing with a track for each partition that lacked a replica, its legend, and remarks on what it omits."""
    if not log.affected:
        partitions = counted(log.partitions, "partition")
        return Html("<p>All {} had all replicas in sync all the time.</p>").format(partitions)
    strips = [_drawn(strip) for strip in log.strips]
    rows = [
        (
            text(strip.topic) + f"-{strip.partition}" + small(f"{strip.fewest} of {strip.replicas} in sync"),
            axis.track(
                (style_of(stretch), time_in_log(stretch.begin_ms), time_in_log(stretch.end_ms))
                for stretch in strip.stretches
            ),
            _duration(strip.without_leader_ms),
            _duration(strip.below_minimum_ms) if log.minimum_known or strip.below_minimum_ms else "?",
            text(_duration(strip.under_replicated_ms)) + (small("still") if strip.lasts else ""),
        )
        for strip in strips
    ]
    head = ("Partition, at its worst", "When", "Without leader", "Below minimum", "Lacked a replica")
    unaffected = log.partitions - log.affected
    caption = f"Availability of {counted(log.affected, 'partition')} that lacked a replica, the worst first"
    omitted = log.affected - len(log.strips)
    remarks = [f"{omitted} more of them had it no worse than the last one here."] if omitted else []
    if unaffected > 0:
        remarks.append(f"The other {counted(unaffected, 'partition')} had all replicas in sync all the time.")
    if not log.minimum_known:
        remarks.append("min.insync.replicas is not known of every topic: the brokers that have it did not tell.")
    if any(strip.is_cut for strip in strips):
        remarks.append(
            "Where there was too much to draw, the earlier part of a strip is left out; the times are whole."
        )
    used = {style_of(stretch) for strip in strips for stretch in strip.stretches}
    return Html("\n").join(
        (
            with_axis(table(caption, head, rows, "drawn"), axis),
            legend((style, words) for style, words in STATES if style in used),
            Html("<p>{}</p>").format(" ".join(remarks)) if remarks else Html(),
        )
    )


def _drawn(strip: Strip) -> Strip:
    """The strip with its latest MAX_PIECES pieces."""
    if len(strip.stretches) <= MAX_PIECES:
        return strip
    return replace(strip, stretches=strip.stretches[-MAX_PIECES:], is_cut=True)


def style_of(stretch: Stretch) -> str:
    """The style of a piece of a strip."""
    if not stretch.has_leader:
        return "leaderless"
    return "below" if stretch.below_minimum else "fewer"


def _duration(ms: int) -> str:
    """A duration as text; a dash for none."""
    return lasting(ms / 1000) if ms else "-"


# --- where it is from ---


def _source(log: RollHistory, since: datetime) -> Html:
    known_from = log.known_from
    begins = (
        f"from {day_and_time(time_in_log(known_from.at_ms))} on (a snapshot at offset {known_from.offset})"
        if known_from
        else ""
    )
    begins_late = known_from is not None and time_in_log(known_from.at_ms) > since
    gap = " What happened before that is no longer in the log and is missing here." if begins_late else ""
    ends = f"up to offset {log.end.offset} ({day_and_time(time_in_log(log.end.at_ms))})"
    words = f"Source: the metadata log {begins or 'from its beginning'} {ends}; the times are the controllers'.{gap}"
    return Html('<p class="muted">{}</p>').format(text(words))


def _not_read(reason: str) -> Html:
    return Html(
        '<p class="box"><strong class="wait">The phases of each restart and the availability of partitions are not '
        "shown</strong><br>They come from the metadata log of the cluster. {}</p>"
    ).format(text(reason))
