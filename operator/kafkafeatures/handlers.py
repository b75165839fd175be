"""Handlers of Kopf, the framework that hosts the process and holds the watches. It is used only to learn which resource
has changed.

Called by `app.py` (`host`). No handler returns a value or uses Kopf's `patch`, so Kopf writes nothing to resources,
neither a finalizer nor an annotation. Its create, update and delete handlers, timers and daemons are not used: they
keep state in annotations or add a finalizer, and one failed PATCH ends a daemon permanently while the process looks
alive. Probes have pages of their own (`health.py`), as Kopf has none for readiness and metrics. All handlers are
coroutines: Kopf would run a plain function in a thread.

Three habits of Kopf are corrected by the HTTP session that it gets here (`Watches`; docs/upstream has patches that
would replace this): it ends the process at a request or an event that fails unexpectedly, it continues a watch from the
last version that it read, and it remembers each resource until a watch shows its deletion.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol, cast
from weakref import WeakSet

import aiohttp
import kopf

from kafkafeatures.api.names import GROUP, PLURAL, VERSION
from kafkafeatures.environment import Environment
from kafkafeatures.kube.client import USER_AGENT, account

WATCH_TIMEOUT = 3600
"""Seconds of one watch request; an integer, as the API server requires."""
RETRY_DELAY = 5.0
"""Seconds between two tries of a request, between two logins, and between two watches of the same namespace."""
LONGEST_DELAY = 60.0
"""Seconds between two watches that the API server ends with an error: twice as long each time, up to this."""
_TRIED_AGAIN = frozenset({401, 403, 429})
"""HTTP codes, besides 5xx, after which Kopf logs in anew or tries again by itself."""
_NAMED = ("uid", "namespace", "name", "resourceVersion")
_METADATA = {"ADDED": _NAMED, "MODIFIED": _NAMED, "DELETED": _NAMED, "BOOKMARK": ("resourceVersion",)}
"""Fields of the metadata that each type of event must have, as Kopf and this module read them."""

logger = logging.getLogger(__name__)


class Hosted(Protocol):
    """Interface of the operator that the handlers call."""

    async def begin(self) -> None:
        """Wait until the watches can begin."""

    def watching(self, namespace: str, *, holds: bool) -> None:
        """Note that a watch of the namespace began (`holds`) or ended; an empty name means all namespaces."""

    def show(self, resource: Mapping[str, Any], *, gone: bool) -> None:
        """Note a resource that a watch shows: new or changed, or deleted (`gone`)."""

    def answered(self, code: int) -> None:
        """Note that the API server answered a request of Kopf with this HTTP status."""

    def missed(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        """The `metadata` of resources whose deletion no watch of the namespace has shown, since the last call."""

    def stop(self) -> None:
        """Note that the process was asked to end: from this moment on nothing is begun, and nothing is sent."""

    async def end(self) -> None:
        """Wait until reconciliations that are under way have ended."""


async def host(operator: Hosted, namespaces: tuple[str, ...], environment: Environment) -> None:
    """Run the operator within Kopf until SIGTERM or SIGINT. Raises the error that ends Kopf."""
    ready, ending = asyncio.Event(), asyncio.Event()
    signals = asyncio.create_task(_hear_signals(operator, ready, ending), name="signals")
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
        signals.cancel()
        await operator.end()  # it has not been called yet if Kopf was stopped before it began


def registry_of(operator: Hosted, environment: Environment, ending: asyncio.Event) -> kopf.OperatorRegistry:
    """Kopf's registry with the handlers. `ending`: event that makes Kopf end."""
    registry, watches = kopf.OperatorRegistry(), Watches(operator, environment)

    @kopf.on.startup(registry=registry)
    async def begin(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.peering.standalone = True  # another operator's peering object would pause this one silently
        # The kind is known by name, so no right to list CRDs and namespaces is needed.
        settings.scanning.disabled = True
        settings.posting.enabled = False  # the controller posts Events, with `regarding` and `action`
        settings.persistence.diffbase_storage = _NothingToCompare()
        settings.watching.initial_streaming = True  # `resources.py` makes the lists
        settings.watching.server_timeout = WATCH_TIMEOUT
        settings.watching.client_timeout = WATCH_TIMEOUT + 10
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 10
        # Without an end: access to a namespace may be granted again, and an API server comes back.
        settings.networking.error_backoffs = repeat(RETRY_DELAY)
        try:
            await operator.begin()
        except asyncio.CancelledError:  # stopped while it waits: Kopf would not call `end`
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
    """Handle signals instead of Kopf, which reports them only after all its watches have ended: until then a step could
    still be sent.

    ready: event that is set once Kopf runs, and has installed its own signal handlers, which are replaced here.
    ending: event that makes Kopf end.
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
        """Store nothing."""


class Watches:
    """HTTP session for Kopf that observes and corrects its watch requests."""

    def __init__(self, operator: Hosted, environment: Environment) -> None:
        self._operator, self._environment = operator, environment
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

    async def session(self) -> kopf.AiohttpSession:
        """A session with the same credentials as the operator's own requests.

        Kopf's own logins know no plugins of a kubeconfig, and in a pod they use the name of the API server: where names
        do not resolve, Kopf would give up.
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
            # A watch begins with the present state, never where an earlier watch ended: a restored etcd may not have
            # reached that version yet, and the API server would accept the request and show nothing until then.
            request.url = request.url.without_query_params("sendInitialEvents", "resourceVersionMatch")
            request.url = request.url.update_query(resourceVersion="0")
        response = await send(request)
        self._operator.answered(response.status)
        if response.status != 200 and response.status < 500 and response.status not in _TRIED_AGAIN:
            # For example 404, while the kind is not served. Kopf would end; after a lost connection it tries again.
            response.close()
            raise aiohttp.ClientConnectionError(f"the API server answered {response.status}")
        if watched and response.status == 200:
            response.content = self._events(request.url.path, response.content)
            self._operator.watching(_namespace(request.url.path), holds=True)
        return response

    def _events(self, path: str, content: aiohttp.StreamReader) -> aiohttp.StreamReader:
        """The events of one watch, after DELETED events for resources whose deletion earlier watches missed, so that
        Kopf forgets these too.
        """
        began, namespace = self._environment.monotonic(), _namespace(path)
        missed = [
            {"type": "DELETED", "object": {"metadata": metadata}} for metadata in self._operator.missed(namespace)
        ]

        def failed(reason: str) -> None:
            monotonic_time = self._environment.monotonic()
            was_long = monotonic_time - began >= LONGEST_DELAY  # so the API server works, and delays begin anew
            self._delay[path] = RETRY_DELAY if was_long else min(2 * self._delay.get(path, RETRY_DELAY), LONGEST_DELAY)
            self._next[path] = monotonic_time + self._delay[path]
            self._operator.watching(namespace, holds=False)
            scope, seconds = namespace or "all namespaces", self._delay[path]
            logger.warning("the watch of %s ended: %s; next try in %.0f s", scope, reason, seconds)

        return cast(aiohttp.StreamReader, _Events(content, [json.dumps(event).encode() for event in missed], failed))

    async def _pause(self, subject: str) -> None:
        """Wait until the next try of this subject (a login, or the path of a watch) is due."""
        await self._environment.sleep(max(self._next.get(subject, 0.0) - self._environment.monotonic(), 0.0))
        self._next[subject] = self._environment.monotonic() + RETRY_DELAY


class _Events:
    """Content of a watch, with the methods of a StreamReader that Kopf uses: `first`, then the received lines.

    It ends before a line with an error, which is passed to `failed` instead: Kopf would end the process, and with it
    all other watches.
    """

    def __init__(self, content: aiohttp.StreamReader, first: list[bytes], failed: Callable[[str], None]) -> None:
        self._content, self._first, self._failed = content, first, failed
        # aiohttp calls these two when it releases the response. There are no others: another way of reading would pass
        # by the checks below.
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
        pass  # not an event at all
    return "an invalid event; check that the address is the API server's"


def _namespace(path: str) -> str:
    """The namespace in the path of a request; empty for all namespaces."""
    _, within, remainder = path.partition("/namespaces/")
    return remainder.partition("/")[0] if within else ""
