"""Addresses of the API server. The operator must not connect to them for the document of a tenant, who could
otherwise have it send requests to the API server from inside the cluster.

Called by `app.py`, which puts it into the address policy of all clusters. The names of the API server resolve to some
of its addresses, which are refused before a byte is sent. It may answer at others too: on every address of the nodes
that it runs on, behind a load balancer, on a node that was added since. There it is recognised by its certificate:
only the API server can prove to be `kubernetes.default.svc` to its own CA.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl

from kafkafeatures.environment import Environment
from kafkafeatures.kube.client import KubeApi

REFRESH = 60.0
"""Seconds until the names of the API server are resolved, and its CA is read, again."""
PROOF = 2.0
"""Deadline in seconds for a TLS handshake, which takes milliseconds."""
NAME = "kubernetes.default.svc"
"""Name that every API server has in its certificate, as pods connect to it by this name."""

logger = logging.getLogger(__name__)


class ApiServer:
    """The API server. `endpoints`: its (IP address, port) pairs by the last `refresh` in which a name resolved."""

    def __init__(self, api: KubeApi, environment: Environment) -> None:
        self._api, self._environment = api, environment
        self._trust: ssl.SSLContext | None = None
        self.endpoints: frozenset[tuple[str, int]] = frozenset()

    async def refresh(self) -> None:
        """Resolve the names of the API server, and read its CA."""
        self.endpoints = await self._api.endpoints() or self.endpoints
        try:
            self._trust = await asyncio.to_thread(self._api.trust)
        except OSError as error:  # ssl.SSLError too, for a file that is no certificate
            logger.warning("the CA of the API server cannot be read: %s", error)

    async def keep_looking(self) -> None:
        """Refresh every `REFRESH` seconds, until cancelled."""
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
