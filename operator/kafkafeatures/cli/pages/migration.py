"""Section about a migration from ZooKeeper on a report's page: the mode of each broker, and whether the cluster can go
back. "The flag" in its texts is `zookeeper.metadata.migration.enable`.

Pure. Called by `cli/pages/resource.py`. The status has the phase. If the metadata log was read, it has the times at
which brokers changed their mode and the point of no return was passed, each with the record that proves it. Otherwise
Events have the times of the phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkafeatures.api.reasons import Phase
from kafkafeatures.api.shown import time_of
from kafkafeatures.cli.document.steps_text import until_of
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.pages.cluster_tables import in_words
from kafkafeatures.cli.pages.timeline import Axis, Piece, legend, with_axis
from kafkafeatures.cli.shell.html_parts import Html, box, day_and_time, folded, table, text, time_in_log
from kafkafeatures.core.report.events import PHASE_CHANGED
from kafkafeatures.core.report.migration_lines import migration_lines
from kafkafeatures.core.words import counted
from kraftlog.image import ZkMigrationState
from kraftlog.modes import MigrationHistory, ModeChange, StateChange
from kraftlog.rolls import RollHistory
from kraftlog.strips import Moment

MAX_NODES = 200
"""Most brokers in the drawing; the table has all."""

STYLE_OF_MIGRATIONS = Html("""
.track .zookeeper, .key .zookeeper { background: var(--bar); height: 25%; }
.flagged { background: repeating-linear-gradient(135deg, var(--wait) 0 3px, transparent 3px 6px); }
.kraft { background: var(--good); }
.waits { background: repeating-linear-gradient(90deg, var(--bar) 0 2px, transparent 2px 5px); }
.track .both, .key .both { background: var(--wait); height: 60%; }
.finalized { background: var(--good); border-left: 4px solid var(--bad); }
.modes td:last-child { min-width: 10rem; }
""")
_LEGEND = (
    ("zookeeper", "ZooKeeper mode, or not started yet"),
    ("flagged", "ZooKeeper mode with the flag"),
    ("kraft", "KRaft mode"),
    ("waits", "the quorum waits"),
    ("both", "changes are written to both: one can go back"),
    ("finalized", "finalized: behind the point of no return"),
)
"""(style, text) of each kind of piece, for the legend."""
_STYLES = {
    ZkMigrationState.PRE_MIGRATION: "waits",
    ZkMigrationState.MIGRATION: "both",
    ZkMigrationState.POST_MIGRATION: "finalized",
}
_NO_RETURN = {
    Phase.FINALIZING.value: (
        "The point of no return is being passed",
        "The migration ends when a controller without the flag becomes the active controller.",
    ),
    Phase.FINALIZED.value: ("The point of no return was passed", "The cluster cannot go back to ZooKeeper."),
}


def migration(resource: KubeResource, events: Sequence[SeenEvent], log: RollHistory | str) -> Html:
    """The section; empty if neither the status nor the log knows of a migration. `log`: the history by the metadata
    log, or the reason why it was not read.
    """
    status = resource.status.migration
    history = log.migration if isinstance(log, RollHistory) else MigrationHistory()
    states = [state for state in history.states if state.code != ZkMigrationState.NONE]
    if (status is None or not status.phase) and not states:
        return Html()
    parts = [Html("<h2>Migration from ZooKeeper</h2>"), _no_return(resource, states)]
    if status is not None and status.phase:
        items = map(text, migration_lines(status, resource.status.rollout))
        parts.append(Html("<ul>{}</ul>").format(Html().join(map(Html("<li>{}</li>").format, items))))
    if isinstance(log, RollHistory) and states:
        parts += _timeline(history, states, log)
    else:
        reason = log if isinstance(log, str) else "It has no record of a migration."
        parts.append(
            box(
                "wait",
                "The modes of each broker over time are not shown",
                f"They come from the metadata log of the cluster. {reason}",
            )
        )
    return Html("\n").join((*parts, _phases(events)))


def _no_return(resource: KubeResource, states: Sequence[StateChange]) -> Html:
    """Box that says whether the point of no return was passed: by the log, else by the status."""
    status, back = resource.status.migration, resource.status.way_back
    passed = next((state.at for state in states if state.code == ZkMigrationState.POST_MIGRATION), None)
    if passed is not None:
        at = f"{day_and_time(time_in_log(passed.at_ms))}, offset {passed.offset}"
        return box("bad", "The point of no return was passed", f"{at}. The cluster cannot go back to ZooKeeper.")
    if back is not None:
        return box("good", "The point of no return was not passed", f"Way back, {until_of(back)}: {back.how}")
    phase = status.phase if status is not None else ""
    if phase in _NO_RETURN:
        return box("bad", *_NO_RETURN[phase])
    return box("wait", "No way back is known", "None is begun, or it is not known where the migration is.")


# --- from the log ---


def _timeline(history: MigrationHistory, states: Sequence[StateChange], log: RollHistory) -> Iterator[Html]:
    """The drawing with a track for the cluster and one for each broker, its legend, and the folded table of times."""
    moments = [time_in_log(at.at_ms) for at in (*(mode.at for mode in history.modes), *(state.at for state in states))]
    axis = Axis(min(moments), max([*moments, time_in_log(log.end.at_ms)]))
    nodes = sorted({mode.node_id for mode in history.modes})
    changes = {id_: [mode for mode in history.modes if mode.node_id == id_] for id_ in nodes}
    tracks = [("all", [*_states(states, axis)])]
    tracks += [(f"broker {id_}", [*_modes(changes[id_], axis)]) for id_ in nodes]
    track_rows = [
        ("the cluster" if name == "all" else name, axis.track(pieces), _last(pieces)) for name, pieces in tracks
    ]
    omitted = f"; {len(nodes) - MAX_NODES} more are in the table" if len(nodes) > MAX_NODES else ""
    window = f"{day_and_time(axis.begin)} to {day_and_time(axis.end)}"
    caption = f"Modes of {counted(len(nodes), 'broker')}, {window}, as the metadata log has them{omitted}"
    # + 1: the track of the cluster comes first
    yield with_axis(table(caption, ("Node", "When", "At the end"), track_rows[: MAX_NODES + 1], "drawn modes"), axis)
    used = {style for _, pieces in tracks for style, _, _ in pieces}
    yield legend((style, words) for style, words in _LEGEND if style in used)
    rows = [("the cluster", _name_of(state), *_when(state.at, log)) for state in states]
    rows += [(f"broker {mode.node_id}", _WORDS[mode.in_kraft], *_when(mode.at, log)) for mode in history.modes]
    head = ("Node", "Became", "When", "Record")
    times = table("Each change, and the offset of the record that says so", head, rows)
    yield folded("Times of each change", times)


_WORDS = {True: "in KRaft mode", False: "in ZooKeeper mode with the flag", None: "unregistered"}
"""Texts for `ModeChange.in_kraft`."""


def _name_of(change: StateChange) -> str:
    state = ZkMigrationState.of(change.code)
    return in_words(state.name) if state is not None else f"state {change.code}"


def _when(at: Moment, log: RollHistory) -> tuple[Html, str]:
    """(time, record) as HTML. A fact in a snapshot happened at that time or earlier."""
    by = "by " if at == log.known_from else ""
    return Html.escape(f"{by}{day_and_time(time_in_log(at.at_ms))}"), f"offset {at.offset}"


def _states(states: Sequence[StateChange], axis: Axis) -> Iterator[Piece]:
    """Pieces of the cluster's track: each state until the next one."""
    ends = [*(time_in_log(state.at.at_ms) for state in states[1:]), axis.end]
    for change, end in zip(states, ends, strict=True):
        state = ZkMigrationState.of(change.code)
        style = _STYLES.get(state) if state is not None else None
        if style is not None:
            yield style, time_in_log(change.at.at_ms), end


def _modes(changes: Sequence[ModeChange], axis: Axis) -> Iterator[Piece]:
    """Pieces of a broker's track: each mode until the next one. Before its first registration a broker was in ZooKeeper
    mode, or had not been started yet.
    """
    first = time_in_log(changes[0].at.at_ms)
    if first > axis.begin:
        yield "zookeeper", axis.begin, first
    ends = [*(time_in_log(change.at.at_ms) for change in changes[1:]), axis.end]
    for change, end in zip(changes, ends, strict=True):
        if change.in_kraft is not None:
            yield "kraft" if change.in_kraft else "flagged", time_in_log(change.at.at_ms), end


def _last(pieces: Sequence[Piece]) -> str:
    """Text about the end of a track: the legend of its last piece."""
    return dict(_LEGEND)[pieces[-1][0]] if pieces else "-"


# --- from the operator ---


def _phases(events: Sequence[SeenEvent]) -> Html:
    rows = [
        (Html.escape(day_and_time(time_of(event.at))), event.facts.before or "-", event.facts.after or "?")
        for event in events
        if event.reason == PHASE_CHANGED and event.facts is not None
    ]
    return table("Phases, when the operator saw them", ("When", "From", "To"), rows) if rows else Html()
