"""Corrections of Kopf's watches, in the HTTP session that it gets (docs/upstream has patches that would replace them).

Made by `handlers.py`. Kopf ends the process at a request or an event that fails unexpectedly, continues a watch from
the last version that it read, and remembers each resource until a watch shows its deletion.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast
from weakref import WeakSet

import aiohttp

from kafkafeatures.environment import Environment

RETRY_DELAY = 5.0
"""Seconds between two tries of a request, between two logins, and between two watches of the same namespace."""
LONGEST_DELAY = 60.0
"""Seconds between two watches that the API server ends with an error: twice as long each time, up to this."""
_TRIED_AGAIN = frozenset({401, 403, 429})
"""HTTP codes, besides 5xx, after which Kopf logs in anew or tries again by itself."""
_NAMED = ("uid", "namespace", "name", "resourceVersion")
_METADATA = {"ADDED": _NAMED, "MODIFIED": _NAMED, "DELETED": _NAMED, "BOOKMARK": ("resourceVersion",)}
"""Fields of the metadata that each type of event must have, as Kopf and `resources.py` read them."""

logger = logging.getLogger(__name__)


class WatchObserver(Protocol):
    """Interface of the operator that learns how its watches fare."""

    def watching(self, namespace: str, *, holds: bool) -> None:
        """Note that a watch of the namespace began (`holds`) or ended; an empty name means all namespaces."""

    def answered(self, code: int) -> None:
        """Note that the API server answered a request of Kopf with this HTTP status."""

    def missed(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        """The `metadata` of resources whose deletion no watch of the namespace has shown, since the last call."""


class Watches:
    """Kopf's requests: `request` is a middleware of its HTTP session."""

    def __init__(self, observer: WatchObserver, environment: Environment) -> None:
        self._observer, self._environment = observer, environment
        self._next: dict[str, float] = {}
        """Monotonic time of the next try, by its subject: a login, or the path of a watch."""
        self._delay: dict[str, float] = {}
        """Last pause in seconds before a retry, by path of each watch that ended with an error."""
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        """Kopf's tasks, one for each watch."""

    def end(self) -> None:
        """Cancel all watches. Kopf itself cancels them too late, together with the task that can pause them: a watch
        between two requests then believes that it is paused, and Kopf waits for it for ever.
        """
        for task in self._tasks:
            task.cancel()

    async def pause(self, subject: str) -> None:
        """Wait until the next try of this subject (a login, or the path of a watch) is due."""
        await self._environment.sleep(max(self._next.get(subject, 0.0) - self._environment.monotonic(), 0.0))
        self._next[subject] = self._environment.monotonic() + RETRY_DELAY

    async def request(
        self,
        request: aiohttp.ClientRequest,
        send: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]],
    ) -> aiohttp.ClientResponse:
        """Send a request, and return the answer. One at which Kopf would end is raised as a lost connection instead."""
        path, watched = request.url.path, "watch" in request.url.query
        if watched:
            self._tasks.add(cast(asyncio.Task[Any], asyncio.current_task()))
            self._observer.watching(_namespace(path), holds=False)
            await self.pause(path)
            # A watch begins with the present state, never where an earlier watch ended: a restored etcd may not have
            # reached that version yet, and the API server would accept the request and show nothing until then.
            request.url = request.url.without_query_params("sendInitialEvents", "resourceVersionMatch")
            request.url = request.url.update_query(resourceVersion="0")
        response = await send(request)
        self._observer.answered(response.status)
        if response.status != 200 and response.status < 500 and response.status not in _TRIED_AGAIN:
            # For example 404, while the kind is not served. Kopf would end; after a lost connection it tries again.
            response.close()
            raise aiohttp.ClientConnectionError(f"the API server answered {response.status}")
        if watched and response.status == 200:
            content = response.content
            events = _Events(partial(self._lines, path, content), content.exception, content.set_exception)
            response.content = cast(aiohttp.StreamReader, events)
            self._observer.watching(_namespace(path), holds=True)
        return response

    async def _lines(self, path: str, content: aiohttp.StreamReader, size: int) -> AsyncIterator[bytes]:
        """The events of one watch, up to one with an error, at which Kopf would end the process, and with it all other
        watches. DELETED events for resources whose deletion earlier watches missed come first, so that Kopf forgets
        these too.
        """
        began = self._environment.monotonic()
        for metadata in self._observer.missed(_namespace(path)):
            yield json.dumps({"type": "DELETED", "object": {"metadata": metadata}}).encode() + b"\n"
        remainder = b""
        async for chunk in content.iter_chunked(size):
            *lines, remainder = (remainder + chunk).split(b"\n")
            for line in filter(bytes.strip, lines):
                reason = _error_in(line)
                if reason:
                    self._failed(path, began, reason)
                    return
                yield line + b"\n"

    def _failed(self, path: str, began: float, reason: str) -> None:
        """Have a watch that began at this monotonic time, and ended with an error, wait for its next try."""
        monotonic_time, namespace = self._environment.monotonic(), _namespace(path)
        was_long = monotonic_time - began >= LONGEST_DELAY  # so the API server works, and delays begin anew
        delay = RETRY_DELAY if was_long else min(2 * self._delay.get(path, RETRY_DELAY), LONGEST_DELAY)
        self._delay[path], self._next[path] = delay, monotonic_time + delay
        self._observer.watching(namespace, holds=False)
        scope = namespace or "all namespaces"
        logger.warning("the watch of %s ended: %s; next try in %.0f s", scope, reason, delay)


class _Events(NamedTuple):
    """Content of a watch, with the methods of a StreamReader that Kopf uses (the first), and that aiohttp calls when it
    releases the response. There are no others: another way of reading would pass by the checks of the events.
    """

    iter_chunked: Callable[[int], AsyncIterator[bytes]]
    exception: Callable[[], object]
    set_exception: Callable[..., None]


def _error_in(line: bytes) -> str:
    """The reason why a line is no valid event; empty for a valid one. Kopf would end at an invalid line."""
    try:
        event = json.loads(line.decode())
        if event["type"] == "ERROR":
            status = event["object"]
            message = str(status.get("message") or status.get("reason") or "no reason given")
            return f"{status.get('code', '')} {message[:500]}".strip()
        metadata = event["object"]["metadata"]
        if all(isinstance(metadata[field], str) and metadata[field] for field in _METADATA[event["type"]]):
            return ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # not an event at all
    return "an invalid event; check that the address is the API server's"


def _namespace(path: str) -> str:
    """The namespace in the path of a request; empty for all namespaces."""
    _, within, remainder = path.partition("/namespaces/")
    return remainder.partition("/")[0] if within else ""
