"""What a reconciliation comes to: values with a reason. Made by `core/engine/decide.py` and `core/roll/stage.py`."""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.core.engine.blockers import Blocker
from kafkafeatures.core.engine.steps import Step


class Act(Struct, frozen=True):
    """Carry out this step, then look again."""

    step: Step


class Wait(Struct, frozen=True):
    """It may resolve automatically; look again after `after` seconds. `condition`: one that is True meanwhile."""

    reason: Reason
    message: str
    after: float
    blockers: tuple[Blocker, ...] = ()
    condition: tuple[Condition, Reason] | None = None


class Stalled(Struct, frozen=True):
    """Action is required."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()


class Held(Struct, frozen=True):
    """It could go on, and is held back: suspended, not approved yet, or drift that is only reported."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()
    condition: tuple[Condition, Reason] | None = None


class Done(Struct, frozen=True):
    """Every desired level is verified on the active controller and every live node; or `Observed`: nothing is sent."""

    reason: Reason
    message: str
    blockers: tuple[Blocker, ...] = ()


Decision = Act | Wait | Stalled | Held | Done

PARTITIONS_ARE_NOT_NEEDED = Wait(
    Reason.PREFLIGHT, "partitions are read once the document lets a node be restarted", after=2.0
)
"""Of a roll that somebody holds, and of which is told already what can be told."""
