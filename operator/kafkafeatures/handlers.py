"""Everything Kopf calls: it hosts the process, holds the watches, and says which resource changed. That is all.

No handler returns a value and none touches Kopf's `patch`: Kopf writes nothing to our resources, no finalizer, no
annotation. Its create/update/delete handlers, timers and daemons are not used: they keep state in annotations or add a
finalizer, and one failed PATCH ends a daemon permanently while the process looks alive. Probes have pages of their own
(`health.py`): Kopf has one for liveness, and none for readiness and metrics. All of ours are coroutines: Kopf would
give each plain function a thread.

Kopf ends at a request, or an event, that fails in a way it does not expect, continues a watch from the last version it
saw, and remembers each resource until a watch shows its deletion. The session that we give it corrects all three: see
`Watches`, and docs/upstream for the patches that would replace this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast
from weakref import WeakSet

import aiohttp
import kopf

from kafkafeatures.api.names import GROUP, PLURAL, VERSION
from kafkafeatures.environment import Environment
from kafkafeatures.kube.client import USER_AGENT, account

WATCH_TIMEOUT = 3600
"""Seconds for one watch request, a whole number as the API server wants it."""
RETRY_DELAY = 5.0
"""Seconds between two tries of a request, between two logins, and between two watches of the same namespace."""
LONGEST_DELAY = 60.0
"""Seconds between two watches that the API server ends with an error: twice as long each time, up to this."""
_TRIED_AGAIN = frozenset({401, 403, 429})
"""HTTP codes, besides 5xx, after which Kopf itself logs in anew, or tries again."""
_NAMED = ("uid", "namespace", "name", "resourceVersion")
_METADATA = {"ADDED": _NAMED, "MODIFIED": _NAMED, "DELETED": _NAMED, "BOOKMARK": ("resourceVersion",)}
"""The metadata that each type of event must have: Kopf and we read it."""

logger = logging.getLogger(__name__)


class Hosted(Protocol):
    """The operator, as Kopf's handlers see it."""

    async def begin(self) -> None:
        """Return as soon as watching can begin."""

    def watching(self, namespace: str, *, holds: bool) -> None:
        """Note that a watch of the namespace began (`holds`) or ended; an empty name stands for all namespaces."""

    def show(self, resource: Mapping[str, Any], *, gone: bool) -> None:
        """Take in what a watch shows."""

    def answered(self, code: int) -> None:
        """The API server answered a request with this HTTP status."""

    def missed(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        """Resources gone since the last call, though no watch of the namespace showed it: `metadata` of each."""

    def stop(self) -> None:
        """The process was asked to end: from this moment on nothing is begun, and nothing sent."""

    async def end(self) -> None:
        """Wait until reconciliations that are under way have ended."""


async def host(operator: Hosted, namespaces: tuple[str, ...], environment: Environment) -> None:
    """Run until SIGTERM or SIGINT. Raises what Kopf ends with."""
    ready, ending = asyncio.Event(), asyncio.Event()
    hearing = asyncio.create_task(_hear_signals(operator, ready, ending), name="signals")
    try:
        await kopf.operator(
            registry=registry_of(operator, environment, ending),
            settings=kopf.OperatorSettings(),
            ready_flag=ready,
            stop_flag=ending,
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
    finally:
        hearing.cancel()
        await operator.end()  # also where Kopf was stopped before it began


def registry_of(operator: Hosted, environment: Environment, ending: asyncio.Event) -> kopf.OperatorRegistry:
    """The handlers. `ending`: set when Kopf is to end."""
    registry, watches = kopf.OperatorRegistry(), Watches(operator, environment)

    @kopf.on.startup(registry=registry)
    async def begin(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.peering.standalone = True  # a foreign peering object would pause us silently
        settings.scanning.disabled = True  # our resource is known by name: no right to list CRDs and namespaces needed
        settings.posting.enabled = False  # Events are ours to post, with `regarding` and `action`
        settings.persistence.diffbase_storage = _NothingToCompare()
        settings.watching.initial_streaming = True  # lists are ours
        settings.watching.server_timeout = WATCH_TIMEOUT
        settings.watching.client_timeout = WATCH_TIMEOUT + 10
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 10
        settings.networking.error_backoffs = _Backoffs()
        try:
            await operator.begin()
        except asyncio.CancelledError:
            ending.set()
            await operator.end()
            raise

    @kopf.on.login(registry=registry, backoff=RETRY_DELAY)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return await watches.session()

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def show(event: kopf.RawEvent, **_: Any) -> None:
        operator.show(event["object"], gone=event["type"] == "DELETED")

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:
        ending.set()
        watches.end()
        await operator.end()

    return registry


async def _hear_signals(operator: Hosted, ready: asyncio.Event, ending: asyncio.Event) -> None:
    """Handle signals in the place of Kopf, which tells us only after all its watches have ended: a step could still be
    sent until then.

    `ready`: set once Kopf runs, and has installed its own handlers. `ending`: set to make Kopf end.
    """

    def stop() -> None:
        operator.stop()
        ending.set()

    await ready.wait()
    if threading.current_thread() is threading.main_thread():
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signal_number, stop)


class _NothingToCompare(kopf.DiffBaseStorage):
    """Storage that keeps nothing: Kopf would copy each object twice to compute changes that no handler needs."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        return {}

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Kopf writes nothing."""


class _Backoffs:
    """Endless delays between tries: a refused namespace may be granted again, and an API server returns."""

    def __iter__(self) -> Iterator[float]:
        yield RETRY_DELAY / 5
        while True:
            yield RETRY_DELAY


class Watches:
    """The requests that Kopf sends, and what they say of the watches."""

    def __init__(self, operator: Hosted, environment: Environment) -> None:
        self._operator, self._environment = operator, environment
        self._next: dict[str, float] = {}
        self._delay: dict[str, float] = {}
        """The last pause before a retry, for each watch that ended with an error."""
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        """Kopf's, one for each watch."""

    def end(self) -> None:
        """Cancel all watches. Where one fails, Kopf leaves the others running and later cancels them together with what
        pauses them. A watch between two requests takes that for a pause and continues, and Kopf waits for it for ever.
        """
        for task in self._tasks:
            task.cancel()

    async def session(self) -> kopf.AiohttpSession:
        """A session with the same credentials that our own requests use.

        Kopf's own ways in know no login plugins of a kubeconfig, and in a pod they ask for the API server by its name:
        where names do not resolve, Kopf would give up.
        """
        await self._pause("login")
        info = kopf.ConnectionInfo(**(await account())._asdict())
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers={**info.as_http_headers(), "User-Agent": f"{USER_AGENT} (kopf)"},
            middlewares=(self._request,),
        )
        return kopf.AiohttpSession(server=info.server, aiohttp_session=session)

    async def _request(
        self,
        request: aiohttp.ClientRequest,
        send: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]],
    ) -> aiohttp.ClientResponse:
        watched = "watch" in request.url.query
        if watched:
            self._tasks.add(cast(asyncio.Task[Any], asyncio.current_task()))
            self._operator.watching(_namespace(request.url.path), holds=False)
            await self._pause(request.url.path)
            # From what there is now, never from where another watch ended: an etcd that was restored has not come that
            # far yet, and the API server takes such a request and shows nothing until it has.
            request.url = request.url.without_query_params("sendInitialEvents", "resourceVersionMatch")
            request.url = request.url.update_query(resourceVersion="0")
        response = await send(request)
        self._operator.answered(response.status)
        if response.status != 200 and response.status < 500 and response.status not in _TRIED_AGAIN:
            # A kind that is not served, or no longer, above all. Kopf would end; it tries a lost connection again.
            response.close()
            raise aiohttp.ClientConnectionError(f"the API server answered {response.status}")
        if watched and response.status == 200:
            response.content = self._events(request.url.path, response.content)
            self._operator.watching(_namespace(request.url.path), holds=True)
        return response

    def _events(self, path: str, content: aiohttp.StreamReader) -> aiohttp.StreamReader:
        """The events of one watch: at first the deletions that earlier ones missed, so that Kopf drops those resources
        too.
        """
        began, namespace = self._environment.monotonic(), _namespace(path)
        missed = [
            {"type": "DELETED", "object": {"metadata": metadata}} for metadata in self._operator.missed(namespace)
        ]

        def failed(reason: str) -> None:
            monotonic_time = self._environment.monotonic()
            lasted = monotonic_time - began >= LONGEST_DELAY
            self._delay[path] = RETRY_DELAY if lasted else min(2 * self._delay.get(path, RETRY_DELAY), LONGEST_DELAY)
            self._next[path] = monotonic_time + self._delay[path]
            self._operator.watching(namespace, holds=False)
            scope, seconds = namespace or "all namespaces", self._delay[path]
            logger.warning("the watch of %s ended: %s; next try in %.0f s", scope, reason, seconds)

        return cast(aiohttp.StreamReader, _Events(content, [json.dumps(event).encode() for event in missed], failed))

    async def _pause(self, subject: str) -> None:
        """Wait before the next try; not before a first one, nor after one that went well for long enough."""
        await self._environment.sleep(max(self._next.get(subject, 0.0) - self._environment.monotonic(), 0.0))
        self._next[subject] = self._environment.monotonic() + RETRY_DELAY


class _Events:
    """The content of a watch, as far as Kopf reads it: `first`, then whole lines.

    It ends before an error, which is given to `failed` only: Kopf would end the process, and with it all other watches.
    """

    def __init__(self, content: aiohttp.StreamReader, first: list[bytes], failed: Callable[[str], None]) -> None:
        self._content, self._first, self._failed = content, first, failed
        # aiohttp's, when it releases the response. No more than that: who reads in another way would read past us.
        self.exception, self.set_exception = content.exception, content.set_exception

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        for line in self._first:
            yield line + b"\n"
        remainder = b""
        async for chunk in self._content.iter_chunked(size):
            *lines, remainder = (remainder + chunk).split(b"\n")
            for line in filter(bytes.strip, lines):
                reason = _error_in(line)
                if reason:
                    self._failed(reason)
                    return
                yield line + b"\n"


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
        pass  # as below
    return "an invalid event; check that the address is the API server's"


def _namespace(path: str) -> str:
    _, within, remainder = path.partition("/namespaces/")
    return remainder.partition("/")[0] if within else ""
