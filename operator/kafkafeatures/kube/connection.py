"""Requests to the API server over HTTP, each with a deadline. None is repeated here.

Called by `kube/client.py`. The token is read again every minute in a pod, and everywhere when it is refused. Not by
the client of `kubernetes`: importing it takes 12 MiB, and it copies each object that it sends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Protocol

import aiohttp

from kafkafeatures import __version__
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kube.account import Account, account, in_pod
from kafkafeatures.kube.errors import NoAccount

REQUEST_TIMEOUT = 10.0
"""Seconds for one request."""
READ_AGAIN = 60.0
"""Seconds until the token of a pod is read again."""


class Reply(NamedTuple):
    """What the API server answered."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class Requests(Protocol):
    """To one API server. `account`: as it was read last."""

    account: Account

    async def send(self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None) -> Reply:
        """Raises what aiohttp raises, TimeoutError and OSError."""


class HttpRequests:
    """`Requests` with one session, for as long as that is open."""

    def __init__(self, session: aiohttp.ClientSession, known: Account, environment: Environment) -> None:
        self.account = known
        self._session, self._monotonic = session, environment.monotonic
        self._read_at = self._monotonic()

    async def send(self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None) -> Reply:
        if in_pod() and self._monotonic() - self._read_at >= READ_AGAIN:
            await self._read_account()
        async with self._session.request(
            method,
            self.account.server + path,
            params=query,
            json=body,
            headers=self.account.headers,
            proxy=self.account.proxy,
            server_hostname=self.account.server_name,
            allow_redirects=False,
        ) as answer:
            reply = Reply(answer.status, answer.reason or "", answer.headers, await answer.read())
        if reply.status == 401:
            await self._read_account()  # for the next request
        return reply

    async def _read_account(self) -> None:
        self._read_at = self._monotonic()
        with suppress(NoAccount):
            self.account = await account()


@asynccontextmanager
async def http_requests(environment: Environment = SYSTEM) -> AsyncIterator[HttpRequests]:
    """With the account of the pod, or that of KUBECONFIG outside of one. Raises NoAccount."""
    known = await account()
    try:
        context = known.context()
    except OSError as error:
        raise NoAccount(f"no API server: its certificates or our key cannot be used ({error})") from None
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context),
        timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT),
        headers={"Accept": "application/json", "User-Agent": f"kafka-features-operator/{__version__}"},
        trust_env=False,  # or ~/.netrc is read for every single request
    ) as session:
        yield HttpRequests(session, known, environment)
