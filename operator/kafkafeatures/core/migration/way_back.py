"""Ways back in a migration, for plans and `status.wayBack`: how far each leads, how, and what would be lost.

Pure. Called by `core/migration/proposal.py` for each step of a plan, by `core/migration/report.py` for the present
position, and for the table of ways in the docs. Losses are known only as far as ZooKeeper was compared with the
metadata log.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from kafkafeatures.api.names import ZK_FINALIZE, ZK_ROLLBACK_LOSSY
from kafkafeatures.api.records import Stamp, stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import ComparisonState, EqualityStatus, WayBack
from kafkafeatures.core.migration.edges import (
    FINALIZE,
    FLAG_BROKERS,
    GIVE_UP,
    MOVE_BROKERS,
    MOVE_BROKERS_BACK,
    RELEASE,
    START_CONTROLLERS,
    STOP_CONTROLLERS,
    UNFLAG_BROKERS,
    WITHDRAW,
    Edge,
)
from kafkafeatures.core.migration.positions import FLAG, Position
from kafkafeatures.core.words import counted


class Return(Struct, frozen=True):
    """How to go back from an edge of the migration (`edges.py`: a way from one position to the next): from its end, or
    from any point on it.

    to: position to which it leads; None: there is no way back.
    how: the actions, or the reason why there is no way back.
    loses: what would be lost.
    """

    to: Position | None
    how: str
    loses: str

    def __str__(self) -> str:
        return f"way back to {self.to}: {self.how}; {self.loses}" if self.to is not None else f"no way back: {self.how}"


NOTHING = "nothing is lost"
WHAT_LACKS = "metadata that ZooKeeper lacks by then is lost; ZooKeeper is first compared with the metadata log"
_STOP = "stop the controllers, let KafkaFeatures delete /controller and /migration, restart each broker without"
_ANEW = f"a new migration can start once every broker runs without {FLAG}, and the controllers' disks are wiped"

RETURNS: Mapping[Edge, Return] = {
    START_CONTROLLERS: Return(Position.ZOOKEEPER, "stop the controllers, let KafkaFeatures delete /migration", NOTHING),
    FLAG_BROKERS: Return(Position.ZOOKEEPER, f"{_STOP} {FLAG}", WHAT_LACKS),
    MOVE_BROKERS: Return(
        Position.ZOOKEEPER, f"restart each broker in ZooKeeper mode with {FLAG}, {_STOP} it", WHAT_LACKS
    ),
    FINALIZE: Return(None, f"the migration ends when a controller without {FLAG} becomes the active controller", ""),
    MOVE_BROKERS_BACK: Return(Position.DUAL_WRITE, "restart each broker in KRaft mode again", NOTHING),
    STOP_CONTROLLERS: Return(
        None, "only ZooKeeper holds the metadata then; what it lacks is lost. A new migration can start later", ""
    ),
    RELEASE: Return(None, _ANEW, ""),
    UNFLAG_BROKERS: Return(None, _ANEW, ""),
    GIVE_UP: Return(None, _ANEW, ""),
    WITHDRAW: Return(None, _ANEW, ""),
}
"""By edge, how to go back from it."""

_EDGE_TO: Mapping[Position, Edge] = {
    Position.PRE_MIGRATION: START_CONTROLLERS,
    Position.FLAGGING: FLAG_BROKERS,
    Position.COPYING: FLAG_BROKERS,
    Position.COPIED: FLAG_BROKERS,
    Position.DUAL_WRITE: MOVE_BROKERS,
}
"""By position from which one can go back: the edge that the cluster is on there, or has just completed."""
_COPIED = (Position.COPIED, Position.DUAL_WRITE)
_ABOUT = timedelta(seconds=2)
"""Largest difference at which a time in the status is kept, although it is calculated anew in each reconciliation."""


def way_back(
    position: Position,
    desired: Desired,
    equality: EqualityStatus | None,
    *,
    until: Stamp | None,
    unflagged: tuple[int, ...] = (),
) -> WayBack | None:
    """Way back from this position; None if nothing was begun, nothing leads back, or the way back is under way already.

    until: when the next step may close the way back; None: not known, or at any time.
    unflagged: ids of controllers that must get their flag back before.
    """
    first = f"put {FLAG} back on controller {', '.join(map(str, unflagged))}, " if unflagged else ""
    if position is Position.FINALIZING and unflagged:
        how = f"take {ZK_FINALIZE} out of consents, and set spec.migration.desired to DualWrite"
        return WayBack(how=f"to dual write, while the active controller has its flag: {how}; {first}and restart it")
    if position not in _EDGE_TO:
        return None
    if desired is Desired.ROLLED_BACK:
        if position not in _COPIED:
            return None
        return_way = RETURNS[MOVE_BROKERS_BACK]
        how = f"set spec.migration.desired to DualWrite, {first}{return_way.how}"
        return WayBack(how=f"to dual write: {how}; {return_way.loses}")
    loses = _loses(equality) if position in _COPIED else NOTHING
    how = first + RETURNS[_EDGE_TO[position]].how
    return WayBack(until=until, how=f"to ZooKeeper mode: set spec.migration.desired to RolledBack, {how}; {loses}")


def held_until(current_time: datetime, remaining: timedelta, previous: WayBack | None) -> Stamp | None:
    """Time until which dual write is kept at least; None if it was kept for long enough. `previous`: that of the last
    status, whose time is kept while it is about right, so that the status is not written again.
    """
    if remaining <= timedelta(0):
        return None
    until = current_time + remaining
    if previous is not None and previous.until and abs(datetime.fromisoformat(previous.until) - until) <= _ABOUT:
        return previous.until
    return stamp(until)


def _loses(equality: EqualityStatus | None) -> str:
    """Loss on the way back to ZooKeeper, in words, as far as the last comparison shows it."""
    state = equality.state if equality is not None else ""
    if equality is None or state not in (ComparisonState.EQUAL, ComparisonState.DIFFERS):
        last = f" since {equality.at}" if equality is not None and equality.at else ""
        return f"it is not known what would be lost: ZooKeeper was not compared with the metadata log{last}"
    if state == ComparisonState.EQUAL:
        return f"nothing is lost: ZooKeeper and the metadata log held the same metadata at {equality.at}"
    count = counted(equality.differences or 0, "difference")
    return (
        f"metadata that ZooKeeper lacks is lost: {count} at {equality.at}; to go back anyway needs the consent "
        f"{ZK_ROLLBACK_LOSSY}"
    )
