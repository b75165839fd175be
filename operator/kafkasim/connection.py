"""In-process connections to the nodes of a world: typed requests get typed responses, without encoding.

The product's own `kafkafeatures.kafka.cluster.Cluster` uses them in place of TCP. They fail like real connections: if
no node listens at the address, if the node ends meanwhile, or if no response comes in time. Where a real client would
wait, the time of the world is advanced, after all other pending requests had a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import cast

from msgspec import Struct

from kafkafeatures.core.facts.readings import Role
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import Disconnected, ErrorCode, NotListening, TimedOut, Unreachable
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security
from kafkafeatures.kafka.probe.quorum import QUORUM_TIMEOUT
from kafkafeatures.kafka.wire import codec
from kafkafeatures.kafka.wire.connection import Connection, Meter, Recorder
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, R, Request
from kafkasim.answers.node import NodeAnswers
from kafkasim.node import Node
from kafkasim.world import World

TURNS = 3
"""Turns of the event loop before time moves on, so that requests of other tasks are made at the same virtual time."""


class Access(Struct, frozen=True):
    """What a client can reach. `brokers`, `controllers`: it is configured with addresses of that kind.
    `reaches_brokers`, `reaches_controllers`: the network lets it connect to them. `cluster_action`: it has the right
    CLUSTER_ACTION.
    """

    brokers: bool = True
    controllers: bool = True
    reaches_brokers: bool = True
    reaches_controllers: bool = True
    cluster_action: bool = True
    request_timeout_ms: int = 10_000

    @property
    def short_timeout_ms(self) -> int:
        """Like `kafkafeatures.kafka.probe.quorum.short_timeout`, in ms."""
        return min(self.request_timeout_ms, int(1000 * QUORUM_TIMEOUT))


class _VirtualClock:
    """The clock of one connection. Waiting advances the time of the world, and raises TimeoutError at `until_ms`."""

    def __init__(self, world: World) -> None:
        self._world, self.until_ms = world, 0

    async def moved(self, until_ms: int | None = None) -> None:
        """Return after the next change, or at that time."""
        await _let_others_run()
        world = self._world
        if world.now_ms >= self.until_ms:
            raise TimeoutError
        ends = [moment for moment in (self.until_ms, until_ms, world.next_due()) if moment is not None]
        world.advance(max(min(ends), world.now_ms))

    def now_ms(self) -> int:
        """The time of the world."""
        return self._world.now_ms

    def changed(self) -> None:
        """Does nothing: nobody waits for a notification."""


async def _let_others_run() -> None:
    """Let all other tasks run before time moves on."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


class TypedConnection:
    """Replaces `kafka.wire.connection.Connection`, for requests that change nothing. It breaks if the node's process
    ends.

    peer: IP address of the node.
    refuses_name: the node answered that the request is meant for another node; None: it was not asked.
    """

    def __init__(
        self, network: Network, address: Address, node: Node, timeout: float, request: ApiVersionsRequest | None = None
    ) -> None:
        self.address, self.closed = address, False
        self._network, self._node, self._life, self._timeout = network, node, node.incarnation, timeout
        self._clock = _VirtualClock(network.world)
        # follows: with CLUSTER_ACTION it may read the metadata log
        self._answers = NodeAnswers(network.world_of(node), node, self._clock, follows=network.access.cluster_action)
        self.peer = network.world.ips.get((node.role, node.id), node.host)
        self.api_versions = self._answers.own_api_versions(
            version := codec.version_for(ApiVersionsRequest(), self._answers.apis)
        )
        self.refuses_name: bool | None = None
        if request is not None and version >= request.names_node_from:
            self.refuses_name = (
                self._answers.named_api_versions(request, version).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
            )

    async def request(self, message: Request[R], *, timeout: float | None = None) -> R:
        """The node's answer, in the highest version both sides have. Raises KafkaError."""
        version = codec.version_for(message, self._answers.apis)
        self._must_live()
        timeout = self._timeout if timeout is None else timeout
        self._clock.until_ms = self._clock.now_ms() + int(timeout * 1000)
        try:
            answer = await self._answers.answer(message, version)
        except TimeoutError:
            self.drop()
            raise TimedOut(f"no answer within {timeout:g} s", sent=True) from None
        except BaseException:
            self.drop()
            raise
        self._must_live()
        if answer is None:
            raise self._ended()
        return answer

    async def close(self) -> None:
        """Close the connection; requests raise Disconnected from now on."""
        self.drop()

    def drop(self) -> None:
        """Close the connection, as after an error."""
        self.closed = True

    def _must_live(self) -> None:
        if self.closed or self._node.incarnation != self._life or not self._network.reaches(self._node):
            raise self._ended()

    def _ended(self) -> Disconnected:
        self.drop()
        return Disconnected("the connection ended before the answer", sent=True)


class Network:
    """The part of a world that one client reaches. Its bootstrap addresses are those of the nodes that run when it is
    made.
    """

    def __init__(self, world: World, access: Access) -> None:
        self.world, self.access = world, access
        bootstrap = {Role.BROKER: access.brokers, Role.CONTROLLER: access.controllers}
        brokers, controllers = (
            self.addresses(role) if bootstrap[role] else () for role in (Role.BROKER, Role.CONTROLLER)
        )
        self.settings = ClusterSettings(brokers, controllers, request_timeout=access.request_timeout_ms / 1000)
        self.environment = Environment(
            clock=self.now, monotonic=lambda: world.now_ms / 1000, random=lambda: 0.5, sleep=self._sleep
        )

    def addresses(self, role: Role) -> tuple[Address, ...]:
        """Bootstrap addresses of a role."""
        return tuple(Address(node.host, node.port) for node in self.world.of_role(role) if node.running)

    @cached_property
    def _nodes(self) -> Mapping[Address, Node]:
        # a running node last, so that it wins if two have one address
        nodes = sorted(self.world.nodes.values(), key=lambda node: node.running)
        return {Address(node.host, node.port): node for node in nodes}

    def node_at(self, address: Address) -> Node | None:
        """The node that has this address; None for none."""
        return self._nodes.get(address)

    def world_of(self, node: Node) -> World:
        """The world of a node; migrations have two."""
        return self.world

    def now(self) -> datetime:
        """The time of the world."""
        return datetime.fromtimestamp(self.world.now_ms / 1000, UTC)

    def reaches(self, node: Node) -> bool:
        """True if a request to this node arrives now."""
        access = self.access
        return node.listening and (access.reaches_brokers if node.role is Role.BROKER else access.reaches_controllers)

    async def connect(
        self,
        address: Address,
        security: Security,
        *,
        timeout: float,
        client_id: str,
        recorder: Recorder | None = None,
        meter: Meter | None = None,
        environment: Environment | None = None,
        request: ApiVersionsRequest | None = None,
    ) -> Connection:
        """Replaces `kafka.wire.connection.connect`; only `address`, `timeout` and `request` matter."""
        node = self.node_at(address)
        if node is None or not node.listening:
            raise NotListening
        if not self.reaches(node):
            raise Unreachable(f"no connection within {timeout:g} s", remedy="check address, route and firewall")
        return cast("Connection", TypedConnection(self, address, node, timeout, request))

    def wait_for_leader(self, until_ms: int) -> None:
        """Let time pass until a controller is active."""
        world = self.world
        while world.active is None and world.now_ms < until_ms:
            due = world.next_due()
            world.advance(until_ms if due is None else min(until_ms, max(due, world.now_ms)))

    async def _sleep(self, seconds: float) -> None:
        await _let_others_run()
        self.world.advance(self.world.now_ms + int(seconds * 1000))
