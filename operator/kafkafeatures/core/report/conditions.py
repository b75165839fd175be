"""Conditions of a status: their transition times, and those that stay while a cluster cannot be read.

Pure. Called only by `core/report/status.py`, which decides what each condition says now.
"""

from __future__ import annotations

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import Status, StatusCondition
from kafkafeatures.core.engine.stage import Conditions
from kafkafeatures.core.words import cut

MAX_MESSAGE = 1024
"""Most bytes of a condition's message."""

_KNOWN = frozenset(Reason)
"""Reasons that this release of the operator knows."""


def conditions_of(
    statements: Conditions, *, generation: int, previous: Status, at: Stamp
) -> tuple[StatusCondition, ...]:
    """Conditions for the status, in the order of `statements`.

    statements: status, reason and message of each condition now; None: the condition is left out.
    generation: generation of the document for which this is said.
    previous: status with the transition times of conditions whose status stays the same.
    at: transition time of conditions whose status changed.
    """
    previous_conditions = {condition.type: condition for condition in previous.conditions}
    conditions = []
    for kind, statement in statements.items():
        if statement is None:
            continue
        status, reason, message = statement
        old_condition = previous_conditions.get(kind)
        conditions.append(
            StatusCondition(
                type=kind.value,
                status=status,
                observed_generation=generation,
                last_transition_time=old_condition.last_transition_time
                if old_condition and old_condition.status == status
                else at,
                reason=reason.value,
                message=cut(message, MAX_MESSAGE),
            )
        )
    return tuple(conditions)


def lasting_conditions(previous: Status, generation: int) -> Conditions:
    """Conditions of the previous status that stay while the cluster cannot be read: ApprovalRequired and DriftDetected,
    if they are about this generation of the document. A condition with a reason that this release does not know is left
    out; the release that wrote it adds it again.
    """
    kinds = (Condition.APPROVAL_REQUIRED, Condition.DRIFT_DETECTED)
    return {
        Condition(condition.type): (condition.status, Reason(condition.reason), condition.message)
        for condition in previous.conditions
        if condition.type in kinds and condition.observed_generation == generation and condition.reason in _KNOWN
    }
