"""An event loop whose time is a number: a pause is over at once, and nothing happens beside it.

Everything of one simulated history runs in it: the operator with its timers and deadlines, and the world. No thread, no
socket, no clock: the same history again is the same to the last step.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(Exception):
    """Nobody waits for anything that will ever come."""


class _NoSockets(selectors.BaseSelector):
    """Waits by moving the time on."""

    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError
        self.now += max(timeout, 0.0)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> Any:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._without_sockets = _NoSockets()
        super().__init__(self._without_sockets)

    def time(self) -> float:
        return self._without_sockets.now

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """At once, in this thread."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def run(main: Coroutine[Any, Any, T]) -> T:
    """To its end, in a loop of its own."""
    results: list[T] = []

    async def without_result() -> None:
        """As a Runner ends it has the task, and so its result, written out: of a history that takes longest of all."""
        results.append(await main)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(without_result())
    return results[0]
