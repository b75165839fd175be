"""The operator, put together: Kopf watches, the queue wakes the worker, the worker makes a pass for a resource.

Everything runs in one task group, so that the death of a part is the end of the process, and Kubernetes starts it anew.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import kopf

from kafkafeatures import __version__
from kafkafeatures.handlers import registry_of
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
LIST_AGAIN = 5.0
"""Seconds until the resources are listed again after that failed."""

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

        def seen(resource: Mapping[str, Any]) -> None:
            """Only once all were listed: before that nobody knows who owns which cluster."""
            if listed.is_set() and worker.is_news(resource):
                claims.note(resource)
                queue.wake(Key.of(resource))

        async with serving(health, settings.listen_host, settings.listen_port) as port:
            logger.info("kafka-features-operator %s, probes and metrics on port %d", __version__, port)
            async with asyncio.TaskGroup() as parts:
                passes = parts.create_task(queue.run(), name="queue")
                lists = parts.create_task(_list(api, settings, claims, queue, listed), name="list")
                watch = parts.create_task(_watch(settings, seen), name="watch")
                await stop.wait()
                logger.info("stopping: passes that are under way are finished")
                queue.stop()
                lists.cancel()
                watch.cancel()
                await asyncio.wait((passes,), timeout=settings.grace)
                passes.cancel()  # what it interrupts has its intent written: the next operator looks what became of it
        await worker.close()


def _policy(settings: OperatorSettings, api: KubeApi) -> AddressPolicy:
    """In a pod its own loopback is refused too: nothing of a tenant's is there."""
    denied = (*NEVER, *settings.denied, *(LOOPBACK if in_pod() else ()))
    return AddressPolicy(denied, settings.allowed, frozenset(api.endpoints()))


async def _watch(settings: OperatorSettings, seen: Callable[[Mapping[str, Any]], None]) -> None:
    """Kopf, in a thread and a loop of its own: at its end it cancels every task of its loop, and it takes the signals.

    Until it is cancelled. Raises RuntimeError where Kopf ends by itself.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()

    def hand_over(resource: Mapping[str, Any]) -> None:
        loop.call_soon_threadsafe(seen, dict(resource))

    try:
        await asyncio.to_thread(
            kopf.run,
            registry=registry_of(hand_over),
            settings=kopf.OperatorSettings(),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
    finally:
        stop.set()
    raise RuntimeError("Kopf ended by itself")


async def _list(
    api: KubeApi, settings: OperatorSettings, claims: Claims, queue: Queue[Key], listed: asyncio.Event
) -> None:
    """All resources at the start, before any is worked on; and again now and then, should a watch have gone deaf."""
    while True:
        try:
            found = [one for namespace in settings.namespaces or ("",) for one in await api.resources(namespace)]
        except KubeError as error:
            logger.warning("the resources could not be listed: %s", error)
            await asyncio.sleep(LIST_AGAIN)
            continue
        for resource in found:
            claims.note(resource)
        listed.set()
        for resource in found:
            queue.wake(Key.of(resource))
        await asyncio.sleep(settings.resync)
