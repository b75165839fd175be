"""Time and chance: every clock, pause and random number of the operator comes from an `Environment`.

Whatever needs one gets it as an argument. `SYSTEM` is that of a real process; tests and the simulation pass another, so
that their runs can be repeated. Deadlines (`asyncio.timeout`) follow the event loop, which such tests replace too.
`core` needs no environment: there the time is an argument. This module imports no other of this package.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from msgspec import Struct


def _now() -> datetime:
    return datetime.now(UTC)


_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Monotonic clock that also counts while the machine is suspended; CLOCK_MONOTONIC does so where there is no
CLOCK_BOOTTIME.
"""


def _monotonic() -> float:
    return time.clock_gettime(_SINCE_BOOT)


class Environment(Struct, frozen=True):
    """Clocks, random numbers and pauses of a process."""

    clock: Callable[[], datetime] = _now
    """The wall clock, in UTC. It may be wrong, and be set at any time."""
    monotonic: Callable[[], float] = _monotonic
    """Seconds of a monotonic clock, including the time for which the machine was suspended."""
    random: Callable[[], float] = random.random
    """A number from 0 up to 1, for names and jitter; never for a secret."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Wait so many seconds."""

    def jittered(self, seconds: float) -> float:
        """The seconds, less a random part of up to a tenth, so that tasks that began together drift apart."""
        return seconds * (1.0 - 0.1 * self.random())


SYSTEM = Environment()
