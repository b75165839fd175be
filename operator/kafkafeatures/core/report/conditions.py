"""Conditions of a status, made from the present statements and the previous conditions.

Pure. Called only by `core/report/status.py`, which makes the statements.
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
    """Conditions for the status. `at`: transition time of those whose status changed."""
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
    """Conditions that stay while the cluster cannot be read: a plan that waits for approval, a level that drifted. A
    condition with a reason of a newer release is left out; that release adds it again.
    """
    kinds = (Condition.APPROVAL_REQUIRED, Condition.DRIFT_DETECTED)
    return {
        Condition(condition.type): (condition.status, Reason(condition.reason), condition.message)
        for condition in previous.conditions
        if condition.type in kinds and condition.observed_generation == generation and condition.reason in _KNOWN
    }
