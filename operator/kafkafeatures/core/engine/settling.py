"""By what the outcome of a step that was sent is judged, and for how long it may still be on its way. Values only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.records import Stamp
from kafkafeatures.core.facts.observation import Observation

if TYPE_CHECKING:  # only its judgement of partitions needs numpy
    from kafkafeatures.core.facts.replication import Replication

SEND_WITHIN = timedelta(seconds=10)
"""After its intent began, a change is written within this time, or not at all."""

DELIVERED_WITHIN = timedelta(seconds=10)
"""Time after a change was written at which the sender's kernel gives up what the node has not acknowledged."""

ON_ITS_WAY = 1.5 * (SEND_WITHIN + DELIVERED_WITHIN)
"""For so long after an intent was met, another process than the one that met it may still carry it out. Writing the
intent, and all that is asked once more, are within the first time, and the connection is there before. The half more:
clocks differ, and a kernel looks at its timers when it comes to it."""

BROKER_KEEPS = timedelta(minutes=5)
"""A broker that passed a request on may keep it while no controller is active, and deliver it minutes later (seen)."""

AgeOf = Callable[[str], timedelta]
"""Age of a stamp of a status."""


class OpenOutcome(Struct, frozen=True):
    """Outcome of a step that is not known yet. `reason`: what is missing, for people; empty where time shows it.
    `rights`: a right has to be granted first.
    """

    reason: str = ""
    rights: bool = False


class ObservationPair(Struct, frozen=True):
    """Two readings in a row, the same one twice where there is only one so far, and what else is known at that moment.

    at: when they were judged. age_of: how long ago something was, by the clock; known_for: how much of that this
    process has lived through itself, which no clock that was set makes longer. on_its_way: for how long after its
    intent another process, which may have sent a step, may still run, and its kernel deliver. replication: all
    partitions, as far as they are known. stable_for: how long a node has to stay as it is before that counts.
    unjudged: why the active controller answered no dry run between the two readings; empty where it did. It carries out
    what it is given in one order, without a deadline: then nothing that it had before is still to come.
    """

    earlier: Observation
    later: Observation
    at: Stamp
    age_of: AgeOf
    known_for: AgeOf
    on_its_way: Callable[[str], timedelta] = lambda _: timedelta(0)
    replication: Replication | None = None
    stable_for: timedelta = timedelta(0)
    unjudged: OpenOutcome = OpenOutcome("it was not asked yet")
