"""Simulated Kafka clusters as the operator's processes reach them: late, in part, by a detour, or not at all.

The worlds are kafkasim's (`recorded_world.py`). A process gets raw readings of them, which production's own observer
judges, and its requests go the way that production's router names. What goes wrong on the way is drawn by the
simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import (
    Failure,
    FailureKind,
    LogReading,
    NodeAnswer,
    ProbedNode,
    Readings,
    Role,
)
from kafkafeatures.core.facts.workloads import WorkloadsReading
from kafkasim.connection import Access
from kafkasim.node import Node
from kafkasim.ports import SimulatedCluster
from kafkasim.releases import KRAFT_VERSION, Release
from kafkasim.rules import FeatureUpdate, UpgradeType
from kraftlog import Registrations
from tests.reliability.recorded_world import START_MS, RecordedWorld
from tests.reliability.records import Looked, Nodes

LEVELS: Mapping[str, tuple[int, ...]] = {
    "metadata.version": (21, 22, 24, 25, 26, 27, 28, 29),
    "group.version": (0, 1),
    "transaction.version": (0, 1, 2),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""The features and levels that histories ask for, and that other clients set."""
LAGS_FOR_MS = 15_000
"""A node that follows the log slowly is so far behind; the first broker may be cut off from it for ever."""
OPEN_MIGRATION = (1, 2)
"""ZkMigrationState, as of Kafka 3.5."""


@dataclass
class Roads:
    """How likely a request fails, and how: drawn anew for each history, all nothing once it calms down.

    `no_log`: chance that a client may not read the metadata log; `by_broker`: that it reaches no controller;
    `mute_leader`: that the active controller does not say what it supports, so that requests go through a broker;
    `leader_dies`: as a change arrives; `quorum_lost`: all controllers do; `overtaken`: another client moves the level
    then. `lagging`: that a node that does not lead still says what was so before a level moved last; `log_behind`: that
    the log was read up to some seconds before the nodes were asked. `late`: that a request which has left is on its way
    for seconds, whatever becomes of its sender; `queued`: that the controller has it in a queue that does not continue;
    `twice`: that a broker which kept it forwards it once more.

    Not drawn: `eviction_lost`: no eviction arrives; `reverted`: another client moves a level back as soon as it was
    moved; `flipped`: the level is another one while a dry run is judged; `unread`: a dry run is rejected before it
    comes into the queue of the controller.
    """

    lost_before: float = 0.0
    lost_after: float = 0.0
    no_log: float = 0.0
    by_broker: float = 0.0
    leader_dies: float = 0.0
    quorum_lost: float = 0.0
    slow: float = 0.0
    mute_leader: float = 0.0
    overtaken: float = 0.0
    lagging: float = 0.0
    log_behind: float = 0.0
    late: float = 0.0
    queued: float = 0.0
    twice: float = 0.0
    eviction_lost: bool = False
    reverted: bool = False
    flipped: bool = False
    unread: bool = False


class LaggingClient(SimulatedCluster):
    """One whose nodes may be silent, or behind: the active controller does not say what it supports while the metadata
    log is read from it; a node that hangs says nothing; another one has not heard of the last level yet.
    """

    def __init__(self, world: RecordedWorld, access: Access, roads: Roads, random: Random) -> None:
        super().__init__(world, access)
        self._recorded, self._roads, self._random = world, roads, random
        self.said: dict[int, dict[str, int]] = {}
        """The nodes' levels in the last reading in which they did not know of the last change."""
        self.agreed: Mapping[str, int] | None = None
        """The levels that all nodes reported alike in the last reading; None where log or leader showed them."""

    async def read(self, **demands: Any) -> Readings:
        log = None
        if self._random.random() < self._roads.log_behind:
            log = (await super().read(**demands)).log
            self._pass_time(int(1_000 * self._random.random()))
        readings = await super().read(**demands)
        changed = {one.id: found for one in readings.probe.nodes if (found := self._said_by(one)) is not None}
        self.said = {}
        if changed:
            away = self._recorded.away()
            lagging = {id_: one.finalized for id_, one in changed.items() if isinstance(one, NodeAnswer)}
            self.said = {id_: dict(levels) for id_, levels in lagging.items() if id_ is not None and id_ not in away}
            nodes = tuple(replace(one, answer=changed.get(one.id, one.answer)) for one in readings.probe.nodes)
            self._last = replace(readings.probe, nodes=nodes)
            readings = readings._replace(probe=self._last)
        readings = readings if log is None else readings._replace(log=log)
        self.agreed = self._agreed_in(readings)
        return readings

    def _agreed_in(self, readings: Readings) -> Mapping[str, int] | None:
        """The levels that all nodes report alike; None where the log was read, or the active controller answered."""
        answers = {
            (one.role, one.id): one.answer.finalized
            for one in readings.probe.nodes
            if isinstance(one.answer, NodeAnswer) and one.answer.finalized_epoch >= 0
        }
        if isinstance(readings.log, LogReading) or (Role.CONTROLLER, self.world.active) in answers:
            return None
        first = next(iter(answers.values()), None)
        return first if first is not None and all(one == first for one in answers.values()) else None

    def _said_by(self, one: ProbedNode) -> NodeAnswer | Failure | None:
        """None: what it is."""
        leads = (one.role, one.id) == (Role.CONTROLLER, self.world.active)
        if one.id in self._recorded.hung or (leads and self._random.random() < self._roads.mute_leader):
            return Failure(FailureKind.TIMED_OUT, one.role.value.lower(), "no answer in time")
        before = self._recorded.levels_before
        if leads or before is None or not isinstance(one.answer, NodeAnswer):
            return None
        if not self._access.reaches_controllers:  # what only brokers say is believed
            return None
        is_cut_off = one.id == min(self._recorded.image.brokers, default=-1)
        if not is_cut_off and self.world.now_ms - self._recorded.moved_ms > LAGS_FOR_MS:
            return None
        if self._random.random() >= self._roads.lagging:
            return None
        return replace(one.answer, finalized=before)


class Pods(Protocol):
    """The pods that a cluster runs in."""

    by_hand: bool
    """True: a person restarts the nodes."""

    @property
    def workload(self) -> dict[str, Any]:
        """The workload as it stands in a document."""

    def nodes(self) -> Nodes:
        """The true state of the nodes."""

    def reading(self) -> WorkloadsReading:
        """The reading of the nodes, as a driver makes it."""

    def evict(self, name: str, uid: str = "") -> bool:
        """False where a budget does not allow it."""

    def kill_node(self, node_id: int) -> None:
        """The container that runs it dies."""


@dataclass
class Cluster:
    """One world, as old as everything else."""

    name: str
    world: RecordedWorld
    seconds: Callable[[], float]
    pods: Pods | None = None
    _ranges: tuple[Registrations | None, list[Release], dict[str, tuple[int, int]]] | None = None

    @property
    def ahead(self) -> float:
        """Seconds that a reading took which waited for an answer."""
        return max(self.world.seconds - self.seconds(), 0.0)

    def catch_up(self) -> None:
        """Let happen what is due."""
        self.world.advance(START_MS + int(self.seconds() * 1000), sparse=True)

    def kill(self, node: Node) -> None:
        """Kill the process of a node, started again within minutes; in a pod its container, which the kubelet starts
        again.
        """
        if self.pods is None:
            self.world.stop(node.role, node.id, kill=True)
            self.world.after(self.world.random.randrange(200_000), lambda: self.world.start_again(node.role, node.id))
        else:
            self.pods.kill_node(node.id)

    def client(self, roads: Roads, random: Random) -> LaggingClient:
        """The client of one connection, with the nodes that it reaches."""
        detour = random.random() < roads.by_broker
        access = Access(controllers=not detour, reaches_controllers=not detour)
        return LaggingClient(self.world, access, roads, random)

    def move(self, feature: str, level: int) -> None:
        """A change by another client, at the active controller."""
        leader = self.world.active_node
        if leader is not None and not self.world.is_busy:
            down = level < self.world.levels.get(feature, 0)
            update = FeatureUpdate(feature, level, UpgradeType.SAFE_DOWNGRADE if down else UpgradeType.UPGRADE)
            with self.world.sent_by(None):
                self.world.update_features(leader, [update], validate_only=False)

    def looked(self, process: str, uid: str) -> Looked:
        """The true state now, as a record of the history."""
        world = self.world
        running = [one for one in world.voters if world.nodes[Role.CONTROLLER, one].running]
        return Looked(
            at=world.seconds,
            process=process,
            uid=uid,
            cluster_id=world.cluster_id,
            levels={**world.image.features, KRAFT_VERSION: world.image.kraft_version},
            quorum=world.active is not None and len(running) * 2 > len(world.voters),
            ranges=self.ranges(),
            nodes=None if self.pods is None else self.pods.nodes(),
            migrating=world.image.zk_migration_state in OPEN_MIGRATION,
            end=world.log.high_watermark,
            epoch=world.image.epoch,
        )

    def ranges(self) -> dict[str, tuple[int, int]]:
        """What every node that counts supports: the highest minimum, the lowest maximum.

        For a voter that is down, what it registered with, if anything: on which image it will be started is not known.
        """
        image = self.world.image
        voters = {voter: self.world.nodes[Role.CONTROLLER, voter] for voter in self.world.voters}
        releases = [node.release for voter, node in voters.items() if node.running or voter not in image.controllers]
        if self._ranges is not None and self._ranges[0] is image.registrations and self._ranges[1] == releases:
            return self._ranges[2]
        supported: list[Mapping[str, tuple[int, int]]] = [
            *(one.features for one in image.brokers.values()),
            *(one.features for one in image.controllers.values()),
            *({name: (each.min, each.max) for name, each in one.features.items()} for one in releases),
        ]
        found = {}
        for name in sorted({name for one in supported for name in one}):
            pairs = [one.get(name, (0, 0)) for one in supported]
            found[name] = (max(low for low, _ in pairs), min(high for _, high in pairs))
        self._ranges = image.registrations, releases, found
        return found
