"""Connection pool of one cluster: connections are opened when first needed, reused, and closed together.

It chooses the security settings of a connection (by the listener's role, since brokers and controllers may differ), and
limits how many conversations run at once. It repeats a request in one case only: the request changes nothing, and was
sent on an idle connection that turned out to be closed.

Only one conversation uses a connection at a time. A node answers the requests of one connection in their order, and a
request that it cannot answer yet (DescribeQuorum without a leader) blocks those behind it. So a second conversation
with the same listener at the same time gets another connection; conversations one after the other share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, Self, TypeVar

from msgspec import Struct

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import Disconnected
from kafkafeatures.kafka.base.requester import Requester
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Security
from kafkafeatures.kafka.wire.connection import Connection, Recorder
from kafkafeatures.kafka.wire.connection import connect as wire_connect
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, ApiVersionsResponse, R, Request

T = TypeVar("T")


class Connect(Protocol):
    """The function that makes a connection; `wire.connection.connect` unless a test says otherwise."""

    def __call__(
        self,
        address: Address,
        security: Security,
        *,
        timeout: float,
        client_id: str,
        recorder: Recorder | None,
        request: ApiVersionsRequest | None = None,
    ) -> Awaitable[Connection]:
        """Connect, negotiate and authenticate within `timeout` seconds."""


class Lease(Struct, frozen=True):
    """A connection, for the time that one conversation uses it. `reused`: it was open before, so the ApiVersions
    response that it began with may be outdated.
    """

    connection: Connection
    reused: bool


class Pool:
    """All connections to one cluster.

    `recorder`: gets the bytes of every exchange. `concurrency`: the most conversations at once. `keep`: the most idle
    connections that stay open. `connect`: makes connections; None: over TCP. `offered_last`: API versions of the node
    that was connected to last, by which `misrouted.py` guesses those of the next one.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        recorder: Recorder | None = None,
        concurrency: int = 100,
        keep: int = 32,
        connect: Connect | None = None,
        environment: Environment,
    ) -> None:
        self.settings, self.environment = settings, environment
        self.requester = Requester(settings)
        self.offered_last: Mapping[int, VersionRange] = {}  # by the node that was connected to last
        self._recorder = recorder
        self._connect = connect or partial(wire_connect, environment=environment)
        self._slots = asyncio.Semaphore(concurrency)
        self._keep = keep
        self._idle: list[tuple[Role, Connection]] = []  # the longest idle first

    @asynccontextmanager
    async def lease(
        self,
        address: Address,
        role: Role,
        *,
        fresh: bool = False,
        timeout: float | None = None,
        request: ApiVersionsRequest | None = None,
    ) -> AsyncIterator[Lease]:
        """A connection to the `role` listener at `address`. `fresh`: open a new connection, never take an idle one.
        `request`: the ApiVersions request with which a new connection begins.

        `timeout`: seconds for connecting, at most and by default the request timeout. An exception while the lease is
        held closes the connection: a request may still be under way on it. Raises `KafkaError` if there is no
        connection.
        """
        async with self._slots:
            connection = None if fresh else await self._take(address, role)
            reused = connection is not None
            if connection is None:
                connection = await self._open(address, role, timeout, request)
            try:
                yield Lease(connection, reused)
            except BaseException:
                await connection.close()
                raise
            await self._put_back(role, connection)

    async def ask(
        self,
        address: Address,
        role: Role,
        message: Request[R],
        *,
        timeout: float | None = None,
    ) -> R:
        """Send one question that changes nothing and return the answer to it. Raises `KafkaError`.

        `timeout`: see `ask_peer`.
        """
        return (await self.ask_peer(address, role, message, timeout=timeout))[0]

    async def ask_peer(
        self,
        address: Address,
        role: Role,
        message: Request[R],
        *,
        timeout: float | None = None,
    ) -> tuple[R, str]:
        """The answer to a question that changes nothing, and the IP address that it came from. Raises `KafkaError`.

        `timeout` (by default the request timeout) bounds connecting and the answer, each. A connection that had died
        while idle is replaced once.
        """
        wait = self.settings.request_timeout if timeout is None else timeout

        async def exchange(lease: Lease) -> tuple[R, str]:
            return await lease.connection.request(message, timeout=wait), lease.connection.peer

        return await self.converse(address, role, exchange, timeout=wait)

    async def api_versions(self, address: Address, role: Role, *, timeout: float | None = None) -> ApiVersionsResponse:
        """The node's current ApiVersions: from the beginning of a new connection, or requested on an idle one."""

        async def exchange(lease: Lease) -> ApiVersionsResponse:
            link = lease.connection
            return await link.request(ApiVersionsRequest(), timeout=timeout) if lease.reused else link.api_versions

        return await self.converse(address, role, exchange, timeout=timeout)

    async def converse(
        self,
        address: Address,
        role: Role,
        conversation: Callable[[Lease], Awaitable[T]],
        *,
        timeout: float | None = None,
        request: ApiVersionsRequest | None = None,
    ) -> T:
        """Run a conversation of several requests that change nothing over one connection, so that one process answers
        all of them. It is repeated once if the connection had died while idle. Raises `KafkaError`.

        `timeout`, `request`: see `lease`.
        """
        reused = False
        try:
            async with self.lease(address, role, timeout=timeout, request=request) as lease:
                reused = lease.reused
                return await conversation(lease)
        except Disconnected:
            if not reused:
                raise
        async with self.lease(address, role, fresh=True, timeout=timeout, request=request) as lease:
            return await conversation(lease)

    async def close(self) -> None:
        """Close all idle connections. Leases must have ended."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(connection.close() for _, connection in idle))  # a hung node costs a second, once

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def _open(
        self, address: Address, role: Role, timeout: float | None, request: ApiVersionsRequest | None
    ) -> Connection:
        limit = self.settings.request_timeout
        connection = await self._connect(
            address,
            self.settings.brokers if role is Role.BROKER else self.settings.controllers,
            timeout=limit if timeout is None else min(timeout, limit),
            client_id=self.settings.client_id,
            recorder=self._recorder,
            request=request,
        )
        self.offered_last = connection.api_versions.api_keys
        return connection

    async def _take(self, address: Address, role: Role) -> Connection | None:
        for entry in reversed(self._idle):
            if entry[0] is role and entry[1].address == address:
                self._idle.remove(entry)
                if not entry[1].closed:
                    return entry[1]
                await entry[1].close()
                return None  # the node has closed it, and so probably the older ones as well
        return None

    async def _put_back(self, role: Role, connection: Connection) -> None:
        if connection.closed:
            return
        self._idle.append((role, connection))
        while len(self._idle) > self._keep:
            _, oldest = self._idle.pop(0)
            await oldest.close()
