"""Pages for probes and Prometheus on one port: /healthz, /readyz and /metrics.

Called by `app.py`. Alive means that no reconciliation hangs; a Kafka or an API server that cannot be reached does not
count. Ready means that at least one namespace is listed and watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from aiohttp import web
from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST


class Health(Struct, frozen=True):
    """Sources of the pages.

    hung: returns a resource whose reconciliation hangs; empty for none.
    missing: returns the namespaces if none of them is watched; empty as soon as one is.
    metrics: registry that /metrics shows.
    """

    hung: Callable[[], str]
    missing: Callable[[], str]
    metrics: CollectorRegistry


@asynccontextmanager
async def serving(health: Health, host: str, port: int) -> AsyncIterator[int]:
    """Context in which the pages are served; its value is the port. Raises OSError if the port is taken."""
    # The metrics of a thousand resources take a second, so they are made in a thread. It is not one of asyncio's, which
    # names that do not resolve may all hold.
    thread = ThreadPoolExecutor(1, "metrics")

    async def alive(request: web.Request) -> web.Response:
        hung = health.hung()
        if hung:
            return web.Response(status=500, text=f"reconciliation of {hung} hangs\n")
        return web.Response(text="alive\n")

    async def ready(request: web.Request) -> web.Response:
        missing = health.missing()
        if missing:
            return web.Response(status=503, text=f"not watched: {missing}\n")
        return web.Response(text="ready\n")

    async def metrics(request: web.Request) -> web.Response:
        text = await asyncio.get_running_loop().run_in_executor(thread, generate_latest, health.metrics)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes(
        [web.get("/healthz", alive), web.get("/readyz", ready), web.get("/metrics", metrics)],
    )
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host or None, port)  # None: all addresses, of both kinds
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
        thread.shutdown(wait=False)
