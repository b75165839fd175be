"""Runs work in a thread that would otherwise block the event loop, and with it all other clusters.

Such work is a key derivation, the making of a TLS context, or a walk over a whole metadata log. It has its own two
threads, since asyncio's default ones may all be waiting for slow DNS. The work must end by itself within seconds: it
cannot be cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_THREADS = ThreadPoolExecutor(2, "kafkafeatures")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Return or raise as `work` does, but for StopIteration, which no Future can carry."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
