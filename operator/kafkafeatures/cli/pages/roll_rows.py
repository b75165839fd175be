"""Combines the restarts in the metadata log with those that the operator made, into one row for each time a node was
away.

Pure. Called by `roll.py` and by `cli/kube/report.py`. The log has the phases of brokers by the clocks of controllers,
each with its record; of a controller's restart it only has the registration of the new process. The status and Events
have the times at which the operator evicted a pod and saw the node stable. A moment that neither has is None.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from kafkafeatures.api.shown import time_of
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.cli.kube.seen_events import SeenEvent
from kafkafeatures.cli.shell.html_parts import time_in_log
from kafkafeatures.core.engine.event_records import EventFacts
from kafkafeatures.core.report.events import facts_of
from kafkafeatures.core.roll.restart_node import REQUESTED, RESTARTED, RESTARTING
from kraftlog.rolls import Absence, RollHistory
from kraftlog.strips import Moment

CLOCKS = timedelta(seconds=60)
"""Largest difference between the clocks of operator and controllers, and between an eviction and its effect."""

DAY, BEFORE = timedelta(days=1), timedelta(seconds=10)
"""If there was a roll, restarts are shown from BEFORE its start on, since clocks differ; else those of a DAY."""


class Restart(Struct, frozen=True):
    """A restart by the operator. `pod`: empty if people restarted the node at its request. `began`: when the operator
    evicted the pod or asked for the restart; `back`: when it saw the node in sync again; `ended`: when the node had
    been stable for `rollout.stableFor`. None: not known, or not yet. `is_in_flight`: the status still has it.
    """

    node: str
    pod: str
    began: datetime | None
    back: datetime | None = None
    ended: datetime | None = None
    is_in_flight: bool = False


class Point(Struct, frozen=True):
    """Time of a fact. `offset`: that of the record that proves it; None if there is no such record, then `by` names the
    source. `is_upper_bound`: it happened at that time or earlier, as only a snapshot shows it.
    """

    at: datetime
    offset: int | None = None
    by: str = "operator"
    is_upper_bound: bool = False


class NodeAbsence(Struct, frozen=True):
    """One time that a node was away. Moments, None if not known: `stop`, a controlled shutdown began, or the broker was
    fenced without one; `down`, it was fenced after a controlled shutdown began; `start`, a new process registered;
    `unfenced`; `in_sync`; `stable`, it was in sync for `rollout.stableFor`.

    `pod`: None if the operator did not restart the node, empty if people did at its request. `is_restart`: a new
    process registered, or the operator restarted the node. `is_over`: the roll no longer waits for the node.
    """

    node: str
    pod: str | None
    stop: Point | None = None
    down: Point | None = None
    start: Point | None = None
    unfenced: Point | None = None
    in_sync: Point | None = None
    stable: Point | None = None
    is_restart: bool = True
    is_over: bool = True

    @property
    def points(self) -> tuple[Point | None, ...]:
        """The moments of a restart, in the order in which they happen."""
        return self.stop, self.down, self.start, self.unfenced, self.in_sync, self.stable

    @property
    def begin(self) -> datetime:
        """The first moment that is known."""
        return min(point.at for point in self.points if point is not None)

    @property
    def last(self) -> datetime:
        """The last moment that is known."""
        return max(point.at for point in self.points if point is not None)


# --- what the operator says ---


def restarts_of(status: Status, events: Iterable[SeenEvent]) -> tuple[Restart, ...]:
    """Restarts by the Events that still exist, in the order in which they began; those in flight by the status."""
    restarts: list[Restart] = []
    for event in events:
        facts, at = event.facts, time_of(event.at)
        if facts is None or not facts.node:
            continue
        if event.reason in (RESTARTING, REQUESTED):
            restarts.append(Restart(facts.node, facts.pod, at))
        elif event.reason == RESTARTED:
            _end(restarts, facts, at)
    for intent in status.intents:
        facts = facts_of(intent)
        if facts.node:
            _in_flight(restarts, facts)
    return tuple(restarts)


def _end(restarts: list[Restart], facts: EventFacts, at: datetime | None) -> None:
    """Add the end to the restart that has none yet. `at`: when the Event was written, which is when it was over."""
    index = _without_end(restarts, facts.node)
    if index is None:  # the Event of its beginning has expired
        restarts.append(Restart(facts.node, facts.pod, time_of(facts.begun_at), time_of(facts.in_sync_at), at))
    else:
        restarts[index] = replace(restarts[index], back=time_of(facts.in_sync_at), ended=at)


def _in_flight(restarts: list[Restart], facts: EventFacts) -> None:
    """Add or replace a restart in flight: the status has exact times, an Event only the time at which it was
    written.
    """
    restart = Restart(facts.node, facts.pod, time_of(facts.begun_at), time_of(facts.in_sync_at), is_in_flight=True)
    index = _without_end(restarts, facts.node)
    if index is None:
        restarts.append(restart)
    else:
        restarts[index] = restart


def _without_end(restarts: Sequence[Restart], node: str) -> int | None:
    """Index of the last restart of this node that has no end yet."""
    return next(
        (
            index
            for index in reversed(range(len(restarts)))
            if restarts[index].node == node and restarts[index].ended is None
        ),
        None,
    )


# --- together with the log ---


def window_begins(status: Status, current_time: datetime) -> datetime:
    """Time from which on restarts are shown: shortly before the last roll began, or a day ago if there was none."""
    began = time_of(status.rollout.started_at) if status.rollout is not None else None
    return current_time - DAY if began is None else began - BEFORE


def rows_of(
    restarts: Sequence[Restart], log: RollHistory | None, stable_for: timedelta, since: datetime, current_time: datetime
) -> list[NodeAbsence]:
    """The rows, in the order in which the nodes went away. Each restart by the operator is matched with the nearest
    absence in the log. `log` None: it was not read. The log has nothing that ended before `since`, so earlier restarts
    without a match are left out.
    """
    absences = log.absences if log is not None else ()
    restarts_by_absence: dict[Absence, list[Restart]] = {absence: [] for absence in absences}
    rows = []
    for restart in restarts:
        distances = {
            absence: distance
            for absence in absences
            if (distance := _distance(restart, absence, current_time)) is not None
        }
        nearest = min(distances, key=lambda absence: distances[absence], default=None)
        if nearest is not None:
            restarts_by_absence[nearest].append(restart)
        elif log is None or restart.ended is None or restart.ended >= since:
            rows.append(_row_of_operator(restart, current_time))
    if log is not None:
        begins = _begins(absences)
        rows += [_row(absence, matched, log, stable_for, begins) for absence, matched in restarts_by_absence.items()]
    return sorted(rows, key=lambda row: (row.begin, row.node))


def _distance(restart: Restart, absence: Absence, current_time: datetime) -> timedelta | None:
    """Distance between a restart by the operator and an absence in the log; None: they cannot belong together.

    An absence follows its eviction at once. But a pod may be evicted again while its node is away, during the absence:
    then the distance is 0. An eviction that seems to follow the absence can only be due to clocks that differ, so its
    distance counts double.
    """
    role, _, number = restart.node.rpartition(" ")
    if number != str(absence.node_id) or (role != absence.role and "node" not in (role, absence.role)):
        return None
    back = absence.in_sync or (absence.registered if absence.role == "controller" else None)
    first, last = time_in_log(absence.first.at_ms), time_in_log(back.at_ms) if back is not None else current_time
    began = restart.began or restart.back or restart.ended or current_time
    if began > last:
        return 2 * (began - last) if began - last <= CLOCKS else None
    return max(first - began, timedelta(0)) if first <= (restart.ended or current_time) + CLOCKS else None


def _begins(absences: Iterable[Absence]) -> dict[int, list[datetime]]:
    """By node id, the times at which it went away, in order."""
    times_by_node: defaultdict[int, list[datetime]] = defaultdict(list)
    for absence in absences:
        times_by_node[absence.node_id].append(time_in_log(absence.first.at_ms))
    return {node: sorted(moments) for node, moments in times_by_node.items()}


def _row(
    absence: Absence,
    restarts: Sequence[Restart],
    log: RollHistory,
    stable_for: timedelta,
    begins: Mapping[int, Sequence[datetime]],
) -> NodeAbsence:
    stopping, fenced, registered, unfenced, in_sync = (_point(moment, log) for moment in absence.moments)
    is_controller, stop = absence.role == "controller", stopping or fenced
    last = restarts[-1] if restarts else None  # the one that brought the node back
    in_flight = any(restart.is_in_flight for restart in restarts)
    began = min((restart.began for restart in restarts if restart.began is not None), default=None)
    if began is not None and stop is None:
        stop = Point(began)
    if is_controller and last is not None and registered is not None:  # the log does not tell when it caught up
        caught_up = last.back or (last.ended - stable_for if last.ended is not None else None)
        in_sync = Point(max(caught_up, registered.at)) if caught_up is not None else None
    stable = None
    if in_sync is not None and last is not None and last.ended is not None:
        stable = Point(max(last.ended, in_sync.at))
    elif in_sync is not None and not in_flight:
        stable = _stable(absence, in_sync.at + stable_for, log, begins[absence.node_id])
    return NodeAbsence(
        f"{absence.role} {absence.node_id}",
        None if last is None else last.pod,
        stop,
        fenced if stopping is not None else None,
        registered,
        unfenced,
        in_sync,
        stable,
        is_restart=absence.registered is not None or last is not None,
        is_over=not in_flight and (is_controller or in_sync is not None or absence.unregistered),
    )


def _stable(absence: Absence, until: datetime, log: RollHistory, begins: Sequence[datetime]) -> Point | None:
    """The moment `until`, at which the node had been stable long enough, if the log shows no new absence before it."""
    later = bisect_right(begins, time_in_log(absence.first.at_ms))
    is_away_again = later < len(begins) and begins[later] < until
    return None if is_away_again or until > time_in_log(log.end.at_ms) else Point(until, by="whole log")


def _row_of_operator(restart: Restart, current_time: datetime) -> NodeAbsence:
    """The row of a restart that is not in the log."""
    points = [Point(at) if at is not None else None for at in (restart.began, restart.back, restart.ended)]
    stop = points[0] if any(points) else Point(current_time, is_upper_bound=True)  # a row needs one moment at least
    return NodeAbsence(
        restart.node, restart.pod, stop=stop, in_sync=points[1], stable=points[2], is_over=not restart.is_in_flight
    )


def _point(moment: Moment | None, log: RollHistory) -> Point | None:
    """The point of a moment in the log."""
    if moment is None:
        return None
    return Point(time_in_log(moment.at_ms), moment.offset, is_upper_bound=moment == log.known_from)
