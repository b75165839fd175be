"""Partitions as a roll sees them: which of them a broker hosts, and which of them keep it from being stopped.

Pure, on numpy columns. Called by `core/restarts.py` and `core/roll.py`, and only where nodes are restarted.
"""

from __future__ import annotations

import numpy as np

from kafkafeatures.core.readings import PartitionsReading
from kraftlog.partitions import Replica

MOST_NAMED = 3


class Replication:
    """Of one reading."""

    def __init__(self, reading: PartitionsReading) -> None:
        self._partitions = reading.partitions

    def out_of_sync(self, broker: int) -> tuple[int, tuple[str, ...]]:
        """How many partitions it hosts without being in their ISR, and the first of them."""
        count = 0
        names: list[str] = []
        for chunk in self._partitions.chunks:
            missing = (chunk.replicas == broker) & (chunk.flags & int(Replica.IN_SYNC) == 0)
            rows = np.flatnonzero(missing.any(axis=1))
            count += len(rows)
            names += (
                f"{self._partitions.topics[int(chunk.topic[row])].name}-{int(chunk.partition[row])}"
                for row in rows[: MOST_NAMED - len(names)].tolist()
            )
        return count, tuple(names)
