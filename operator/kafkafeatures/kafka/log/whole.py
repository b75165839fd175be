"""Reads the whole metadata log, with every config, ACL and partition, to compare it with ZooKeeper.

Called by `cluster.py` for one comparison during a migration. It is a second follower with its own share of the memory,
so that the follower on which reconciliations depend is not disturbed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.memory_budget import MemoryBudget, Share
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.log.follower import MetadataLog
from kafkafeatures.kafka.log.leaders import Connect
from kafkafeatures.kafka.log.outcome import reading_of
from kafkafeatures.kafka.wire.secrets import Secrets
from kraftlog import Image, Section

T = TypeVar("T")


class WholeLog:
    """A follower with all sections of the log, as an async context manager that gives its memory back. `timeout`:
    seconds for each request; reading an image may take `timeouts` times as long.
    """

    def __init__(
        self,
        connect: Connect,
        controllers: Sequence[Address],
        *,
        secrets: Secrets,
        memory: MemoryBudget,
        timeout: float,
        timeouts: int,
        environment: Environment,
    ) -> None:
        self._secrets, self._within = secrets, timeout * timeouts
        self._share = Share(memory, self._discard)
        self._log = MetadataLog(
            connect=connect,
            controllers=controllers,
            request_timeout=timeout,
            environment=environment,
            share=self._share,
            sections=frozenset(Section),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._log.close()
        self._discard()

    async def image(self) -> Image | Failure:
        """The image of all records that are committed by now, or the reason why there is none."""
        reading = await reading_of(self._log.catch_up, self._within)
        return reading if isinstance(reading, Failure) else reading.image

    def without_secrets(self, reading: T) -> T:
        """The reading without our own passwords and tokens, which a node may repeat to us."""
        return self._secrets.removed_from(reading)

    def _discard(self) -> None:
        self._log.discard()
