"""Kopf on an API server whose watches send damaged lines: only the watch of that namespace ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kafkafeatures.environment import Environment
from kafkafeatures.kube import watches
from tests.kafkafeatures.test_handlers import Operator, Server, event, hosted
from tests.kafkafeatures.threads import until

NOTHING = object()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "RETRY_DELAY", 0.01)


def damaged(*path: str, to: Any = NOTHING, kind: str = "ADDED") -> dict[str, Any]:
    """An event that has something else at this path, or nothing."""
    whole = event(kind, "damaged")
    place = whole
    for one in path[:-1]:
        place = place[one]
    place[path[-1]] = to
    if to is NOTHING:
        del place[path[-1]]
    return whole


DEEP = b"[" * 100_000 + b"]" * 100_000
DAMAGED: dict[str, Any] = {
    "it is cut off": b'{"type":"ADDED","object":{"kind":"KafkaFea',
    "it is no JSON": b'{"type": "ADDED", "object": no',
    "a page follows": b'{"type":"ADDED"}<html>',
    "it is not in UTF-8": json.dumps(event("ADDED", "damaged")).encode().replace(b"damaged", b"\xff"),
    "it is in UTF-16": json.dumps(event("ADDED", "damaged")).encode("utf-16"),
    "it is a list": [event("ADDED", "damaged")],
    "it is null": b"null",
    "it has 100,000 levels": b'{"type":"ADDED","object":%s}' % DEEP,
    "a field has 100,000 levels": json.dumps(event("ADDED", "damaged", spec="deep")).encode().replace(b'"deep"', DEEP),
    "no type": damaged("type"),
    "the type is null": damaged("type", to=None),
    "the type is a list": damaged("type", to=[]),
    "a type that nobody knows": damaged("type", to="SYNCED"),
    "no object": damaged("object"),
    "the object is null": damaged("object", to=None),
    "the object is a text": damaged("object", to="orders"),
    "no metadata": damaged("object", "metadata"),
    "nothing but an empty object": damaged("object", to={}),
    "the metadata are null": damaged("object", "metadata", to=None),
    "the metadata are a list": damaged("object", "metadata", to=[]),
    "no uid": damaged("object", "metadata", "uid"),
    "the uid is null": damaged("object", "metadata", "uid", to=None),
    "the uid is empty": damaged("object", "metadata", "uid", to=""),
    "the uid is a list": damaged("object", "metadata", "uid", to=["damaged"]),
    "a change without uid": damaged("object", "metadata", "uid", kind="MODIFIED"),
    "a deletion without uid": damaged("object", "metadata", "uid", kind="DELETED"),
    "no name": damaged("object", "metadata", "name"),
    "no namespace": damaged("object", "metadata", "namespace"),
    "no version": damaged("object", "metadata", "resourceVersion"),
    "a bookmark without object": damaged("object", kind="BOOKMARK"),
    "a bookmark without metadata": damaged("object", "metadata", kind="BOOKMARK"),
    "a bookmark without version": damaged("object", "metadata", "resourceVersion", kind="BOOKMARK"),
    "an error without object": {"type": "ERROR"},
    "the object of an error is null": {"type": "ERROR", "object": None},
}


@pytest.mark.parametrize("line", [pytest.param(line, id=what) for what, line in DAMAGED.items()])
async def test_a_damaged_line_ends_only_the_watch_of_its_namespace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, line: Any
) -> None:
    """Without `watches`, Kopf would end the process at most of these lines."""
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds:
            await over.wait()

    first_answer, second_answer = [event("ADDED"), line, event("ADDED", "behind")], [event("ADDED", "anew")]
    served, operator = Server(one=[first_answer, second_answer], other=[[event("ADDED", "bills")]]), Operator()
    environment = Environment(monotonic=lambda: 1000.0, sleep=sleep)
    async with hosted(served, operator, monkeypatch, "one", "other", environment=environment) as running:
        await until(
            lambda: operator.held == {"one": False, "other": True} and sorted(operator.shown) == ["bills", "orders"]
        )
        over.set()
        await until(lambda: operator.held["one"] and sorted(operator.shown) == ["anew", "bills", "orders"])
        assert not running.done()
    (message,) = [record.message for record in caplog.records if record.name == watches.__name__]
    assert message.startswith("the watch of one ended: an invalid event; check that the address is the API server's;")
