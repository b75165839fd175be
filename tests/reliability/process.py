"""One process of the operator in the simulation: production's own queue, reconciler, claims, stores and observer.

Only what is below its ports is simulated: the API server's connection, the connections to Kafka, clocks. It is put
together as `kafkafeatures.app` does it. It dies at any request, without a word; whatever it had sent stays sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from kafkafeatures.api.identity import Operator
from kafkafeatures.core.observe import Unreachable
from kafkafeatures.core.readings import Failure, FailureKind, LogReading, Readings
from kafkafeatures.core.steps import NotSent, Outcome, OutcomeUnknown, Unavailable, UpdateFeature
from kafkafeatures.core.steps import Verdict as ServerVerdict
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.api import Key, Listing
from kafkafeatures.kube.errors import KubeError
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.controller import Controller, OperatorContext
from kafkafeatures.reconcile.queue import Queue
from kafkasim.ports import SimulatedCluster
from kafkasim.readings import Access
from kraftlog import Image
from tests.reliability.kafka import Cluster, Roads
from tests.simulated.kubernetes import ApiServer, Fault, Request, refusal

RESYNC = 240.0
RELIST = 5.0
REQUEST_TIMEOUT_MS = 2_000


@dataclass
class Weather:
    """What goes wrong between a process and the rest of the world: chances of one request."""

    dies: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    refused: float = 0.0
    stale: float = 0.0
    unseen: float = 0.0
    late: float = 0.0
    roads: Roads = field(default_factory=Roads)


@dataclass
class Surrounding:
    """What all processes of one history share."""

    server: ApiServer
    clusters: Mapping[str, Cluster]
    weather: Weather
    random: Random
    wall: Any
    record: Any
    sent: Any
    reconciled: Any


class Process:
    """See the module. `name` is its instance."""

    def __init__(self, world: Surrounding, name: str) -> None:
        self.world, self.name = world, name
        self.dead = False
        self._uids: dict[str, str] = {}
        loop = asyncio.get_running_loop()
        self._loop = loop
        environment = Environment(world.wall, loop.time, world.random.random, asyncio.sleep)
        self._api = world.server.client(self._fault, self._latency)
        self._claims = Claims()
        context = OperatorContext(environment, Operator("ops", "operator", name), AddressPolicy())
        self._controller = Controller(self._api, self._claims, self._open, context, self)
        self._queue: Queue[Key] = Queue(self._controller.reconcile, failed=self._controller.failed, monotonic=loop.time)
        self._task = loop.create_task(self._run())

    # --- as the host does it ---

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._queue.run())
            parts.create_task(self._list())

    async def _list(self) -> None:
        while True:
            try:
                self._listed(await self._api.resources(""))
            except KubeError:
                await asyncio.sleep(RELIST)
                continue
            await asyncio.sleep(RESYNC)

    def _listed(self, listing: Listing) -> None:
        if listing.restored:
            self._controller.forget_versions()
        for resource in listing.resources:
            self._claims.note(resource)
        found = [Key.of(resource) for resource in listing.resources]
        for key in dict.fromkeys((*found, *self._queue.known)):
            self._queue.wake(key)

    def shown(self, resource: Mapping[str, Any]) -> None:
        """By a watch."""
        if not self.dead and self._controller.is_external_change(resource):
            self._claims.note(resource)
            self._queue.wake(Key.of(resource))

    async def stop(self) -> None:
        """As Kubernetes does: what is under way may end."""
        self._controller.hand_over()
        self._queue.stop()
        await asyncio.sleep(self.world.random.choice((0.0, 0.5, 5.0)))
        await self.kill()

    async def kill(self) -> None:
        """Nothing of it runs any more."""
        self.dead = True
        self._task.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await self._task

    # --- what the reconciler tells ---

    def passed(self, key: Key, result: str, seconds: float, status: object) -> None:
        """One reconciliation is over."""
        self.world.reconciled()

    def forgot(self, key: Key) -> None:
        """The resource is gone."""

    # --- the API server ---

    async def _latency(self) -> None:
        random = self.world.random
        self._point()
        await asyncio.sleep(random.random() * (2.0 if random.random() < self.world.weather.late else 0.02))
        self._point()

    def _point(self) -> None:
        """Here it may die; and if it is dead, nothing of it goes on."""
        if self.dead:
            raise asyncio.CancelledError
        if self.world.random.random() < self.world.weather.dies:
            self.dead = True
            self._task.cancel()
            raise asyncio.CancelledError

    def _fault(self, request: Request) -> Fault | None:
        random, weather = self.world.random, self.world.weather
        if request.method == "GET" and not request.path.endswith("/kafkafeatures"):
            *_, namespace, _, name = request.path.split("/")
            self._uids[name] = self.world.server.uid(namespace, name) or self._uids.get(name, "")
        drawn = random.random()
        for chance, fault in (
            (weather.lost_before, Fault()),
            (weather.lost_after, Fault(carried_out=True)),
            (weather.refused, Fault(random.choice(_REFUSALS))),
        ):
            if drawn < chance:
                return fault
            drawn -= chance
        if request.method == "GET" and drawn < weather.stale and request.path.endswith("/kafkafeatures"):
            return Fault(lag=random.randrange(1, 6))
        return None

    # --- Kafka ---

    def _open(self, settings: ClusterSettings) -> _Connection:
        name, _, cluster = settings.bootstrap_servers[0].host.partition(".")
        return _Connection(self, name, self.world.clusters.get(cluster))


_REFUSALS = (
    refusal(429, "too many requests", Retry_After="3"),
    refusal(500, "internal error"),
    refusal(503, "not now"),
    refusal(409, "the object has been modified"),
)


class _Connection:
    """`OpenCluster`: of one resource to one cluster. `cluster` None: nobody is there."""

    def __init__(self, process: Process, name: str, cluster: Cluster | None) -> None:
        self._process, self._name, self._cluster = process, name, cluster
        self._by_broker = self._no_log = False
        self._image: Image | None = None
        self._kafka: SimulatedCluster | None = None

    async def read(self) -> Readings:
        cluster, roads = await self._reached(), self._process.world.weather.roads
        if self._draw(roads.unreachable):
            raise Unreachable(Failure(FailureKind.TIMED_OUT, "bootstrap", "no answer"))
        self._by_broker, self._no_log = self._draw(roads.by_broker), self._draw(roads.no_log)
        self._kafka = SimulatedCluster(
            cluster.world,
            Access(
                controllers=not self._by_broker,
                reaches_controllers=not self._by_broker,
                cluster_action=not self._no_log,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
        )
        readings = await self._kafka.read()
        self._process.world.record(cluster.looked(self._process.name, self._uid))
        self._image = readings.log.image if isinstance(readings.log, LogReading) else None
        await self._back()
        return readings

    async def unchanged(self) -> bool:
        cluster, before = await self._reached(), self._image
        if before is None or cluster.world.active is None:
            return False
        after = cluster.world.image
        same = {name: getattr(before, name) for name in ("offset", "epoch", "timestamp_ms", "counts")}
        return before == replace(after, **same)

    async def release_idle_connections(self) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """The same."""

    @property
    def sends_to_active_controller(self) -> bool:
        return not self._by_broker

    async def validate(self, changes: Sequence[UpdateFeature]) -> ServerVerdict:
        await self._reached()
        if self._draw(self._process.world.weather.roads.lost_before):
            return Unavailable("timed out")
        verdict = await self._kafka.validate(changes) if self._kafka else Unavailable("not read yet")
        await self._back()
        return verdict

    async def update(self, change: UpdateFeature) -> Outcome:
        world, roads = self._process.world, self._process.world.weather.roads
        assert self._cluster is not None
        number = world.sent(self._process.name, self._uid, self._cluster.world.cluster_id, change)
        cluster = await self._reached()
        if self._draw(roads.lost_before):
            return OutcomeUnknown("EOF") if self._draw(0.7) else NotSent("no connection")
        outcome = cluster.outcome(change, number, by_broker=self._by_broker)
        await self._back()
        return OutcomeUnknown("EOF") if self._draw(roads.lost_after) else outcome

    @property
    def _uid(self) -> str:
        return self._process._uids.get(self._name, "")

    def _draw(self, chance: float) -> bool:
        return self._process.world.random.random() < chance

    async def _reached(self) -> Cluster:
        await self._back()
        if self._cluster is None:
            raise Unreachable(Failure(FailureKind.UNREACHABLE, "bootstrap", "connection refused"))
        self._cluster.catch_up()
        return self._cluster

    async def _back(self) -> None:
        self._process._point()
        await asyncio.sleep(
            0.01
            + (5.0 if self._draw(self._process.world.weather.roads.slow) else 0.02)
            * self._process.world.random.random()
        )
        self._process._point()
