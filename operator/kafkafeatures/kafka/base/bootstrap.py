"""The first contact with a cluster: races all bootstrap addresses of one role, and the first success wins.

Called by `directory.py`, once for the brokers and once for the controllers. Attempts begin 100 ms after each other, or
as soon as one has failed, so that a first address that swallows packets costs a tenth of a second, not a timeout. The
other attempts continue until the caller ends the race: later answers are contacts as well, and addresses that never
answer are reported. Nothing is judged here, and no address is tried twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.kafka.base.settings import Address

T = TypeVar("T")

STAGGER = 0.1
"""Seconds. RFC 8305 recommends 250 ms between attempts to addresses of one name; within a data centre less will do."""


class Unusable(Exception):
    """An address answers, but not as the kind of node that it was configured for."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Race(Generic[T]):
    """A race of attempts, one for each address. `attempt` returns the result, or raises `KafkaError` or `Unusable`."""

    def __init__(self, addresses: Sequence[Address], attempt: Callable[[Address], Awaitable[T]]) -> None:
        self._waiting = list(dict.fromkeys(addresses))
        self._attempt = attempt
        self._tasks: dict[asyncio.Task[T | Failure], Address] = {}

    async def winner(self) -> T | None:
        """The first result, or None when every address has failed. The others are left running."""
        while True:
            for task in self._tasks:
                if task.done() and not isinstance(result := task.result(), Failure):
                    return result
            running = [task for task in self._tasks if not task.done()]
            if self._waiting:
                address = self._waiting.pop(0)
                task = asyncio.create_task(self._try(address))
                self._tasks[task] = address
                running.append(task)
            elif not running:
                return None
            pause = STAGGER if self._waiting else None
            await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """End the attempts that still run. If `failures` is needed, call it before."""
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def failures(self) -> dict[Address, Failure]:
        """The failures of all addresses that were tried without a result, including attempts that still run."""
        failures_by_address = {}
        for task, address in self._tasks.items():
            if not task.done():  # without the seconds: a text in a status must not differ at each reconciliation
                waited = "no answer yet when another address had answered"
                failures_by_address[address] = Failure(FailureKind.UNREACHABLE, str(address), waited)
            elif not task.cancelled() and isinstance(result := task.result(), Failure):
                failures_by_address[address] = result
        return failures_by_address

    async def _try(self, address: Address) -> T | Failure:
        try:
            return await self._attempt(address)
        except KafkaError as error:
            return to_failure(error, str(address))
        except Unusable as error:
            return error.failure


def combined(field: str, failures: Sequence[Failure]) -> Failure:
    """One failure that lists all addresses with their reasons. Its kind is that of the first failure other than
    NOT_LISTENING, since the combined one must not claim that no process listens anywhere unless all say so.
    """
    kinds = [*dict.fromkeys(failure.kind for failure in failures)]
    if len(failures) == 1:
        return failures[0]
    if len({(failure.message, failure.remedy) for failure in failures}) == 1:  # said once, it reads better
        return replace(failures[0], location=", ".join(failure.location for failure in failures))
    each = "; ".join(str(failure) for failure in failures)
    return Failure(
        next((kind for kind in kinds if kind is not FailureKind.NOT_LISTENING), kinds[0]),
        field,
        f"none of {len(failures)} addresses answered: {each}",
    )
