"""The operator as one process that tells a real receiver of a document which only a person can correct."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kafkafeatures import app
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kube.client import KubeApi
from kafkafeatures.notify.settings import NotifySettings
from kafkafeatures.settings import OperatorSettings
from tests.kafkafeatures.notify.receiver import receiving
from tests.kafkafeatures.test_app import Host
from tests.kafkafeatures.threads import until
from tests.simulated.kubernetes import ApiServer


async def test_the_operator_tells_of_an_invalid_document_and_notes_that_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ApiServer()
    server.create("kafka", "orders", {"cluster": {"bootstrapServers": "kafka"}})

    @asynccontextmanager
    async def connected() -> AsyncIterator[KubeApi]:
        yield server.client()

    def is_noted() -> bool:
        resource = server.get("kafka", "orders")
        return bool(resource and (resource.get("status") or {}).get("notified"))

    monkeypatch.setattr(app, "connected", connected)
    async with receiving(tmp_path) as receiver:
        notify = NotifySettings(receiver.url_file, sender="prod-eu")
        settings = OperatorSettings(listen_host="127.0.0.1", listen_port=0, notify=notify)
        running = asyncio.create_task(app.run(settings, host=Host(), environment=SYSTEM))
        try:
            await until(is_noted)
        finally:
            running.cancel()
            await asyncio.wait([running])
    (request,) = receiver.requests
    assert request["text"].startswith("prod-eu: kafka/orders: action required (InvalidSpec): ")
    assert "expected host:port" in request["message"]
