"""Evidence by which the outcome of a sent step is judged, and the times for which a request may still be under way.

Pure; values only. `reconcile/settle.py` makes the evidence, and `InFlight.settle` of each kind of step reads it. The
rule behind it: a request without an answer may still be carried out, so a step counts as not applied only once that can
no longer happen.
"""

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
"""A change is written to the network within this time after its intent began, or not at all."""

DELIVERED_WITHIN = timedelta(seconds=10)
"""Time after a change was written at which the sender's kernel gives up what the node has not acknowledged."""

ON_ITS_WAY = 1.5 * (SEND_WITHIN + DELIVERED_WITHIN)
"""Time, after a process read an intent, in which another process may still carry out the step of that intent. The other
process writes the intent and reads once more within SEND_WITHIN, on a connection that exists already. Half as much is
added because clocks differ and a kernel checks its timers late.
"""

BROKER_KEEPS = timedelta(minutes=5)
"""Time for which a broker may keep a forwarded request while no controller is active, and deliver it later (as was
observed on real nodes).
"""

EVICTED_WITHIN = timedelta(minutes=1)
"""Time, longer than an eviction can be on its way, after which one that was not repeated will not be carried out. As
long as it is wanted, it is repeated, which begins this time anew.
"""

AgeOf = Callable[[str], timedelta]
"""Age of a time in a status."""


class OpenOutcome(Struct, frozen=True):
    """Outcome of a step that is not known yet.

    reason: what is missing to know it, for people; empty if only time is needed.
    rights: a right has to be granted first.
    """

    reason: str = ""
    rights: bool = False


class ObservationPair(Struct, frozen=True):
    """Two readings in a row by which a step is settled (the same reading twice if there is only one), with further
    evidence.

    at: when they are judged.
    age_of: age of a time in a status. known_for: the part of that age during which this process has
        run; setting a clock cannot lengthen it.
    on_its_way: function from the time of an intent to the duration for which another process may still send its step,
        or that process's kernel deliver it.
    replication: all partitions, as far as they are known.
    stable_for: how long a node has to stay healthy before it counts as restarted.
    request_lifetime: function from what restarts a pod, empty for an eviction, to the longest time for which a request
        that is neither repeated nor on the pod may be on its way.
    without_dry_run: outcome of a step for which the active controller has to judge a dry run between the two readings,
        and why it has not; without a reason if it has. The controller works in order and without deadlines, so after
        a judged dry run no earlier request is still to come.
    """

    earlier: Observation
    later: Observation
    at: Stamp
    age_of: AgeOf
    known_for: AgeOf
    on_its_way: Callable[[str], timedelta] = lambda _: timedelta(0)
    replication: Replication | None = None
    stable_for: timedelta = timedelta(0)
    request_lifetime: Callable[[str], timedelta] = lambda _: EVICTED_WITHIN
    without_dry_run: OpenOutcome = OpenOutcome("it was not asked yet")
