"""Ages of the times in a status, by a monotonic clock.

There is one object for each resource, for as long as the process works on it. A status holds stamps of the wall clock,
which may be a day wrong and corrected at any time. So the wall clock is compared with a stamp only once, when this
process first reads the stamp; one in the future counts as new. From then on the monotonic clock counts. Where something
must not happen too early, even that is not trusted: `known_for` counts from when this process first read the stamp. The
memory of stages, and the end of the metadata log, are kept here too, as they last as long as these ages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kafkafeatures.core.levels.soak import LONGEST_GAP

if TYPE_CHECKING:
    from kafkafeatures.api.status import LogPosition
    from kafkafeatures.core.engine.stage import StageMemory

COUNTED_SECONDS = 2.0
"""Seconds by which ages grow in a long time without readings: as between two ordinary readings."""
MAX_STAMPS = 256
"""Most stamps that are kept: more than a status holds."""


class Ages:
    """Ages of the stamps of one resource.

    monotonic: clock in seconds.
    stage_memory: memory of the last reading, by kind of stage.
    read_until: end of the metadata log at the last reading, by cluster id.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self.stage_memory: Mapping[str, StageMemory] = {}
        self.read_until: dict[str, LogPosition] = {}
        self._times: dict[str, tuple[float, float]] = {}  # by stamp, monotonic times: when it was first read, and made
        self._last_read_at: float | None = None
        self._made_here: set[str] = set()  # stamps that this process made

    def note_reading(self, stamps: Iterable[str]) -> None:
        """Note that the cluster was read. `stamps`: times since when something has been observed without interruption.
        For their ages, a long time without readings counts only as one ordinary interval: nobody was watching.
        """
        monotonic_time = self.monotonic()
        if self._last_read_at is not None and monotonic_time - self._last_read_at > LONGEST_GAP:
            self._skip(stamps, monotonic_time - self._last_read_at - COUNTED_SECONDS)
        self._last_read_at = monotonic_time

    def note_failed_reading(self, reason: str, stamps: Iterable[str]) -> None:
        """Note that the cluster could not be read. `stamps`: times since when something has been observed; for these,
        `known_for` begins anew, and the ages (`of`) go on.
        """
        self.stage_memory = {kind: memory.interrupted(reason) for kind, memory in self.stage_memory.items()}
        self._meet_anew(stamps)

    def _skip(self, stamps: Iterable[str], seconds: float) -> None:
        """Do not count these seconds for the ages of these stamps: as if they were made, and first read, that much
        later.
        """
        monotonic_time = self.monotonic()
        for stamp in stamps:
            if stamp in self._times:
                met_at, made_at = (min(at + seconds, monotonic_time) for at in self._times[stamp])
                self._times[stamp] = met_at, made_at

    def _meet_anew(self, stamps: Iterable[str]) -> None:
        """Count `known_for` of these stamps from now on."""
        for stamp in stamps:
            if stamp in self._times:
                self._times[stamp] = self.monotonic(), self._times[stamp][1]

    def note_own_stamp(self, stamp: str) -> None:
        """Note that this process has just made this stamp."""
        monotonic_time = self.monotonic()
        self._made_here.add(stamp)
        self._keep(stamp, monotonic_time, monotonic_time)

    def is_ours(self, stamp: str) -> bool:
        """Tell whether this process made the stamp."""
        return stamp in self._made_here

    def of(self, stamp: str, current_time: datetime) -> timedelta:
        """Age of a stamp. `current_time`: by the wall clock, used when the stamp is met for the first time."""
        _, made_at = self._of(stamp, current_time)
        return timedelta(seconds=self.monotonic() - made_at)

    def known_for(self, stamp: str, current_time: datetime) -> timedelta:
        """The part of a stamp's age in which this process has known the stamp."""
        met_at, _ = self._of(stamp, current_time)
        return timedelta(seconds=self.monotonic() - met_at)

    def _of(self, stamp: str, current_time: datetime) -> tuple[float, float]:
        """Monotonic times at which the stamp was first read here, and at which it was made."""
        times = self._times.get(stamp)
        if times is None:
            met_at = self.monotonic()
            times = met_at, met_at - max((current_time - datetime.fromisoformat(stamp)).total_seconds(), 0.0)
        self._keep(stamp, *times)  # known stamps too, so that the one used longest ago is dropped first
        return times

    def _keep(self, stamp: str, met_at: float, made_at: float) -> None:
        self._times.pop(stamp, None)
        self._times[stamp] = met_at, made_at
        if len(self._times) > MAX_STAMPS:
            longest_unused = next(iter(self._times))
            del self._times[longest_unused]
            self._made_here.discard(longest_unused)
