"""How a step left this process, and that its outcome is open: what a step needs to settle itself. Values only."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from kafkafeatures.api.status import Via

SEND_WITHIN = timedelta(seconds=10)
"""After its intent began, a change is written within this time, or not at all."""

DELIVERED_WITHIN = timedelta(seconds=10)
"""And what the node has not acknowledged within this time after that, its sender's kernel gives up."""

ON_ITS_WAY = 1.5 * (SEND_WITHIN + DELIVERED_WITHIN)
"""For so long after an intent was met, another process than the one that met it may still carry it out. Writing the
intent, and all that is asked once more, are within the first time, and the connection is there before. The half more:
clocks differ, and a kernel looks at its timers when it comes to it."""


class Sent(Struct, frozen=True):
    """How a step left this process. `age`: of its intent. `accepted`: the active controller answered with yes.

    `age` of a change of a level is what this process knows of it itself. `offset`: the end of the metadata log that the
    decision rested on; -1 where it was not read. `stable`: for how long a restarted node has been back, None while it
    is not; and for how long it must be. `unwanted`: for how long a restart has not been asked for any more, None while
    it is. `on_its_way`: for how long after its intent another process, which may have sent it, may still run, and its
    kernel deliver. `unjudged`: why the active controller answered no dry run between the two readings; empty
    where it did. It carries out what it is given in one order, without a deadline: then nothing that it had before is
    still to come.
    """

    via: Via
    age: timedelta
    offset: int = -1
    accepted: bool = False
    stable: timedelta | None = None
    stable_for: timedelta = timedelta(0)
    unwanted: timedelta | None = None
    on_its_way: timedelta = timedelta(0)
    unjudged: str = "it was not asked yet"


class Open(Struct, frozen=True):
    """What became of a step cannot be told yet. `why`: what is missing, for people; empty where time shows it.
    `rights`: somebody has to grant a right before.
    """

    why: str = ""
    rights: bool = False
