"""The client on an API server that a test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

import pytest
from aiohttp import web

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.kube import connection
from kafkafeatures.kube.account import Account
from kafkafeatures.kube.api import Key
from kafkafeatures.kube.client import KubeApi, connected
from kafkafeatures.kube.errors import Gone, Refused, Unavailable

KEY = Key("ns", "name")
EMPTY = {"metadata": {"resourceVersion": "1"}, "items": []}


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that were read, the latest last."""
    read: list[str] = []

    async def account() -> Account:
        read.append(f"token-{len(read)}")
        return Account(SERVED[-1], token=read[-1])

    monkeypatch.setattr(connection, "account", account)
    return read


SERVED: list[str] = []


@asynccontextmanager
async def serving(
    answer: Callable[[web.Request], Awaitable[web.Response]], environment: Environment = SYSTEM
) -> AsyncIterator[KubeApi]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    SERVED.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
    try:
        async with connected(environment) as api:
            yield api
    finally:
        await runner.cleanup()


async def test_a_request_says_who_asks_and_takes_no_other_way_than_to_the_api_server() -> None:
    asked: list[tuple[str, str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.path_qs, request.headers["Authorization"]))
        if request.path.endswith(KEY.name):
            raise web.HTTPFound("/elsewhere")
        return web.json_response(EMPTY)

    async with serving(answer) as api:
        await api.resources()
        with pytest.raises(Unavailable, match="302"):
            await api.resource(KEY)
    base = "/apis/kafkafeatures.dev/v1alpha1"
    assert asked == [
        ("GET", f"{base}/kafkafeatures?limit=500", "Bearer token-0"),
        ("GET", f"{base}/namespaces/ns/kafkafeatures/name", "Bearer token-0"),
    ]


async def test_a_token_that_is_refused_is_read_again_for_the_next_request(tokens: list[str]) -> None:
    async def answer(request: web.Request) -> web.Response:
        status = 401 if request.headers["Authorization"] == "Bearer token-0" else 200
        return web.json_response(EMPTY, status=status)

    async with serving(answer) as api:
        with pytest.raises(Unavailable, match="401"):
            await api.resources()
        await api.resources()
    assert tokens == ["token-0", "token-1"]


@pytest.mark.parametrize(("in_pod", "read"), [(True, 3), (False, 1)])
async def test_the_token_of_a_pod_is_read_again_every_minute(
    monkeypatch: pytest.MonkeyPatch, tokens: list[str], in_pod: bool, read: int
) -> None:
    """A login plugin of a kubeconfig is not run as often."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(EMPTY)

    minutes = count()
    monkeypatch.setattr(connection, "in_pod", lambda: in_pod)
    environment = replace(SYSTEM, monotonic=lambda: 30.0 * next(minutes))
    async with serving(answer, environment) as api:
        for _ in range(4):
            await api.resources()
    assert len(tokens) == read


@pytest.mark.parametrize(("status", "error"), [(404, Gone), (403, Refused), (429, Unavailable), (500, Unavailable)])
async def test_the_words_of_a_refusal_are_those_of_the_api_server(status: int, error: type[Exception]) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            {"kind": "Status", "message": "not today"}, status=status, headers={"Retry-After": "7"}
        )

    async with serving(answer) as api:
        with pytest.raises(error, match=f"{status} not today") as refused:
            await api.resource(KEY)
    assert getattr(refused.value, "retry_after", 0.0) == (7.0 if error is Unavailable else 0.0)


@pytest.mark.parametrize(
    ("before", "listed", "restored"),
    [("7", "7", False), ("7", "8", False), ("7", "6", True), ("100", "99", True), ("opaque", "6", False)],
)
async def test_a_list_that_is_older_than_what_was_read_before_tells_of_a_restore(
    before: str, listed: str, restored: bool
) -> None:
    async def answer(request: web.Request) -> web.Response:
        version = before if request.path.endswith(KEY.name) else listed
        return web.json_response({"metadata": {"resourceVersion": version}, "items": []})

    async with serving(answer) as api:
        assert not (await api.resources()).restored
        await api.resource(KEY)
        assert (await api.resources()).restored is restored
        assert not (await api.resources()).restored  # told once


async def test_a_list_that_was_asked_for_before_something_was_written_tells_of_no_restore() -> None:
    """Its answer may come after that of the write."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith(KEY.name):
            return web.json_response({"metadata": {"resourceVersion": "8"}})
        await api.resource(KEY)
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})

    async with serving(answer) as api:
        assert not (await api.resources()).restored
