"""Live nodes whose Kafka does not support a desired level, as a rule because it is too old: normal during an upgrade, a
halt if it lasts.

Pure. `status.nodesBehind` has these nodes and the time since when they are the same; when one of them is upgraded, the
time begins anew for the others.
"""

from __future__ import annotations

from datetime import timedelta

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.since_status import NodesSince
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.blockers import Blocker, grouped, title_of
from kafkafeatures.core.engine.decisions import Stalled, Wait, first_of
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.facts.node_sets import set_of
from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.words import format_span

MAX_NODES_TEXT = 1024
"""Most characters of the ids in `status.nodesBehind`."""


def with_nodes_behind(status: Status, blockers: tuple[Blocker, ...], current_stamp: Stamp) -> Status:
    """The status with the live nodes that do not support a level, and since when these nodes have been the same."""
    nodes, previous = _nodes_behind(blockers), status.nodes_behind
    if not nodes:
        return replace(status, nodes_behind=None) if previous is not None else status
    if previous is not None and previous.nodes == nodes:
        return status
    return replace(status, nodes_behind=NodesSince(nodes=nodes, since=current_stamp))


def halted_by(
    wait: Wait | Stalled, blockers: tuple[Blocker, ...], status: Status, age_of: AgeOf, timeout: timedelta
) -> Wait | Stalled:
    """Decision for the blockers: a halt once the same nodes have not supported a level for longer than `timeout`; until
    then `wait`, the decision by the other rules.
    """
    previous = status.nodes_behind
    if isinstance(wait, Stalled) or previous is None or previous.nodes != _nodes_behind(blockers):
        return wait
    if age_of(previous.since) <= timeout:
        return wait
    groups = grouped(tuple(blocker for blocker in blockers if _is_of_old_node(blocker)))
    first = groups[0]
    remedy = f"{first.remedy}, or raise spec.rollout.nodeTimeout ({format_span(timeout)}) to wait longer"
    text = (
        f"{first_of(first, groups)}; unchanged for more than {format_span(timeout)}, since {previous.since}; {remedy}"
    )
    return Stalled(Reason.NODES_BEHIND, text, blockers, subject=title_of(first.nodes), remedy=remedy)


def _nodes_behind(blockers: tuple[Blocker, ...]) -> str:
    """Ids of the live nodes that do not support a level, as a set in text (`core/facts/node_sets.py`); empty for
    none.
    """
    return set_of(node.id for blocker in blockers if _is_of_old_node(blocker) for node in blocker.nodes)[
        :MAX_NODES_TEXT
    ]


def _is_of_old_node(blocker: Blocker) -> bool:
    """Tell whether the blocker is about live nodes whose range lacks the level. A node that is not live, as it may be
    restarting for its upgrade, is not late.
    """
    if blocker.kind is not BlockerKind.NODE_RANGE or not blocker.nodes:
        return False
    return all(node.state is NodeState.LIVE for node in blocker.nodes)
