"""Nodes that came back only moments ago: no other node is restarted until they have stayed for `stableFor`.

Pure. Called by `core/roll/admission.py` and `core/roll/next_restart.py` for each node that may be next.

A node that does not stay up may itself be restarted, as its new image or settings may be what it needs. If there are
several, each of them may, or they would wait for each other; the others then count as away, so that no partition and no
quorum relies on them.

When a node came back is read from the metadata log (its registration or unfencing), not from the status. So it does not
matter who restarted the node, or whether the status was lost. Nodes in flight are left out: their own restarts wait for
them, and for their replicas too.

How long ago a node came back is first computed from the log: its newest time minus the time of the return. A newest
time later than this machine's clock counts as now, so a controller's clock that is set forward adds nothing. The result
is too small if a clock is wrong, or if the log is seldom written. So this process also measures the time since it first
read the return, and the longer of the two counts (`core/roll/remembered.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.roll.check_input import RestartCheckInput
from kafkafeatures.core.words import first_of, format_span

MAX_DELAY = 10.0
"""Most seconds until the next reconciliation: another node may come back, or this one end, meanwhile."""
NAMED = 8
"""Most nodes that a message names."""


class ReturnedNode(NamedTuple):
    """A node that has not been up for `stableFor` yet.

    since: when it came back.
    source: where that was read, in words.
    remaining: how long it still has to stay up.
    """

    since: datetime
    source: str
    remaining: timedelta


def refused_by_unstable_nodes(inputs: RestartCheckInput, id_: int | None = None) -> Wait | None:
    """Wait for nodes other than this one (None: any node) that have not been up for `stableFor`; None if there are
    none. An unstable broker may go although other brokers are unstable too, but not while a controller is, which may be
    a voter.
    """
    recent = unstable(inputs)
    recent_others = {other: returned for other, returned in recent.items() if other != id_}
    is_controller = id_ is not None and inputs.is_controller(id_)
    if not recent_others or (id_ in recent and (is_controller or not any(map(inputs.is_controller, recent_others)))):
        return None
    return _wait(inputs, recent_others)


def unstable(inputs: RestartCheckInput) -> Mapping[int, ReturnedNode]:
    """Live nodes, not in flight, that have not been up for `stableFor` yet, by id."""
    stable_for = inputs.desired.rollout.stable_for
    live = {node.id for node in inputs.observation.nodes if node.state is NodeState.LIVE} - inputs.flying
    up = ((id_, returned, age) for id_, returned, age in _up(inputs) if id_ in live)
    return {id_: ReturnedNode(*returned, stable_for - age) for id_, returned, age in up if age < stable_for}


def counted_as_away(inputs: RestartCheckInput, id_: int) -> tuple[frozenset[int], str]:
    """Other nodes that are not up for `stableFor`, and so count as away while this one is restarted; and the message
    about them, empty if there are none.
    """
    unstable_ids = frozenset(unstable(inputs)) - {id_}
    if not unstable_ids:
        return unstable_ids, ""
    stable_for = format_span(inputs.desired.rollout.stable_for)
    counts, have = ("counts", "it has") if len(unstable_ids) == 1 else ("count", "they have")
    return unstable_ids, f"; {_titles(inputs, unstable_ids)} {counts} as away until {have} been up for {stable_for}"


def _up(inputs: RestartCheckInput) -> Iterator[tuple[int, tuple[datetime, str], timedelta]]:
    """Id of each node, since when it is up with the source of that time, and for how long. Of nodes that the log does
    not name, such as controllers below metadata.version 3.7-IV0, the pod shows it.
    """
    returns, remembered, never = inputs.observation.returns, inputs.remembered, timedelta(0)
    times = returns.times if returns is not None else {}
    if returns is not None:
        read_at = min(returns.read_at, remembered.current_time)
        for id_, at in times.items():
            yield id_, (at, "the metadata log"), max(read_at - at, remembered.up_for.get(id_, never))
    for id_, pod in inputs.fleet.pods.items():
        if id_ not in times and pod.started_at is not None:
            lived = remembered.known_for(Stamp(pod.started_at.isoformat(timespec="milliseconds")))
            yield id_, (pod.started_at, "its pod"), max(inputs.pods_read_at - pod.started_at, lived)


def _wait(inputs: RestartCheckInput, recent: Mapping[int, ReturnedNode]) -> Wait:
    ids, first, is_alone = sorted(recent), min(recent.values()), len(recent) == 1
    remaining = max(returned.remaining for returned in recent.values())
    titles = _titles(inputs, ids)
    since = f"{first.since:%Y-%m-%d %H:%M:%S} UTC{'' if is_alone else ' or later'}, as far as {first.source} shows"
    stable_for = format_span(inputs.desired.rollout.stable_for)
    has, they, ends, log, them = ("has", "it", "ends or is", "its log", "it") if is_alone else _SEVERAL
    return Wait(
        Reason.ROLLING_NODES,
        f"{titles} {has} been up only since {since}; no other node is restarted until {they} {has} been up for "
        f"{stable_for} (spec.rollout.stableFor)",
        delay=min(max(remaining.total_seconds(), 1.0), MAX_DELAY),
        subject=inputs.title(ids[0]),
        remedy=f"if {titles} {ends} fenced again and again, see {log}, and repair or stop {them}",
    )


_SEVERAL = "have", "they", "end or are", "their logs", "them"
"""Words of the message for several nodes."""


def _titles(inputs: RestartCheckInput, ids: Iterable[int]) -> str:
    return first_of([inputs.title(id_) for id_ in sorted(ids)], NAMED)
