"""Route of a change to the active controller, judged by the answers of the nodes.

Pure. Called before a change is sent, by the adapter of the Kafka port and by the simulated one. It never routes through
a node that did not answer.
"""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    ControllerList,
    Failure,
    NodeAnswer,
    ProbedNode,
    QuorumAnswer,
    Role,
)

BROKERS_TRIED = 3
"""Most brokers that are tried for one request: without an active controller, each takes a while to fail."""


class Route(Struct, frozen=True):
    """Nodes to which a change can be sent.

    controller: the active controller; None if it did not answer.
    brokers: brokers that forward a request to it.
    closed: failure because of which nothing may be sent now; None if something may be.
    """

    controller: ProbedNode | None
    brokers: tuple[ProbedNode, ...] = ()
    closed: Failure | None = None

    @property
    def stops(self) -> tuple[ProbedNode, ...]:
        """Nodes to which a change may be sent, in the order of attempts."""
        direct = (self.controller,) if self.controller else ()
        return (*direct, *self.brokers[:BROKERS_TRIED])


def route_to_controller(probe: ClusterProbe) -> Route:
    """Route to the active controller, and through the brokers that would forward a request to it.

    Without an answer to DescribeQuorum, the route has no brokers, and a controller only if it answered and the list of
    controllers names it as the leader. A surviving controller may still name a dead leader (observed on Kafka 4.3 with
    two of three controllers gone, where KIP-996 makes it a prospective candidate), and a broker would keep the request
    until there is a quorum again.
    """
    answering = [node for node in probe.nodes if isinstance(node.answer, NodeAnswer)]
    listed = probe.controllers if isinstance(probe.controllers, ControllerList) else None
    if isinstance(probe.quorum, QuorumAnswer):
        leader: int | None = probe.quorum.leader_id
        brokers = tuple(node for node in answering if node.role is Role.BROKER)
    else:
        leader, brokers = listed.active if listed else None, ()
    controller = next(
        (node for node in answering if node.role is Role.CONTROLLER and node.id is not None and node.id == leader), None
    )
    closed = probe.quorum if isinstance(probe.quorum, Failure) and controller is None else None
    return Route(controller, brokers, closed)
