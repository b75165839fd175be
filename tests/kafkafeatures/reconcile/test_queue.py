"""The work queue: one run at a time per key, no exception ends a key, and everything is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kafkafeatures.environment import SYSTEM
from kafkafeatures.kube.errors import Unavailable
from kafkafeatures.reconcile.queue import HUNG_AFTER, LAST_RETRY, Queue, retry_in


class Work:
    """Runs that end when a test releases `go`, once for each. `pauses`: their results, in order; an
    exception is raised.
    """

    def __init__(self, *pauses: float | Exception | None) -> None:
        self.pauses = list(pauses)
        self.begun: list[str] = []
        self.failures: list[BaseException] = []
        self.running = 0
        self.most = 0
        self.go = asyncio.Semaphore(0)
        self.changed = asyncio.Condition()

    async def __call__(self, key: str) -> float | None:
        self.begun.append(key)
        self.running += 1
        self.most = max(self.most, self.running)
        async with self.changed:
            self.changed.notify_all()
        try:
            await self.go.acquire()
        finally:
            self.running -= 1
        pause = self.pauses.pop(0) if self.pauses else 3600.0
        if isinstance(pause, Exception):
            raise pause
        return pause

    async def failed(self, key: str, error: BaseException) -> None:
        self.failures.append(error)
        async with self.changed:
            self.changed.notify_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5), self.changed:
            await self.changed.wait_for(holds)


@asynccontextmanager
async def running(work: Work, **options: float) -> AsyncIterator[Queue[str]]:
    queue: Queue[str] = Queue(work, failed=work.failed, monotonic=SYSTEM.monotonic, **options)  # type: ignore[arg-type]  # options are numbers
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    try:
        yield queue
    finally:
        queue.stop()
        for _ in range(100):
            work.go.release()
        await task


async def turns(count: int = 20) -> None:
    """Give every task that can continue its turn, so that a test sees if one does."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_wake_ups_during_a_run_make_one_more_run_and_never_two_at_once() -> None:
    work = Work()
    async with running(work) as queue:
        queue.wake("a")
        await work.until(lambda: len(work.begun) == 1)
        for _ in range(5):
            queue.wake("a")
        await turns()
        assert work.begun == ["a"]
        work.go.release()
        await work.until(lambda: len(work.begun) == 2)
        work.go.release()
        await turns()
        assert (len(work.begun), work.most) == (2, 1)


async def test_different_keys_run_side_by_side_up_to_the_bound() -> None:
    work = Work()
    async with running(work, at_once=2) as queue:
        for key in "abc":
            queue.wake(key)
        await work.until(lambda: work.running == 2)
        await turns()
        assert work.begun == ["a", "b"]
        work.go.release()
        await work.until(lambda: "c" in work.begun)
        assert work.most == 2


async def test_only_keys_that_wait_for_a_free_slot_are_counted_as_waiting() -> None:
    work = Work()
    async with running(work, at_once=1) as queue:
        for key in ("a", "b", "c"):
            queue.wake(key)
        await work.until(lambda: work.running == 1)
        assert queue.waiting == 2
        for _ in range(3):
            work.go.release()
        await work.until(lambda: len(work.begun) == 3)
        assert queue.waiting == 0


async def test_a_run_that_waits_for_an_external_answer_frees_its_slot_for_another_key() -> None:
    work = Work()
    async with running(work, at_once=1, hold=0.01) as queue:
        for key in ("silent", "also silent", "healthy"):
            queue.wake(key)
        await work.until(lambda: work.running == 3)


async def test_each_run_frees_its_slot_once() -> None:
    """A run that takes longer than `hold` has freed its slot already, and must not free a second one at its end."""
    work = Work(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    async with running(work, at_once=1, hold=0.01) as queue:
        queue.wake("slow")
        queue.wake("slow too")
        await work.until(lambda: work.running == 2)
        for _ in range(4):
            work.go.release()
        await work.until(lambda: len(work.begun) > 4)
    work = Work()
    async with running(work, at_once=1, hold=3600.0) as queue:
        for key in "abc":
            queue.wake(key)
        work.go.release()
        await work.until(lambda: len(work.begun) == 2)
        await turns()
        assert work.running == 1


async def test_a_key_runs_again_when_its_pause_is_over() -> None:
    work = Work(0.001)
    async with running(work) as queue:
        queue.wake("a")
        work.go.release()
        await work.until(lambda: len(work.begun) == 2)


async def test_a_key_is_removed_if_its_run_returns_none_unless_it_was_woken_meanwhile() -> None:
    work = Work(None, None)
    async with running(work) as queue:
        queue.wake("a")
        await work.until(lambda: len(work.begun) == 1)
        queue.wake("a")  # created again while the run that finds it gone is under way
        work.go.release()
        await work.until(lambda: len(work.begun) == 2)
        work.go.release()
        await turns()
        assert len(queue) == 0


async def test_an_exception_of_a_run_is_reported_and_the_key_is_retried() -> None:
    work = Work(RuntimeError("a bug"), ValueError("another"))
    async with running(work) as queue:
        queue.wake("a")
        work.go.release()
        await work.until(lambda: len(work.failures) == 1)
        assert len(queue) == 1
        queue.wake("a")  # it would be tried again after a second; the test does not wait for that
        work.go.release()
        await work.until(lambda: len(work.failures) == 2)
        assert [type(failure) for failure in work.failures] == [RuntimeError, ValueError]


@pytest.mark.parametrize(
    ("failures", "retry_after", "seconds"),
    [(0, 0.0, 1.0), (3, 0.0, 8.0), (100_000, 0.0, LAST_RETRY), (0, 7.0, 7.0), (3, 7.0, 8.0), (0, 3600.0, LAST_RETRY)],
)
def test_a_retry_backs_off_and_respects_retry_after(failures: int, retry_after: float, seconds: float) -> None:
    assert retry_in(failures, Unavailable("429 Too Many Requests", retry_after=retry_after)) == seconds


async def test_a_run_that_takes_too_long_is_ended_and_the_key_stays() -> None:
    work = Work()
    async with running(work, deadline=0.01) as queue:
        queue.wake("a")
        await work.until(lambda: len(work.failures) == 1)
        assert isinstance(work.failures[0], TimeoutError)
        assert (work.running, len(queue)) == (0, 1)


async def test_a_cancelled_error_from_an_awaited_task_does_not_end_the_key() -> None:
    """A run that awaits a cancelled task raises CancelledError, which is no Exception, and no request to stop."""
    runs = 0
    again = asyncio.Event()

    async def work(key: str) -> float | None:
        nonlocal runs
        runs += 1
        if runs == 2:
            again.set()
            return 3600.0
        task = asyncio.create_task(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return 0.0

    failures: list[BaseException] = []

    async def failed(key: str, error: BaseException) -> None:
        failures.append(error)
        raise asyncio.CancelledError

    queue: Queue[str] = Queue(work, failed=failed, monotonic=SYSTEM.monotonic)
    running = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    queue.wake("a")
    await turns()
    queue.wake("a")
    async with asyncio.timeout(5):
        await again.wait()
    assert [type(failure) for failure in failures] == [asyncio.CancelledError]
    queue.stop()
    await running


async def test_an_exception_in_the_failure_handler_ends_no_key() -> None:
    async def work(key: str) -> float | None:
        raise RuntimeError

    heard = asyncio.Event()

    async def failed(key: str, error: BaseException) -> None:
        heard.set()
        raise RuntimeError("and this")

    queue: Queue[str] = Queue(work, failed=failed, monotonic=SYSTEM.monotonic)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    queue.wake("a")
    await heard.wait()
    await turns()
    assert (len(queue), task.done()) == (1, False)
    queue.stop()
    await task


async def test_at_shutdown_running_reconciliations_finish_and_no_other_begins() -> None:
    work = Work(0.0)
    queue: Queue[str] = Queue(work, failed=work.failed, at_once=1, monotonic=SYSTEM.monotonic)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    queue.wake("a")
    queue.wake("b")
    await work.until(lambda: work.running == 1)
    queue.stop()
    await turns()
    assert not task.done()
    work.go.release()
    await task
    assert work.begun == ["a"]


async def _hanging(time: list[float], at_once: int) -> tuple[Queue[str], asyncio.Task[None], Awaitable[None]]:
    stuck = asyncio.Event()

    async def work(key: str) -> float | None:
        await stuck.wait()
        return None

    async def failed(key: str, error: BaseException) -> None:
        """Ignore the failure."""

    queue: Queue[str] = Queue(work, failed=failed, at_once=at_once, deadline=3600.0, monotonic=lambda: time[0])
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)

    async def end() -> None:
        stuck.set()
        queue.stop()
        await task

    return queue, task, end()


async def test_a_run_that_hangs_for_ten_minutes_is_reported_and_a_key_that_waits_for_a_slot_is_not() -> None:
    time = [0.0]
    queue, _, end = await _hanging(time, at_once=1)
    queue.wake("stuck")
    queue.wake("behind it")
    await turns()
    time[0] = HUNG_AFTER - 1
    assert queue.hung() is None
    time[0] = HUNG_AFTER + 1
    assert queue.hung() == "stuck"
    await end
