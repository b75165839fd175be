"""Pipeline of many reads in one session, with hundreds of them outstanding: a cluster may have a hundred thousand
znodes.

Called by `copied.py`. Answers come from threads of kazoo and are handled in the event loop, a few at a time, so that
other tasks can run. Reads that were added last are sent first: the partitions of a topic before the next topics, so
that few topics are half read. While answers are large, fewer reads are outstanding.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from kazoo.interfaces import IAsyncResult

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.zookeeper.session import Session

MOST_OUTSTANDING, LEAST_OUTSTANDING = 500, 8
"""Limits of the number of outstanding reads."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of outstanding answers at most, estimated from earlier answers."""

TURN, TURN_BYTES = 16, 128 * 1024
"""Answers, and their bytes, after which the event loop runs other tasks."""

_FIRST = 1024 * 1024  # estimate of the largest answer in bytes, before any has come
_DECAY = 0.9  # factor by which that estimate shrinks with each answer

_OF_SINGLE_ZNODE = (FailureKind.AUTHORIZATION, FailureKind.REJECTED)
"""Failures of a single znode: others can still be read."""

Data: TypeAlias = bytes | Failure | None
"""Data of a znode; None if there is no such znode."""
Names: TypeAlias = tuple[str, ...] | Failure | None
"""Names of the children of a znode, sorted; None if there is no such znode."""


class Read(NamedTuple):
    """A read of a znode's data or of the names of its children; one of the two handlers is None.

    path: path of the znode.
    take: handler of its data.
    take_names: handler of the names.
    """

    path: str
    take: Callable[[Data], None] | None
    take_names: Callable[[Names], None] | None = None


class Pipeline:
    """The reads of one session, as a stack of iterables. Handlers of answers may add more reads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: list[Iterator[Read]] = []
        self._outstanding = 0
        self._largest = float(_FIRST)  # bytes of the largest recent answer, an estimate for those that are outstanding
        self._answered: deque[tuple[Read, IAsyncResult]] = deque()  # written to by threads of kazoo
        self._any = asyncio.Event()  # an answer has come
        self._loop = asyncio.get_running_loop()

    def add(self, reads: Iterable[Read]) -> None:
        """Add reads, to be sent before those that wait already. The iterable is consumed as they are sent, and must not
        itself add reads.
        """
        self._waiting.append(iter(reads))

    async def run(self) -> Failure | None:
        """Send all reads, including those that are added meanwhile. A Failure if no server can be reached any more."""
        count = size = 0
        while self._waiting or self._outstanding:
            self._send()
            if not await self._wait_for_answer():
                return self._session.late()
            while self._answered:
                request, done = self._answered.popleft()
                self._outstanding -= 1
                outcome = self._session.outcome(request.path, done)
                if isinstance(outcome, Failure) and outcome.kind not in _OF_SINGLE_ZNODE:
                    return outcome
                count, size = count + 1, size + self._take(request, outcome)
                if count >= TURN or size >= TURN_BYTES:
                    count = size = 0
                    self._send()
                    await asyncio.sleep(0)
        return None

    def _take(self, request: Read, answer: Any) -> int:
        """Pass an answer to its handler; return its size in bytes."""
        size = 0
        if request.take is not None:
            data = answer if answer is None or isinstance(answer, Failure) else answer[0] or b""
            size = len(data) if isinstance(data, bytes) else 0
            self._largest = max(float(size), _DECAY * self._largest, 1.0)
            request.take(data)
        elif request.take_names is not None:
            request.take_names(tuple(sorted(answer)) if isinstance(answer, list) else answer)
        return size

    def _send(self) -> None:
        """Send waiting reads, up to the number that may be outstanding."""
        window = max(LEAST_OUTSTANDING, min(MOST_OUTSTANDING, int(MOST_BYTES / self._largest)))
        # More than the answers that are handled in a turn, so that the number of outstanding reads grows.
        for _ in range(2 * TURN):
            request = self._next() if self._outstanding < window else None
            if request is None:
                return
            try:
                ask = self._session.request_znode if request.take is not None else self._session.request_children
                handle = ask(request.path)
            except ValueError:  # no znode can have such a path
                self._take(request, Failure(FailureKind.REJECTED, f"znode {request.path}", "this is not a valid path"))
                continue
            self._outstanding += 1
            handle.rawlink(partial(self._note_answer, request))

    def _next(self) -> Read | None:
        """The next read; None if none waits."""
        while self._waiting:
            request = next(self._waiting[-1], None)
            if request is not None:
                return request
            self._waiting.pop()
        return None

    def _note_answer(self, request: Read, done: IAsyncResult) -> None:
        """Note an answer. Called in a thread of kazoo."""
        self._answered.append((request, done))
        if len(self._answered) == 1:  # else the event loop was told already
            self._loop.call_soon_threadsafe(self._any.set)

    async def _wait_for_answer(self) -> bool:
        """Wait for an answer; return False if none came within the timeout."""
        try:
            async with asyncio.timeout(self._session.timeout):
                while not self._answered and self._outstanding:
                    await self._any.wait()
                    self._any.clear()
        except TimeoutError:
            return False
        return True
