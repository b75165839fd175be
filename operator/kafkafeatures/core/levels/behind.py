"""Live nodes whose Kafka is too old for a level: a part of any upgrade for a while, and then a matter for a person.

Pure. Called by `core/levels/stage.py`. Which nodes these are, and since when nothing has changed about them, is kept in
`status.nodesBehind`: one that is upgraded meanwhile begins the time anew for the others.
"""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import NodesSince, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, grouped, title_of
from kafkafeatures.core.engine.decisions import Stalled, Wait, first_of
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.facts.node_sets import set_of
from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.words import format_span

MOST = 1024
"""Characters that are kept of the nodes."""


def with_nodes_behind(status: Status, blockers: tuple[Blocker, ...], current_stamp: Stamp) -> Status:
    """The status with the live nodes that are too old, and since when it is exactly these."""
    nodes, previous = _nodes_behind(blockers), status.nodes_behind
    if not nodes:
        return replace(status, nodes_behind=None) if previous is not None else status
    if previous is not None and previous.nodes == nodes:
        return status
    return replace(status, nodes_behind=NodesSince(nodes=nodes, since=current_stamp))


def halted_by(
    wait: Wait | Stalled, blockers: tuple[Blocker, ...], status: Status, age_of: AgeOf, timeout: timedelta
) -> Wait | Stalled:
    """Decision that blockers come to, once nothing has changed about the nodes that are too old for longer than
    `timeout`.
    """
    previous = status.nodes_behind
    if isinstance(wait, Stalled) or previous is None or previous.nodes != _nodes_behind(blockers):
        return wait
    if age_of(previous.since) <= timeout:
        return wait
    groups = grouped(tuple(blocker for blocker in blockers if _is_of_old_node(blocker)))
    first = groups[0]
    text = f"{first_of(first, groups)}; unchanged for more than {format_span(timeout)}, since {previous.since}; "
    text += first.remedy
    return Stalled(Reason.NODES_BEHIND, text, blockers, subject=title_of(first.nodes), remedy=first.remedy)


def _nodes_behind(blockers: tuple[Blocker, ...]) -> str:
    return set_of(node.id for blocker in blockers if _is_of_old_node(blocker) for node in blocker.nodes)[:MOST]


def _is_of_old_node(blocker: Blocker) -> bool:
    """Tell whether it is about a live node with another Kafka. One that recovers its log is not late."""
    if blocker.kind is not BlockerKind.NODE_RANGE or not blocker.nodes:
        return False
    return all(node.state is NodeState.LIVE for node in blocker.nodes)
