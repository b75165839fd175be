"""The operator as one process that tells a real receiver of a document which only a person can correct."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kafkafeatures import app
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kube.client import KubeApi
from kafkafeatures.notify.settings import NotifySettings
from kafkafeatures.settings import OperatorSettings
from tests.kafkafeatures.notify.receiver import Receiver, is_silent, receiving
from tests.kafkafeatures.test_app import Host
from tests.kafkafeatures.threads import until
from tests.simulated.kubernetes import ApiServer


@asynccontextmanager
async def operator(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, *, sender: str = ""
) -> AsyncIterator[Callable[[], bool]]:
    """Context in which the operator runs beside one invalid document. Its value tells whether a delivery is noted."""
    server = ApiServer()
    server.create("kafka", "orders", {"cluster": {"bootstrapServers": "kafka"}})

    @asynccontextmanager
    async def connected() -> AsyncIterator[KubeApi]:
        yield server.client()

    def is_noted() -> bool:
        resource = server.get("kafka", "orders")
        return bool(resource and (resource.get("status") or {}).get("notified"))

    monkeypatch.setattr(app, "connected", connected)
    notify = NotifySettings(receiver.url_file, sender=sender)
    settings = OperatorSettings(listen_host="127.0.0.1", listen_port=0, notify=notify)
    running = asyncio.create_task(app.run(settings, host=Host(), environment=SYSTEM))
    try:
        yield is_noted
    finally:
        running.cancel()
        await asyncio.wait([running])


def deliveries() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith("notification of")]


async def test_the_operator_tells_of_an_invalid_document_and_notes_that_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving(tmp_path) as receiver, operator(receiver, monkeypatch, sender="prod-eu") as is_noted:
        await until(is_noted)
    (request,) = receiver.requests
    assert request["text"].startswith("prod-eu: kafka/orders: action required (InvalidSpec): ")
    assert "expected host:port" in request["message"]


async def test_the_operator_ends_while_a_receiver_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving(tmp_path, is_silent) as receiver:
        async with operator(receiver, monkeypatch):
            await until(lambda: receiver.requests)
            assert deliveries() == ["notification of kafka/orders"]
        assert deliveries() == []


async def test_the_operator_starts_with_a_url_that_cannot_be_used_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving(tmp_path) as receiver:
        receiver.set_url("hooks.example")
        async with operator(receiver, monkeypatch):
            await until(lambda: any("tried again" in message for message in caplog.messages))
    first, *_ = (message for message in caplog.messages if "notifications" in message)
    assert first.startswith("notifications cannot be sent: invalid URL in ")
