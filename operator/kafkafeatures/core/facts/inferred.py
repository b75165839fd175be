"""The release of a controller that may not be asked, inferred from the pod that it runs in.

Pure. Called by `reconcile/reading.py` and by `describe`. Three facts are needed: the controller's own address, by the
quorum, leads to one pod alone; that pod is ready and names its Kafka release; and by the leader, the controller fetches
the metadata log now. An inferred range is shown, and counts in a soak as a sign that the node runs. It is never a proof
that a node supports a level: `Node.range_of` does not have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.binaries import supported_by
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, plain_host
from kafkafeatures.core.facts.readings import Role

if TYPE_CHECKING:  # no level needs the pods: commands start faster
    from kafkafeatures.core.facts.workloads import Pod, WorkloadsReading


def with_inferred_releases(observation: Observation) -> Observation:
    """The observation, in which controllers that did not answer have the release of their pods."""
    if not isinstance(observation.workloads, Known):
        return observation
    fetching = frozenset(_fetching(observation))
    pods = _by_address(observation.workloads.value)
    return replace(
        observation,
        nodes=tuple(_with_release(node, pods) if node.id in fetching else node for node in observation.nodes),
    )


def _with_release(node: Node, pods: Mapping[str, Pod | None]) -> Node:
    """The node with the release of its pod; unchanged where it was read otherwise, or where a fact is missing."""
    if Role.CONTROLLER not in node.roles or node.state is not NodeState.UNREACHABLE or node.registered:
        return node
    from kafkafeatures.core.facts.workloads import InferredRelease

    pod = pods.get(plain_host(node.host))
    if pod is None or not pod.ready or pod.terminating or pod.started_at is None:
        return node
    ranges = supported_by(pod.release)
    if ranges is None:
        return node
    process = f"{pod.uid} {pod.started_at.isoformat()}"
    return replace(node, inferred=InferredRelease(pod.release, ranges, pod.name, process))


def _by_address(reading: WorkloadsReading) -> dict[str, Pod | None]:
    """The pod by each of its names and addresses; None for an address that several pods have."""
    pods: dict[str, Pod | None] = {}
    for stateful_set in reading.stateful_sets:
        for pod in stateful_set.pods:
            for host in {*map(plain_host, pod.host_names), *pod.ips}:
                pods[host] = None if host in pods else pod
    return pods


def _fetching(observation: Observation) -> Iterator[int]:
    """Ids of the leader of the quorum, and of those that fetched from it recently."""
    if isinstance(observation.quorum, Known):
        quorum = observation.quorum.value
        yield quorum.leader_id
        for replica in (*quorum.voters, *quorum.observers):
            if replica.last_fetch_timestamp >= quorum.recent_since:
                yield replica.id
