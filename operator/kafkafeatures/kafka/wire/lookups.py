"""Limits the DNS lookups of one cluster at the same time. Called by `opening.py`.

A lookup takes a thread, and cannot be cancelled: without an answer from DNS it goes on for many seconds after its
caller gave up. Without a limit, one resource with hundreds of such host names would take the threads of all others.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

AT_ONCE = 8
"""Lookups of one cluster at the same time, at most."""


class Lookups:
    """DNS lookups of one cluster, shared by all connections to it. At most `at_once` run at the same
    time, each in a thread; further ones wait.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._places = asyncio.Semaphore(at_once)

    async def resolve(self, host: str, port: int) -> list[str]:
        """The IP addresses of a name. Raises OSError; ValueError for a text that cannot be a host name."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        lookup = loop.create_task(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        lookup.add_done_callback(self._give_back)  # not when the caller gives up: the thread continues
        return [str(entry[4][0]) for entry in await asyncio.shield(lookup)]

    def _give_back(self, lookup: asyncio.Task[Any]) -> None:
        self._places.release()
        if not lookup.cancelled():
            lookup.exception()  # asyncio would log it where no caller waits any more


def resolve_number(host: str, port: int) -> list[str]:
    """The address itself, for a host that is an IP address: that needs no DNS and no thread."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return [str(entry[4][0]) for entry in entries]
