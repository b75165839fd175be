"""History of the finalized levels of a cluster, over all readings of its metadata log.

Called by `cluster.py` with every reading. A follower that reads the log anew, as it does when partitions are needed,
begins with the leader's newest snapshot, and a snapshot has only the current levels. So the changes that earlier
readings saw are kept here. They are joined only with a reading of the same cluster that continues them without a gap,
and not if the log became shorter: then it was restored, and has another history.
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
        # (cluster id, changes, offset up to which they are complete)
        self._known: tuple[str, FormerLevels, int] | None = None

    @property
    def since_offset(self) -> int | None:
        """The offset from which on all changes of levels are known; None before the first reading of a cluster whose id
        is known.
        """
        return self._known[1].since_offset if self._known is not None else None

    def complete(self, log: LogReading, cluster_id: str | Failure) -> LogReading:
        """The reading, with the history of earlier readings added."""
        finalized, offset = log.image.finalized, log.image.offset
        if finalized is None or isinstance(cluster_id, Failure):
            return log
        former = finalized.former
        if self._known is not None:
            known_cluster, earlier, until = self._known
            if known_cluster == cluster_id and until <= offset:  # else the log became shorter
                former = former.with_earlier(earlier, until)
        self._known = cluster_id, former, offset
        return replace(log, image=replace(log.image, finalized=replace(finalized, former=former)))


async def moves_between(
    source: LogSource, offset: int, epoch: int, *, monotonic: Callable[[], float]
) -> EarlierMoves | KafkaError:
    """The changes of levels from a position of the log to `source.until`; none if the leader has removed that part of
    the log. `restored` if the log has no such position. `offset` and `epoch` of the position are checked by the leader
    even if the source ends before it.
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
