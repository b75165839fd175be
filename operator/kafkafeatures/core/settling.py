"""How a step left this process, and that its outcome is open: what a step needs to settle itself. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from kafkafeatures.api.status import Via


@dataclass(frozen=True, slots=True)
class Sent:
    """How a step left this process. `age`: of its intent. `accepted`: the active controller answered with yes.

    `age` of a change of a level is what this process knows of it itself. `offset`: the end of the metadata log that the
    decision rested on; -1 where it was not read. `stable`: for how long a restarted node has been back, None while it
    is not; and for how long it must be.
    """

    via: Via
    age: timedelta
    offset: int = -1
    accepted: bool = False
    stable: timedelta | None = None
    stable_for: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Open:
    """What became of a step cannot be told yet."""
