"""Memory that one process has of a migration from look to look, and no status tells: how long a contradiction has
stood, where the metadata log ended when, and since when `/migration` has not moved.

Pure. A process that has just started knows nothing of it, and neither does one that could not look for a while.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf

from msgspec import Struct

from kafkafeatures.api.status import EqualityStatus
from kafkafeatures.core.facts.znodes import StoreComparison

KEEPS = 60.0
"""Seconds for which ends of the metadata log are kept, and for which `/migration` counts as written once it moved."""
MOST = 64
LATE = 10.0
"""Seconds after which nothing of a controller that ended arrives in ZooKeeper any longer."""
COMPARED_WITHIN = 120.0
"""Seconds for which a comparison of ZooKeeper with the metadata log counts."""


class DualWrite(Struct, frozen=True):
    """For how long dual write was kept without an interruption. offset: of the last registration of a broker, which no
    other one has followed. since: when it was written, in the log's own time. log_time: by its clock, and measured_at:
    seconds, both when it was read. seen_at: seconds, since when this process has seen that registration. measured_from:
    log_time and measured_at of an earlier look, between which and this one no clock was set.
    """

    offset: int
    since: datetime
    log_time: datetime
    measured_at: float
    seen_at: float
    measured_from: tuple[datetime, float]

    @property
    def held_for(self) -> timedelta:
        """By the log; or what this process has lived through, where a controller's clock was set back."""
        return max(self.log_time - self.since, timedelta(seconds=self.measured_at - self.seen_at))


class MigrationMemory(Struct, frozen=True):
    """By a clock that is never set. unknown_since: since when it is not known where the cluster is. ends: when the
    metadata log ended where. offset, still_since: of `/migration`, and since when it is that. compared, compared_at:
    the last comparison of ZooKeeper with the metadata log. tried: when the last one began, which may have failed since.
    controllers_since, silent_since: since when some controller answers, or none does. equality: the last comparison, as
    it goes into a status. moved_at: when `/migration` was last seen to have moved.
    cluster: the id of the cluster, as ZooKeeper has it. dual_write: for how long it was kept.
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
        """Drop what looks without a gap have shown: where nothing could be read, nothing is known to stand still."""
        return MigrationMemory(
            unknown_since=self.unknown_since, equality=self.equality, cluster=self.cluster, dual_write=self.dual_write
        )

    def may_be_of(self, cluster: str) -> bool:
        """Tell whether it is of no other cluster than this. cluster: the id in ZooKeeper, empty if it was not read."""
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
        """With what this look has seen. end: of the metadata log, -1 where it was not read. controllers: whether one
        answers. equality: the last comparison by now. cluster: its id, empty if it was not read. dual_write: for how
        long it was kept; None where that is not known by this look.
        """
        ends = tuple((at, log_end) for at, log_end in self.ends if monotonic_time - at <= KEEPS)
        if end >= 0:
            ends = (*ends, (monotonic_time, end))[-MOST:]
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
        """Tell whether the last comparison came to no result."""
        return self.tried is not None and (self.compared is None or self.compared.at < self.tried)

    def comparison(self, monotonic_time: float) -> StoreComparison | None:
        """The last comparison; None where it is too old to close a door on."""
        return self.compared if monotonic_time - self.compared_at <= COMPARED_WITHIN else None

    def lag(self, monotonic_time: float) -> float | None:
        """Seconds by which what is written to ZooKeeper is behind the metadata log, at most; None where that is not
        known yet: no look saw the log end where `/migration` is by now.
        """
        reached = [at for at, end in self.ends if end - 1 <= self.offset]
        return monotonic_time - max(reached) if reached else None

    def controllers_for(self, monotonic_time: float) -> timedelta:
        """For how long controllers are known to have answered."""
        return timedelta(seconds=0.0 if self.controllers_since is None else monotonic_time - self.controllers_since)

    def silent_for(self, monotonic_time: float) -> float:
        """For how many seconds no controller is known to have answered."""
        return 0.0 if self.silent_since is None else monotonic_time - self.silent_since

    def is_written(self, monotonic_time: float) -> bool:
        """Tell whether `/migration` moved in the last minute although no controller answers: longer than one that ended
        may be late.
        """
        return (
            self.silent_since is not None
            and self.moved_at - self.silent_since > LATE
            and monotonic_time - self.moved_at < KEEPS
        )

    def still_for(self, monotonic_time: float) -> float:
        """For how many seconds `/migration` is known not to have moved."""
        return 0.0 if self.still_since is None else monotonic_time - self.still_since
