"""How a step left this process, and that its outcome is open: what a step needs to settle itself. Values only."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from kafkafeatures.api.status import Via


class Sent(Struct, frozen=True):
    """How a step left this process. `age`: of its intent. `accepted`: the active controller answered with yes.

    `age` of a change of a level is what this process knows of it itself. `offset`: the end of the metadata log that the
    decision rested on; -1 where it was not read. `stable`: for how long a restarted node has been back, None while it
    is not; and for how long it must be. `unwanted`: for how long a restart has not been asked for any more, None while
    it is. `on_its_way`: for how long after its intent another process, which may have sent it, may still run.
    """

    via: Via
    age: timedelta
    offset: int = -1
    accepted: bool = False
    stable: timedelta | None = None
    stable_for: timedelta = timedelta(0)
    unwanted: timedelta | None = None
    on_its_way: timedelta = timedelta(0)


class Open(Struct, frozen=True):
    """What became of a step cannot be told yet."""
