"""Implements `KafkaPort` and `WorkloadPort` (`core/ports.py`) on a simulated cluster and its pods, in virtual time.

Tests run hundreds of reconciliations a second with it, such as simulations of crashes. Readings go through the
product's own adapter, on connections without bytes (`connection.py`). Changes take the route of the product's router.
Readings, requests and `sleep` take virtual time only, so that a test does not wait for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.status import Via
from kafkafeatures.core.engine.route import Route, route_to_controller
from kafkafeatures.core.engine.steps import (
    Applied,
    DryRun,
    DryRunAccepted,
    DryRunRejected,
    DryRunUnavailable,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
)
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import (
    NOT_ASKED,
    ClusterProbe,
    EarlierMoves,
    Failure,
    ProbedNode,
    Readings,
    Role,
)
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.facts.znodes import Read
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.ports import PreparedUpdate, Withheld
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.kafka.cluster import Cluster
from kafkasim.connection import Access, Network
from kafkasim.node import Node
from kafkasim.pods import Pods
from kafkasim.rules import NOT_CONTROLLER, FeatureUpdate, UpgradeType, Verdict
from kafkasim.world import NoActiveControllerError, World

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
CALL_MS = 10
"""Virtual time in ms of a reading or a request; longer than a commit takes, so that an answered change is committed."""


class SimulatedCluster:
    """`KafkaPort` for one world."""

    def __init__(self, world: World, access: Access | None = None) -> None:
        self.world = world
        self._last: ClusterProbe | None = None
        self.reach(access or Access())

    def reach(self, access: Access) -> None:
        """Replace the client by a new one with this access, which knows nothing yet."""
        self._access, self._network = access, Network(self.world, access)
        network = self._network
        self._adapter = Cluster(network.settings, environment=network.environment, connect=network.connect)

    def now(self) -> datetime:
        """The time of the world."""
        return self._network.now()

    async def sleep(self, seconds: float) -> None:
        """Let this much virtual time pass."""
        self._pass_time(max(1, int(timedelta(seconds=seconds) / timedelta(milliseconds=1))))

    async def read(
        self,
        *,
        partitions: bool = False,
        settings: frozenset[str] = frozenset(),
        claim: Read[ControllerClaim] = NOT_ASKED,
    ) -> Readings:
        """The readings of the product's adapter."""
        self._pass_time(CALL_MS)
        readings = await self._adapter.read(partitions=partitions, settings=settings, claim=claim)
        self._last = readings.probe
        return readings

    async def look_again(self, *, claim: Read[ControllerClaim] = NOT_ASKED) -> Readings:
        """The second reading of the product's adapter."""
        self._pass_time(CALL_MS)
        readings = await self._adapter.look_again(claim=claim)
        self._last = readings.probe
        return readings

    async def named_controllers(self) -> Mapping[int, frozenset[int] | Failure]:
        """The controllers that brokers name, as the adapter reads them."""
        self._pass_time(CALL_MS)
        return await self._adapter.named_controllers()

    async def former_controllers(self, addresses: frozenset[str]) -> Mapping[str, Failure | None]:
        """Processes that still answer at addresses of former controllers, as the adapter reads them."""
        self._pass_time(CALL_MS)
        return await self._adapter.former_controllers(addresses)

    async def moves_since(self, offset: int, epoch: int) -> EarlierMoves | Failure:
        """Changes of levels in the log before the last reading, as the adapter reads them."""
        return await self._adapter.moves_since(offset, epoch)

    @asynccontextmanager
    async def prepared(self, change: UpdateFeature) -> AsyncIterator[PreparedUpdate | NotSent]:
        """Connect to the active controller if it is known, else to the first broker that listens."""
        self._pass_time(CALL_MS)
        node = self._stop_for_changes()
        if node is None:
            yield NotSent("no way to the active controller")
        elif reason := self.reason_not_to_send(node, change):
            yield NotSent(reason)
        else:
            yield _Prepared(self, node, change)

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        """The verdict of the first node on the route that gives one. A dry run may be sent to several nodes, as it
        changes nothing. directly: if the address of the active controller is known, send to it only.
        """
        direct = self._route().controller if directly else None
        for node in self._stops() if direct is None else self._reached([direct]):
            judged = self._ask(node, changes, validate_only=True)
            if isinstance(judged, Verdict) and judged.error_code != NOT_CONTROLLER:
                refused = _refusals(judged)
                return (
                    DryRunRejected(refused[0][0], "; ".join(text for _, text in refused))
                    if refused
                    else DryRunAccepted()
                )
        return DryRunUnavailable("no way to the active controller")

    async def update(self, change: UpdateFeature) -> Outcome:
        """Send the change once, to the node that `prepared` chooses."""
        node = self._stop_for_changes()
        if node is None:
            return NotSent("no way to the active controller")
        judged = self._ask(node, [change], validate_only=False)
        if judged is None:
            return OutcomeUnknown(f"no answer from {node.role.value.lower()} {node.id}")
        refused = _refusals(judged)
        if refused and refused[0][0] == NOT_CONTROLLER:
            return OutcomeUnknown(refused[0][1])
        return Rejected(*refused[0]) if refused else Applied()

    def _stop_for_changes(self) -> Node | None:
        direct = self._route().controller
        return next(iter(self._reached([direct]) if direct is not None else self._stops()), None)

    def reason_not_to_send(self, node: Node, change: UpdateFeature) -> str:
        """Text with the level that the node reports, if the change does not start from that level; else "". The product
        reads the level from the ApiVersions response of the connection.
        """
        levels, epoch = self.world.finalized(node)
        # Brokers do not report kraft.version, and -1 means that a controller knows no levels yet.
        is_unknown = epoch < 0 or (change.feature == KRAFT_VERSION and node.role is Role.BROKER)
        level = levels.get(change.feature, 0)
        return (
            ""
            if is_unknown or level == change.from_level
            else f"{change.feature} is at {level}, not at {change.from_level}"
        )

    def _route(self) -> Route:
        return Route(None) if self._last is None else route_to_controller(self._last)

    def _stops(self) -> list[Node]:
        """The nodes on the route that still listen."""
        route = self._route()
        return [] if route.closed else self._reached(route.stops)

    def _reached(self, stops: Sequence[ProbedNode]) -> list[Node]:
        nodes = (self.world.nodes.get((stop.role, stop.id)) for stop in stops if stop.id is not None)
        return [node for node in nodes if node is not None and self._network.reaches(node)]

    def _ask(self, node: Node, changes: Sequence[UpdateFeature], *, validate_only: bool) -> Verdict | None:
        """The verdict; None if a broker keeps the request, to forward it when a controller is active again."""
        updates = [
            FeatureUpdate(
                c.feature, c.to_level, UpgradeType.SAFE_DOWNGRADE if c.to_level < c.from_level else UpgradeType.UPGRADE
            )
            for c in changes
        ]

        def send() -> Verdict:
            return self.world.update_features(node, updates, validate_only=validate_only).verdict

        try:
            judged = send()
        except NoActiveControllerError:
            limit_ms = self._access.short_timeout_ms if validate_only else self._access.request_timeout_ms
            self._network.wait_for_leader(self.world.now_ms + limit_ms)
            if self.world.active is None:
                self.world.keep(node, send)
                return None
            judged = send()
        self._pass_time(CALL_MS)
        return judged

    def _pass_time(self, ms: int) -> None:
        self.world.advance(self.world.now_ms + ms)


class _Prepared:
    """`PreparedUpdate` to one node."""

    def __init__(self, cluster: SimulatedCluster, node: Node, change: UpdateFeature) -> None:
        self._cluster, self._node, self._change = cluster, node, change
        self._incarnation = node.incarnation

    @property
    def via(self) -> Via:
        return Via.CONTROLLER if self._node.role is Role.CONTROLLER else Via.BROKER

    async def send(self, withheld: Withheld) -> Outcome:
        """Send the change unless the connection ended, the level moved, or it is withheld, checked in this order as by
        the product.
        """
        if not self._node.listening or self._node.incarnation != self._incarnation:
            return NotSent("the connection ended")
        if reason := self._cluster.reason_not_to_send(self._node, self._change) or withheld():
            return NotSent(reason)
        return await self._cluster.update(self._change)


class SimulatedWorkloads:
    """`WorkloadPort` for the pods of one world."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods

    async def read(self) -> WorkloadsReading | Failure:
        """The pods as they are now."""
        self._pass_time()
        return self._pods.reading()

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        """Evict a pod by name and uid; rejected with 429 if a budget forbids it."""
        self._pass_time()
        if reason := withheld():
            return NotSent(reason)
        return Applied() if self._pods.evict(step.pod, step.pod_uid) else Rejected(429, REFUSED)

    def _pass_time(self) -> None:
        self._pods.world.advance(self._pods.world.now_ms + CALL_MS)


def _refusals(judged: Verdict) -> list[tuple[int, str]]:
    """Code and message of each error in a verdict: of the whole request, and of each feature."""
    answers = [(judged.error_code, judged.error_message), *((r.error_code, r.error_message) for r in judged.results)]
    return [(code, text or "") for code, text in answers if code]
