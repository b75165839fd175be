"""How many clusters may have all their partitions in memory at once: an image of a million takes a hundred megabytes.

One for the process. Asked by `cluster.py` before it reads any. Nothing waits in here: a cluster that is refused is
looked at again later. What is granted is kept until the cluster is read without partitions, or closed.
"""

from __future__ import annotations

from kafkafeatures.core.readings import Failure, FailureKind

MAX_PARTITION_IMAGES = 2


class PartitionImages:
    """`most` at once. `remedy`: how to allow more, for people; empty where there is no way."""

    def __init__(self, most: int = MAX_PARTITION_IMAGES, remedy: str = "") -> None:
        self._most, self._remedy = most, remedy
        self._holders: set[object] = set()

    def take(self, cluster: object) -> Failure | None:
        """Ask for one, or for the one that is held already. Why not, where there are too many."""
        if cluster in self._holders or len(self._holders) < self._most:
            self._holders.add(cluster)
            return None
        others = f"{self._most} other cluster{'s' if self._most > 1 else ''}"
        return Failure(
            FailureKind.WAITING_FOR_BUDGET,
            "partitions",
            f"they are held in memory for {others} whose nodes are being restarted; this one waits until one is done",
            self._remedy,
        )

    def give_back(self, cluster: object) -> None:
        """It is not needed any more."""
        self._holders.discard(cluster)
