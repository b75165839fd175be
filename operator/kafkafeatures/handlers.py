"""Handlers of Kopf, the framework that hosts the process and holds the watches. It is used only to learn which resource
has changed.

Called by `app.py` (`host`). No handler returns a value or uses Kopf's `patch`, so Kopf writes nothing to resources,
neither a finalizer nor an annotation. Its create, update and delete handlers, timers and daemons are not used: they
keep state in annotations or add a finalizer, and one failed PATCH ends a daemon permanently while the process looks
alive. Probes have pages of their own (`health.py`), as Kopf has none for readiness and metrics. All handlers are
coroutines: Kopf would run a plain function in a thread.

The watches go through `kube/watches.py`, which corrects three habits of Kopf.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, Protocol

import aiohttp
import kopf

from kafkafeatures.api.names import GROUP, PLURAL, VERSION
from kafkafeatures.environment import Environment
from kafkafeatures.kube import watches
from kafkafeatures.kube.api import USER_AGENT
from kafkafeatures.kube.client import account
from kafkafeatures.kube.watches import Watches, WatchObserver

WATCH_TIMEOUT = 3600
"""Seconds of one watch request; an integer, as the API server requires."""
_IDENTITY: Any = "kafkafeatures"
"""Name of this process for Kopf's peering, which is not used. Without one Kopf takes that of the user, and ends if the
user has only a number, as in containers.
"""


class Hosted(WatchObserver, Protocol):
    """Interface of the operator that the handlers call."""

    async def begin(self) -> None:
        """Wait until the watches can begin."""

    def show(self, resource: Mapping[str, Any], *, gone: bool) -> None:
        """Note a resource that a watch shows: new or changed, or deleted (`gone`)."""

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
            identity=_IDENTITY,
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
        )
    finally:
        signals.cancel()
        await operator.end()  # it has not been called yet if Kopf was stopped before it began


def registry_of(operator: Hosted, environment: Environment, ending: asyncio.Event) -> kopf.OperatorRegistry:
    """Kopf's registry with the handlers. `ending`: event that makes Kopf end."""
    registry, watched = kopf.OperatorRegistry(), Watches(operator, environment)

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
        settings.networking.error_backoffs = repeat(watches.RETRY_DELAY)
        try:
            await operator.begin()
        except asyncio.CancelledError:  # stopped while it waits: Kopf would not call `end`
            ending.set()
            await operator.end()
            raise

    @kopf.on.login(registry=registry, backoff=watches.RETRY_DELAY)
    async def login(**_: Any) -> kopf.AiohttpSession:
        """Log in as the operator's own requests do. Kopf's own logins know no plugins of a kubeconfig, and in a pod
        they use the name of the API server: where names do not resolve, Kopf would give up.
        """
        await watched.pause("login")
        info = kopf.ConnectionInfo(**(await account())._asdict())
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers={**info.as_http_headers(), "User-Agent": f"{USER_AGENT} (kopf)"},
            middlewares=(watched.request,),
        )
        return kopf.AiohttpSession(server=info.server, aiohttp_session=session)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def show(event: kopf.RawEvent, **_: Any) -> None:
        operator.show(event["object"], gone=event["type"] == "DELETED")

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:
        ending.set()
        watched.end()
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
