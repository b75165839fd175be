"""Signals to the process: when the operator is told, and that it ends before the process."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from kafkafeatures.environment import Environment
from tests.kafkafeatures.test_handlers import Operator, Server, error, hosted, soon
from tests.kafkafeatures.threads import until

__all__ = ["soon"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_operator_is_stopped_by_the_signal_before_its_watches_have_ended(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Kopf itself calls the operator only after all watches have ended, which takes seconds. Meanwhile the operator
    could send a request.
    """
    operator = Operator()
    async with hosted(Server(), operator, monkeypatch) as running:
        await until(lambda: operator.held == {"": True})
        os.kill(os.getpid(), number)
        async with asyncio.timeout(5):
            while not operator.stopped:  # noqa: ASYNC110 - the loop has to look whether there was a signal
                await asyncio.sleep(0)
        assert not operator.ended
        await asyncio.wait_for(running, 5)
    assert operator.ended


@pytest.mark.parametrize("begins", [True, False], ids=["while it watches", "before it watches"])
async def test_a_signal_ends_the_operator_before_the_process(monkeypatch: pytest.MonkeyPatch, begins: bool) -> None:
    operator = Operator(begins=begins)
    async with hosted(Server(), operator, monkeypatch) as running:
        await until(lambda: operator.held == {"": True} if begins else operator.begun)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 5)
    assert operator.ended


async def test_a_signal_ends_the_process_at_once_while_a_watch_waits_for_its_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds:
            waits.set()
            await asyncio.Event().wait()

    served, operator = Server(one=[[error(500, "no leader")]]), Operator()
    environment = Environment(monotonic=lambda: 1000.0, sleep=sleep)
    async with hosted(served, operator, monkeypatch, "one", "other", environment=environment) as running:
        await until(lambda: waits.is_set() and operator.held == {"one": False, "other": True})
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 4)
    assert operator.ended
