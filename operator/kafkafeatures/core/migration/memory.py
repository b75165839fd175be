"""Memory of a migration that a process keeps from one reconciliation to the next, and that no status has: for how long
a contradiction has lasted, when the metadata log ended at which offset, since when `/migration` has not changed.

Pure. Made by `core/migration/state.py` in each reconciliation. A process that has just started has none of it, and most
of it is lost when the cluster could not be read, as only an unbroken series of readings proves that nothing happened.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf

from msgspec import Struct

from kafkafeatures.api.status import EqualityStatus
from kafkafeatures.core.facts.znodes import StoreComparison

KEPT_FOR = 60.0
"""Seconds for which end offsets of the metadata log are kept. For the same time after a change, `/migration` counts as
being written.
"""
MOST_ENDS = 64
"""Most end offsets of the metadata log that are kept."""
LAST_WRITE_WITHIN = 10.0
"""Seconds after which no write of a controller that has stopped arrives in ZooKeeper any more."""
COMPARED_WITHIN = 120.0
"""Seconds for which a comparison of ZooKeeper with the metadata log counts."""


class DualWrite(Struct, frozen=True):
    """Dual write without an interruption, since the last registration of a broker.

    offset: offset of that registration in the metadata log.
    since: when the registration was written, in the log's own time.
    log_time: the log's time when it was read last.
    measured_at: monotonic seconds of that reading.
    seen_at: monotonic seconds since when this process has known the registration.
    measured_from: `log_time` and `measured_at` of an earlier reading, since which no clock was set.
    """

    offset: int
    since: datetime
    log_time: datetime
    measured_at: float
    seen_at: float
    measured_from: tuple[datetime, float]

    @property
    def held_for(self) -> timedelta:
        """Time for which dual write was kept: by the log, or by this process if that is longer because a controller's
        clock was set back.
        """
        return max(self.log_time - self.since, timedelta(seconds=self.measured_at - self.seen_at))


class MigrationMemory(Struct, frozen=True):
    """Memory of a migration. Times are seconds of the monotonic clock, except `tried`, which is a date.

    unknown_since: since when the position of the cluster is not known; None: it is known.
    ends: readings of the metadata log: the time, and the offset at which the log ended.
    offset: offset in `/migration`; -1: not read yet.
    still_since: since when that offset has not changed.
    compared: last successful comparison of ZooKeeper with the metadata log.
    compared_at: when that comparison was read.
    tried: date when the last comparison began, whether or not it succeeded.
    controllers_since: since when some controller answers; None: none does.
    equality: the last comparison, as it goes into a status.
    cluster: id of the cluster in ZooKeeper; empty: not read yet.
    silent_since: since when no controller answers; None: some controller does.
    moved_at: when a change of `/migration` was last observed.
    dual_write: dual write, as last known.
    """

    unknown_since: float | None = None
    ends: tuple[tuple[float, int], ...] = ()
    offset: int = -1
    still_since: float | None = None
    compared: StoreComparison | None = None
    compared_at: float = -inf
    tried: datetime | None = None
    controllers_since: float | None = None
    equality: EqualityStatus | None = None
    cluster: str = ""
    silent_since: float | None = None
    moved_at: float = -inf
    dual_write: DualWrite | None = None

    def interrupted(self, reason: str) -> MigrationMemory:
        """Memory after a reconciliation that could not read the cluster, whatever the reason: without everything that
        only an unbroken series of readings proves.
        """
        return MigrationMemory(
            unknown_since=self.unknown_since, equality=self.equality, cluster=self.cluster, dual_write=self.dual_write
        )

    def may_be_of(self, cluster: str) -> bool:
        """Tell whether the memory may be of this cluster. `cluster`: the id in ZooKeeper; empty: not read."""
        return "" in (self.cluster, cluster) or self.cluster == cluster

    def observed(
        self,
        monotonic_time: float,
        *,
        known: bool,
        end: int,
        offset: int,
        compared: StoreComparison | None = None,
        tried: datetime | None = None,
        controllers: bool = False,
        equality: EqualityStatus | None = None,
        cluster: str = "",
        dual_write: DualWrite | None = None,
    ) -> MigrationMemory:
        """Memory with the readings of this reconciliation.

        known: the position of the cluster is known.
        end: end of the metadata log; -1: not read.
        offset: offset in `/migration`.
        compared, tried: comparison made now, and when it began; None: none was made.
        controllers: some controller answers.
        equality: the last comparison by now.
        cluster: id of the cluster; empty: not read.
        dual_write: dual write by this reading; None: not known.
        """
        ends = tuple((at, log_end) for at, log_end in self.ends if monotonic_time - at <= KEPT_FOR)
        if end >= 0:
            ends = (*ends, (monotonic_time, end))[-MOST_ENDS:]
        is_still = self.still_since is not None and self.offset == offset
        return MigrationMemory(
            None if known else (monotonic_time if self.unknown_since is None else self.unknown_since),
            ends,
            offset if known else self.offset,
            monotonic_time if not is_still and known else self.still_since,
            self.compared if compared is None else compared,
            self.compared_at if compared is None else monotonic_time,
            tried or self.tried,
            (monotonic_time if self.controllers_since is None else self.controllers_since) if controllers else None,
            equality,
            cluster or self.cluster,
            None if controllers else (monotonic_time if self.silent_since is None else self.silent_since),
            monotonic_time if known and offset > self.offset > -1 else self.moved_at,
            dual_write or self.dual_write,
        )

    @property
    def has_failed(self) -> bool:
        """Tell whether the last comparison failed."""
        return self.tried is not None and (self.compared is None or self.compared.at < self.tried)

    def comparison(self, monotonic_time: float) -> StoreComparison | None:
        """The last comparison; None if it is too old to close a way back by."""
        return self.compared if monotonic_time - self.compared_at <= COMPARED_WITHIN else None

    def lag(self, monotonic_time: float) -> float | None:
        """Seconds by which ZooKeeper is behind the metadata log, at most: the age of the latest reading at which the
        log ended no later than the offset that `/migration` has now. None if there is no such reading in the last
        minute.
        """
        reached = [at for at, end in self.ends if end - 1 <= self.offset]
        return monotonic_time - max(reached) if reached else None

    def controllers_for(self, monotonic_time: float) -> timedelta:
        """Time for which controllers are known to have answered."""
        return timedelta(seconds=0.0 if self.controllers_since is None else monotonic_time - self.controllers_since)

    def silent_for(self, monotonic_time: float) -> float:
        """Seconds for which no controller has answered; 0 if one does."""
        return 0.0 if self.silent_since is None else monotonic_time - self.silent_since

    def is_written(self, monotonic_time: float) -> bool:
        """Tell whether `/migration` changed in the last minute although no controller answers, and too late for a write
        of a controller that has stopped: then a controller runs that cannot be reached.
        """
        return (
            self.silent_since is not None
            and self.moved_at - self.silent_since > LAST_WRITE_WITHIN
            and monotonic_time - self.moved_at < KEPT_FOR
        )

    def still_for(self, monotonic_time: float) -> float:
        """Seconds for which `/migration` is known not to have changed."""
        return 0.0 if self.still_since is None else monotonic_time - self.still_since
