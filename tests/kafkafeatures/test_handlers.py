"""Kopf as the host of the process, on an API server of a few lines: what ends a watch, and what ends the process."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kafkafeatures import handlers
from kafkafeatures.api.names import API_VERSION, GROUP, KIND, PLURAL, VERSION
from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.handlers import host
from kafkafeatures.kube import watches
from kafkafeatures.kube.client import Account
from tests.kafkafeatures.threads import until

LOST, END = "lost", "ended"
"""Instead of an event: the connection is lost; or the server ends the answer."""


def event(kind: str, name: str = "orders", **fields: Any) -> dict[str, Any]:
    metadata = {"namespace": "one", "name": name, "uid": name, "resourceVersion": "7"}
    return {"type": kind, "object": {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata} | fields}


def error(code: int, message: str) -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "message": message}}


class Server:
    """`answers`: of watch requests for a namespace, one after the other; then they hold and show nothing. A number is
    a status, a list the events of one request, or lines as they are sent.
    """

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.over = asyncio.Event()
        self.requests: list[str] = []
        self.watches: list[tuple[str, Mapping[str, str]]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        if "watch" in request.query:
            return await self._watch(request)
        group = {"name": GROUP, "versions": [{"version": VERSION}], "preferredVersion": {"version": VERSION}}
        answers: dict[str, dict[str, Any]] = {
            "/api": {"versions": ["v1"]},
            "/api/v1": {"resources": [_kind("namespaces", "Namespace")]},
            "/apis": {"groups": [group]},
            f"/apis/{GROUP}/{VERSION}": {"resources": [_kind(PLURAL, KIND)]},
        }
        return web.json_response(answers[request.path])

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        namespace = request.path.partition("/namespaces/")[2].partition("/")[0]
        self.watches.append((namespace, dict(request.query)))
        turns = self.answers.get(namespace or "all", [])
        turn = turns.pop(0) if turns else []
        if isinstance(turn, int):
            return web.json_response({"kind": "Status", "code": turn, "message": "no"}, status=turn)
        stream = web.StreamResponse()
        await stream.prepare(request)
        for one in turn:
            if one is LOST:
                assert request.transport is not None
                request.transport.abort()
                return stream
            if one is END:
                return stream
            await stream.write((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n")
        await self.over.wait()
        return stream


def _kind(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["list", "watch", "patch"]}


class Operator:
    """Records the calls of the host."""

    def __init__(self, *, begins: bool = True) -> None:
        self.begins = asyncio.Event()
        if begins:
            self.begins.set()
        self.begun = self.stopped = self.ended = False
        self.shown: list[str] = []
        self.held: dict[str, bool] = {}
        self.gone: list[list[dict[str, str]]] = []
        self.codes: list[int] = []
        self.answered = self.codes.append
        self.pages = AsyncExitStack()

    async def begin(self) -> None:
        self.begun = True
        await self.begins.wait()

    def watching(self, namespace: str, *, holds: bool) -> None:
        self.held[namespace] = holds

    def show(self, resource: Mapping[str, Any], *, gone: bool) -> None:
        self.shown.append(("-" if gone else "") + resource["metadata"]["name"])

    def missed(self, namespace: str) -> list[dict[str, str]]:
        return self.gone.pop(0) if self.gone else []

    def stop(self) -> None:
        self.stopped = True

    async def end(self) -> None:
        self.ended = True
        await self.pages.aclose()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "RETRY_DELAY", 0.01)


@asynccontextmanager
async def hosted(
    served: Server,
    operator: Operator,
    monkeypatch: pytest.MonkeyPatch,
    *namespaces: str,
    environment: Environment = SYSTEM,
) -> AsyncIterator[asyncio.Task[None]]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", served.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    # It is in Kopf's loop, and Kopf waits at its end for everything that is under way there.
    operator.pages.push_async_callback(runner.cleanup)
    operator.pages.callback(served.over.set)
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def account() -> Account:
        return Account(f"http://127.0.0.1:{runner.addresses[0][1]}", None, None, None, None, None, True)

    monkeypatch.setattr(handlers, "account", account)
    running = asyncio.create_task(host(operator, namespaces, environment))
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_events_of_a_watch_are_reported_and_kopf_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    served, operator = Server(all=[[event("ADDED"), event("MODIFIED", "bills"), event("DELETED")]]), Operator()
    async with hosted(served, operator, monkeypatch):
        await until(lambda: sorted(operator.shown) == ["-orders", "bills", "orders"])
    assert (operator.held, set(operator.codes)) == ({"": True}, {200})
    assert {one.partition(" ")[0] for one in served.requests} == {"GET"}


async def test_kopf_does_not_copy_the_resources_of_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write of a status is shown by the watch: copies would cost more than all else that Kopf does for it."""
    copied: list[object] = []
    deepcopy = copy.deepcopy

    def counted(value: object, *memo: Any) -> object:
        if "orders" in repr(value):
            copied.append(value)
        return deepcopy(value, *memo)

    monkeypatch.setattr(copy, "deepcopy", counted)
    served, operator = Server(all=[[event("ADDED", status={"features": []}), event("MODIFIED")]]), Operator()
    async with hosted(served, operator, monkeypatch):
        await until(lambda: operator.shown == ["orders", "orders"])
    assert copied == []


async def test_a_namespace_that_refuses_its_watch_does_not_end_the_watch_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served, operator = Server(one=[[event("ADDED")]], other=[403] * 5), Operator()
    async with hosted(served, operator, monkeypatch, "one", "other"):
        await until(lambda: operator.held == {"one": True, "other": False} and operator.shown)
        await until(lambda: operator.held["other"])
    assert [namespace for namespace, _ in served.watches].count("one") == 1


@pytest.mark.parametrize("status", [203, 400, 403, 404, 405, 410, 422, 429, 500, 503])
async def test_a_refused_watch_is_reported_as_lost_and_retried(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """404 is the answer for a kind whose definition was deleted, and may come back. Kopf by itself would end."""
    served, operator = Server(all=[status, status, [event("ADDED")]]), Operator()
    async with hosted(served, operator, monkeypatch):
        await until(lambda: operator.held == {"": False})
        await until(lambda: operator.shown == ["orders"] and operator.held[""])


async def test_kopf_logs_in_again_after_401_with_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    served, operator = Server(all=[401, 401, 401, [event("ADDED")]]), Operator()
    environment = Environment(monotonic=lambda: 1000.0, sleep=sleep)
    async with hosted(served, operator, monkeypatch, environment=environment):
        await until(lambda: operator.shown == ["orders"])
    assert [one for one in pauses if one] == [pytest.approx(watches.RETRY_DELAY)] * 6  # of a login, and of its watch


@pytest.mark.parametrize(
    "end",
    [
        pytest.param([event("MODIFIED"), LOST], id="the connection is lost"),
        pytest.param(
            [event("MODIFIED"), {"type": "ERROR", "object": {"kind": "Status", "code": 410}}], id="too long ago"
        ),
    ],
)
async def test_every_watch_begins_at_resource_version_0(monkeypatch: pytest.MonkeyPatch, end: list[Any]) -> None:
    """After a restore of etcd, its revision may be lower than the one that the last watch has shown."""
    served, operator = Server(all=[list(end), list(end)]), Operator()
    async with hosted(served, operator, monkeypatch):
        await until(lambda: len(served.watches) == 3 and operator.held[""])
    assert [query["resourceVersion"] for _, query in served.watches] == ["0"] * 3
    assert all("sendInitialEvents" not in query for _, query in served.watches)
    assert all(query["timeoutSeconds"].isdecimal() for _, query in served.watches)


async def test_a_watch_that_ends_at_once_is_retried_with_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    served, operator = Server(all=[[END]] * 5), Operator()
    environment = Environment(monotonic=lambda: 1000.0, sleep=sleep)
    async with hosted(served, operator, monkeypatch, environment=environment):
        await until(lambda: len(served.watches) == 6 and operator.held[""])
    assert [one for one in pauses if one] == [pytest.approx(watches.RETRY_DELAY)] * 5


async def test_a_watch_needs_no_thread_of_the_default_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.create_task(asyncio.to_thread(over.wait, 20))
    await asyncio.sleep(0)
    served, operator = Server(one=[[event("ADDED")]]), Operator()
    try:
        async with hosted(served, operator, monkeypatch, "one", "two"):
            await until(lambda: operator.shown == ["orders"] and operator.held == {"one": True, "two": True})
    finally:
        over.set()
        await hanging


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (error(500, "etcdserver: no leader"), "500 etcdserver: no leader"),
        ({"type": "ERROR", "object": {}}, "no reason given"),
        (b"<html>", "an invalid event"),
    ],
    ids=["an error", "an error without a word", "a page of a gateway"],
)
async def test_an_error_of_one_watch_ends_no_other_watch_and_is_retried_with_growing_delays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, line: Any, reason: str
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    served, operator = Server(one=[[event("ADDED"), line]] * 5, other=[[event("ADDED", "bills")]]), Operator()
    environment = Environment(monotonic=lambda: 1000.0, sleep=sleep)
    monkeypatch.setattr(watches, "RETRY_DELAY", 5.0)
    async with hosted(served, operator, monkeypatch, "one", "other", environment=environment) as running:
        # Six watches of `one`, five of which end with an error, and one of `other`.
        await until(lambda: len(served.watches) == 7 and operator.held == {"one": True, "other": True})
        assert not running.done()
    assert [one for one in pauses if one] == [10.0, 20.0, 40.0, 60.0, 60.0]
    assert sorted(operator.shown) == ["bills", *["orders"] * 5]
    messages = [record.message for record in caplog.records if record.name == watches.__name__]
    assert len(messages) == 5
    assert all(one.startswith(f"the watch of one ended: {reason}") for one in messages)


async def test_a_namespace_counts_as_unwatched_after_an_error_of_its_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds:
            await over.wait()

    served, operator = Server(one=[[error(500, "no leader")]]), Operator()
    environment = Environment(monotonic=lambda: 1000.0, sleep=sleep)
    async with hosted(served, operator, monkeypatch, "one", "other", environment=environment):
        await until(lambda: operator.held == {"one": False, "other": True})
        over.set()
        await until(lambda: operator.held == {"one": True, "other": True})


async def test_kopf_forgets_resources_that_were_deleted_between_two_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise Kopf would keep its notes about each of these resources for ever."""
    names = [f"orders-{number}" for number in range(20)]
    served = Server(all=[[*(event("ADDED", name) for name in names), END], [event("ADDED", "bills")]])
    operator = Operator()
    operator.gone = [[], [event("DELETED", name)["object"]["metadata"] for name in names]]
    async with hosted(served, operator, monkeypatch):
        await until(lambda: len(operator.shown) == 41)  # 20 that were added, the same 20 as gone, and bills
        assert sorted(operator.shown) == sorted(["bills", *names, *(f"-{name}" for name in names)])
        assert remembered_by_kopf() == 1


def remembered_by_kopf() -> int:
    gc.collect()
    return sum(type(one).__name__ == "ResourceMemory" for one in gc.get_objects())


async def test_bookmarks_and_empty_lines_end_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    served, operator = Server(all=[[b"", event("ADDED"), b" \r", bookmark, event("ADDED", "bills")]]), Operator()
    async with hosted(served, operator, monkeypatch):
        await until(lambda: sorted(operator.shown) == ["bills", "orders"] and operator.held[""])
    assert len(served.watches) == 1


async def _as_lines(content: Any) -> AsyncIterator[bytes]:
    async for line in content:
        yield line


async def _line_by_line(content: Any) -> AsyncIterator[bytes]:
    while line := await content.readline():
        yield line


async def _as_it_comes(content: Any) -> AsyncIterator[bytes]:
    async for chunk in content.iter_any():
        yield chunk


def break_kopf(monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], AsyncIterator[bytes]]) -> None:
    """Let Kopf read events in a way that `watches._Events` lacks: its watch, then Kopf, end with an error about it."""
    monkeypatch.setattr("kopf._cogs.clients.api.iter_jsonlines", read)


@pytest.mark.parametrize("read", [_as_lines, _line_by_line, _as_it_comes])
async def test_a_kopf_release_that_reads_events_another_way_ends_the_process_at_once(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], AsyncIterator[bytes]]
) -> None:
    """Kubernetes restarts the process, and whoever upgrades Kopf sees the failure."""
    break_kopf(monkeypatch, read)
    served, operator = Server(all=[[event("ADDED")]]), Operator()
    async with hosted(served, operator, monkeypatch) as running:
        with pytest.raises((AttributeError, TypeError), match="_Events"):
            await asyncio.wait_for(asyncio.shield(running), 5)
    assert operator.shown == []
    assert operator.ended


async def test_a_watch_that_waits_for_its_retry_does_not_keep_the_process_if_kopf_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kopf leaves it running, later cancels it together with what would stop it, and takes that for a mere pause."""
    broken = asyncio.Event()

    async def read(content: Any) -> AsyncIterator[bytes]:
        await broken.wait()
        yield await content.readline()

    async def sleep(seconds: float) -> None:
        if seconds:
            await asyncio.Event().wait()

    break_kopf(monkeypatch, read)
    served, operator = Server(other=[404]), Operator()  # the watch of `other` sleeps for ever before its retry
    environment = Environment(monotonic=lambda: 1000.0, sleep=sleep)
    async with hosted(served, operator, monkeypatch, "one", "other", environment=environment) as running:
        await until(lambda: operator.held == {"one": True, "other": False} and len(served.watches) == 2)
        broken.set()
        with pytest.raises(AttributeError, match="_Events"):
            await asyncio.wait_for(asyncio.shield(running), 4)


async def test_no_watch_begins_before_the_operator_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    served, operator = Server(), Operator(begins=False)
    async with hosted(served, operator, monkeypatch):
        await until(lambda: operator.begun)
        assert served.requests == []
        operator.begins.set()
        await until(lambda: operator.held == {"": True})
