"""The ensemble of one cluster, as `ZooKeeperPort` of `core/ports.py` has it: each look is a session of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.zookeeper.ensemble import Ensemble
from kafkafeatures.zookeeper.reader import read_zookeeper


class ZooKeeper:
    """`now`: the time that a reading is stamped with. Nothing is held between two calls."""

    def __init__(self, ensemble: Ensemble, now: Callable[[], datetime]) -> None:
        self._ensemble, self._now = ensemble, now

    async def read(self) -> ZooKeeperReading | Failure:
        """All of it, in one session."""
        return await read_zookeeper(self._ensemble, self._now)
