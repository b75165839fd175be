"""The operator as one process: what all resources share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kafkafeatures import app
from kafkafeatures.kube.errors import NoAccount
from kafkafeatures.settings import OperatorSettings


async def test_names_that_do_not_resolve_leave_threads_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as one resource can look up at once (`kafka/pool.py`), and one more."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[None]:
        over = threading.Event()
        hanging = [asyncio.create_task(asyncio.to_thread(over.wait, 20)) for _ in range(100)]
        try:
            async with asyncio.timeout(10):
                await asyncio.sleep(0)
                await asyncio.to_thread(int)
        finally:
            over.set()
            await asyncio.gather(*hanging)
        raise NoAccount("all is seen")
        yield

    monkeypatch.setattr(app, "connected", connected)
    with pytest.raises(NoAccount):
        await app.run(OperatorSettings())
