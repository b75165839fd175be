"""Probes and metrics over real HTTP: what makes a probe fail."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import aiohttp
from prometheus_client import CollectorRegistry, Gauge

from kafkafeatures.health import Health, serving


class State:
    """Texts that the operator would return: the resource whose reconciliation hangs, and the unwatched namespaces."""

    hung, missing = "", "all namespaces"


async def get(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_healthz_fails_while_a_reconciliation_hangs_and_readyz_while_a_watch_is_missing() -> None:
    state, registry = State(), CollectorRegistry()
    Gauge("one", "For the test.", registry=registry).set(7)
    async with serving(Health(lambda: state.hung, lambda: state.missing, registry), "127.0.0.1", 0) as port:
        assert await get(port, "/readyz") == (503, "not watched: all namespaces\n")
        assert await get(port, "/healthz") == (200, "alive\n")
        state.missing, state.hung = "", "kafka/orders"
        assert await get(port, "/readyz") == (200, "ready\n")
        assert await get(port, "/healthz") == (500, "reconciliation of kafka/orders hangs\n")
        state.hung = ""
        assert (await get(port, "/healthz"))[0] == 200
        assert "one 7.0" in (await get(port, "/metrics"))[1]
        assert (await get(port, "/anything"))[0] == 404


async def test_metrics_are_reported_although_all_threads_of_asyncio_are_taken() -> None:
    over = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.create_task(asyncio.to_thread(over.wait, 20))
    await asyncio.sleep(0)
    try:
        async with serving(Health(str, str, CollectorRegistry()), "127.0.0.1", 0) as port, asyncio.timeout(5):
            assert (await get(port, "/metrics"))[0] == 200
    finally:
        over.set()
        await hanging
