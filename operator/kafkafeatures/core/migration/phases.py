"""The phase of a migration, which is the word for people in the status: the position, seen in the direction in which
the document wants to go. At the same position a cluster may be DualWrite on the way forward, and RollingBack on the way
back.

Pure. Called by `core/migration/progress.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkafeatures.api.reasons import Phase
from kafkafeatures.api.spec import Desired
from kafkafeatures.core.migration.positions import Position

P = Position
_FORWARD: Mapping[Position, Phase] = {
    P.ZOOKEEPER: Phase.NONE,
    P.PRE_MIGRATION: Phase.PRE_MIGRATION,
    P.FLAGGING: Phase.MIGRATING,
    P.COPYING: Phase.MIGRATING,
    P.COPIED: Phase.MIGRATING,
    P.DUAL_WRITE: Phase.DUAL_WRITE,
    P.FINALIZING: Phase.FINALIZING,
    P.FINALIZED: Phase.FINALIZED,
    P.NO_CONTROLLER: Phase.ROLLING_BACK,
    P.RELEASED: Phase.ROLLING_BACK,
}


def phase_of(position: Position, desired: Desired) -> Phase:
    """Phase of a position, as people read it."""
    if desired is not Desired.ROLLED_BACK or position in (P.FINALIZING, P.FINALIZED):
        return _FORWARD[position]
    return Phase.ROLLED_BACK if position is P.ZOOKEEPER else Phase.ROLLING_BACK
