"""Responses of a simulated node to each request, as messages of `kafkafeatures.kafka.wire`.

`kafkasim.connection` passes the responses on as objects, `kafkasim.wire` encodes them. It decides how a standby, the
active controller, or a broker that forwards a request responds, and with which error. A request that must wait (a long
poll, an update until it is committed, a request that a broker keeps) waits here for the world to change.

Sources: `ControllerApis.scala`, `KafkaApis.scala`, `KafkaRaftClient.java`, checked against recorded answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import isawaitable
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Host, Role
from kafkafeatures.kafka.wire import messages as m
from kafkafeatures.kafka.wire import topic_messages as t
from kafkafeatures.kafka.wire.logger_codec import IncrementalAlterConfigsRequest
from kafkafeatures.kafka.wire.unregister_codec import (
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UnregisterResponse,
)
from kafkasim.answers import log, topics
from kafkasim.answers.log import Clock
from kafkasim.node import Node
from kafkasim.rules import CONTROLLER_REGISTRATION, NOT_CONTROLLER, FeatureUpdate, UpgradeType, Verdict, java_hash_order
from kafkasim.world import ControllerAnswer, NoActiveControllerError, World
from kraftlog import BrokerRegistration, ControllerRegistration

R = TypeVar("R")

NONE = 0
NOT_LEADER_OR_FOLLOWER = 6
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
MISMATCHED_ENDPOINT_TYPE = 114
REBOOTSTRAP_REQUIRED = 129

NOT_IN_ZOOKEEPER_MODE = (55, 64, 74, 75, 80, 81)
"""APIs that a broker of Kafka 3.9 offers in KRaft mode only."""

_ENDPOINT_TYPES = {1: Role.BROKER, 2: Role.CONTROLLER}
_NOT_THE_LEADER = (
    "For requests intended only for the leader, this error indicates that the broker is not the current leader. "
    "For requests intended for any replica, this error indicates that the broker is not a replica of the topic "
    "partition."
)


class NodeAnswers:
    """The answers of one node to one client. `follows`: the client has the right CLUSTER_ACTION."""

    def __init__(self, world: World, node: Node, clock: Clock, *, follows: bool = True) -> None:
        self.world, self.node, self.clock, self._follows = world, node, clock, follows

    @cached_property
    def _chance(self) -> Random:
        return Random(self.node.id)  # noqa: S311 - not the world's own: requests must not change what happens there

    @property
    def apis(self) -> Mapping[int, VersionRange]:
        """The APIs that the node offers, with their versions."""
        release = self.node.release
        if self.node.role is Role.CONTROLLER:
            return release.controller_apis
        if not self._in_zookeeper_mode:
            return release.broker_apis
        return {key: versions for key, versions in release.broker_apis.items() if key not in NOT_IN_ZOOKEEPER_MODE}

    @property
    def _in_zookeeper_mode(self) -> bool:
        return self.node.in_zookeeper_mode or self.world.elected is not None

    async def answer(self, request: m.Request[R], version: int) -> R | None:
        """The answer to a request in an offered version; None for an API that is offered but not simulated."""
        handle = HANDLERS.get((self.node.role, request.api_key))
        answer = None if handle is None else handle(self, request, version)
        return await answer if isawaitable(answer) else answer

    # --- ApiVersions ---

    def named_api_versions(self, request: m.ApiVersionsRequest, version: int) -> m.ApiVersionsResponse:
        """The ApiVersions of this node; an error if the request is meant for another node, which only brokers check
        (`ControllerApis`).
        """
        if version < request.names_node_from:
            return self.own_api_versions(version)
        cluster_id, node_id = request.cluster_id, request.node_id
        if (cluster_id is None) != (node_id == -1):
            return m.ApiVersionsResponse(INVALID_REQUEST, {}, version=version)
        is_own = cluster_id is None or (cluster_id, node_id) == (self.world.cluster_id, self.node.id)
        if self.node.role is Role.BROKER and not is_own:
            return m.ApiVersionsResponse(REBOOTSTRAP_REQUIRED, {}, version=version)
        return self.own_api_versions(version)

    def own_api_versions(self, version: int) -> m.ApiVersionsResponse:
        """The ApiVersions of this node: its APIs, supported ranges and finalized levels. Ranges with minimum 0 are left
        out below v4 (KAFKA-17492), and all features in ZooKeeper mode.
        """
        levels, epoch = self.world.finalized(self.node)
        features = self.node.release.features
        if self.node.in_zookeeper_mode:
            levels, epoch, features = {}, 0, {}
        return m.ApiVersionsResponse(
            error_code=NONE,
            api_keys=self.apis,
            supported_features={
                name: features[name] for name in java_hash_order(features) if version >= 4 or features[name].min > 0
            },
            finalized_features_epoch=epoch,
            finalized_features={name: levels[name] for name in java_hash_order(levels)},
            version=version,
            zk_migration_ready=self.node.migrating and self.node.file is not None,
        )

    # --- who is there ---

    def describe_cluster(self, request: m.DescribeClusterRequest, version: int) -> m.DescribeClusterResponse:
        """The response to DescribeCluster: a broker lists brokers, a controller (endpoint type 2) controllers."""
        node, world = self.node, self.world
        endpoint_role = _ENDPOINT_TYPES.get(request.endpoint_type if version >= 1 else 1)
        if endpoint_role is None:
            return _no_cluster(UNSUPPORTED_VERSION, f"Unsupported endpoint type {request.endpoint_type}", version)
        if endpoint_role is not node.role:
            text = (
                f"The request was sent to an endpoint of type {node.role.name}, "
                f"but we wanted an endpoint of type {endpoint_role.name}"
            )
            return _no_cluster(INVALID_REQUEST if version == 0 else MISMATCHED_ENDPOINT_TYPE, text, version)
        image = world.image
        if node.role is Role.CONTROLLER and image.features.get(METADATA_VERSION, 0) < CONTROLLER_REGISTRATION:
            text = "Direct-to-controller communication is not supported with the current MetadataVersion."
            return _no_cluster(UNSUPPORTED_VERSION, text, version)
        if node.role is Role.CONTROLLER:
            controller = -1 if world.active is None else world.active
            listed = tuple(_host(registration) for _, registration in sorted(image.controllers.items()))
        else:
            controller = self._some_broker()
            fenced_too = version >= 2 and request.include_fenced_brokers
            listed = tuple(
                _host(registration)
                for _, registration in sorted(image.brokers.items())
                if fenced_too or not registration.fenced
            )
        endpoint = 1 if node.role is Role.BROKER else 2
        may = topics.cluster_operations(world) if request.authorized_operations else None
        return m.DescribeClusterResponse(NONE, None, endpoint, world.cluster_id, controller, listed, version, may)

    def metadata(self, request: t.MetadataRequest, version: int) -> t.MetadataResponse:
        """The response to Metadata: the live brokers, and topics."""
        return t.MetadataResponse(
            self.world.cluster_id,
            self._some_broker(),
            tuple(
                _host(registration)
                for _, registration in sorted(self.world.image.brokers.items())
                if not registration.fenced
            ),
            topics.visible_topics(self.world, request.authorized_operations) if request.all_topics else (),
        )

    def _some_broker(self) -> int:
        """The id of the "controller" in Metadata: in KRaft mode a random live broker, since clients must not connect to
        the real one; in ZooKeeper mode the real one, once the broker knows it.
        """
        if self.world.elected is not None and self.node.id not in self.world.uninformed:
            return self.world.elected
        live = [registration.id for registration in self.world.image.brokers.values() if not registration.fenced]
        return self._chance.choice(live) if live else -1

    # --- topics ---

    def reassignments(
        self, request: t.ListPartitionReassignmentsRequest, version: int
    ) -> t.ListPartitionReassignmentsResponse:
        """Reassignments in progress. In ZooKeeper mode the controller alone knows them."""
        if self.world.elected not in (None, self.node.id):
            return t.ListPartitionReassignmentsResponse(NOT_CONTROLLER, None, {})
        return topics.reassignments(self.world)

    # --- the quorum ---

    async def describe_quorum(self, request: m.DescribeQuorumRequest, version: int) -> m.DescribeQuorumResponse:
        """The quorum by the leader, also through a broker, which waits for a leader; an error from a standby."""
        leader = await self._leader()
        if leader is None:
            return m.DescribeQuorumResponse(
                NONE, "", NOT_LEADER_OR_FOLLOWER, _NOT_THE_LEADER, 0, 0, 0, (), (), (), version
            )
        world = self.world
        voting = world.voting()
        voters, observers = world.quorum_replicas()
        return m.DescribeQuorumResponse(
            error_code=NONE,
            error_message="",
            partition_error_code=NONE,
            partition_error_message="",
            leader_id=leader.id,
            leader_epoch=world.epoch,
            high_watermark=world.log.high_watermark,
            voters=tuple(_replica(*replica) for replica in voters),
            observers=tuple(_replica(*replica) for replica in observers),
            nodes=tuple(Host(voter.id, voter.host, voter.port) for voter in voting) if version >= 2 else (),
            version=version,
        )

    async def _leader(self) -> Node | None:
        """The active controller, for which a broker waits; None if this node is another controller."""
        if self.node.role is Role.CONTROLLER:
            return self.node if self.world.active_node is self.node else None
        while self.world.active_node is None:
            await self.clock.moved()
        return self.world.active_node

    # --- changes ---

    async def update_features(self, request: m.UpdateFeaturesRequest, version: int) -> m.UpdateFeaturesResponse:
        """The response to UpdateFeatures; v2 has no per-feature results."""
        verdict = await self.updated(request)
        results = (
            {result.feature: (result.error_code, result.error_message) for result in verdict.results}
            if version < 2
            else {}
        )
        return m.UpdateFeaturesResponse(verdict.error_code, verdict.error_message, results)

    async def updated(self, request: m.UpdateFeaturesRequest) -> Verdict:
        """Verdict of the controller on all updates, once it is committed. Unlike the response, it keeps the results of
        two updates of one feature apart.
        """
        updates = [FeatureUpdate(name, level, UpgradeType.of(kind)) for name, level, kind in request.updates]
        outcome = await self._settled(
            lambda: self.world.update_features(self.node, updates, validate_only=request.validate_only)
        )
        return outcome.verdict

    async def unregister_broker(self, request: UnregisterBrokerRequest, version: int) -> UnregisterResponse:
        """The response to UnregisterBroker."""
        outcome = await self._settled(lambda: self.world.unregister_broker(self.node, request.node_id))
        return UnregisterResponse(outcome.verdict.error_code, outcome.verdict.error_message)

    async def unregister_controller(self, request: UnregisterControllerRequest, version: int) -> UnregisterResponse:
        """The response to UnregisterController."""
        outcome = await self._settled(lambda: self.world.unregister_controller(self.node, request.node_id))
        return UnregisterResponse(outcome.verdict.error_code, outcome.verdict.error_message)

    async def _settled(self, act: Callable[[], ControllerAnswer]) -> ControllerAnswer:
        """The outcome, once it is committed. A broker keeps the request while no controller is active."""
        while True:
            try:
                outcome = act()
                self.clock.changed()
                break
            except NoActiveControllerError:
                await self.clock.moved()
        while self.world.log.high_watermark < outcome.offset:
            await self.clock.moved()
        return outcome

    # --- the metadata log ---

    async def fetch(self, request: m.FetchRequest, version: int) -> m.FetchResponse:
        """The response to Fetch. Only the metadata topic can be read, and only from controllers."""
        if not (self._follows and self.world.grants_cluster_action):
            return log.nothing(log.CLUSTER_AUTHORIZATION_FAILED)
        return await log.fetch(self.world, self.node, self.clock, request)


def _replica(node: Node, directory: UUID | None, progress: tuple[int, int, int]) -> m.ReplicaState:
    return m.ReplicaState(node.id, directory, *progress)


def _host(registered: BrokerRegistration | ControllerRegistration) -> Host:
    at = registered.endpoints[0]
    fenced = isinstance(registered, BrokerRegistration) and registered.fenced
    return Host(registered.id, at.host, at.port, fenced)


def _no_cluster(code: int, text: str, version: int) -> m.DescribeClusterResponse:
    return m.DescribeClusterResponse(code, text, 1, "", -1, (), version)


Handle = Callable[[NodeAnswers, Any, int], Any]
"""Function that returns a response, or an awaitable of one where the node may have to wait."""
_BOTH: Mapping[int, Handle] = {
    m.FetchRequest.api_key: NodeAnswers.fetch,
    m.ApiVersionsRequest.api_key: NodeAnswers.named_api_versions,
    t.DescribeConfigsRequest.api_key: lambda node, request, _: topics.configs(node.world, node.node, request),
    m.DescribeQuorumRequest.api_key: NodeAnswers.describe_quorum,
    m.UpdateFeaturesRequest.api_key: NodeAnswers.update_features,
    m.DescribeClusterRequest.api_key: NodeAnswers.describe_cluster,
    UnregisterBrokerRequest.api_key: NodeAnswers.unregister_broker,
    UnregisterControllerRequest.api_key: NodeAnswers.unregister_controller,
}
_BROKERS_ALONE: Mapping[int, Handle] = {
    t.MetadataRequest.api_key: NodeAnswers.metadata,
    t.DescribeLogDirsRequest.api_key: lambda node, _, __: topics.log_dirs(node.world, node.node),
    IncrementalAlterConfigsRequest.api_key: lambda node, request, _: topics.set_logger_level(node.node, request),
    t.ListPartitionReassignmentsRequest.api_key: NodeAnswers.reassignments,
    t.DescribeTopicPartitionsRequest.api_key: lambda node, request, _: topics.page(node.world, request),
}
HANDLERS: Mapping[tuple[Role, int], Handle] = {
    **{(role, key): handle for role in Role for key, handle in _BOTH.items()},
    **{(Role.BROKER, key): handle for key, handle in _BROKERS_ALONE.items()},
    (Role.CONTROLLER, m.FetchSnapshotRequest.api_key): lambda node, request, _: log.fetch_snapshot(
        node.world, node.node, request
    ),
}
