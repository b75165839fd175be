"""Live brokers that are not in sync with all partitions that they host. Messages name them as the cause where
partitions forbid the restart of another broker.

Pure. Since when a broker is behind is kept in `status.rollout.behind` while the roll lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.core.facts.observation import Node, NodeState
from kafkafeatures.core.facts.replication import NAMED, format_partitions
from kafkafeatures.core.roll.check_input import RestartCheckInput

STOPPED = "`alter-partition-channel-manager]: Stopped`"
"""Words that end the log of a broker of Kafka 3.9 which can no longer change which replicas are in sync."""


class Cause(NamedTuple):
    """Brokers that are behind, as the cause of a wait.

    text: which brokers, with which partitions, and since when.
    remedy: where to look.
    nodes: these brokers.
    """

    text: str
    remedy: str
    nodes: tuple[Node, ...]

    @property
    def subject(self) -> str:
        """The first of these brokers."""
        return self.nodes[0].title if self.nodes else "replicas"


def brokers_behind(inputs: RestartCheckInput) -> Mapping[int, Stamp]:
    """Live brokers that are out of sync with partitions they host, and since when; first those that the status knows
    already, as it has room for few.
    """
    if inputs.replication is None:
        return {}
    rollout = inputs.remembered.status.rollout
    earlier_stamps = {entry.node_id: entry.since for entry in rollout.behind} if rollout is not None else {}
    live = inputs.replication.lagging() - inputs.flying - inputs.unavailable
    ids = sorted(live, key=lambda id_: (id_ not in earlier_stamps, id_))
    return {id_: earlier_stamps.get(id_) or stamp(inputs.remembered.current_time) for id_ in ids}


def cause_among(inputs: RestartCheckInput, ids: Iterable[int] | None = None) -> Cause | None:
    """Cause that names the first brokers that are behind, of these ids (None: of all); None if none is behind."""
    since = brokers_behind(inputs)
    behind_ids = [id_ for id_ in sorted(since if ids is None else ids) if id_ in since][:NAMED]
    if not behind_ids or inputs.replication is None:
        return None
    texts = []
    for id_ in behind_ids:
        lacking = format_partitions(*inputs.replication.out_of_sync(id_))
        texts.append(f"{inputs.title(id_)} has not been in sync with {lacking} since {since[id_]}")
    first = behind_ids[0]
    title = inputs.title(first)
    remedy = f"see {_log_of(inputs, first)} for why {title} does not catch up, and restart it if it hangs"
    if inputs.remembered.age_of(since[first]) > inputs.desired.rollout.node_timeout:
        remedy += remedy_at_leader(inputs, first)
    return Cause("; ".join(texts), remedy, tuple(node for id_ in behind_ids for node in inputs.nodes(id_)))


def remedy_at_leader(inputs: RestartCheckInput, id_: int) -> str:
    """Further remedy if one live broker leads all partitions that this broker is out of sync with; else empty. With
    a permit (in a migration, or for another inter.broker.protocol.version) it may be a restart of that leader.

    The leader decides which replicas are in sync. A leader that can no longer tell the controller (Kafka 3.9, in
    ZooKeeper mode with `zookeeper.metadata.migration.enable`) keeps every follower out of the ISR, and no restart of a
    follower helps. Only the log of the leader proves it.
    """
    leader = inputs.replication.leader_of_out_of_sync(id_) if inputs.replication is not None else None
    node = inputs.node(leader) if leader is not None else None
    if leader is None or node is None or node.state is not NodeState.LIVE:
        return ""
    title = inputs.title(leader)
    if not inputs.permit.is_granted:
        return f"; {title} leads all of these partitions: see {_log_of(inputs, leader)} as well"
    return f"; {title} leads all of these partitions: if {_log_of(inputs, leader)} has {STOPPED}, restart {title}"


def _log_of(inputs: RestartCheckInput, id_: int) -> str:
    pod = inputs.fleet.pods.get(id_)
    return f"`kubectl logs {pod.name}`" if pod is not None else f"the log of {inputs.title(id_)}"
