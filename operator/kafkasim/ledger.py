"""Base class of worlds: virtual time with due events, and the metadata log with its commits.

`quorum` extends it with nodes. The log is the only state: the active controller knows the replay of the whole log,
other nodes the replay up to the high watermark. No I/O and no clock; `advance` sets the time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import count

from kafkafeatures.api.names import METADATA_VERSION
from kafkasim.log import MetadataLog, Write
from kafkasim.plan import Timing
from kraftlog import Image, Replay, Section
from kraftlog.image import MOST_ELAPSED_MS
from kraftlog.schema import table

COMMIT_MS = 5  # a round of the followers


class Ledger:
    """Time, log and images. `active`: the controller that appends, None while there is none. `epoch`: its epoch."""

    def __init__(self, timing: Timing, *, now_ms: int, sections: Collection[Section]) -> None:
        self.now_ms = self.began_ms = now_ms
        self.timing = timing
        self.log = MetadataLog()
        self.active: int | None = None
        self.epoch = 0
        self._sections = sections
        self._replay = Replay(sections=sections)  # everything appended
        self._leader_image = self._image = self._replay.image()
        self._uncommitted: deque[Image] = deque()  # the image after each batch above the high watermark
        self._due: list[tuple[int, int, Callable[[], None]]] = []  # a heap of time in ms, number, and action
        self._order = count()  # numbers of actions: of those due at one time, the one planned first runs first
        self._last_append = now_ms

    # --- what the log says ---

    @property
    def image(self) -> Image:
        """The committed state: what brokers and standby controllers know."""
        return self._image

    @property
    def leader_image(self) -> Image:
        """The state with uncommitted records, by which the active controller decides."""
        return self._leader_image

    @property
    def metadata_version(self) -> int:
        """The finalized metadata.version, which determines versions of records."""
        return self._level(METADATA_VERSION)

    def _level(self, feature: str) -> int:
        return self._leader_image.features.get(feature, 0)

    # --- time ---

    def next_due(self) -> int | None:
        """The time of the next event, in ms; None if never."""
        due = self._due[0][0] if self._due else None
        if self.active is None:
            return due
        idle = self._last_append + self.timing.idle
        return idle if due is None else min(due, idle)

    def next_event(self) -> int | None:
        """The time of the next event that is no NoOp, in ms; None if never."""
        return self._due[0][0] if self._due else None

    def advance(self, now_ms: int, *, sparse: bool = False) -> None:
        """Run all events that are due until then. `sparse`: of the NoOps in between, write only one for each minute,
        from which readers can still tell that the time has passed.
        """
        while (due := self.next_due()) is not None and due <= now_ms:
            if sparse and self.active is not None:
                until = min(now_ms, self._due[0][0]) if self._due else now_ms
                until = min(until, self._last_append + MOST_ELAPSED_MS)  # readers count no longer gap between batches
                idle = self.timing.idle
                # Leave out all NoOps up to `until` but the last one, as if they had been written.
                self._last_append += max((until - self._last_append) // idle - 1, 0) * idle
                due = min(until, self._last_append + idle)
            self.now_ms = max(self.now_ms, due)
            if self._due and self._due[0][0] <= due:
                heapq.heappop(self._due)[2]()
            else:
                self.append([Write(table.NO_OP, {})])
        self.now_ms = max(self.now_ms, now_ms)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Run the action after this delay."""
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._order), action))

    # --- the log ---

    def append(self, writes: Sequence[Write], *, commit: bool = False) -> None:
        """Write these records as one batch. `commit`: it is committed at once; else after `COMMIT_MS`."""
        data = self.log.append(writes, epoch=self.epoch, timestamp_ms=self.now_ms)
        self._last_append = self.now_ms
        offset = self.log.end_offset
        self._replay.append(data, below=offset)
        self._leader_image = self._replay.image()
        self._uncommitted.append(self._leader_image)
        if commit:
            self._commit(offset)
        else:
            self.after(COMMIT_MS, lambda: self._commit(offset))

    def _commit(self, offset: int) -> None:
        if self.active is None:
            return  # the next leader will commit these records with its first batch
        self.log.commit(offset)
        while self._uncommitted and self._uncommitted[0].offset <= self.log.high_watermark:
            self._image = self._uncommitted.popleft()
