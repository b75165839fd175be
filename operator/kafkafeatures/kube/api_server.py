"""Where the API server is, for those who must not connect to it: not a Kafka that a tenant names, not a token endpoint.

Its own names lead to some of its addresses, and those are refused before a byte is sent. It may answer elsewhere as
well: on every address of the nodes it runs on, behind a load balancer, on a node that was added since. No list has them
all, but there it can be recognised: nothing else can prove to be `kubernetes.default.svc` to the CA we know it by.
Called by `app.py`, which puts it into the address policy of all clusters.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl

from kafkafeatures.environment import Environment
from kafkafeatures.kube.client import KubeApi

REFRESH = 60.0
"""Seconds until its names are resolved, and its CA is read, again."""
PROOF = 2.0
"""Seconds for it to prove who it is; it needs milliseconds."""
NAME = "kubernetes.default.svc"
"""Every API server has a certificate for it: what is in pods asks for that."""

logger = logging.getLogger(__name__)


class ApiServer:
    """`endpoints` of (IP address, port), as found by the last `refresh` that found any."""

    def __init__(self, api: KubeApi, environment: Environment) -> None:
        self._api, self._environment = api, environment
        self._trust: ssl.SSLContext | None = None
        self.endpoints: frozenset[tuple[str, int]] = frozenset()

    async def refresh(self) -> None:
        """Resolve the names of the API server, and read its CA, now."""
        self.endpoints = await self._api.endpoints() or self.endpoints
        try:
            self._trust = await asyncio.to_thread(self._api.trust)
        except OSError as error:  # also of a file that is no certificate
            logger.warning("the CA of the API server cannot be read: %s", error)

    async def keep_looking(self) -> None:
        """Look up the addresses again and again, for ever."""
        while True:
            await self._environment.sleep(REFRESH)
            await self.refresh()

    async def answers_at(self, address: str, port: int) -> bool:
        """True if the API server answers at this address, by its certificate. No request is sent."""
        if self._trust is None:
            return False
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(PROOF):
                _, writer = await asyncio.open_connection(address, port, ssl=self._trust, server_hostname=NAME)
                writer.transport.abort()
                return True
        return False
