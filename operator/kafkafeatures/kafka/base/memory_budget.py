"""How much memory what comes from Kafka may take: of each cluster, and of all clusters together.

One `MemoryBudget` for the process, a `Share` of it for each cluster. Counted is what grows with what a peer sends:
replies on their way in, and what the follower of the metadata log keeps (the image, a tail, a part of a snapshot).

Nothing ever waits for memory, so no cluster can block others by holding it. One that wants more than its own limit is
refused. When all together have too much, the one with the most loses what it has, not the one that asked: one that
takes little is not in danger from those that take much. What it loses is read again at its next reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from kafkafeatures.kafka.base.errors import ResponseTooLarge

MIB = 1024 * 1024
COPIES = 3
"""A reply is in memory as often: as it arrives, whole, and decoded."""

CHECK = "a real cluster needs far less: check its addresses"

GiveUp = Callable[[], None]


class MemoryLimits(Struct, frozen=True):
    """Limits to the bytes that may be taken. `raise_one`, `raise_all`: how to allow more, for people; empty where there
    is no way.
    """

    per_cluster: int = 256 * MIB
    all_clusters: int = 256 * MIB
    raise_one: str = ""
    raise_all: str = ""


class MemoryBudget:
    """`held`: bytes, of all clusters. `shares`: those that hold any.

    `turn`: held while a large piece of a log is read, so that everything else runs between two pieces.
    """

    def __init__(self, limits: MemoryLimits | None = None) -> None:
        self.limits = limits or MemoryLimits()
        self.turn = asyncio.Lock()
        self.shares: set[Share] = set()
        self.held = 0


class Share:
    """The memory of one cluster. `held`: bytes. `give_up` is called when what it keeps has to go."""

    def __init__(self, memory: MemoryBudget, give_up: GiveUp) -> None:
        self.memory = memory
        self.held = 0
        self._give_up = give_up
        self._kept = 0
        self._replies: dict[object, GiveUp] = {}

    def keep(self, size: int) -> None:
        """Keep this many bytes from now on. Raises TooLarge; then as many as before are kept."""
        self._take(size - self._kept)
        self._kept = size

    @contextmanager
    def reply(self, size: int, give_up: GiveUp) -> Iterator[None]:
        """A reply of so many bytes is read and decoded in here. `give_up` ends that. Raises TooLarge."""
        self._take(COPIES * size)
        claim = object()
        self._replies[claim] = give_up
        try:
            yield
        finally:
            if self._replies.pop(claim, None) is not None:
                self._hold(self.held - COPIES * size)

    def too_large(self) -> ResponseTooLarge:
        """This cluster wants more than it may have."""
        limit = self.memory.limits
        return ResponseTooLarge(
            f"it takes more than {_mib(limit.per_cluster)} of memory, the limit of one cluster",
            remedy=_remedy(limit.raise_one),
        )

    def lost(self) -> ResponseTooLarge:
        """The error of the cluster that had the most when all clusters together had too much."""
        limit = self.memory.limits
        return ResponseTooLarge(
            f"all clusters together take more than {_mib(limit.all_clusters)} of memory, and this one the most",
            remedy=_remedy(limit.raise_all),
        )

    def _take(self, count: int) -> None:
        """Take this many bytes more, or fewer. Raises TooLarge, and then nothing is taken."""
        memory, limit = self.memory, self.memory.limits
        if count > 0 and self.held + count > limit.per_cluster:
            raise self.too_large()
        while count > 0 and memory.held + count > limit.all_clusters:
            most = max(memory.shares, key=lambda share: share.held, default=self)
            if most.held <= self.held + count:
                raise self.lost()
            most._lose()
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
