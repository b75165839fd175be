"""The conditions of a status: made of what is said now, and of what was said before.

Pure. Called by `core/report/status.py` alone, which says what is to be said.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import Status, StatusCondition
from kafkafeatures.core.engine.stage import Conditions
from kafkafeatures.core.words import cut

MAX_MESSAGE = 1024  # bytes

_KNOWN = frozenset(Reason)


def conditions_of(said: Conditions, *, generation: int, previous: Status, at: Stamp) -> tuple[StatusCondition, ...]:
    """The conditions for the status. `at`: the transition time of those whose status changed."""
    previous_conditions = {condition.type: condition for condition in previous.conditions}
    conditions = []
    for kind, statement in said.items():
        if statement is None:
            continue
        status, reason, message = statement
        old = previous_conditions.get(kind)
        conditions.append(
            StatusCondition(
                type=kind.value,
                status=status,
                observed_generation=generation,
                last_transition_time=old.last_transition_time if old and old.status == status else at,
                reason=reason.value,
                message=cut(message, MAX_MESSAGE),
            )
        )
    return tuple(conditions)


def still_said(previous: Status, generation: int) -> Conditions:
    """Conditions that a reconciliation that could not look does not change: a plan that waits, a level that drifted.

    A reason that only a newer release knows is not repeated: that release says it again once it is back.
    """
    kinds = (Condition.APPROVAL_REQUIRED, Condition.DRIFT_DETECTED)
    return {
        Condition(condition.type): (condition.status, Reason(condition.reason), condition.message)
        for condition in previous.conditions
        if condition.type in kinds and condition.observed_generation == generation and condition.reason in _KNOWN
    }
