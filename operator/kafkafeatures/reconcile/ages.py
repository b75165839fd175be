"""How long ago the moments of a status were, by a monotonic clock.

A status holds stamps of the wall clock, which may be a day wrong and set right at any time. So a stamp is only a hint,
and counts once: when this process meets it. From then on the monotonic clock counts, and a stamp of the future is met
as one of just now. What must not come too early, whatever a clock says, does not even take the hint: it counts from
when this process met the stamp. One for each resource, for as long as the process works on it. Used by
`reconcile/evaluate.py`. What the process saw of a soak, and of the metadata log, is kept here as well: no stamp
proves that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kafkafeatures.core.levels.soak import LONGEST_GAP

if TYPE_CHECKING:
    from kafkafeatures.api.status import LogPosition
    from kafkafeatures.core.engine.stage import StageMemory

COUNTED = 2.0
"""Seconds that count of a time in which the cluster was not observed: as between two ordinary looks."""
MOST = 256
"""Stamps that are kept: more than a status holds."""


class Ages:
    """The time at which this process first met each stamp of one resource. `monotonic` in seconds. `kept`: by kind of
    stage, what it keeps of its last look. `read_until`: the end of the metadata log then, by cluster id.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.kept: Mapping[str, StageMemory] = {}
        self.read_until: dict[str, LogPosition] = {}
        self._met: dict[str, tuple[float, float]] = {}  # when it was met, and when it was made
        self._looked: float | None = None
        self._ours: set[str] = set()

    def looked(self, stamps: Iterable[str]) -> None:
        """The cluster was observed. `stamps`: since when something is seen to last. Time in which it was not observed
        for long counts as one interval between two looks: what is only observed rarely becomes old slowly, and not
        never.
        """
        monotonic_time = self.monotonic()
        if self._looked is not None and monotonic_time - self._looked > LONGEST_GAP:
            self._skip(stamps, monotonic_time - self._looked - COUNTED)
        self._looked = monotonic_time

    def interrupted(self, reason: str, stamps: Iterable[str]) -> None:
        """Nothing could be seen of the cluster. `stamps`: since when something is seen to last, which is known no
        longer; they are met anew.
        """
        self.kept = {kind: memory.interrupted(reason) for kind, memory in self.kept.items()}
        self._meet_anew(stamps)

    def _skip(self, stamps: Iterable[str], seconds: float) -> None:
        """Let these seconds not count for what these stamps began."""
        monotonic_time = self.monotonic()
        for stamp in stamps:
            if stamp in self._met:
                met_at, made_at = (min(at + seconds, monotonic_time) for at in self._met[stamp])
                self._met[stamp] = met_at, made_at

    def _meet_anew(self, stamps: Iterable[str]) -> None:
        for stamp in stamps:
            if stamp in self._met:
                self._met[stamp] = self.monotonic(), self._met[stamp][1]

    def begins(self, stamp: str) -> None:
        """Note that this stamp was made just now, by this process."""
        monotonic_time = self.monotonic()
        self._ours.add(stamp)
        self._keep(stamp, monotonic_time, monotonic_time)

    def is_ours(self, stamp: str) -> bool:
        """Tell whether this process made the stamp."""
        return stamp in self._ours

    def of(self, stamp: str, current_time: datetime) -> timedelta:
        """The age of a stamp. `current_time`, of the wall clock, counts where the stamp is met for the first time."""
        _, made_at = self._of(stamp, current_time)
        return timedelta(seconds=self.monotonic() - made_at)

    def known_for(self, stamp: str, current_time: datetime) -> timedelta:
        """The part of a stamp's age that this process has lived through."""
        met_at, _ = self._of(stamp, current_time)
        return timedelta(seconds=self.monotonic() - met_at)

    def _of(self, stamp: str, current_time: datetime) -> tuple[float, float]:
        times = self._met.get(stamp)
        if times is None:
            met_at = self.monotonic()
            times = met_at, met_at - max((current_time - datetime.fromisoformat(stamp)).total_seconds(), 0.0)
        self._keep(stamp, *times)
        return times

    def _keep(self, stamp: str, met: float, created_at: float) -> None:
        self._met.pop(stamp, None)
        self._met[stamp] = met, created_at
        if len(self._met) > MOST:
            oldest = next(iter(self._met))
            del self._met[oldest]
            self._ours.discard(oldest)
