"""Nodes that came back only moments ago: no other node is restarted until they have stayed for `stableFor`.

Pure. Asked by `core/roll/admission.py` and `core/roll/next_restart.py` of each node that may be next. One that does not
stay up may itself be restarted: its new image or settings may be what it needs. The metadata log is asked when each
live node registered or was unfenced, and nothing that a status remembers: a node that the operator restarted, and that
is forgotten with the status, is waited for like one that a person started, or that ends again and again. Nodes in
flight are waited for by their own restarts, which also ask for their replicas.

Ages count by the log's own time, which does not pass the time here: so a clock of a controller that is set forward now
adds nothing. Where a clock was set back, they count by what this process has lived through since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from datetime import datetime, timedelta
from typing import NamedTuple

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.roll.question import RestartQuestion
from kafkafeatures.core.words import format_span

LOOK_AGAIN = 10.0
"""Seconds, at most: another node may come back, or this one end, meanwhile."""


class _Unstable(NamedTuple):
    wait: Wait
    ids: frozenset[int]


def others_are_stable(question: RestartQuestion, id_: int | None = None) -> Wait | None:
    """Every live node but this one has been up for as long as one has to be after a restart."""
    live = {node.id for node in question.seen.nodes if node.state is NodeState.LIVE} - question.flying - {id_}
    found = (_unstable(question, live, *witness) for witness in _witnesses(question))
    return next((unstable.wait for unstable in found if unstable is not None), None)


def alone_unstable(question: RestartQuestion) -> int | None:
    """The node that has yet to stay up for so long, where all others have."""
    live = {node.id for node in question.seen.nodes if node.state is NodeState.LIVE} - question.flying
    found = (_unstable(question, live, *witness) for witness in _witnesses(question))
    ids = {id_ for unstable in found if unstable is not None for id_ in unstable.ids}
    return next(iter(ids)) if len(ids) == 1 else None


def _witnesses(question: RestartQuestion) -> Iterator[tuple[Mapping[int, datetime], datetime, str]]:
    """Since when nodes are up, the time by the same clock, and who says so: the pods of those that the log does not
    name, as of controllers below metadata.version 3.7-IV0.
    """
    returns, pods = question.seen.returns, question.fleet.pods
    if returns is not None:
        yield returns.times, min(returns.read_at, question.remembered.now), "the metadata log"
    others = pods.keys() - (returns.times.keys() if returns is not None else ())
    started = {id_: at for id_ in others if (at := pods[id_].started_at) is not None}
    yield started, question.pods_read_at, "its pod"


def _unstable(
    question: RestartQuestion, live: Set[int], times: Mapping[int, datetime], now: datetime, source: str
) -> _Unstable | None:
    stable_for = question.wanted.rollout.stable_for
    since = {id_: at for id_, at in times.items() if id_ in live}
    recent = sorted(id_ for id_, at in since.items() if now - at < stable_for)
    if not recent:
        return None
    newest = max(since.values())
    left = stable_for - max(now - newest, question.remembered.known_for(_stamp_of(newest)))
    if left <= timedelta(0):
        return None
    title, more = question.title(recent[0]), len(recent) - 1
    text = (
        f"{title} has been up only since {since[recent[0]]:%Y-%m-%d %H:%M:%S} UTC, as far as {source} shows"
        f"{f' (and {more} more)' if more else ''}; no node is restarted until it has been up for "
        f"{format_span(stable_for)} (spec.rollout.stableFor)"
    )
    remedy = f"if {title} ends or is fenced again and again, see its log, and repair or stop it"
    after = min(max(left.total_seconds(), 1.0), LOOK_AGAIN)
    return _Unstable(Wait(Reason.ROLLING_NODES, text, after=after, subject=title, remedy=remedy), frozenset(recent))


def _stamp_of(moment: datetime) -> Stamp:
    """To the millisecond: none of those that a status holds, which this process may have met for something else."""
    return Stamp(moment.isoformat(timespec="milliseconds"))
