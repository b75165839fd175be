"""The work queue: one task for each key, so that no two reconciliations of a key run at once.

Called by `app.py` and `resources.py`; it knows nothing of Kafka or Kubernetes.

- A key is reconciled after a wake-up or at the end of its pause, whichever is first; several wake-ups count as one.
- `work` returns the pause in seconds. None removes the key, unless it was woken meanwhile.
- After an error in `work` the pause grows with each further error, and is at least the error's `retry_after` seconds.
- Every reconciliation has a deadline.
- At most `at_once` reconciliations hold a slot. One that has not ended after `hold` seconds is waiting for something
  outside, and gives its slot to the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY, LAST_RETRY = 1.0, 60.0
"""Seconds until the first retry after an error, and between later ones at most."""
HOLD = 5.0
"""Seconds for which a reconciliation holds its slot: not longer, as many clusters may not answer; and not shorter, as
on a busy processor ever more reconciliations would begin, and none would end.
"""
HUNG_AFTER = 600.0
"""Seconds after which a reconciliation, or a key that waits for a slot, counts as hung."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    """State of a key. Times are monotonic: when it was woken, when its reconciliation began, since when it waits for a
    slot; None where that does not apply.
    """

    task: asyncio.Task[None]
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    woken_at: float | None = None
    running_since: float | None = None
    waiting_since: float | None = None


class Queue(Generic[K]):
    """Queue of keys. Times are in seconds.

    work: reconciles a key, and returns its pause.
    failed: receives the key and the error of `work`.
    at_once: number of slots.
    deadline: limit of each reconciliation.
    hold: time for which a reconciliation holds its slot.
    waited: receives the time between a wake-up and its reconciliation.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        failed: Callable[[K, BaseException], Awaitable[None]],
        at_once: int = 32,
        deadline: float = 120.0,
        hold: float = HOLD,
        waited: Callable[[float], None] = lambda seconds: None,
        monotonic: Callable[[], float],
    ) -> None:
        self._work = work
        self._failed = failed
        self._slots = asyncio.Semaphore(at_once)
        self._deadline, self._hold = deadline, hold
        self._waited = waited
        self._monotonic = monotonic
        self._entries: dict[K, _Entry] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._last_pass = monotonic()
        self._stopping = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def waiting(self) -> int:
        """Number of keys that were woken and are not being reconciled yet. Safe to call from another thread."""
        entries = list(self._entries.values())
        return sum(entry.woken_at is not None and entry.running_since is None for entry in entries)

    def wake(self, key: K) -> None:
        """Reconcile the key soon. Only while `run` is running."""
        entry = self._entries.get(key)
        if entry is None:
            if self._tasks is None or self._stopping.is_set():
                return
            entry = _Entry(self._tasks.create_task(self._serve(key), name=f"reconciliations of {key}"))
            self._entries[key] = entry
        entry.wake.set()
        if entry.woken_at is None:
            entry.woken_at = self._monotonic()

    async def run(self) -> None:
        """Run until `stop`. Reconciliations under way are then finished, within their deadline."""
        async with asyncio.TaskGroup() as self._tasks:
            await self._stopping.wait()
            for entry in self._entries.values():
                if entry.running_since is None:
                    entry.task.cancel()

    def stop(self) -> None:
        """Begin no further reconciliation."""
        self._stopping.set()

    def hung(self) -> K | None:
        """A key whose reconciliation is long overdue, because even the deadline did not work; None while all is
        well.
        """
        monotonic_time = self._monotonic()
        for key, entry in self._entries.items():
            if entry.running_since is not None and monotonic_time - entry.running_since > HUNG_AFTER:
                return key
            starved = entry.waiting_since is not None and monotonic_time - entry.waiting_since > HUNG_AFTER
            if starved and monotonic_time - self._last_pass > HUNG_AFTER:  # else slots are only busy
                return key
        return None

    async def _serve(self, key: K) -> None:
        entry = self._entries[key]
        failures = 0
        while not self._stopping.is_set():
            entry.waiting_since = self._monotonic()
            async with _Slot(self._slots, self._hold):
                if self._stopping.is_set():
                    return
                entry.wake.clear()  # a later wake-up may be about something that this reconciliation misses
                entry.waiting_since, entry.running_since = None, self._monotonic()
                if entry.woken_at is not None:
                    self._waited(entry.running_since - entry.woken_at)
                    entry.woken_at = None
                try:
                    async with asyncio.timeout(self._deadline):
                        pause = await self._work(key)
                    failures = 0
                except (
                    Exception,
                    asyncio.CancelledError,
                ) as error:  # an error that left this task would end the key's work
                    if is_own_cancellation(error):
                        raise
                    pause = retry_in(failures, error)
                    failures += 1
                    await self._report_failure(key, error)
                finally:
                    entry.running_since = None
                self._last_pass = self._monotonic()
            if pause is None and not entry.wake.is_set():
                del self._entries[key]
                return
            if self._stopping.is_set():
                return
            timer = asyncio.get_running_loop().call_later(pause or 0.0, entry.wake.set)
            try:
                await entry.wake.wait()
            finally:
                timer.cancel()

    async def _report_failure(self, key: K, error: BaseException) -> None:
        try:
            async with asyncio.timeout(self._deadline):
                await self._failed(key, error)
        except (Exception, asyncio.CancelledError) as report_error:
            if is_own_cancellation(report_error):
                raise
            logger.exception("could not report a failed reconciliation of %s", key)


class _Slot:
    """A slot for a reconciliation: released on exit, or after `hold` seconds."""

    def __init__(self, slots: asyncio.Semaphore, hold: float) -> None:
        self._slots, self._hold = slots, hold
        self._held = False

    async def __aenter__(self) -> None:
        await self._slots.acquire()
        self._held = True
        self._timer = asyncio.get_running_loop().call_later(self._hold, self._give_back)

    async def __aexit__(self, *_: object) -> None:
        self._timer.cancel()
        self._give_back()

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.release()


def retry_in(failures: int, error: BaseException) -> float:
    """Seconds until the next try, a minute at most. `failures`: number of failures in a row before this one."""
    return not_before(FIRST_RETRY * 2.0 ** min(failures, 10), error)


def not_before(own_delay: float, error: BaseException) -> float:
    """Seconds to wait: `own_delay`, or the error's `retry_after` if that is longer; at most `LAST_RETRY`."""
    retry_after: float = getattr(error, "retry_after", 0.0)
    return min(max(own_delay, retry_after), LAST_RETRY)


def is_own_cancellation(error: BaseException) -> bool:
    """Tell whether the error means that the current task is being cancelled. The same error comes from an awaited task
    that something else cancelled.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
