"""Waiting, in tests, for what threads do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object]) -> None:
    """Returns once it holds; fails after five seconds."""
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - threads have no events of ours
            await asyncio.sleep(0.001)
