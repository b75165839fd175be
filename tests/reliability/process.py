"""One process of the operator in the simulation: production's own queue, reconciler, claims, stores and observer.

Simulated are the connections to the API server and to Kafka, the watch, and the clocks. It is put together as
`kafkafeatures.app` does it. It dies at any request, without a word; whatever it had sent stays sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.app import real_evidence
from kafkafeatures.core.engine.desired_state import Rollout
from kafkafeatures.core.ports import ZooKeeperPort
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import AddressPolicy
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.connections import OpenCluster
from kafkafeatures.reconcile.context import EffectRecord
from kafkafeatures.reconcile.controller import Controller
from kafkafeatures.reconcile.operator_context import OperatorContext
from kafkafeatures.reconcile.pods import Pods as PodsOfResource
from kafkafeatures.reconcile.queue import Queue
from kafkafeatures.resources import Resources
from kafkafeatures.zookeeper.ensemble import Ensemble
from tests.reliability.kafka import Cluster, Roads
from tests.reliability.process_connection import Connection
from tests.simulated.kubernetes import ApiServer
from tests.simulated.requests import Fault, Request, refusal

RESYNC = 240.0


@dataclass
class Weather:
    """The faults between a process and the rest of the world, as chances of one request.

    Not drawn: `slow`: seconds that the way to the API server takes, and the way back.
    """

    dies: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    refused: float = 0.0
    stale: float = 0.0
    unseen: float = 0.0
    late: float = 0.0
    roads: Roads = field(default_factory=Roads)
    slow: float = 0.0


@dataclass
class Surrounding:
    """The parts that all processes of one history share."""

    server: ApiServer
    clusters: Mapping[str, Cluster]
    weather: Weather
    random: Random
    wall: Any
    record: Any
    sent: Any
    asked: Any
    reconciled: Any


class Process:
    """See the module. `name` is its instance, `operator` the installation."""

    def __init__(self, world: Surrounding, name: str, operator: str) -> None:
        self.world, self.name = world, name
        self.dead = False
        self.uids: dict[str, str] = {}
        self._shown_until = 0.0
        self.logged: list[EffectRecord] = []
        """Production's effect log: what was noted there, and did not come by here yet."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        environment = Environment(world.wall, loop.time, world.random.random, asyncio.sleep)
        self._api = world.server.client(self._fault, self._latency)
        context = OperatorContext(
            environment, OperatorIdentity("ops", operator, name), AddressPolicy(), real_evidence(environment),
            self.logged.append, self._open_ensemble,
        )  # fmt: skip
        self._controller = _Controller(
            self._api, Claims(environment.monotonic), self._open, context, self, current=self._current
        )
        self._opened: dict[str, Connection] = {}
        self._controller.opened = self._opened
        self._queue: Queue[ResourceKey] = Queue(
            self._controller.reconcile, failed=self._controller.failed, monotonic=loop.time
        )
        self._resources = Resources(
            self._api,
            (),
            environment,
            changed=self._wake,
            gone=self._queue.wake,
            restored=self._controller.discard_versions,
            every=RESYNC,
        )
        self._task = loop.create_task(self._run())

    # --- as the host does it ---

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._queue.run())
            parts.create_task(self._resources.run())
            await self._resources.known.wait()
            self._resources.watching("", holds=True)

    def _current(self, key: ResourceKey) -> str:
        return self._resources.current(key)

    def _wake(self, resources: Sequence[Mapping[str, Any]]) -> None:
        for key in self._controller.note_changes(resources):
            self._queue.wake(key)

    def show(self, resource: Mapping[str, Any], *, gone: bool, after: float) -> None:
        """Give the change of a resource to the watch, in order and not before the first list has ended."""
        self._shown_until = max(self._shown_until + 1e-6, self._loop.time() + after)
        self._loop.call_at(self._shown_until, self._show, resource, gone)

    def _show(self, resource: Mapping[str, Any], gone: bool) -> None:
        if not self.dead and self._resources.known.is_set():
            self._resources.show(resource, gone=gone)

    async def stop(self) -> None:
        """Stops as Kubernetes stops a pod: what is under way may end."""
        self._controller.hand_over()
        self._queue.stop()
        await asyncio.sleep(self.world.random.choice((0.0, 0.5, 5.0)))
        await self.kill()

    def end(self) -> None:
        """End the process: nothing of it runs from the next turn of the loop on."""
        self.dead = True
        self._task.cancel()

    async def kill(self) -> None:
        """Kill the process at once."""
        self.dead = True
        self._task.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await self._task

    # --- what the reconciler tells ---

    def reconciled(self, key: ResourceKey, result: str, seconds: float, status: object) -> None:
        """Count a reconciliation that has ended."""
        self.world.reconciled()

    def suspended(self, key: ResourceKey, holds: bool) -> None:
        """Do nothing: the simulation needs no such event."""

    def forgot(self, key: ResourceKey) -> None:
        """The resource is gone."""

    # --- the API server ---

    async def _latency(self) -> None:
        random = self.world.random
        self.point()
        late = random.random() < self.world.weather.late
        drawn = random.random() * (random.choice((2.0, 2.0, 9.0)) if late else 0.02)
        await asyncio.sleep(drawn + self.world.weather.slow)
        self.point()

    def point(self) -> None:
        """Here it may die; and if it is dead, nothing of it continues."""
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
            self.uids[name] = self.world.server.uid(namespace, name) or self.uids.get(name, "")
        drawn, refused = random.random(), random.choice(_REFUSED)
        for chance, fault in (
            (weather.lost_before, _LOST),
            (weather.lost_after, _LOST_AFTERWARDS),
            (weather.refused, refused),
        ):
            if drawn < chance:
                return fault
            drawn -= chance
        if request.method == "GET" and drawn < weather.stale and request.path.endswith("/kafkafeatures"):
            return Fault(lag=random.randrange(1, 6))
        return None

    # --- Kafka ---

    def _open(self, settings: ClusterSettings) -> Connection:
        name, _, cluster = settings.bootstrap_servers[0].host.partition(".")
        made = self._opened[name] = Connection(self, name, self.world.clusters.get(cluster))
        return made

    def _open_ensemble(self, ensemble: Ensemble, cluster: OpenCluster) -> ZooKeeperPort:
        raise AssertionError(f"no document of these histories names {ensemble}")


_LOST, _LOST_AFTERWARDS = Fault(), Fault(carried_out=True)
_REFUSED = (
    Fault(refusal(429, "too many requests", Retry_After="3")),
    Fault(refusal(500, "internal error")),
    Fault(refusal(503, "not now")),
    Fault(refusal(409, "the object has been modified")),
)


class _Controller(Controller):
    """Pods are read of the world itself: what asks the API server for them has tests of its own."""

    opened: Mapping[str, Connection]
    """By the name of a resource, the last."""

    def _pods_of(self, key: ResourceKey, rollout: Rollout) -> PodsOfResource | None:
        made = super()._pods_of(key, rollout)
        workloads = self.opened[key.name].workloads
        return None if made is None or workloads is None else PodsOfResource(workloads)
