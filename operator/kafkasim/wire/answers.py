"""What a node answers, API by API: the world's facts in the fields of Kafka's messages.

Called by `server` for each request whose key and version the node offers. It decides who answers what (a standby, the
active controller, a broker that forwards a request) and with which error; a question that must wait (a long poll, an
update until it is committed, a request kept by a broker) waits here for the world to move. It changes nothing but by
the world's own methods.

Sources: `ControllerApis.scala`, `KafkaApis.scala`, `KafkaRaftClient.java`, checked against recorded answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Protocol
from uuid import UUID

from kafkafeatures.core.facts.readings import Role
from kafkasim.log import Position
from kafkasim.node import Node
from kafkasim.registrations import LISTENER
from kafkasim.rules import CONTROLLER_REGISTRATION, FeatureUpdate, UpgradeType, java_hash_order
from kafkasim.wire import topics
from kafkasim.wire.topics import NO_OPERATIONS as _NO_OPERATIONS
from kafkasim.world import ControllerAnswer, NoActiveControllerError, World

Answer = Mapping[str, Any]

NONE = 0
UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_CLUSTER_ID = 104
MISMATCHED_ENDPOINT_TYPE = 114

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
_ENDPOINT_TYPES = {1: Role.BROKER, 2: Role.CONTROLLER}
_NOT_THE_LEADER = (
    "For requests intended only for the leader, this error indicates that the broker is not the current leader. "
    "For requests intended for any replica, this error indicates that the broker is not a replica of the topic "
    "partition."
)
_UNKNOWN_TOPIC = "This server does not host this topic-partition."


class Clock(Protocol):
    """How an answer waits: until the world has moved, or the time in ms is over."""

    async def moved(self, until_ms: int | None = None) -> None:
        """Return after the next change, or at `until_ms`."""

    def now_ms(self) -> int:
        """The world's time now."""

    def changed(self) -> None:
        """The world was changed: requests that wait, and the clock of the world, must look at it again."""


class RequestHandler:
    """The answers of one node."""

    def __init__(self, world: World, node: Node, clock: Clock) -> None:
        self._world = world
        self._node = node
        self._clock = clock
        self._chance = Random(node.id)  # noqa: S311 - not the world's: who asks must not change what happens

    async def answer(self, api_key: int, version: int, request: Any) -> Answer | None:
        """The answer, None for an API that is offered but not simulated (the connection is closed)."""
        handle = HANDLERS.get((self._node.role, api_key))
        return None if handle is None else await handle(self, version, request)

    # --- ApiVersions ---

    async def api_versions(self, version: int, request: Any) -> Answer:
        """Ranges with minimum 0 are left out below v4 (KAFKA-17492). tag 3 is never set: no migration here."""
        node = self._node
        apis = node.release.broker_apis if node.role is Role.BROKER else node.release.controller_apis
        levels, epoch = self._world.finalized(node)
        features = node.release.features
        return {
            "error_code": NONE,
            "api_keys": [
                {"api_key": key, "min_version": offered.min, "max_version": offered.max}
                for key, offered in apis.items()
            ],
            "throttle_time": 0,
            "supported_features": [
                {"name": name, "min_version": features[name].min, "max_version": features[name].max}
                for name in java_hash_order(features)
                if version >= 4 or features[name].min > 0
            ],
            "finalized_features_epoch": epoch,
            "finalized_features": [
                {"name": name, "max_version_level": levels[name], "min_version_level": levels[name]}
                for name in java_hash_order(levels)
            ],
        }

    # --- who is there ---

    async def describe_cluster(self, version: int, request: Any) -> Answer:
        """Brokers from brokers, controllers (endpoint type 2) from controllers."""
        node, world = self._node, self._world
        wanted = _ENDPOINT_TYPES.get(request.endpoint_type if version >= 1 else 1)
        if wanted is None:
            return _no_cluster(UNSUPPORTED_VERSION, f"Unsupported endpoint type {request.endpoint_type}")
        if wanted is not node.role:
            text = (
                f"The request was sent to an endpoint of type {node.role.name}, "
                f"but we wanted an endpoint of type {wanted.name}"
            )
            return _no_cluster(INVALID_REQUEST if version == 0 else MISMATCHED_ENDPOINT_TYPE, text)
        image = world.image
        if node.role is Role.CONTROLLER and image.features.get("metadata.version", 0) < CONTROLLER_REGISTRATION:
            text = "Direct-to-controller communication is not supported with the current MetadataVersion."
            return _no_cluster(UNSUPPORTED_VERSION, text)
        if node.role is Role.CONTROLLER:
            controller = -1 if world.active is None else world.active
            listed = [(c.id, c.endpoints[0], False) for _, c in sorted(image.controllers.items())]
        else:
            controller = self._some_broker()
            fenced_too = version >= 2 and request.include_fenced_brokers
            listed = [
                (b.id, b.endpoints[0], b.fenced) for _, b in sorted(image.brokers.items()) if fenced_too or not b.fenced
            ]
        return {
            "throttle_time": 0,
            "error_code": NONE,
            "error_message": None,
            "endpoint_type": 1 if node.role is Role.BROKER else 2,
            "cluster_id": world.cluster_id,
            "controller_id": controller,
            "brokers": [
                {"broker_id": node_id, "host": at.host, "port": at.port, "rack": None, "is_fenced": fenced}
                for node_id, at, fenced in listed
            ],
            "cluster_authorized_operations": _NO_OPERATIONS,
        }

    async def metadata(self, version: int, request: Any) -> Answer:
        """The live brokers, and topics."""
        image = self._world.image
        return {
            "throttle_time": 0,
            "brokers": [
                {"node_id": b.id, "host": b.endpoints[0].host, "port": b.endpoints[0].port, "rack": None}
                for _, b in sorted(image.brokers.items())
                if not b.fenced
            ],
            "cluster_id": self._world.cluster_id,
            "controller_id": self._some_broker(),
            "topics": topics.metadata_topics(self._world, request.topics),
            "cluster_authorized_operations": _NO_OPERATIONS,
            "error_code": NONE,
        }

    async def describe_topic_partitions(self, version: int, request: Any) -> Answer:
        """Partitions, in pages."""
        return topics.describe_topic_partitions(self._world, request)

    async def list_reassignments(self, version: int, request: Any) -> Answer:
        """What is being moved."""
        return topics.list_reassignments(self._world, request)

    async def describe_configs(self, version: int, request: Any) -> Answer:
        """min.insync.replicas."""
        return topics.describe_configs(self._world, self._node, request)

    async def describe_log_dirs(self, version: int, request: Any) -> Answer:
        """What is on its disks."""
        return topics.describe_log_dirs(self._world, self._node, request)

    def _some_broker(self) -> int:
        """KRaft brokers name any live broker as the controller: clients must not know the real one."""
        live = [b.id for b in self._world.image.brokers.values() if not b.fenced]
        return self._chance.choice(live) if live else -1

    # --- the quorum ---

    async def describe_quorum(self, version: int, request: Any) -> Answer:
        """From the leader, also through a broker, which waits for one; a standby says that it is none."""
        leader = await self._leader()
        partitions = [
            {"topic_name": t.topic_name, "partitions": [self._quorum(t.topic_name, p, leader) for p in t.partitions]}
            for t in request.topics
        ]
        nodes = [self._world.nodes[Role.CONTROLLER, voter] for voter in self._world.voters] if leader else []
        listener = LISTENER[Role.CONTROLLER]
        return {
            "error_code": NONE,
            "error_message": "",
            "topics": partitions,
            "nodes": [
                {"node_id": n.id, "listeners": [{"name": listener, "host": n.host, "port": n.port}]} for n in nodes
            ],
        }

    async def _leader(self) -> Node | None:
        """The active controller as far as this node may speak for it."""
        if self._node.role is Role.CONTROLLER:
            return self._node if self._world.active_node is self._node else None
        while self._world.active_node is None:
            await self._clock.moved()
        return self._world.active_node

    def _quorum(self, topic: str, partition: Any, leader: Node | None) -> Answer:
        empty = {
            "partition_index": partition.partition_index,
            "leader_id": 0,
            "leader_epoch": 0,
            "high_watermark": 0,
            "current_voters": [],
            "observers": [],
        }
        if topic != METADATA_TOPIC or partition.partition_index != 0:
            return empty | {"error_code": UNKNOWN_TOPIC_OR_PARTITION, "error_message": _UNKNOWN_TOPIC}
        if leader is None:
            return empty | {"error_code": NOT_LEADER_OR_FOLLOWER, "error_message": _NOT_THE_LEADER}
        world = self._world
        voters = [world.nodes[Role.CONTROLLER, voter] for voter in world.voters]
        everybody = (*world.of_role(Role.BROKER), *world.of_role(Role.CONTROLLER))
        observers = [n for n in everybody if n.running and n.id not in world.voters]
        dynamic = world.image.voters is not None
        return empty | {
            "error_code": NONE,
            "error_message": "",
            "leader_id": leader.id,
            "leader_epoch": world.epoch,
            "high_watermark": world.log.high_watermark,
            "current_voters": [self._replica(n, n.directory if dynamic else None) for n in voters],
            "observers": [self._replica(n, n.directory) for n in observers],
        }

    def _replica(self, node: Node, directory: UUID | None) -> Answer:
        end, fetched, caught_up = self._world.progress(node)
        return {
            "replica_id": node.id,
            "replica_directory_id": directory,
            "log_end_offset": end,
            "last_fetch_timestamp": fetched,
            "last_caught_up_timestamp": caught_up,
        }

    # --- changes ---

    async def update_features(self, version: int, request: Any) -> Answer:
        """v0 has neither a type nor validateOnly on KRaft; v2 has no results."""
        updates = [
            FeatureUpdate(u.feature, u.max_version_level, UpgradeType.of(u.upgrade_type if version >= 1 else 1))
            for u in request.feature_updates
        ]
        validate_only = version >= 1 and request.validate_only
        outcome = await self._settled(
            lambda: self._world.update_features(self._node, updates, validate_only=validate_only)
        )
        results = [
            {"feature": r.feature, "error_code": r.error_code, "error_message": r.error_message}
            for r in outcome.verdict.results
        ]
        return _verdict(outcome) | {"results": results}

    async def unregister_broker(self, version: int, request: Any) -> Answer:
        """Unregister a broker, such as a ghost."""
        return _verdict(await self._settled(lambda: self._world.unregister_broker(self._node, request.broker_id)))

    async def unregister_controller(self, version: int, request: Any) -> Answer:
        """Unregister a controller. `broker_id` is its id: kio has no such request; the layout is that for brokers."""
        return _verdict(await self._settled(lambda: self._world.unregister_controller(self._node, request.broker_id)))

    async def _settled(self, act: Callable[[], ControllerAnswer]) -> ControllerAnswer:
        """The outcome, once it is committed. A broker keeps the request while no controller is active."""
        while True:
            try:
                outcome = act()
                self._clock.changed()
                break
            except NoActiveControllerError:
                await self._clock.moved()
        while self._world.log.high_watermark < outcome.offset:
            await self._clock.moved()
        return outcome

    # --- the metadata log ---

    async def fetch(self, version: int, request: Any) -> Answer:
        """Fetch v13 and later: topics by id. Only the metadata topic exists, and only controllers have it."""
        if not self._world.grants_cluster_action:
            return {"throttle_time": 0, "error_code": CLUSTER_AUTHORIZATION_FAILED, "responses": []}
        if request.cluster_id is not None and request.cluster_id != self._world.cluster_id:
            return {"throttle_time": 0, "error_code": INCONSISTENT_CLUSTER_ID, "responses": []}
        responses, known = [], False
        for topic in request.topics:
            is_log = topic.topic_id == METADATA_TOPIC_ID and self._node.role is Role.CONTROLLER
            known = known or is_log
            partitions = [
                await self._fetched(p, request) if is_log else _unknown_topic(p.partition) for p in topic.partitions
            ]
            responses.append({"topic_id": topic.topic_id, "partitions": partitions})
        leader = self._world.active_node
        endpoints = [{"node_id": leader.id, "host": leader.host, "port": leader.port}] if known and leader else []
        return {"throttle_time": 0, "error_code": NONE, "responses": responses, "node_endpoints": endpoints}

    async def _fetched(self, partition: Any, request: Any) -> Answer:
        world, log = self._world, self._world.log
        wait_ms = int(request.max_wait.total_seconds() * 1000)
        if error := self._fetch_error(partition, wait_ms):
            return self._partition(partition, error_code=error, high_watermark=-1)
        offset, epoch = partition.fetch_offset, partition.last_fetched_epoch
        found = Position(offset, epoch)
        if log.snapshot is not None and found == Position(0, 0):
            at = {"end_offset": log.snapshot.id.offset, "epoch": log.snapshot.id.epoch}
            return self._partition(partition, snapshot_id=at)
        if (parting := log.diverging(offset, epoch)) is not None:
            at = {"end_offset": parting.offset, "epoch": parting.epoch}
            return self._partition(partition, diverging_epoch=at)
        deadline, high_watermark = self._clock.now_ms() + wait_ms, log.high_watermark
        while (
            request.min_bytes > 0
            and log.end_offset <= offset
            and log.high_watermark == high_watermark
            and self._clock.now_ms() < deadline
        ):
            await self._clock.moved(deadline)
            if world.active_node is not self._node:
                return self._partition(partition, error_code=NOT_LEADER_OR_FOLLOWER, high_watermark=-1)
        size = min(request.max_bytes, partition.partition_max_bytes)
        return self._partition(partition, records=log.read(offset, max_bytes=size))

    def _fetch_error(self, partition: Any, wait_ms: int) -> int:
        given = (partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch, wait_ms)
        if min(given) < 0:
            return INVALID_REQUEST
        return self._leader_error(partition.current_leader_epoch)

    def _leader_error(self, epoch: int) -> int:
        if epoch < self._world.epoch:
            return FENCED_LEADER_EPOCH
        if epoch > self._world.epoch:
            return UNKNOWN_LEADER_EPOCH
        return NONE if self._world.active_node is self._node else NOT_LEADER_OR_FOLLOWER

    def _partition(self, partition: Any, **facts: Any) -> Answer:
        return {
            "partition_index": partition.partition,
            "error_code": NONE,
            "high_watermark": self._world.log.high_watermark,
            "log_start_offset": 0,
            "current_leader": self._leader_and_epoch(),
            "aborted_transactions": [],
            "records": b"",
        } | facts

    def _leader_and_epoch(self) -> Answer:
        active = self._world.active
        return {"leader_id": -1 if active is None else active, "leader_epoch": self._world.epoch}

    async def fetch_snapshot(self, version: int, request: Any) -> Answer:
        """The checkpoint in parts. Another id than that of the checkpoint gives -1 for the whole, as observed."""
        if request.cluster_id is not None and request.cluster_id != self._world.cluster_id:
            return {"throttle_time": 0, "error_code": INCONSISTENT_CLUSTER_ID, "topics": []}
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                found = self._snapshot_part(topic.name, partition, request.max_bytes)
                if found is None:
                    return {"throttle_time": 0, "error_code": UNKNOWN_SERVER_ERROR, "topics": []}
                partitions.append(found)
            topics.append({"name": topic.name, "partitions": partitions})
        leader = self._world.active_node
        endpoints = [{"node_id": leader.id, "host": leader.host, "port": leader.port}] if leader else []
        return {"throttle_time": 0, "error_code": NONE, "topics": topics, "node_endpoints": endpoints}

    def _snapshot_part(self, topic: str, partition: Any, max_bytes: int) -> Answer | None:
        wanted = partition.snapshot_id
        part = {
            "index": partition.partition,
            "error_code": NONE,
            "snapshot_id": {"end_offset": wanted.end_offset, "epoch": wanted.epoch},
            "current_leader": self._leader_and_epoch(),
            "size": 0,
            "position": 0,
            "unaligned_records": b"",
        }
        if topic != METADATA_TOPIC or partition.partition != 0:
            return part | {"error_code": UNKNOWN_TOPIC_OR_PARTITION}
        if error := self._leader_error(partition.current_leader_epoch):
            return part | {"error_code": error}
        snapshot = self._world.log.snapshot
        if snapshot is None or snapshot.id != Position(wanted.end_offset, wanted.epoch):
            return None
        data = snapshot.data[partition.position : partition.position + max_bytes]
        return part | {"size": len(snapshot.data), "position": partition.position, "unaligned_records": data}


def _no_cluster(code: int, text: str) -> Answer:
    return {
        "throttle_time": 0,
        "error_code": code,
        "error_message": text,
        "endpoint_type": 1,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": [],
        "cluster_authorized_operations": _NO_OPERATIONS,
    }


def _verdict(outcome: ControllerAnswer) -> dict[str, Any]:
    verdict = outcome.verdict
    return {"throttle_time": 0, "error_code": verdict.error_code, "error_message": verdict.error_message}


def _unknown_topic(index: int) -> Answer:
    return {
        "partition_index": index,
        "error_code": UNKNOWN_TOPIC_ID,
        "high_watermark": -1,
        "log_start_offset": -1,
        "aborted_transactions": [],
        "records": b"",
    }


Handle = Callable[[RequestHandler, int, Any], Awaitable[Answer]]
HANDLERS: Mapping[tuple[Role, int], Handle] = {
    (Role.BROKER, 1): RequestHandler.fetch,
    (Role.BROKER, 3): RequestHandler.metadata,
    (Role.BROKER, 18): RequestHandler.api_versions,
    (Role.BROKER, 32): RequestHandler.describe_configs,
    (Role.BROKER, 35): RequestHandler.describe_log_dirs,
    (Role.BROKER, 46): RequestHandler.list_reassignments,
    (Role.BROKER, 55): RequestHandler.describe_quorum,
    (Role.BROKER, 57): RequestHandler.update_features,
    (Role.BROKER, 60): RequestHandler.describe_cluster,
    (Role.BROKER, 64): RequestHandler.unregister_broker,
    (Role.BROKER, 75): RequestHandler.describe_topic_partitions,
    (Role.BROKER, 94): RequestHandler.unregister_controller,
    (Role.CONTROLLER, 1): RequestHandler.fetch,
    (Role.CONTROLLER, 18): RequestHandler.api_versions,
    (Role.CONTROLLER, 32): RequestHandler.describe_configs,
    (Role.CONTROLLER, 55): RequestHandler.describe_quorum,
    (Role.CONTROLLER, 57): RequestHandler.update_features,
    (Role.CONTROLLER, 59): RequestHandler.fetch_snapshot,
    (Role.CONTROLLER, 60): RequestHandler.describe_cluster,
    (Role.CONTROLLER, 64): RequestHandler.unregister_broker,
    (Role.CONTROLLER, 94): RequestHandler.unregister_controller,
}
SIMULATED_FROM = {1: 13, 3: 9, 59: 1}  # lowest version that is simulated, where it is not 0
