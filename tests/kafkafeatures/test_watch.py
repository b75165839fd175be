"""Lists and watches: a namespace that refuses keeps no other one waiting, and whatever ends a watch begins it anew."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import web

from kafkafeatures import handlers
from kafkafeatures import watch as module
from kafkafeatures.api.names import GROUP, KIND, PLURAL, VERSION
from kafkafeatures.kube.api import Listing
from kafkafeatures.kube.client import Account, KubeApi
from kafkafeatures.kube.errors import KubeError, Refused, Unavailable
from kafkafeatures.watch import Watch
from tests.kafkafeatures.threads import until


def named(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}}


class Api:
    """What lists answer, by namespace; an exception is raised."""

    def __init__(self, **answers: list[dict[str, Any]] | KubeError) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def resources(self, namespace: str) -> Listing:
        self.asked.append(namespace)
        answer = self.answers[namespace]
        if isinstance(answer, KubeError):
            raise answer
        return Listing(answer)


class Kopf:
    """Watches that a test ends: with an exception, or by itself. They run in threads of their own, as the real one."""

    def __init__(self) -> None:
        self.ends: dict[str, BaseException | None] = {}
        self.begun: list[str] = []
        self.shows: dict[str, Callable[[dict[str, Any]], None]] = {}

    async def watch(self, namespace: str, seen: Callable[[Any], None], stop: Future[Callable[[], object]]) -> None:
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        stop.set_result(lambda: loop.call_soon_threadsafe(stopping.set) if not loop.is_closed() else None)
        self.begun.append(namespace)
        self.shows[namespace] = seen
        if namespace in self.ends:
            error = self.ends.pop(namespace)
            if error is not None:
                raise error
            return
        await stopping.wait()


class Stuck:
    """A watch that does not begin until it is `over`."""

    def __init__(self) -> None:
        self.called = False
        self.over = threading.Event()

    async def watch(self, namespace: str, seen: object, stop: Future[Callable[[], object]]) -> None:
        self.called = True
        await asyncio.to_thread(self.over.wait, 20)
        stop.set_result(int)


@pytest.fixture
def kopf(monkeypatch: pytest.MonkeyPatch) -> Kopf:
    made = Kopf()
    monkeypatch.setattr(module, "watch", made.watch)
    monkeypatch.setattr(module, "RELIST_DELAY", 0.001)
    return made


@asynccontextmanager
async def watching(api: Api, *namespaces: str, every: float = 3600.0) -> AsyncIterator[tuple[Watch, list[str]]]:
    told: list[str] = []

    def tell(*resources: Any) -> None:
        told.extend(one["metadata"]["name"] for one in resources)

    watch = Watch(
        cast(KubeApi, api), namespaces, listed=lambda _, found: tell(*found.resources), seen=tell, every=every
    )
    task = asyncio.create_task(watch.run())
    try:
        yield watch, told
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_namespace_that_refuses_keeps_no_other_one_waiting(kopf: Kopf) -> None:
    api = Api(one=[named("a")], other=Refused("403"))
    async with watching(api, "one", "other") as (watch, told):
        await until(lambda: kopf.begun == ["one"])
        assert (told, watch.missing()) == (["a"], "other")
        api.answers["other"] = [named("b")]
        await until(lambda: "b" in told and watch.missing() == "")


async def test_nothing_is_told_before_every_namespace_answered(kopf: Kopf) -> None:
    """Who is only away may hold an older resource, which owns a cluster."""
    api = Api(one=[named("a")], other=Unavailable("503"))
    async with watching(api, "one", "other") as (watch, told):
        await until(lambda: api.asked.count("other") > 2)
        assert (told, kopf.begun, watch.missing()) == ([], [], "other")
        api.answers["other"] = [named("b")]
        await until(lambda: told == ["a", "b"])


@pytest.mark.parametrize("end", [RuntimeError("gave up"), asyncio.CancelledError(), TimeoutError(), None], ids=repr)
async def test_whatever_a_watch_ends_with_it_begins_anew(kopf: Kopf, end: BaseException | None) -> None:
    api = Api(**{"": []})
    kopf.ends[""] = end
    async with watching(api) as (watch, told):
        await until(lambda: kopf.begun == ["", ""])
        assert watch.missing() == "all namespaces"  # nothing says that this one works
        kopf.shows[""](named("a"))
        await until(lambda: watch.missing() == "")
        assert told == ["a"]


async def test_a_watch_that_holds_begins_anew_all_the_same(kopf: Kopf) -> None:
    async with watching(Api(**{"": []}), every=0.01) as (watch, _):
        await until(lambda: len(kopf.begun) > 2)
        assert watch.missing() == ""


async def test_what_a_watch_begins_with_was_listed_already(kopf: Kopf) -> None:
    async with watching(Api(**{"": [named("a")]})) as (_, told):
        await until(lambda: kopf.begun)
        for resource in (named("a"), named("b"), named("a", "2")):
            kopf.shows[""](resource)
        await until(lambda: len(told) > 2)
        assert told == ["a", "b", "a"]


async def test_a_watch_has_a_thread_although_all_of_asyncio_are_taken(kopf: Kopf) -> None:
    over = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = asyncio.create_task(asyncio.to_thread(over.wait, 20))
    await asyncio.sleep(0)
    try:
        async with watching(Api(one=[], two=[]), "one", "two"):
            await until(lambda: sorted(kopf.begun) == ["one", "two"])
    finally:
        over.set()
        await hanging


async def test_a_watch_that_never_began_did_not_hold(kopf: Kopf, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck()
    monkeypatch.setattr(module, "watch", stuck.watch)
    api = Api(**{"": []})
    try:
        async with watching(api, every=0.01) as (watch, _):
            await until(lambda: api.asked.count("") > 2)
            assert watch.missing() == "all namespaces"
    finally:
        stuck.over.set()


async def test_a_watch_after_one_that_ended_is_not_believed_before_it_began(
    kopf: Kopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Stuck()
    kopf.ends[""] = RuntimeError("gave up")
    monkeypatch.setattr(module, "watch", lambda *rest: stuck.watch(*rest) if kopf.begun else kopf.watch(*rest))
    monkeypatch.setattr(module, "WATCH_HEALTHY_AFTER", 0.0)
    try:
        async with watching(Api(**{"": []})) as (watch, _):
            await until(lambda: stuck.called)
            for _ in range(3):
                await asyncio.sleep(0)  # its time is over
            assert watch.missing() == "all namespaces"
    finally:
        stuck.over.set()


async def test_a_watch_after_one_that_ended_is_believed_when_it_goes_on(
    kopf: Kopf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is no resource that it could show."""
    monkeypatch.setattr(module, "WATCH_HEALTHY_AFTER", 0.2)
    kopf.ends[""] = RuntimeError("gave up")
    async with watching(Api(**{"": []})) as (watch, _):
        await until(lambda: kopf.begun == ["", ""] and watch.missing() == "")


class Discovery:
    """An API server as Kopf asks it. Our resource can be listed and watched, but may not be named among the kinds.

    `lost`: how many watches lose their connection at once. `refuses`: watch requests.
    """

    def __init__(self, *, named: bool = False, lost: int = 0, refuses: bool = False) -> None:
        self.named, self.lost, self.refuses = named, lost, refuses
        self.watches = 0
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            self.watches += 1
            self.asked.append(f"watch from {request.query['resourceVersion']}")
            if self.refuses or not request.query["timeoutSeconds"].isdecimal():
                return web.json_response({"kind": "Status", "code": 403, "message": "no"}, status=403)
            stream = web.StreamResponse()
            await stream.prepare(request)
            if self.watches > self.lost:
                await asyncio.Event().wait()
            seen = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "999"}}}
            await stream.write(json.dumps(seen).encode() + b"\n")
            return stream
        group = {"name": GROUP, "versions": [{"version": VERSION}], "preferredVersion": {"version": VERSION}}
        if request.path.endswith(PLURAL):
            self.asked.append("list")
        answers: dict[str, dict[str, Any]] = {
            "/api": {"versions": ["v1"]},
            "/api/v1": {"resources": [self._kind("namespaces", "Namespace")]},
            "/apis": {"groups": [group] if self.named else []},
            f"/apis/{GROUP}/{VERSION}": {"resources": [self._kind(PLURAL, KIND)]},
            f"/apis/{GROUP}/{VERSION}/{PLURAL}": {"metadata": {"resourceVersion": "1"}, "items": []},
        }
        return web.json_response(answers[request.path])

    def _kind(self, name: str, kind: str) -> dict[str, Any]:
        return {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["list", "watch"]}


@asynccontextmanager
async def serving(served: Discovery, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """To the real Kopf."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", served.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def account() -> Account:
        return Account(f"http://127.0.0.1:{runner.addresses[0][1]}", None, None, None, None, None, True)

    monkeypatch.setattr(handlers, "account", account)
    monkeypatch.setattr(module, "RELIST_DELAY", 0.001)
    try:
        yield
    finally:
        await runner.cleanup()


async def test_a_kind_that_is_not_named_yet_is_not_taken_for_one_that_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kopf looks for the kinds once, when it begins."""
    api, served = Api(**{"": []}), Discovery()
    async with serving(served, monkeypatch), watching(api) as (watch, _):
        await until(lambda: api.asked.count("") > 1)
        assert (watch.missing(), served.watches) == ("all namespaces", 0)
        served.named = True
        await until(lambda: served.watches)


async def test_a_watch_that_lost_its_connection_begins_with_a_list_and_not_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An etcd that was restored has not come as far as the last watch saw."""
    api, served = Api(**{"": []}), Discovery(named=True, lost=2)
    async with serving(served, monkeypatch), watching(api) as (watch, _):
        await until(lambda: served.watches == 3)
        assert served.asked == ["list", "watch from 1"] * 3
        assert api.asked.count("") == 3  # ours, each before Kopf's
        assert watch.missing() == ""


async def test_a_watch_request_that_is_refused_is_not_taken_for_one_that_lost_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, served = Api(**{"": []}), Discovery(named=True, refuses=True)
    async with serving(served, monkeypatch), watching(api) as (watch, _):
        await until(lambda: watch.missing() == "all namespaces")
