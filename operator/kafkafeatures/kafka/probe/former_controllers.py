"""Where controllers that answered once still answer, or refuse the connection. Called by `cluster.py`.

Nothing else leads there: a document may name other addresses by now, and no list is left to name these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import parse_addresses
from kafkafeatures.kafka.probe.prober import probe_node

WHERE = "the address of a controller"
WITHIN = 3.0
"""Seconds for an answer. Whatever is silent for longer proves nothing, and the look has asked it before."""


async def former_controllers(pool: Pool, addresses: Iterable[str]) -> Mapping[str, Failure | None]:
    """The reasons why no controller answers at each of these addresses; None where one does. What is no address, as a
    status or a setting of a broker may have it, is a Failure as well.
    """

    async def at(text: str) -> Failure | None:
        try:
            (address,) = parse_addresses(text, WHERE)
        except ValueError as error:
            return Failure(FailureKind.UNREACHABLE, WHERE, str(error))
        try:
            async with asyncio.timeout(WITHIN):
                answer = await probe_node(pool, address, Role.CONTROLLER)
        except TimeoutError:
            return Failure(FailureKind.TIMED_OUT, text, f"no answer within {WITHIN:g} s", "check that it has stopped")
        return answer if isinstance(answer, Failure) else None

    tried = sorted(addresses)
    return dict(zip(tried, await asyncio.gather(*map(at, tried)), strict=True))
