"""Limits how many clusters have all their partitions in memory: an image of a million takes a hundred megabytes.

One `PartitionImages` for the process. Called by `cluster.py` before it reads partitions. Nothing waits in here: a
cluster that is refused asks again at its next reading, and has its turn before clusters that asked later. A cluster
keeps its image until it is read without partitions, or closed; or, if its roll only waits and other clusters ask for an
image, for `TURN` seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.words import counted

MAX_PARTITION_IMAGES = 2
"""Images in memory at once, unless the operator's settings say otherwise."""

TURN = 60.0
"""Seconds for which a cluster keeps its image while its roll waits, so that not every reading reads it anew."""
FORGOTTEN_AFTER = 120.0
"""Seconds after which a cluster that was refused, and did not ask again, loses its place in the queue."""


class PartitionImages:
    """The images of a process, at most `most` of them. `remedy`: text on how to allow more; empty: there is no way.
    `monotonic` in seconds.
    """

    def __init__(
        self,
        most: int = MAX_PARTITION_IMAGES,
        remedy: str = "",
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._most, self._remedy, self._monotonic = most, remedy, monotonic
        self._holders: dict[object, float] = {}  # by cluster: the monotonic time since when it holds an image
        self._waiting: dict[object, float] = {}  # by cluster: when it last asked for one; in the order of their turns

    def take(self, cluster: object) -> Failure | None:
        """Take an image for the cluster, or keep the one that it holds. A Failure if too many clusters hold one."""
        if cluster in self._holders:
            return None
        monotonic_time = self._monotonic()
        self._waiting = {waiter: at for waiter, at in self._waiting.items() if monotonic_time - at < FORGOTTEN_AFTER}
        self._waiting[cluster] = monotonic_time
        # Free images are reserved for the clusters before it in the queue.
        if len(self._holders) + [*self._waiting].index(cluster) < self._most:
            del self._waiting[cluster]
            self._holders[cluster] = monotonic_time
            return None
        other_clusters = counted(self._most, "other cluster")
        return Failure(
            FailureKind.WAITING_FOR_BUDGET,
            "partitions",
            f"they are held in memory for {other_clusters} whose nodes are being restarted (maxPartitionImages is "
            f"{self._most}); this one waits until one is done, or waits itself",
            self._remedy,
        )

    def is_due(self, cluster: object) -> bool:
        """True if the cluster has had its turn, and others wait for theirs."""
        return bool(self._waiting) and self._monotonic() - self._holders.get(cluster, self._monotonic()) >= TURN

    def give_back(self, cluster: object) -> None:
        """Note that this cluster no longer needs its image."""
        self._holders.pop(cluster, None)
        self._waiting.pop(cluster, None)
