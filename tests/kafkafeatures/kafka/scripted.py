"""A cluster of scripted nodes for tests of what is asked and believed: answers in, no sockets.

A node is a table from request type to an answer, to an exception class, to `HANG`, or to a function of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Host
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import (
    ErrorCode,
    RequestWithheld,
    ServerError,
    TimedOut,
    Unreachable,
    UnsupportedApi,
)
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security
from kafkafeatures.kafka.wire.connection import Connection
from kafkafeatures.kafka.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
)

HANG = object()
"""No answer until the caller's patience ends."""

BROKER_APIS = {key: VersionRange(0, 2) for key in (1, 3, 18, 55, 57, 60)}
CONTROLLER_APIS = {key: VersionRange(0, 2) for key in (1, 18, 55, 57, 59, 60)}


@dataclass
class Node:
    apis: Mapping[int, VersionRange]
    answers: dict[type, Any] = field(default_factory=dict)
    features: Mapping[str, VersionRange] = field(default_factory=lambda: {"metadata.version": VersionRange(7, 27)})
    finalized: Mapping[str, int] = field(default_factory=lambda: {"metadata.version": 25})
    epoch: int = 5
    refuses: type | object | None = None  # an exception class: connecting fails with it; HANG: it never ends
    asked: list[Any] = field(default_factory=list)
    securities: list[Security] = field(default_factory=list)

    @property
    def api_versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(0, dict(self.apis), dict(self.features), self.epoch, dict(self.finalized), version=4)

    def by_name(self, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """The answer to the first request of a connection, which names the node."""
        answer = self.answers.get(ApiVersionsRequest, self.api_versions)
        response: ApiVersionsResponse = answer(request) if callable(answer) else answer
        if response.error_code not in (ErrorCode.NONE, ErrorCode.REBOOTSTRAP_REQUIRED):
            raise ServerError(response.error_code, "no")
        return response


class Cluster:
    """`connect` stands for the real one; `most` is the highest number of connections open at once."""

    def __init__(self, nodes: Mapping[Address, Node]) -> None:
        self.nodes = dict(nodes)
        self.open = 0
        self.most = 0
        self.connects: list[Address] = []
        self.links: list[Link] = []

    async def connect(
        self,
        address: Address,
        security: Security,
        *,
        timeout: float,
        client_id: str,
        recorder: object = None,
        request: ApiVersionsRequest | None = None,
    ) -> Connection:
        self.connects.append(address)
        node = self.nodes.get(address)
        if node is None:
            raise error(Unreachable, address, "connection refused")
        if node.refuses is HANG:
            await silence(timeout)
            raise error(Unreachable, address, "no answer")
        if isinstance(node.refuses, type):
            raise error(node.refuses, address, "no")
        node.securities.append(security)
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.links.append(Link(self, address, node, request if security.sasl is None else None))
        return cast(Connection, self.links[-1])

    def pool(self, settings: ClusterSettings, **options: Any) -> Pool:
        return Pool(settings, connect=self.connect, **{"environment": SYSTEM, **options})


class Link:
    """A scripted connection, as a pool opens it."""

    def __init__(self, cluster: Cluster, address: Address, node: Node, request: ApiVersionsRequest | None) -> None:
        self.cluster, self.address, self.node = cluster, address, node
        self.api_versions = node.api_versions
        self.refuses_name: bool | None = None
        if request is not None and node.apis[18].max >= request.names_node_from:
            node.asked.append(request)
            self.refuses_name = node.by_name(request).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
        self.closed, self.peer, self.ends_by_reset = False, "10.0.0.1", False

    async def request(self, message: Any, *, timeout: float | None = None) -> Any:
        self.node.asked.append(message)
        if isinstance(message, ApiVersionsRequest) and ApiVersionsRequest not in self.node.answers:
            return self.node.api_versions
        if message.api_key not in self.node.apis:
            raise error(UnsupportedApi, self.address, "not offered", sent=False)
        answer = self.node.answers[type(message)]
        if callable(answer) and not isinstance(answer, type):
            answer = answer(message)
        if answer is HANG:
            await silence(timeout if timeout is not None else 0.1)
            await self.close()
            raise error(TimedOut, self.address, "no answer", sent=True)
        if isinstance(answer, BaseException):
            await self.close()
            raise answer
        if isinstance(answer, type):
            await self.close()
            raise error(answer, self.address, "gone", sent=True)
        return answer

    async def change(self, message: Any, *, withheld: Callable[[], str | None], timeout: float) -> Any:
        why = withheld()
        if why is not None:
            raise RequestWithheld(why)
        return await self.request(message, timeout=timeout)

    def end_by_reset(self, unacknowledged: float) -> None:
        self.ends_by_reset = True

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.cluster.open -= 1


async def silence(seconds: float) -> None:
    try:
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
    except TimeoutError:
        return


def error(kind: Any, address: Address, text: str, *, sent: bool = False) -> BaseException:
    """An exception of the adapter's tree."""
    made = kind(text, sent=sent)
    assert isinstance(made, BaseException)
    return made


def at(port: int) -> Address:
    return Address("node", port)


def hosts(*ports: int, fenced: tuple[int, ...] = ()) -> tuple[Host, ...]:
    """Nodes whose id is their port."""
    return tuple(Host(port, "node", port, is_fenced=port in fenced) for port in ports)


def broker(
    brokers: tuple[Host, ...], quorum: Any = HANG, *, version: int = 2, cluster_id: str = "C1", **more: Any
) -> Node:
    listed = DescribeClusterResponse(0, None, 1, cluster_id, brokers[0].id, brokers, version)

    def describe_cluster(request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type == 1:
            return listed
        return DescribeClusterResponse(114, "The request was sent to an endpoint of the wrong type.", 1, "", -1, (), 1)

    return Node(BROKER_APIS, {DescribeClusterRequest: describe_cluster, DescribeQuorumRequest: quorum}, **more)


def controller(
    controllers: tuple[Host, ...], active: int, quorum: Any = None, *, cluster_id: str = "C1", **more: Any
) -> Node:
    listed = DescribeClusterResponse(0, None, 2, cluster_id, active, controllers, 1)

    def describe_cluster(request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type == 2:
            return listed
        return DescribeClusterResponse(114, "The request was sent to an endpoint of the wrong type.", 2, "", -1, (), 1)

    answers: dict[type, Any] = {DescribeClusterRequest: describe_cluster, DescribeQuorumRequest: quorum or standby()}
    return Node(CONTROLLER_APIS, answers, **more)


def quorum(leader: int, voters: tuple[Host, ...], *, named: bool = True) -> DescribeQuorumResponse:
    states = tuple(ReplicaState(host.id, None, 100, 5, 5) for host in voters)
    nodes = voters if named else ()
    return DescribeQuorumResponse(0, None, 0, None, leader, 3, 100, states, (), nodes, version=2 if named else 1)


def standby() -> DescribeQuorumResponse:
    """A standby's answer; the leader id 0 is a default value, not a node."""
    return DescribeQuorumResponse(0, None, 6, None, 0, 0, 0, (), (), (), version=2)
