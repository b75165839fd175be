"""The connection of a simulated process to Kafka and to pods; requests and replies may be lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
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
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    EarlierMoves,
    Failure,
    FailureKind,
    LogReading,
    Readings,
    Role,
)
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.ports import PreparedUpdate, Withheld
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkasim.ports import REFUSED
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.world import INVALID_REQUEST
from kraftlog import Image
from tests.reliability.kafka import LEVELS, Cluster, Pods
from tests.reliability.recorded_world import RecordedWorld
from tests.reliability.records import Left, Looked, Nodes, Validated

if TYPE_CHECKING:
    from tests.reliability.process import Process


DELIVERED_MS = 9_500
"""What a socket was given arrives within so long: then it is closed by reset (TCP_USER_TIMEOUT)."""


_NOWHERE = Failure(FailureKind.UNREACHABLE, "bootstrap", "connection refused")


def unreachable(at: datetime) -> ClusterProbe:
    """Addresses at which no server listens."""
    return ClusterProbe(at, _NOWHERE, _NOWHERE, _NOWHERE, _NOWHERE, (), (_NOWHERE,))


class _Workloads:
    """`WorkloadPort` of a process to the pods of a cluster."""

    def __init__(self, connection: Connection, pods: Pods) -> None:
        self._connection, self._pods = connection, pods

    async def read(self) -> WorkloadsReading | Failure:
        if await self._connection.lost():
            return Failure(FailureKind.UNREACHABLE, "the API server", "no answer in time")
        self._connection.pods_seen = self._pods.nodes()
        return self._pods.reading()

    async def restart(self, step: RestartNode, withheld: Withheld) -> Outcome:
        return await self._connection.restart(step, self._pods, withheld)


class _Prepared:
    """`PreparedUpdate` of a process."""

    def __init__(self, connection: Connection, request: PreparedUpdate, change: UpdateFeature) -> None:
        self._connection, self._request, self._change = connection, request, change

    @property
    def via(self) -> Via:
        return self._request.via

    async def send(self, withheld: Withheld) -> Outcome:
        return await self._connection.update(self._request, withheld, self._change)


class Connection:
    """`OpenCluster`: of one resource to one cluster. `cluster` None: no server is there."""

    def __init__(self, process: Process, name: str, cluster: Cluster | None) -> None:
        self._process, self._name, self._cluster = process, name, cluster
        self._weather, self._random = process.world.weather, process.world.random
        self._client = None if cluster is None else cluster.client(self._weather.roads, self._random)
        self._image: Image | None = None
        pods = None if cluster is None else cluster.pods
        self.workloads = None if pods is None else _Workloads(self, pods)
        self.pods_seen: Nodes | None = None
        """What was true when pods were read last, which is before the cluster is."""

    async def lost(self) -> bool:
        """True if the API server does not answer now."""
        await self._reached()
        return self._draw(self._weather.lost_before)

    async def restart(self, step: RestartNode, pods: Pods, withheld: Withheld) -> Outcome:
        """Ends one life of a pod; what a broken connection hides is drawn."""
        assert self._cluster is not None
        line = self._process.logged.pop() if self._process.logged else None
        logged = line is not None and line.step == step and line.resource.endswith(f"/{self._name}")
        told = self._process.name, self._uid, self._cluster.world.cluster_id, step, logged
        number = self._process.world.asked(*told)
        await self._reached()
        if (why := withheld()) is not None:
            return NotSent(why)
        if self._draw(self._weather.lost_before) or self._weather.roads.eviction_lost:
            return OutcomeUnknown("no answer")
        with self._cluster.world.sent_by(number):
            outcome = Applied() if pods.evict(step.pod, step.pod_uid) else Rejected(429, REFUSED)
        await self._back()
        return OutcomeUnknown("no answer") if self._draw(self._weather.lost_after) else outcome

    async def read(self, **demands: Any) -> Readings:
        cluster = await self._reached()
        if cluster is None or self._client is None:
            return Readings(unreachable(self._process.world.wall()), _NOWHERE)
        cluster.world.twice = self._weather.roads.twice
        cluster.world.grants_cluster_action = not self._draw(self._weather.roads.no_log)
        readings = await self._client.read(**demands)
        looked = self._looked(cluster)
        has_log = isinstance(readings.log, LogReading)
        self._process.world.record(replace(looked, log=has_log, said=self._client.said, agreed=self._client.agreed))
        self._image = readings.log.image if isinstance(readings.log, LogReading) else None
        await self._back()
        return readings

    async def look_again(self, **demands: Any) -> Readings:
        return await self.read(partitions=True, **demands)

    async def named_controllers(self) -> Mapping[int, frozenset[int] | Failure]:
        """The controllers that each broker names; empty if no server is there."""
        cluster = await self._reached()
        return {} if cluster is None or self._client is None else await self._client.named_controllers()

    async def former_controllers(self, addresses: frozenset[str]) -> Mapping[str, Failure | None]:
        """The former controllers found there; empty if no server is there."""
        cluster = await self._reached()
        return {} if cluster is None or self._client is None else await self._client.former_controllers(addresses)

    def _looked(self, cluster: Cluster) -> Looked:
        looked, pods = cluster.looked(self._process.name, self._uid), self.pods_seen
        if pods is None or looked.nodes is None:
            return looked
        of_pods = ("behind", "stuck", "templates", "ends", "crashing", "draining", "refused")
        nodes = replace(looked.nodes, **{name: getattr(pods, name) for name in of_pods})
        return replace(looked, nodes=nodes)

    async def unchanged(self) -> bool:
        cluster, before = await self._reached(), self._image
        if cluster is None or before is None or cluster.world.active is None:
            return False
        same = {name: getattr(before, name) for name in ("offset", "epoch", "timestamp_ms", "counts", "partitioned")}
        return before == replace(cluster.world.image, **same)

    def release_partitions(self, *, at_once: bool = True) -> None:
        """Do nothing: no partition is kept."""

    async def release_idle_connections(self) -> None:
        """Do nothing: no connection is kept."""

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    @asynccontextmanager
    async def prepared(self, change: UpdateFeature) -> AsyncIterator[PreparedUpdate | NotSent]:
        assert self._cluster is not None
        assert self._client is not None
        cluster = await self._reached()
        assert cluster is not None
        if self._draw(self._weather.roads.lost_before):
            yield NotSent("no connection")
            return
        before_it, after_it = self._draw(self._weather.roads.overtaken), self._draw(self._weather.roads.overtaken)
        if before_it:
            self._overtake(change)
        async with self._client.prepared(change) as request:
            await self._back()
            if after_it and not before_it:
                self._overtake(change)
            yield request if isinstance(request, NotSent) else _Prepared(self, request, change)

    async def moves_since(self, offset: int, epoch: int) -> EarlierMoves | Failure:
        cluster = await self._reached()
        if cluster is None or self._client is None or self._draw(self._weather.roads.lost_before):
            return Failure(FailureKind.TIMED_OUT, "metadata log", "timed out")
        return await self._client.moves_since(offset, epoch)

    async def validate(self, changes: Sequence[UpdateFeature], *, directly: bool = False) -> DryRun:
        cluster = await self._reached()
        verdict: DryRun | None = None
        assert cluster is not None
        assert self._client is not None
        roads = self._weather.roads
        if self._draw(roads.lost_before):
            pass
        elif roads.unread:
            verdict = DryRunRejected(INVALID_REQUEST, "the request cannot be read")
        elif not cluster.world.is_busy:
            with cluster.world.sent_by(None), self._flipped(cluster, changes[0], when=roads.flipped and not directly):
                verdict = await self._client.validate(changes, directly=directly)
        asked = tuple((one.feature, one.to_level) for one in changes)
        accepted = isinstance(verdict, DryRunAccepted)
        told = cluster.world.seconds, self._process.name, self._uid, asked, accepted
        self._process.world.record(Validated(*told))
        if verdict is None:
            return DryRunUnavailable("timed out")
        await self._back()
        return verdict

    async def update(self, request: PreparedUpdate, withheld: Withheld, change: UpdateFeature) -> Outcome:
        """Send the prepared change; the request and its reply may be lost."""
        world, roads = self._process.world, self._weather.roads
        assert self._cluster is not None
        assert self._client is not None
        line = self._process.logged.pop() if self._process.logged else None
        logged = line is not None and line.step == change and line.resource.endswith(f"/{self._name}")
        number = world.sent(self._process.name, self._uid, self._cluster.world.cluster_id, change, logged)
        cluster = await self._reached()
        assert cluster is not None
        if self._draw(roads.lost_before):
            return NotSent("no connection") if withheld() or self._draw(0.3) else OutcomeUnknown("EOF")
        if cluster.world.active is not None and self._draw(roads.leader_dies):
            cluster.kill(cluster.world.nodes[Role.CONTROLLER, cluster.world.active])
        if self._draw(roads.quorum_lost):
            for node in cluster.world.voting():
                cluster.kill(node)

        def leaves() -> str | None:
            why = withheld()
            if why is None:
                world.record(Left(cluster.world.seconds, number, asyncio.get_running_loop().time()))
            return why

        with cluster.world.sent_by(number):
            delay = self._on_its_way(cluster.world, request, leaves, change)
            outcome = await request.send(leaves) if delay is None else OutcomeUnknown("timed out")
        if cluster.world.stands:  # an answer comes once it is committed
            outcome = OutcomeUnknown("timed out")
        if roads.reverted:
            cluster.move(change.feature, change.from_level)
        if delay is not None:  # nothing of it arrives any more once its connection was closed
            await asyncio.sleep(min(delay, DELIVERED_MS) / 1000)
        await self._back()
        return OutcomeUnknown("EOF") if self._draw(roads.lost_after) else outcome

    @contextmanager
    def _flipped(self, cluster: Cluster, change: UpdateFeature, *, when: bool) -> Iterator[None]:
        """Meanwhile the level is one from which Kafka makes no such change; afterwards it is what it was."""
        beyond = LEVELS[change.feature][-1 if change.to_level > change.from_level else 0]
        if when:
            cluster.move(change.feature, beyond)
        yield
        if when:
            cluster.move(change.feature, change.from_level)

    def _overtake(self, change: UpdateFeature) -> None:
        """Another client moves the level between the look and the request."""
        assert self._cluster is not None
        self._cluster.move(change.feature, self._random.choice(LEVELS.get(change.feature, (change.from_level,))))

    def _on_its_way(
        self, world: RecordedWorld, request: PreparedUpdate, withheld: Withheld, change: UpdateFeature
    ) -> int | None:
        """A request has left, and arrives by itself in this many ms; or it waits in the queue of the active controller
        for as long as that one leads. None: it is sent, and answered, as usual.
        """
        roads, leader = self._weather.roads, world.active_node
        late, queued = self._draw(roads.late), self._draw(roads.queued)
        if leader is None or request.via is not Via.CONTROLLER or not (late or queued or world.is_busy):
            return None
        if world.finalized(leader)[0].get(change.feature, 0) != change.from_level or withheld():
            return None
        if queued and not world.is_busy:
            world.busy_until_ms = world.now_ms + self._random.randrange(1_000, 60_000)
        kind = UpgradeType.SAFE_DOWNGRADE if change.is_downgrade else UpgradeType.UPGRADE
        delay = world.busy_until_ms - world.now_ms if world.is_busy else self._random.randrange(DELIVERED_MS)
        world.later(leader, delay, FeatureUpdate(change.feature, change.to_level, kind))
        return delay

    @property
    def _uid(self) -> str:
        return self._process.uids.get(self._name, "")

    def _draw(self, chance: float) -> bool:
        return self._random.random() < chance

    async def _reached(self) -> Cluster | None:
        await self._back()
        if self._cluster is not None:
            self._cluster.catch_up()
        return self._cluster

    async def _back(self) -> None:
        """A message on its way: time passes, and the process may die."""
        self._process.point()
        ahead = 0.0 if self._cluster is None else self._cluster.ahead
        longest = self._random.choice((5.0, 5.0, 20.0)) if self._draw(self._weather.roads.slow) else 0.02
        await asyncio.sleep(ahead + 0.01 + longest * self._random.random())
        self._process.point()
