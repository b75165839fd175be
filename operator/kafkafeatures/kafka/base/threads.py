"""Work that takes long enough to hold up every other cluster, done beside the event loop.

Called for key derivation, for TLS contexts and for walks over a whole metadata log. The threads are its own: names that
do not resolve may hold all those of asyncio. Only for work that ends by itself, soon.
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
