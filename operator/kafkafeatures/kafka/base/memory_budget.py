"""Limits the memory for data from Kafka: of each cluster, and of all clusters together.

There is one `MemoryBudget` for the process, and a `Share` of it for each cluster. It counts memory that grows with the
bytes that a peer sends: replies that are being read, and the metadata log as the follower keeps it.

Nothing ever waits for memory, so no cluster can block others by holding it. A cluster that needs more than its own
limit is refused. When all clusters together need too much, the one that holds the most loses it, not the one that
asked: clusters that need little are not affected by large ones. A cluster that lost its memory reads its log anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from kafkafeatures.kafka.base.errors import ResponseTooLarge

MIB = 1024 * 1024
COPIES = 3
"""Copies of a reply in memory: as it arrives, as a whole, and decoded."""

CHECK = "a real cluster needs far less: check its addresses"
"""Remedy for a cluster that needs too much memory."""

GiveUp = Callable[[], None]


class MemoryLimits(Struct, frozen=True):
    """Limits in bytes: of one cluster, and of all. `raise_one`, `raise_all`: how to raise each of them, for people;
    empty: there is no way.
    """

    per_cluster: int = 256 * MIB
    all_clusters: int = 256 * MIB
    raise_one: str = ""
    raise_all: str = ""


class MemoryBudget:
    """The memory of all clusters. `shares`: of the clusters that hold any. `held`: bytes of all of them.

    `turn`: a lock for applying large pieces of a log, one at a time, so that the event loop runs in between.
    """

    def __init__(self, limits: MemoryLimits | None = None) -> None:
        self.limits = limits or MemoryLimits()
        self.turn = asyncio.Lock()
        self.shares: set[Share] = set()
        self.held = 0


class Share:
    """The memory of one cluster. `held`: bytes. `give_up`: called when the cluster loses its memory."""

    def __init__(self, memory: MemoryBudget, give_up: GiveUp) -> None:
        self.memory = memory
        self.held = 0
        self._give_up = give_up
        self._kept = 0  # the part of `held` that `keep` has set; the other part is that of `_replies`
        self._replies: dict[object, GiveUp] = {}

    def keep(self, size: int) -> None:
        """Set the number of bytes that the cluster keeps. Raises ResponseTooLarge; then the number stays as it was."""
        self._take(size - self._kept)
        self._kept = size

    @contextmanager
    def reply(self, size: int, give_up: GiveUp) -> Iterator[None]:
        """Context in which a reply of `size` bytes is read and decoded. `give_up` ends that if the cluster loses its
        memory. Raises ResponseTooLarge.
        """
        self._take(COPIES * size)
        claim = object()
        self._replies[claim] = give_up
        try:
            yield
        finally:
            if self._replies.pop(claim, None) is not None:  # else the memory was lost, and is no longer counted
                self._hold(self.held - COPIES * size)

    def too_large(self) -> ResponseTooLarge:
        """The error of a cluster that needs more than its own limit."""
        limit = self.memory.limits
        return ResponseTooLarge(
            f"it takes more than {_mib(limit.per_cluster)} of memory, the limit of one cluster",
            remedy=_remedy(limit.raise_one),
        )

    def lost(self) -> ResponseTooLarge:
        """The error of the cluster that held the most when all clusters together needed too much."""
        limit = self.memory.limits
        return ResponseTooLarge(
            f"all clusters together take more than {_mib(limit.all_clusters)} of memory, and this one the most",
            remedy=_remedy(limit.raise_all),
        )

    def _take(self, count: int) -> None:
        """Take `count` bytes more, or fewer if negative. Raises ResponseTooLarge; then nothing changes."""
        memory, limit = self.memory, self.memory.limits
        if count > 0 and self.held + count > limit.per_cluster:
            raise self.too_large()
        while count > 0 and memory.held + count > limit.all_clusters:
            largest = max(memory.shares, key=lambda share: share.held, default=self)
            if largest.held <= self.held + count:
                raise self.lost()
            largest._lose()
        self._hold(self.held + count)

    def _hold(self, size: int) -> None:
        self.memory.held += size - self.held
        self.held = size
        (self.memory.shares.add if size else self.memory.shares.discard)(self)

    def _lose(self) -> None:
        replies, self._replies = list(self._replies.values()), {}
        self._kept = 0
        self._hold(0)
        for give_up in replies:
            give_up()
        self._give_up()


def _mib(size: int) -> str:
    return f"{size / MIB:g} MiB"


def _remedy(how: str) -> str:
    return f"{CHECK}; else {how}" if how else CHECK
