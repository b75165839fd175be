"""The operator, put together: Kopf watches, the queue wakes the worker, the worker makes a pass for a resource.

Everything runs in one task group, so that the death of a part is the end of the process, and Kubernetes starts it anew.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from kafkafeatures import __version__
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.health import Health, serving
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.memory import Limits, Memory
from kafkafeatures.kafka.settings import ClusterSettings
from kafkafeatures.kafka.wire.addresses import LOOPBACK, NEVER, AddressPolicy
from kafkafeatures.kafka.wire.connection import Recorder
from kafkafeatures.kube.api import Key, Listing
from kafkafeatures.kube.api_server import ApiServer
from kafkafeatures.kube.client import connected, in_pod
from kafkafeatures.metrics import Metrics
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.queue import Queue
from kafkafeatures.reconcile.worker import OpenCluster, Surroundings, Worker
from kafkafeatures.settings import OperatorSettings
from kafkafeatures.watch import Watch

THREADS = 256
"""Names are resolved in threads, and one that does not resolve holds its thread for many seconds. Each cluster has its
few at once (`kafka/wire/lookups.py`); were there no more than asyncio has, some clusters would take those of all."""

logger = logging.getLogger(__name__)


Opener = Callable[[ClusterSettings, Recorder], OpenCluster]


def real_clusters(settings: OperatorSettings, environment: Environment = SYSTEM) -> Opener:
    """They share the memory that there is for what comes from Kafka."""
    memory = Memory(
        Limits(
            settings.memory_per_cluster,
            settings.memory_all_clusters,
            raise_one="have the operator's memory.perCluster raised (--memory-per-cluster)",
            raise_all="have the operator's memory.allClusters raised (--memory-all-clusters)",
        )
    )
    return lambda cluster, recorder: Cluster(cluster, recorder=recorder, memory=memory, environment=environment)


async def run(settings: OperatorSettings, *, opener: Opener | None = None, environment: Environment = SYSTEM) -> None:
    """Until SIGTERM or SIGINT. Raises OSError where the port is taken, and whatever ends a part of it."""
    opened = opener or real_clusters(settings, environment)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    claims, metrics = Claims(), Metrics(environment)
    async with connected() as api:
        api_server = ApiServer(api, environment)
        await api_server.refresh()
        policy = _policy(settings, api_server)
        around = Surroundings(environment, settings.operator, policy)
        worker = Worker(api, claims, lambda cluster: opened(cluster, metrics), around, metrics)
        queue = Queue(
            worker.work,
            failed=worker.failed,
            waited=metrics.waited,
            at_once=settings.at_once,
            deadline=settings.deadline,
            monotonic=environment.monotonic,
        )

        def listed(namespaces: Sequence[str], listing: Listing) -> None:
            if listing.restored:
                worker.forget_versions()
            for resource in listing.resources:
                claims.note(resource)
            found = [Key.of(resource) for resource in listing.resources]
            # One of them that was not found was deleted while nobody watched: its pass sees that, and forgets it.
            known = [key for key in queue.known if key.namespace in namespaces or "" in namespaces]
            for key in dict.fromkeys((*found, *known)):
                queue.wake(key)

        def seen(resource: Mapping[str, Any]) -> None:
            if worker.is_news(resource):
                claims.note(resource)
                queue.wake(Key.of(resource))

        watch = Watch(
            api, settings.namespaces, listed=listed, seen=seen, every=settings.resync, environment=environment
        )
        health = Health(lambda: str(queue.hung() or ""), watch.missing, metrics.registry)
        async with serving(health, settings.listen_host, settings.listen_port) as port, _obituary():
            logger.info("kafka-features-operator %s, probes and metrics on port %d", __version__, port)
            async with asyncio.TaskGroup() as parts:
                passes = parts.create_task(queue.run(), name="queue")
                watching = parts.create_task(watch.run(), name="watch")
                looking = parts.create_task(api_server.keep_looking(), name="where the API server is")
                await stop.wait()
                logger.info("stopping: passes that are under way are finished")
                worker.hand_over()
                queue.stop()
                watching.cancel()
                looking.cancel()
                await asyncio.wait((passes,), timeout=settings.grace)
                passes.cancel()  # what it interrupts has its intent written: the next operator looks what became of it
        await worker.close()


@asynccontextmanager
async def _obituary() -> AsyncIterator[None]:
    """The death of a part is in the log, with its cause, before the process ends of it."""
    try:
        yield
    except BaseExceptionGroup as group:
        logger.critical("a part of the operator died, and so does it: %s", group.exceptions[0], exc_info=group)
        raise


def _policy(settings: OperatorSettings, api_server: ApiServer) -> AddressPolicy:
    """In a pod its own loopback is refused too; its own address is by the settings. Nothing of a tenant's is there."""
    denied = (*NEVER, *settings.denied, *(LOOPBACK if in_pod() else ()))
    return AddressPolicy(denied, settings.allowed, api_server)
