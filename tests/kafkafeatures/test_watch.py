"""Lists and watches: a namespace that refuses keeps no other one waiting, and whatever ends a watch begins it anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from kafkafeatures import watch as module
from kafkafeatures.kube.client import KubeApi
from kafkafeatures.kube.errors import KubeError, Refused, Unavailable
from kafkafeatures.watch import Watch


def named(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": f"{name}{version}"}}


class Api:
    """What lists answer, by namespace; an exception is raised."""

    def __init__(self, **answers: list[dict[str, Any]] | KubeError) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def resources(self, namespace: str) -> list[dict[str, Any]]:
        self.asked.append(namespace)
        answer = self.answers[namespace]
        if isinstance(answer, KubeError):
            raise answer
        return answer


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


@pytest.fixture
def kopf(monkeypatch: pytest.MonkeyPatch) -> Kopf:
    made = Kopf()
    monkeypatch.setattr(module, "watch", made.watch)
    monkeypatch.setattr(module, "AGAIN", 0.001)
    return made


@asynccontextmanager
async def watching(api: Api, *namespaces: str, every: float = 3600.0) -> AsyncIterator[tuple[Watch, list[str]]]:
    told: list[str] = []

    def tell(*resources: Any) -> None:
        told.extend(one["metadata"]["name"] for one in resources)

    watch = Watch(cast(KubeApi, api), namespaces, listed=lambda found: tell(*found), seen=tell, every=every)
    task = asyncio.create_task(watch.run())
    try:
        yield watch, told
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - threads have no events of ours
            await asyncio.sleep(0.001)


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
