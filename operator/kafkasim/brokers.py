"""Lifecycle of the brokers of a world: registration, session, controlled shutdown, kill, restart, and return to the
ISRs.

Called by `world`, whose time and log it uses. It decides when the active controller writes which records about a
broker; `registrations` and `replicas` make the records. A broker without partitions is unfenced as soon as it is
registered, and ends as soon as it is stopped.

Source: `BrokerHeartbeatManager`, `ClusterControlManager`, `ReplicationControlManager` and `BrokerLifecycleManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Protocol
from uuid import UUID

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.readings import Role
from kafkasim import registrations, replicas
from kafkasim.log import MetadataLog, Write
from kafkasim.node import Key, Node
from kafkasim.plan import Timing
from kafkasim.replicas import TopicPartition
from kraftlog import Image
from kraftlog.schema import table

SESSION_MS = 9_000  # broker.session.timeout.ms
RETRY_MS = 2_000  # a refused broker tries again; so does a heartbeat (broker.heartbeat.interval.ms)
SHUTDOWN_LIMIT_MS = 300_000  # a broker tries a controlled shutdown for this long, then ends without


class Cluster(Protocol):
    """The part of a world that brokers need."""

    now_ms: int
    random: Random
    timing: Timing
    active: int | None
    log: MetadataLog
    nodes: Mapping[Key, Node]

    @property
    def leader_image(self) -> Image: ...

    @property
    def metadata_version(self) -> int: ...

    def partitions(self) -> list[TopicPartition]: ...

    def finish_moves(self) -> None: ...

    def append(self, writes: Sequence[Write], *, commit: bool = False) -> None: ...

    def after(self, delay_ms: int, action: Callable[[], None]) -> None: ...


class Brokers:
    """Brokers of one world: their registrations, sessions, controlled shutdowns, fencing."""

    def __init__(self, world: Cluster) -> None:
        self._world = world

    # --- what is there ---

    def hosted(self, broker_id: int) -> list[TopicPartition]:
        """The partitions with a replica on this broker, by the log with its uncommitted end."""
        return [each for each in self._world.partitions() if broker_id in each.state.replicas]

    def alive(self) -> set[int]:
        """Brokers that may lead and be in sync: registered, unfenced, not in controlled shutdown."""
        brokers = self._world.leader_image.brokers
        return {each.id for each in brokers.values() if not each.fenced and not each.in_controlled_shutdown}

    # --- registration ---

    def register(self, node: Node, *, commit: bool = False) -> None:
        """Register a broker (`ClusterControlManager.registerBroker`): every finalized level must be in its range.
        `commit`: it is part of the history before the world begins, and committed at once.
        """
        world = self._world
        if not node.running and not commit:
            return  # it has ended meanwhile; in the history, also ghosts register
        if world.active is None:
            world.after(RETRY_MS, lambda: self.register(node))
            return
        image = world.leader_image
        node.refused = any(
            level not in registrations.supported(node, feature) for feature, level in image.features.items()
        )
        registered = image.brokers.get(node.id)
        if registered is not None and registered.incarnation == node.incarnation:
            return  # an earlier try got through
        # A session that has not ended yet prevents it too (DUPLICATE_BROKER_REGISTRATION).
        duplicate = registered is not None and not registered.fenced and registered.incarnation != node.incarnation
        if node.refused or duplicate:
            world.after(RETRY_MS, lambda: self.register(node))
            return
        node.has_joined = True
        record = registrations.broker(node, world.log.end_offset, image.features[METADATA_VERSION])
        world.append([record], commit=commit)
        timing = world.timing
        load = (timing.load + (timing.recovery if node.unclean else 0)) if self.hosted(node.id) else 0
        if load:
            world.after(load, partial(self._unfence, node, node.incarnation))
        else:
            self._unfence(node, node.incarnation, commit=commit)

    def unregister(self, node_id: int) -> None:
        """Remove the registration of a broker, and with it its place in every ISR."""
        world = self._world
        registration = world.leader_image.brokers[node_id]
        self._append(
            [
                *replicas.without(self.hosted(node_id), node_id, self.alive() - {node_id}, world.metadata_version),
                Write(table.UNREGISTER_BROKER, {"brokerId": node_id, "brokerEpoch": registration.epoch}),
            ]
        )
        node = world.nodes.get((Role.BROKER, node_id))
        if node is not None and node.running:  # its next heartbeat is refused, and it registers again
            world.after(RETRY_MS, lambda: self.register(node))

    # --- the end of a process ---

    def stop(self, node: Node) -> None:
        """Begin a controlled shutdown: the broker leaves every ISR, and its leaders move; then it is fenced, and its
        process ends.
        """
        world = self._world
        if not self.hosted(node.id):
            node.running = False
            self._change(node, node.incarnation, {"inControlledShutdown": 1}, version=1)
            self.fence(node, node.incarnation)
            return
        node.stopping = True
        self._leave(node, node.incarnation, until_ms=world.now_ms + SHUTDOWN_LIMIT_MS)

    def kill(self, node: Node) -> None:
        """End its process without a controlled shutdown: its session ends later, and its logs are not closed."""
        node.running = node.stopping = False
        node.unclean = True
        self._world.after(SESSION_MS, partial(self.fence, node, node.incarnation))

    def _leave(self, node: Node, incarnation: UUID, *, until_ms: int) -> None:
        """Have the controller move everything away from a broker in controlled shutdown; it waits for a controller
        until `until_ms`.
        """
        world = self._world
        if not self._lives(node, incarnation):
            return
        registered = world.leader_image.brokers.get(node.id)
        # It is not registered, so it leads nothing; or no controller was active in time.
        if registered is None or registered.incarnation != incarnation or world.now_ms >= until_ms:
            self._end(node, incarnation)
            return
        if world.active is None:
            world.after(RETRY_MS, partial(self._leave, node, incarnation, until_ms=until_ms))
            return
        data = {"brokerId": node.id, "brokerEpoch": registered.epoch, "inControlledShutdown": 1}
        leaving = replicas.without(self.hosted(node.id), node.id, self.alive() - {node.id}, world.metadata_version)
        self._append([Write(table.BROKER_REGISTRATION_CHANGE, data, 1), *leaving])
        timing = world.timing
        # The controller confirms the shutdown in the response to a heartbeat, and fences the broker.
        world.after(timing.fenced, partial(self.fence, node, incarnation))
        world.after(timing.shutdown, partial(self._end, node, incarnation))

    def _end(self, node: Node, incarnation: UUID) -> None:
        if self._lives(node, incarnation):
            node.running = node.stopping = False
            self._world.after(SESSION_MS, partial(self.fence, node, incarnation))

    def fence(self, node: Node, incarnation: UUID, *, commit: bool = False) -> None:
        """Fence a broker whose session has expired, or that shuts down: it leaves every ISR that it is still in."""
        world = self._world
        registered = world.leader_image.brokers.get(node.id)
        if registered is None or registered.incarnation != incarnation or registered.fenced:
            return
        if world.active is None:
            world.after(RETRY_MS, partial(self.fence, node, incarnation))
            return
        leaving = replicas.without(self.hosted(node.id), node.id, self.alive() - {node.id}, world.metadata_version)
        data = {"brokerId": node.id, "brokerEpoch": registered.epoch, "fenced": 1}
        self._append([*leaving, Write(table.BROKER_REGISTRATION_CHANGE, data)], commit=commit)

    # --- the return of a broker ---

    def _unfence(self, node: Node, incarnation: UUID, *, commit: bool = False) -> None:
        """Unfence a broker whose logs are loaded: partitions get leaders again, and replicas begin to catch up."""
        world = self._world
        if not commit and not self._lives(node, incarnation):
            return
        if world.active is None:
            world.after(RETRY_MS, partial(self._unfence, node, incarnation))
            return
        registered = world.leader_image.brokers.get(node.id)
        if registered is None or registered.incarnation != incarnation:
            return
        node.unclean = False
        hosted = self.hosted(node.id)
        data = {"brokerId": node.id, "brokerEpoch": registered.epoch, "fenced": -1}  # -1: it is unfenced
        leading = replicas.with_leaders(hosted, node.id, world.metadata_version)
        self._append([Write(table.BROKER_REGISTRATION_CHANGE, data), *leading], commit=commit)
        if hosted:
            self.catch_up(node)

    def catch_up(self, node: Node) -> None:
        """Let replicas of a broker that are not in sync catch up; each leader takes a time of its own."""
        by_leader: dict[int, set[tuple[str, int]]] = {}
        for partition in self.hosted(node.id):
            if node.id not in partition.state.in_sync:
                by_leader.setdefault(partition.state.leader, set()).add((partition.topic, partition.number))
        world = self._world
        for leader in sorted(by_leader):
            delay = world.random.randint(*world.timing.catch_up)
            world.after(delay, partial(self._caught_up, node, node.incarnation, by_leader[leader]))

    def _caught_up(self, node: Node, incarnation: UUID, names_due: set[tuple[str, int]]) -> None:
        """Add a broker to the ISRs of these partitions (topic and number), which had time to catch up; again later to
        those without a live leader.
        """
        world, alive = self._world, self.alive()
        registered = world.leader_image.brokers.get(node.id)
        if not self._lives(node, incarnation) or node.stopping:
            return
        if registered is None or registered.incarnation != incarnation:
            return
        out_of_sync = [
            each
            for each in self.hosted(node.id)
            if (each.topic, each.number) in names_due and node.id not in each.state.in_sync
        ]
        ready = [each for each in out_of_sync if each.state.leader in alive and node.id in alive]
        if world.active is None or len(ready) < len(out_of_sync):  # again with the next leader
            waiting = out_of_sync if world.active is None else [each for each in out_of_sync if each not in ready]
            names = {(each.topic, each.number) for each in waiting}
            world.after(RETRY_MS, partial(self._caught_up, node, incarnation, names))
        if ready and world.active is not None:
            self._append(replicas.in_sync(ready, node.id, world.metadata_version))
            world.finish_moves()

    # --- shared steps ---

    def _lives(self, node: Node, incarnation: UUID) -> bool:
        """Tell whether this process of the broker still runs."""
        return node.running and node.incarnation == incarnation

    def _change(self, node: Node, incarnation: UUID, change: dict[str, int], *, version: int = 0) -> None:
        """Write a change of the registration of this process, once a controller is active."""
        world = self._world
        registered = world.leader_image.brokers.get(node.id)
        if registered is None or registered.incarnation != incarnation:
            return
        if world.active is None:
            world.after(RETRY_MS, lambda: self._change(node, incarnation, change, version=version))
            return
        data = {"brokerId": node.id, "brokerEpoch": registered.epoch, **change}
        self._append([Write(table.BROKER_REGISTRATION_CHANGE, data, version)])

    def _append(self, writes: Sequence[Write], *, commit: bool = False) -> None:
        self._world.append(writes, commit=commit)
