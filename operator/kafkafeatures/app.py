"""The operator, put together: Kopf watches, the queue wakes the worker, the worker makes a pass for a resource.

Everything runs in one task group, so that the death of a part is the end of the process, and Kubernetes starts it anew.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import kopf

from kafkafeatures import __version__
from kafkafeatures.handlers import Seen, registry_of
from kafkafeatures.health import Health, serving
from kafkafeatures.kafka.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import LOOPBACK, NEVER, AddressPolicy
from kafkafeatures.kafka.wire.connection import Recorder
from kafkafeatures.kube.client import Key, KubeApi, connected, in_pod
from kafkafeatures.kube.errors import KubeError
from kafkafeatures.metrics import Metrics
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.cluster import Cluster
from kafkafeatures.reconcile.queue import Queue
from kafkafeatures.reconcile.worker import OpenCluster, Surroundings, Worker
from kafkafeatures.settings import OperatorSettings

THREADS = 256
"""Names are resolved in threads, and one that does not resolve holds its thread for many seconds. With asyncio's few, a
single resource that names many of them would keep all others from connecting."""
AGAIN = 5.0
"""Seconds until the resources are listed again after that failed, and watched again after that ended."""

logger = logging.getLogger(__name__)


Opener = Callable[[ClusterSettings, Recorder], OpenCluster]


def open_cluster(settings: ClusterSettings, recorder: Recorder) -> OpenCluster:
    """The real one."""
    return Cluster(settings, recorder=recorder)


async def run(settings: OperatorSettings, *, opener: Opener = open_cluster) -> None:
    """Until SIGTERM or SIGINT. Raises OSError where the port is taken, and whatever ends a part of it."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    claims, metrics = Claims(), Metrics()
    async with connected() as api:
        policy = _policy(settings, api)
        around = Surroundings(lambda: datetime.now(UTC), time.monotonic, asyncio.sleep, settings.instance, policy)
        worker = Worker(api, claims, lambda cluster: opener(cluster, metrics), around, metrics)
        queue = Queue(
            worker.work,
            failed=worker.failed,
            waited=metrics.waited,
            at_once=settings.at_once,
            deadline=settings.deadline,
        )
        listed = asyncio.Event()
        health = Health(lambda: str(queue.hung() or ""), listed.is_set, metrics.registry)

        async def listing() -> None:
            await _list(api, settings, claims, queue)
            listed.set()

        def seen(resource: Mapping[str, Any]) -> None:
            if worker.is_news(resource):
                claims.note(resource)
                queue.wake(Key.of(resource))

        async with serving(health, settings.listen_host, settings.listen_port) as port:
            logger.info("kafka-features-operator %s, probes and metrics on port %d", __version__, port)
            async with asyncio.TaskGroup() as parts:
                passes = parts.create_task(queue.run(), name="queue")
                resync = parts.create_task(_resync(settings.resync, listing), name="resync")
                watch = parts.create_task(_watch(settings, listing, seen), name="watch")
                await stop.wait()
                logger.info("stopping: passes that are under way are finished")
                queue.stop()
                resync.cancel()
                watch.cancel()
                await asyncio.wait((passes,), timeout=settings.grace)
                passes.cancel()  # what it interrupts has its intent written: the next operator looks what became of it
        await worker.close()


def _policy(settings: OperatorSettings, api: KubeApi) -> AddressPolicy:
    """In a pod its own loopback is refused too: nothing of a tenant's is there."""
    denied = (*NEVER, *settings.denied, *(LOOPBACK if in_pod() else ()))
    return AddressPolicy(denied, settings.allowed, frozenset(api.endpoints()))


async def _resync(every: float, listing: Callable[[], Awaitable[None]]) -> None:
    """Should a watch have gone deaf in a way that nobody thought of."""
    while True:
        await asyncio.sleep(every)
        await listing()


async def _watch(settings: OperatorSettings, listing: Callable[[], Awaitable[None]], seen: Seen) -> None:
    """List, watch, and again. Until it is cancelled.

    Kopf ends where nobody logs it in, or nobody answers at its start; and a kind of resource that was not there when it
    began it would never watch. So it begins only after a list, and anew.
    """
    here = asyncio.get_running_loop()

    def hand_over(resource: Mapping[str, Any]) -> None:
        here.call_soon_threadsafe(seen, dict(resource))

    while True:
        await listing()
        stop: Future[Callable[[], object]] = Future()
        try:
            await asyncio.to_thread(asyncio.run, _kopf(settings, hand_over, stop))
            logger.error("the watch ended; it begins anew")
        except Exception as error:  # whatever Kopf ends with
            logger.error("the watch ended: %s; it begins anew", error)
        finally:
            stop.add_done_callback(lambda stop: stop.result()())
        await asyncio.sleep(AGAIN)


async def _kopf(settings: OperatorSettings, seen: Seen, stop: Future[Callable[[], object]]) -> None:
    """In a thread and a loop of its own: at its end it cancels every task of its loop, and it takes the signals.

    `stop` is told how to end it. Not by an event of threads: Kopf would wait for that for ever, also after a failure.
    """
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        with suppress(RuntimeError):  # it has ended, and its loop with it
            loop.call_soon_threadsafe(stopping.set)

    stop.set_result(end)
    await kopf.operator(
        registry=registry_of(seen),
        settings=kopf.OperatorSettings(),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=stopping,
    )


async def _list(api: KubeApi, settings: OperatorSettings, claims: Claims, queue: Queue[Key]) -> None:
    """All resources, before any is worked on. Asks until it is answered."""
    while True:
        try:
            found = [one for namespace in settings.namespaces or ("",) for one in await api.resources(namespace)]
            break
        except KubeError as error:
            logger.warning("the resources could not be listed: %s", error)
            await asyncio.sleep(max(AGAIN, error.retry_after))
    for resource in found:
        claims.note(resource)
    for resource in found:
        queue.wake(Key.of(resource))
