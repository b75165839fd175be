"""History of the finalized levels of a cluster, over all readings of its metadata log.

Called by `cluster.py` with every reading. A follower that reads the log anew, as it does when partitions are needed,
begins with the leader's newest snapshot, which has no history: what earlier readings had is kept here. Only readings of
one cluster without a gap between them are joined, and never readings of a log that went back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import EarlierMoves, Failure, LogReading
from kafkafeatures.kafka.base.errors import ErrorCode, KafkaError, NoLeader, ServerError, TimedOut
from kafkafeatures.kafka.log.source import PART
from kraftlog import KraftLogError, Replay, Section

if TYPE_CHECKING:
    from kafkafeatures.kafka.log.source import LogSource
    from kraftlog import FormerLevels

WITHIN = 30.0
"""Seconds for reading an earlier part of the log."""


class LevelHistory:
    """The changes of levels that one client has read so far."""

    def __init__(self) -> None:
        self._known: tuple[str, FormerLevels, int] | None = None  # of which cluster; up to which offset

    @property
    def since_offset(self) -> int:
        """The offset from which on the last reading has all changes of levels."""
        return self._known[1].since_offset if self._known is not None else 0

    def complete(self, log: LogReading, cluster_id: str | Failure) -> LogReading:
        """The reading, with the history of earlier readings added."""
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


async def moves_between(
    source: LogSource, offset: int, epoch: int, *, monotonic: Callable[[], float]
) -> EarlierMoves | KafkaError:
    """The changes of levels from a position of the log to the end of the source; none if the log begins later by now.
    The leader is asked for the position even if the source ends before it.
    """
    replay, deadline = Replay(sections=[Section.FEATURES], at=offset), monotonic() + WITHIN
    try:
        while (position := replay.offset) < source.until or position == offset:
            most = PART if position < source.until else 1
            reply = await source.fetch(position, replay.epoch if replay.epoch >= 0 else epoch, most=most)
            if reply.diverging is not None:
                return EarlierMoves(restored=True)
            if reply.snapshot_id is not None or position >= source.until:
                return EarlierMoves()
            replay.append(reply.records, below=min(source.until, reply.high_watermark))
            if replay.offset == position:
                return NoLeader(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the log changed while it was read")
            if monotonic() >= deadline:
                text = f"{replay.offset - offset} of {source.until - offset} records were read within {WITHIN:g} s"
                return TimedOut(text)
    except KafkaError as error:
        return error
    except KraftLogError as error:
        return ServerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"it does not read: {error}")
    return EarlierMoves(replay.image().former_levels.moves)
