"""An event loop whose time is a number: a pause is over at once, and nothing happens beside it.

Everything of one simulated history runs in it: the operator with its timers and deadlines, and the world. No thread, no
socket, no clock: the same history again is the same to the last step.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop
from typing import Any, TypeVar

T = TypeVar("T")

_RESOLUTION = 1e-9
"""Seconds, of the clock that asyncio has."""


class DeadlockError(Exception):
    """A deadlock: all tasks wait, and no timer is set."""


class _NoSockets(selectors.BaseSelector):
    """A selector that is never asked: see `_run_once`."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise AssertionError("nobody waits for sockets here")

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> Any:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_NoSockets())

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        """What asyncio does at each turn, without a look at sockets and at a clock: a third of the loop's own time."""
        ready, timers = self._ready, self._scheduled
        while timers and timers[0].cancelled():
            heappop(timers)
        if not ready:
            if not timers:
                raise DeadlockError
            self._now += max(timers[0].when() - self._now, 0.0)
        while timers and timers[0].when() < self._now + _RESOLUTION:
            ready.append(heappop(timers))
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run the function at once, in this thread."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in an event loop of its own."""
    results: list[T] = []

    async def without_result() -> None:
        """Keeps the result away from the Runner, which writes out its task and result as it ends: for a history that
        takes longest of all.
        """
        results.append(await main)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(without_result())
    return results[0]
