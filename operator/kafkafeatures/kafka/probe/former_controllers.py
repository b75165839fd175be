"""Asks former addresses of controllers whether a controller still answers there. Called by `cluster.py`.

Used when a migration goes back to ZooKeeper, to make sure that no controller of the quorum runs any more. The addresses
come from earlier readings and from settings of brokers: the document may name others by now, and no node lists them any
more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import parse_addresses
from kafkafeatures.kafka.probe.prober import probe_node

_LOCATION = "the address of a controller"  # location of the failure if the text is no address
WITHIN = 3.0
"""Seconds for an answer. Silence is a Failure, and proves nothing. The nodes were probed just before, in the same
reading, so a short limit is enough.
"""


async def former_controllers(pool: Pool, addresses: Iterable[str]) -> Mapping[str, Failure | None]:
    """By address ("host:port"): the reason why no controller answers there; None if one answers. A text that is no
    address is a Failure as well: the texts come from a status, or from settings of brokers.
    """

    async def at(text: str) -> Failure | None:
        try:
            (address,) = parse_addresses(text, _LOCATION)
        except ValueError:  # the text is not repeated: it may have a password
            return Failure(FailureKind.UNREACHABLE, _LOCATION, "invalid address; expected host:port")
        try:
            async with asyncio.timeout(WITHIN):
                answer = await probe_node(pool, address, Role.CONTROLLER)
        except TimeoutError:
            return Failure(FailureKind.TIMED_OUT, text, f"no answer within {WITHIN:g} s", "check that it has stopped")
        return answer if isinstance(answer, Failure) else None

    tried = sorted(addresses)
    return dict(zip(tried, await asyncio.gather(*map(at, tried)), strict=True))
