"""The operator, assembled from its parts: Kopf holds the watches (`handlers.py`), `resources.py` tracks resources, the
queue decides when to reconcile one, and the controller does it.

Called by the command `run`. All parts, Kopf too, run in one event loop. If a part fails, the process ends, and
Kubernetes starts it anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from kafkafeatures import __version__
from kafkafeatures.core.ports import EvidenceSource, ZooKeeperPort
from kafkafeatures.environment import Environment
from kafkafeatures.handlers import Hosted, host
from kafkafeatures.health import Health, serving
from kafkafeatures.kafka.base.memory_budget import MemoryBudget, MemoryLimits
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.partitions.images import PartitionImages
from kafkafeatures.kafka.recorder.recorder import LogRecorder
from kafkafeatures.kafka.wire.addresses import LOOPBACK, NEVER, AddressPolicy
from kafkafeatures.kafka.wire.connection import Recorder
from kafkafeatures.kube.api import KubernetesApi, ResourceKey
from kafkafeatures.kube.api_server import ApiServer
from kafkafeatures.kube.client import connected, in_pod
from kafkafeatures.kube.errors import KubeError
from kafkafeatures.metrics import Metrics
from kafkafeatures.notify.notifier import Notifier
from kafkafeatures.prometheus.settings import PrometheusSettings
from kafkafeatures.reconcile.abandoned_requests import AbandonedRequests
from kafkafeatures.reconcile.claims import Claims
from kafkafeatures.reconcile.client_evidence import OpenEvidence
from kafkafeatures.reconcile.connections import OpenCluster, OpenEnsembleOf
from kafkafeatures.reconcile.controller import Controller
from kafkafeatures.reconcile.listeners import NOT_NOTIFIED, NOT_RECORDED
from kafkafeatures.reconcile.operator_context import OperatorContext
from kafkafeatures.reconcile.queue import Queue
from kafkafeatures.resources import RELIST_DELAY, Resources
from kafkafeatures.settings import OperatorSettings
from kafkafeatures.zookeeper.ensemble import Ensemble

THREADS = 256
"""Threads of the process. Names are resolved in threads, and a name that does not resolve holds its thread for many
seconds. Each cluster takes a few (`kafka/wire/lookups.py`); with asyncio's default, a few clusters would take all.
"""

logger = logging.getLogger(__name__)


Opener = Callable[[ClusterSettings, Recorder], OpenCluster]
"""Makes a cluster from its settings; each request to it is passed to the recorder, which counts them."""
Host = Callable[[Hosted, tuple[str, ...], Environment], Awaitable[None]]
"""Runs the operator with watches of these namespaces until it is to end: `host` of `handlers.py`, or that of a test."""


def real_clusters(settings: OperatorSettings, environment: Environment) -> Opener:
    """Opener of real clusters. They share the memory for data from Kafka, of which partitions take the most."""
    memory = MemoryBudget(
        MemoryLimits(
            settings.memory_per_cluster,
            settings.memory_all_clusters,
            raise_one="have the operator's memory.perCluster raised (--memory-per-cluster)",
            raise_all="have the operator's memory.allClusters raised (--memory-all-clusters)",
        )
    )
    images = PartitionImages(
        settings.max_partition_images,
        "or have the operator's maxPartitionImages raised (--max-partition-images)",
        monotonic=environment.monotonic,
    )
    return lambda cluster, recorder: Cluster(
        cluster, recorder=recorder, memory=memory, images=images, environment=environment
    )


def real_ensembles(environment: Environment) -> OpenEnsembleOf:
    """Function that opens a real ensemble. kazoo, a client with threads, is imported only where one is opened."""

    def opened(ensemble: Ensemble, cluster: OpenCluster) -> ZooKeeperPort:
        from kafkafeatures.zookeeper.client import ZooKeeper

        return ZooKeeper(ensemble, environment, cluster.whole_log if isinstance(cluster, Cluster) else None)

    return opened


def real_evidence(environment: Environment) -> OpenEvidence:
    """Function that opens a source of evidence about clients. Its module is imported only where a resource asks for
    evidence.
    """

    def opened(settings: PrometheusSettings) -> EvidenceSource:
        from kafkafeatures.prometheus.operator_source import PrometheusSource

        return PrometheusSource(settings, environment.monotonic)

    return opened


class Operator:
    """The parts of the operator. It implements `Hosted` of `handlers.py`, so that Kopf, or a test, can host it.

    prepare: called before anything is connected to.
    answered: counts an answer of the API server, by its HTTP status.
    health: sources of the pages for probes and metrics.
    pages: these pages; they are closed at the end, as the host waits for everything that is open.
    """

    def __init__(
        self,
        api: KubernetesApi,
        opener: Opener,
        environment: Environment,
        settings: OperatorSettings,
        policy: AddressPolicy,
        *,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._api, self._environment, self._settings = api, environment, settings
        self._prepare = prepare
        metrics = Metrics(environment)
        self._notifier: Notifier | None = None
        if settings.notify is not None:
            self._notifier = Notifier(settings.notify, environment, delivered=self._note, count=metrics.notified)
        context = OperatorContext(
            environment, settings.operator, policy,
            open_ensemble=real_ensembles(environment), open_evidence=real_evidence(environment),
            notifier=self._notifier or NOT_NOTIFIED,
        )  # fmt: skip
        self._recorder: LogRecorder | None = None
        if settings.recorder is not None:
            self._recorder = LogRecorder(settings.recorder, metrics.of_recorder(), environment)
        self._controller = Controller(
            api,
            Claims(environment.monotonic),
            lambda cluster: opener(cluster, metrics),
            context,
            metrics,
            current=self._current,
            recorder=self._recorder or NOT_RECORDED,
        )
        self._queue: Queue[ResourceKey] = Queue(
            self._controller.reconcile,
            failed=self._controller.failed,
            waited=metrics.waited,
            at_once=settings.at_once,
            deadline=settings.deadline,
            monotonic=environment.monotonic,
        )
        self._resources = Resources(
            api,
            settings.namespaces,
            environment,
            changed=self._wake,
            gone=self._queue.wake,  # the reconciliation of a deleted resource discards what is known of it
            restored=self._controller.discard_versions,
            every=settings.resync,
        )
        watched = {namespace: partial(self._resources.holds, namespace) for namespace in settings.namespaces or ("",)}
        metrics.follow(lambda: self._queue.waiting, watched)
        self._abandoned = AbandonedRequests(api, settings.request_namespaces, environment, every=settings.resync)
        self.answered = metrics.answered
        self.health = Health(lambda: str(self._queue.hung() or ""), self._resources.unready, metrics.registry)
        self.pages = AsyncExitStack()
        self._stopping, self._over = asyncio.Event(), asyncio.Event()  # asked to end; all parts have ended

    async def run(self) -> None:
        """Run until `end`, or until a part fails."""
        try:
            if self._notifier is not None:
                self._notifier.check()
            if self._prepare is not None:
                await self._prepare()
            async with asyncio.TaskGroup() as parts:
                reconciling = parts.create_task(self._queue.run(), name="queue")
                listing = parts.create_task(self._resources.run(), name="lists of resources")
                withdrawing = parts.create_task(self._abandoned.run(), name="abandoned requests")
                await self._stopping.wait()
                logger.info("stopping: reconciliations in progress are finished")
                self._controller.hand_over()
                self._queue.stop()
                listing.cancel()
                withdrawing.cancel()
                await asyncio.wait((reconciling,), timeout=self._settings.grace)
                reconciling.cancel()  # the intent of an interrupted step is written, so the next process settles it
            await self._controller.close()
        finally:
            if self._notifier is not None:
                await self._notifier.close()
            if self._recorder is not None:
                await self._recorder.close()
            self._over.set()

    async def begin(self) -> None:
        """Return once all namespaces were listed, and the API server serves the kind, so that it can be watched."""
        await self._resources.known.wait()
        while True:
            with suppress(KubeError):
                if await self._api.serves_resources():
                    return
            await self._environment.sleep(RELIST_DELAY)

    # --- called by Kopf's handlers; described in `Hosted` ---

    def watching(self, namespace: str, *, holds: bool) -> None:
        self._resources.watching(namespace, holds=holds)

    def show(self, resource: Mapping[str, Any], *, gone: bool = False) -> None:
        self._resources.show(resource, gone=gone)

    def missed(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        return self._resources.missed(namespace)

    def stop(self) -> None:
        self._controller.hand_over()
        self._stopping.set()

    async def end(self) -> None:
        self._stopping.set()
        await self._over.wait()
        await self.pages.aclose()

    def _current(self, key: ResourceKey) -> str:
        return self._resources.current(key)

    def _note(self, key: ResourceKey) -> None:
        """Have it noted in the status that a notification was delivered."""
        self._queue.wake(key)

    def _wake(self, resources: Sequence[Mapping[str, Any]]) -> None:
        for key in self._controller.note_changes(resources):
            self._queue.wake(key)


async def run(
    settings: OperatorSettings, *, environment: Environment, opener: Opener | None = None, host: Host = host
) -> None:
    """Run the operator until SIGTERM or SIGINT. Raises OSError if the port is taken, and the exception of a part."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    async with connected() as api:
        api_server = ApiServer(api, environment)
        opened = opener or real_clusters(settings, environment)
        policy = _policy(settings, api_server)
        operator = Operator(api, opened, environment, settings, policy, prepare=api_server.refresh)
        api.answered = operator.answered
        async with operator.pages:
            pages = serving(operator.health, settings.listen_host, settings.listen_port)
            port = await operator.pages.enter_async_context(pages)
            logger.info("kafka-features-operator %s, probes and metrics on port %d", __version__, port)
            with log_fatal_failure():
                async with asyncio.TaskGroup() as parts:
                    parts.create_task(operator.run(), name="operator")
                    refreshing = parts.create_task(api_server.keep_looking(), name="where the API server is")
                    await host(operator, settings.namespaces, environment)
                    refreshing.cancel()


@contextmanager
def log_fatal_failure() -> Iterator[None]:
    """Log the failure of a part of the operator, with its cause, before it ends the process."""
    try:
        yield
    except BaseExceptionGroup as group:
        logger.critical("a component failed; the operator exits: %s", group.exceptions[0], exc_info=group)
        raise


def _policy(settings: OperatorSettings, api_server: ApiServer) -> AddressPolicy:
    """Addresses that documents may name. In a pod its loopback is refused too, as no Kafka of a tenant is there. The
    pod's own address is among `settings.denied`.
    """
    denied = (*NEVER, *settings.denied, *(LOOPBACK if in_pod() else ()))
    return AddressPolicy(denied, settings.allowed, api_server)
