"""Everything Kopf calls. An event about a resource wakes its key, and that is all.

Each Kopf sends one watch request. It would have the next one go on from the last resourceVersion it saw, and an etcd
that was restored has not come that far yet: the API server takes such a request, and shows nothing until it has.

No handler returns a value and none touches Kopf's `patch`: Kopf writes nothing to our resources, no finalizer, no
annotation. Its create/update/delete handlers, timers and daemons are not used: they keep state in annotations or add a
finalizer, and one failed PATCH ends a daemon for good while the process looks alive. All of ours are coroutines: Kopf
would give each plain function a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf
from kopf._cogs.structs.references import Insights

from kafkafeatures.api.names import GROUP, PLURAL, VERSION
from kafkafeatures.kube.client import account

Seen = Callable[[Mapping[str, Any]], None]
End = Callable[[], object]


LONGEST = 3600
"""Seconds for one watch request, a whole number as the API server wants it; whoever watches ends it before that."""


class Interrupted(Exception):
    """The API server took the watch request, and the connection was lost since: list anew, then watch."""


class NotTaken(Exception):
    """The API server did not take the watch request."""


class OneWatch:
    """Hears of the requests of one Kopf, and holds a second watch request back: `over` is called instead.

    `answer`: the HTTP status of the one that was sent, 0 before. `ended`: a second one was held back.
    """

    def __init__(self, over: End) -> None:
        self._over = over
        self._sent = self.ended = False
        self.answer = 0

    def trace(self) -> aiohttp.TraceConfig:
        """For the session of that Kopf."""
        config = aiohttp.TraceConfig()
        config.on_request_start.append(self._start)
        config.on_request_end.append(self._answer)
        return config

    async def _start(self, _: object, context: SimpleNamespace, request: aiohttp.TraceRequestStartParams) -> None:
        context.watches = "watch" in request.url.query
        if context.watches and self._sent:
            self.ended = True
            self._over()
            await asyncio.Event().wait()  # Kopf cancels it at its end
        self._sent |= context.watches

    async def _answer(self, _: object, context: SimpleNamespace, answer: aiohttp.TraceRequestEndParams) -> None:
        if context.watches:
            self.answer = answer.response.status
            self._sent = self.answer != 401  # Kopf logs in again, and sends the same once more


def registry_of(seen: Seen, one_watch: OneWatch) -> kopf.OperatorRegistry:
    """Handlers that call `seen` with each object the watch shows, also with the last state of one that is gone."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.peering.standalone = True  # a foreign peering object would pause us silently
        settings.scanning.disabled = True  # our resource is known by name: no right to list CRDs and namespaces needed
        settings.posting.enabled = False  # Events are ours to post, with `regarding` and `action`
        settings.watching.server_timeout = LONGEST
        settings.watching.client_timeout = LONGEST + 10
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 10
        settings.networking.error_backoffs = (1, 2, 4)  # then it ends, and begins anew after a list

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # The account of our own requests. Kopf's own ways in know no login plugins of a kubeconfig, and in a pod they
        # ask for the API server by its name: where names do not resolve, Kopf would give up.
        info = kopf.ConnectionInfo(**(await account())._asdict())
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers=info.as_http_headers(),
            trace_configs=[one_watch.trace()],
        )
        return kopf.AiohttpSession(server=info.server, aiohttp_session=session)

    @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
    async def wake(body: kopf.Body, **_: Any) -> None:
        seen(body)

    return registry


class NotServed(Exception):
    """The API server did not name our resource among those it has."""


async def watch(namespace: str, seen: Seen, stop: Future[End]) -> None:
    """Run Kopf for one namespace, or for all by an empty one; in a loop of its own, whose tasks it cancels at its end.

    `stop` is told how to end it. Not by an event of threads: Kopf would wait for that for ever, also after a failure.
    Raises Interrupted, NotTaken, NotServed, and whatever Kopf ends with.
    """
    loop, stopping, insights = asyncio.get_running_loop(), asyncio.Event(), Insights()

    def end() -> None:
        with suppress(RuntimeError):  # it has ended, and its loop with it
            loop.call_soon_threadsafe(stopping.set)

    stop.set_result(end)
    one_watch = OneWatch(stopping.set)
    checking = asyncio.create_task(_end_where_nothing_is_watched(insights, stopping))
    try:
        await kopf.operator(
            registry=registry_of(seen, one_watch),
            settings=kopf.OperatorSettings(),
            standalone=True,
            clusterwide=not namespace,
            namespaces=[namespace] if namespace else [],
            insights=insights,
            stop_flag=stopping,
        )
    finally:
        checking.cancel()
    if _watches_nothing(insights):
        raise NotServed(f"the API server does not name {PLURAL}.{GROUP} yet")
    if one_watch.ended:
        raise Interrupted if one_watch.answer == 200 else NotTaken(f"the API server answered {one_watch.answer}")


async def _end_where_nothing_is_watched(insights: Insights, stopping: asyncio.Event) -> None:
    await insights.ready_resources.wait()
    if _watches_nothing(insights):
        stopping.set()


def _watches_nothing(insights: Insights) -> bool:
    """Kopf asks once which resources there are, and would wait for ever beside an answer without ours.

    A kind that was just installed can be listed before it is named there. Nothing public tells of it: without a
    resource there is no event, and with `scanning` Kopf would want rights to all CRDs.
    """
    return insights.ready_resources.is_set() and not insights.watched_resources
