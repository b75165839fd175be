"""Readings of one cluster that go on while the nodes of the typed addresses are away, as in a roll.

Used by `serve` and `describe --watch`. Kafka's own clients do the same: the addresses that a person names are for the
first connection, and then the nodes that the cluster names are used. A reading of another cluster is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation
from kafkafeatures.core.facts.observe import ClusterUnreachable
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.kafka.base.settings import Address, ClusterSettings

_REFUSED = (FailureKind.AUTHENTICATION, FailureKind.AUTHORIZATION)
"""Kinds of failures of a node that is there, and refuses our user: to send the login to all others may lock it out."""
_RUNNING = (NodeState.LIVE, NodeState.FENCED, NodeState.UNREACHABLE)
"""States of nodes whose addresses are tried, since a node that is away now may be back at the next reading."""


class OtherNodes:
    """The nodes of the last reading that told the cluster's id. `settings`: with the addresses that a person named.
    `current`: with those at which the last reading succeeded.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = self.current = settings
        self._last: Observation | None = None

    async def observed(self, read: Callable[[ClusterSettings], Awaitable[Observation]]) -> Observation:
        """Read at the addresses of the person; if none answers, at those of the nodes, unless our user is refused.
        Raises ClusterUnreachable with the failure at the former.
        """
        try:
            observation, self.current = await read(self._settings), self._settings
        except ClusterUnreachable as error:
            if error.failure.kind in _REFUSED:
                raise
            observation = await self._read_elsewhere(read, error)
        if isinstance(observation.cluster_id, Known):  # without it nodes cannot be told from those of another cluster
            self._last = observation
        return observation

    async def _read_elsewhere(
        self, read: Callable[[ClusterSettings], Awaitable[Observation]], error: ClusterUnreachable
    ) -> Observation:
        """Read at the addresses of the nodes. Raises the error if none answers, or it is another cluster that does."""
        last = self._last
        settings = None if last is None else self._of(last.nodes)
        if last is None or settings is None:
            raise error
        try:
            observation = await read(settings)
        except ClusterUnreachable:
            raise error from None
        if not _of_same_cluster(last, observation):
            raise error
        self.current = settings
        return observation

    def _of(self, nodes: Iterable[Node]) -> ClusterSettings | None:
        """The settings with the addresses of these nodes in place of those of the person; None without any."""
        running = [node for node in nodes if node.state in _RUNNING]
        running.sort(key=lambda node: node.state is not NodeState.LIVE)
        has_servers, has_controllers = self._settings.bootstrap_servers, self._settings.bootstrap_controllers
        servers = [at for node in running for at in _of_broker(node)] if has_servers else []
        controllers = [at for node in running for at in node.controller_listeners] if has_controllers else []
        if not servers and not controllers:
            return None
        return replace(self._settings, bootstrap_servers=_parsed(servers), bootstrap_controllers=_parsed(controllers))


def _of_same_cluster(*observations: Observation) -> bool:
    """Tell whether all observations certainly have the same cluster id."""
    ids = {each.cluster_id.value if isinstance(each.cluster_id, Known) else None for each in observations}
    return len(ids) == 1 and None not in ids


def _of_broker(node: Node) -> Iterator[tuple[str, int]]:
    """Addresses of the node as a broker: the one at which it was asked, unless that is a listener for controllers."""
    if Role.BROKER in node.roles:
        asked = (node.host, node.port)
        known = [at for at in node.listeners if at not in node.controller_listeners]
        yield from known if asked in node.controller_listeners else [asked]


def _parsed(addresses: Iterable[tuple[str, int]]) -> tuple[Address, ...]:
    return tuple(Address(host, port) for host, port in dict.fromkeys(addresses) if port > 0)
