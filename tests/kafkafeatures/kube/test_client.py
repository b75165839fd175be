"""The client of the API server, over HTTP with answers that a test writes, such as resource versions that go back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime

import pytest
from aiohttp import web
from kubernetes.aio import client

from kafkafeatures.kube.api import ResourceKey
from kafkafeatures.kube.client import SESSION, KubeApi
from kafkafeatures.kube.errors import WriteWithheld
from kafkafeatures.kube.first_byte import withholding

KEY = ResourceKey("ns", "name")


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[KubeApi]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        configuration = client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
        configuration.client_session_kwargs = SESSION
        async with client.ApiClient(configuration) as api:
            yield KubeApi(api)
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("before", "listed", "restored"),
    [("7", "7", False), ("7", "8", False), ("7", "6", True), ("100", "99", True), ("opaque", "6", False)],
    ids=["the same", "newer", "older", "older, also compared as numbers", "versions that are no numbers"],
)
async def test_a_list_with_an_older_resource_version_than_read_before_means_a_restore(
    before: str, listed: str, restored: bool
) -> None:
    async def answer(request: web.Request) -> web.Response:
        version = before if request.path.endswith(KEY.name) else listed
        return web.json_response({"metadata": {"resourceVersion": version}, "items": []})

    async with serving(answer) as api:
        assert not (await api.resources()).restored
        await api.resource(KEY)
        assert (await api.resources()).restored is restored
        assert not (await api.resources()).restored  # reported once


async def test_a_list_requested_before_a_later_read_means_no_restore() -> None:
    """The list is answered last, although the API server made it before the other read."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith(KEY.name):
            return web.json_response({"metadata": {"resourceVersion": "8"}})
        await api.resource(KEY)
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})

    async with serving(answer) as api:
        assert not (await api.resources()).restored


@pytest.mark.parametrize(
    "found",
    [
        '"\\ud800"',
        "123456789012345678901234567890",
        "1e400",
        "NaN",
        '{"a": 1, "a": [2.5, -0.0, null]}',
        '"\\ud83d\\ude00"',
    ],
    ids=["half of a surrogate pair", "a huge integer", "a huge float", "NaN", "a key twice", "a surrogate pair"],
)
async def test_an_answer_is_decoded_as_the_json_module_does(found: str) -> None:
    body = f'{{"metadata": {{}}, "status": {found}}}'

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body.encode(), content_type="application/json")

    async with serving(answer) as api:
        assert repr(await api.resource(KEY)) == repr(json.loads(body))


async def test_a_patch_is_sent_as_merge_patch_and_a_post_as_json() -> None:
    asked: list[tuple[str, str, object]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((request.method, request.content_type, await request.json()))
        return web.json_response({"metadata": {"resourceVersion": "1"}})

    async with serving(answer) as api:
        pod = "/api/v1/namespaces/kafka/pods/broker-0"
        await api.send("PATCH", pod, {"metadata": {"annotations": {"a": "b"}}})
        await api.send("POST", f"{pod}/eviction", {"kind": "Eviction"})
    assert asked == [
        ("PATCH", "application/merge-patch+json", {"metadata": {"annotations": {"a": "b"}}}),
        ("POST", "application/json", {"kind": "Eviction"}),
    ]


@pytest.mark.parametrize(
    ("date", "at"),
    [("Fri, 02 Jan 2026 03:04:05 GMT", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)), ("", None), ("soon", None)],
)
async def test_the_client_takes_the_time_from_the_date_header_of_an_answer(date: str, at: datetime | None) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {}}, headers={"Date": date})

    async with serving(answer) as api:
        assert api.answered_at is None
        await api.resource(KEY)
        assert (api.answered_at, api.began) == (at, at)


async def test_a_request_that_is_withheld_on_its_open_connection_does_not_arrive() -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.json_response({"metadata": {"resourceVersion": "1"}})

    async with serving(answer) as api:
        # Withheld on a new connection, sent, and withheld on the same connection.
        for reason in ("it is too late", None, "it is too late again"):
            answers = [reason]
            with pytest.raises(WriteWithheld, match=reason) if reason else nullcontext(), withholding(answers.pop):
                await api.send("POST", "/eviction", {})
            assert not answers
        await api.get("/")
    assert asked == ["POST", "GET"]
