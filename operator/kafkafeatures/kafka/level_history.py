"""Which levels were given up, over all readings of a cluster's metadata log.

Called by `cluster.py` with every reading. A follower that reads everything anew, as it does when partitions are wanted,
begins with the leader's newest snapshot, which knows no past: what earlier readings knew is kept here. It joins only
readings of one cluster that leave no gap, and never those of a log that went back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafeatures.api.values import replace
from kafkafeatures.core.readings import Failure, LogReading

if TYPE_CHECKING:
    from kraftlog import FormerLevels


class LevelHistory:
    """Of one client."""

    def __init__(self) -> None:
        self._known: tuple[str, FormerLevels, int] | None = None  # of which cluster; up to which offset

    def complete(self, log: LogReading, cluster_id: str | Failure) -> LogReading:
        """The reading, with what is known from earlier ones."""
        finalized, offset = log.image.finalized, log.image.offset
        if finalized is None or isinstance(cluster_id, Failure):
            return log
        former = finalized.former
        if self._known is not None:
            known_cluster, earlier, until = self._known
            if known_cluster == cluster_id and until <= offset:
                former = former.with_earlier(earlier, until)
        self._known = cluster_id, former, offset
        return replace(log, image=replace(log.image, finalized=replace(finalized, former=former)))
