"""The operator as one process: what all resources share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkafeatures import app
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.handlers import Hosted
from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.kube.client import KubeApi
from kafkafeatures.kube.errors import NoAccount
from kafkafeatures.settings import OperatorSettings
from tests.simulated.kubernetes import ApiServer


async def test_host_names_that_do_not_resolve_leave_threads_for_other_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred lookups, as many as one resource can have at once (`kafka/base/pool.py`), leave a thread for another.

    A lookup of a name that does not resolve blocks its thread for long, as `over.wait` does here.
    """

    @asynccontextmanager
    async def connected() -> AsyncIterator[None]:  # a hook that runs within `app.run`, which NoAccount ends
        over = threading.Event()
        hanging = [asyncio.create_task(asyncio.to_thread(over.wait, 20)) for _ in range(100)]
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(0)
                await asyncio.to_thread(int)
        finally:
            over.set()
            await asyncio.gather(*hanging)
        raise NoAccount("the test is over")
        yield  # makes this function a generator, as a context manager must be

    monkeypatch.setattr(app, "connected", connected)
    with pytest.raises(NoAccount):
        await app.run(OperatorSettings(), environment=SYSTEM)


class Controller:
    """In place of the real controller: records which resources were reconciled, and reads nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        self.worked: list[str] = []
        self.versions_discarded = self.handed_over = False
        self.changed = asyncio.Condition()
        MADE.append(self)

    def note_changes(self, resources: Iterable[Mapping[str, Any]]) -> list[ResourceKey]:
        return [ResourceKey.of(resource) for resource in resources]

    def discard_versions(self) -> None:
        self.versions_discarded = True

    def hand_over(self) -> None:
        self.handed_over = True

    async def reconcile(self, key: ResourceKey) -> float:
        async with self.changed:
            self.worked.append(str(key))
            self.changed.notify_all()
        return 3600.0

    async def failed(self, key: ResourceKey, error: BaseException) -> None:
        raise error

    async def close(self) -> None:
        """Nothing is open."""

    async def until_worked(self, *keys: str) -> None:
        async with asyncio.timeout(5), self.changed:
            await self.changed.wait_for(lambda: sorted(self.worked) == sorted(keys))


MADE: list[Controller] = []  # controllers that the operator has made


def serving(*names: str) -> ApiServer:
    """An API server with these resources."""
    server = ApiServer()
    for name in names:
        namespace, _, own = name.partition("/")
        server.create(namespace, own, {"cluster": {"bootstrapServers": "kafka:9092"}})
    return server


class Host:
    """In place of Kopf: watches that succeed and show no event."""

    def __init__(self) -> None:
        self.operator: Hosted | None = None
        self.namespaces: tuple[str, ...] = ()
        self.stop_requested = asyncio.Event()

    async def __call__(self, operator: Hosted, namespaces: tuple[str, ...], environment: Environment) -> None:
        self.operator, self.namespaces = operator, namespaces or ("",)
        try:
            await operator.begin()
            self.watch_anew()
            await self.stop_requested.wait()
        finally:
            await operator.end()

    def watch_anew(self) -> None:
        assert self.operator is not None
        for namespace in self.namespaces:
            self.operator.watching(namespace, holds=False)
            self.operator.watching(namespace, holds=True)


@asynccontextmanager
async def operator(
    monkeypatch: pytest.MonkeyPatch, server: ApiServer, namespaces: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Controller, Host]]:
    @asynccontextmanager
    async def connected() -> AsyncIterator[KubeApi]:
        yield server.client()

    for name, value in (("connected", connected), ("Controller", Controller)):
        monkeypatch.setattr(app, name, value)
    MADE.clear()
    host = Host()
    settings = OperatorSettings(namespaces=namespaces, listen_host="127.0.0.1", listen_port=0)
    running = asyncio.create_task(app.run(settings, host=host, environment=SYSTEM))
    try:
        while not MADE and not running.done():  # noqa: ASYNC110 - it is made before anything is awaited that could take long
            await asyncio.sleep(0)
        yield MADE[0], host
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_resource_that_a_list_no_longer_contains_is_reconciled_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deleted while there was no watch: no watch ever shows it."""
    server = serving("kafka/old", "other/new")
    async with operator(monkeypatch, server) as (worker, host):
        await worker.until_worked("kafka/old", "other/new")
        server.delete("kafka", "old")
        host.watch_anew()
        await worker.until_worked("kafka/old", "other/new", "kafka/old")


async def test_a_list_of_one_namespace_does_not_remove_resources_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    server = serving("one/a", "two/b")
    async with operator(monkeypatch, server, ("one", "two")) as (worker, host):
        await worker.until_worked("one/a", "two/b")
        server.delete("one", "a")
        host.watch_anew()  # each namespace is listed again: one/a is missing in the list of `one`, and two/b too
        await worker.until_worked("one/a", "two/b", "one/a")  # one/a once more, as it is gone; two/b not


async def test_a_restore_of_etcd_drops_caches_by_version_before_the_next_reconciliation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serving("kafka/orders")
    before = server.revision
    server.edit("kafka", "orders", lambda one: one["spec"].update(suspend=True))
    async with operator(monkeypatch, server) as (worker, host):
        await worker.until_worked("kafka/orders")
        assert not worker.versions_discarded
        server.restore(before)
        host.watch_anew()
        await worker.until_worked("kafka/orders", "kafka/orders")
        assert worker.versions_discarded


async def test_an_operator_that_stops_hands_over_its_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    async with operator(monkeypatch, serving("kafka/orders")) as (worker, host):
        await worker.until_worked("kafka/orders")
        host.stop_requested.set()
        async with asyncio.timeout(5):
            while not worker.handed_over:  # noqa: ASYNC110 - the end of the process sets no event
                await asyncio.sleep(0)
