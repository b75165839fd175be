"""The connection of a client to the simulated API server: a function call, with the faults that a test wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, Protocol

from aiohttp import ClientConnectionError

from kafkafeatures.kube.first_byte import before_first_byte
from tests.simulated.requests import Faults, Reply, Request

Json = dict[str, Any]


class Server(Protocol):
    """What answers."""

    @property
    def now(self) -> Callable[[], datetime]: ...

    def answer(self, request: Request, lag: int = 0) -> Reply:
        """Carry it out; `lag`: with what was there so many writes ago."""

    def written(self, body: Json) -> bytes:
        """The body of a reply."""


class Connection:
    """The client library's `ApiClient`, as far as `KubeApi` uses it."""

    def __init__(self, server: Server, faults: Faults, latency: Callable[[], Awaitable[None]] | None) -> None:
        self._server, self._faults, self._latency = server, faults, latency
        self.configuration = SimpleNamespace(host="https://127.0.0.1:6443", ssl_ca_cert=None)

    async def param_serialize(
        self, method: str, path: str, *, query_params: Any, body: Any, **_: Any
    ) -> tuple[Request]:
        return (Request(method, path, dict(query_params), body),)

    async def call_api(self, request: Request, **_: Any) -> _Answer:
        if self._latency is not None:
            await self._latency()
        fault = self._faults(request)
        before_first_byte()
        if fault is None or fault.lag:
            return _Answer(self._server, self._server.answer(request, fault.lag if fault else 0))
        if fault.carried_out:
            self._server.answer(request)
        if fault.reply is None:
            raise ClientConnectionError("Server disconnected")
        return _Answer(self._server, fault.reply)


class _Answer:
    def __init__(self, server: Server, reply: Reply) -> None:
        self.status, self.reason = reply.status, reply.reason
        self._server, self._reply = server, reply

    @property
    def headers(self) -> Mapping[str, str]:
        """Looked at as soon as the answer is there."""
        return {"Date": format_datetime(self._server.now().astimezone(UTC), usegmt=True), **self._reply.headers}

    async def read(self) -> bytes:
        return self._server.written(self._reply.body)
