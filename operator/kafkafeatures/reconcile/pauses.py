"""Pause until the next reconciliation of a resource, by the result of the last one.

Called by `reconcile/controller.py` after each reconciliation. While the result is the same, the pauses get longer
(`reconcile/pace.py`).
"""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.steps import Applied, NotSent, Rejected
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.kinds import follows
from kafkafeatures.core.levels.soak import LOOKS_WITHIN
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.pace import Pace
from kafkafeatures.reconcile.ports import Resource

CHECK_EVERY = 60.0
"""Seconds between reconciliations of a resource that does not set them, or whose document is invalid."""
HALTED_WAIT = 10.0
"""Seconds between reconciliations while a roll waits for a user's action and nodes are in flight."""
SLOWEST_WAIT = LOOKS_WITHIN
"""Longest pause in seconds while something is waited for."""


class Pause(Struct, frozen=True):
    """A pause. `result`: success or requeued, for metrics. `seconds`: until the next reconciliation."""

    result: str
    seconds: float


def pause_after(last: Reconciliation, resource: Resource, pace: Pace, check_every: float) -> Pause:
    """Result of a reconciliation, and the pause after it. `check_every`: the pause of a settled cluster, in seconds."""
    if isinstance(last.decision, Act) and not isinstance(last.outcome, Applied):
        # The step failed and will be sent again, less and less often.
        attempt = resource.generation, last.decision.step, type(last.outcome)
        return Pause("requeued", pace.backoff(attempt, last.requeue_after or 1.0, SLOWEST_WAIT))
    if isinstance(last.decision, Act | Done | Held):
        pace.progress()
    if isinstance(last.decision, Act):
        return Pause("requeued", last.requeue_after or 0.0)
    if isinstance(last.decision, Done | Held):
        seconds = min(check_every, LOOKS_WITHIN) if last.status.soak_started_at else check_every
        return Pause("success", seconds)
    first = last.requeue_after or 2.0  # seconds, where the result of the reconciliation gives none
    if isinstance(last.outcome, NotSent):
        # Withheld at the last moment. Each try costs two writes of the status, so it is tried less and less often; but
        # nodes in flight and a soak are read all the same.
        has_to_be_read = follows(last.status) or last.status.soak_started_at is not None
        longest = min(check_every, SLOWEST_WAIT) if has_to_be_read else check_every
        return Pause("requeued", pace.backoff((resource.generation, NotSent), first, max(first, longest)))
    pace.rolling = follows(last.status) and driver_of(resource.desired.rollout).restarts_nodes
    if pace.rolling:  # each second counts, unless a user has to act first
        return Pause("requeued", HALTED_WAIT if isinstance(last.decision, Stalled) else first)
    reason = last.decision.kind if isinstance(last.decision, Failure) else last.decision.reason
    is_steady = isinstance(last.decision, Wait) and last.decision.steady  # its delay does not grow
    longest = first if is_steady else max(first, min(check_every, SLOWEST_WAIT))
    if isinstance(last.outcome, Rejected) and isinstance(last.decision, Stalled):
        longest = max(first, check_every)  # each try takes two writes, and the answer will hardly change
    return Pause("requeued", pace.backoff((resource.generation, reason), first, longest))


def is_held_back(decision: Decision | Failure, status: Status) -> bool:
    """Tell whether no node is restarted until a user acts or a window opens, which may take days."""
    if isinstance(decision, Wait):
        by_hand = status.reason(Condition.NODES_ROLLED) == Reason.RESTART_REQUESTED
        return by_hand or decision.reason is Reason.WAITING_FOR_WINDOW
    return isinstance(decision, Done | Held | Stalled)
