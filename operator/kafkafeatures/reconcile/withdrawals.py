"""Withdrawals of requests that wait on a pod for another operator (`Driver.asked`), which would carry them out even if
nobody wants them any more.

Called by `reconcile/act.py`, by `reconcile/controller.py` where no document can be judged, and by
`reconcile/abandoned_requests.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.memory import remembering
from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, OutcomeUnknown, Rejected
from kafkafeatures.core.kinds import sent_in
from kafkafeatures.core.roll.asked import asked_among
from kafkafeatures.core.roll.restart_node import RestartNode

if TYPE_CHECKING:  # of Kubernetes, which a command on levels does not import
    from kafkafeatures.kube.workloads.requests import RequestedPod

Withdraw = Callable[[RestartNode], Awaitable[Outcome]]
"""Function that withdraws a request."""
WITHDRAW_AFTER = (0.0, 1.0, 2.0, 4.0)
"""Seconds before each try to withdraw the requests of a deleted resource, well within the deadline of the queue."""

logger = logging.getLogger(__name__)


def not_withdrawn(step: RestartNode | RequestedPod, reason: str) -> str:
    """Text on a withdrawal that was refused or not answered."""
    return f"the request to restart pod {step.pod} could not be withdrawn: {reason}"


def with_withdrawn(status: Status, step: RestartNode, at: Stamp) -> Status:
    """The status in which the request of this restart is withdrawn. Its intent stays, as it may have begun."""
    for intent in asked_among(sent_in(status)):
        if intent.step == step:
            status = remembering(status, intent, intent.with_request(at, repeats=False))
    return status


def is_withdrawn(
    step: RestartNode | RequestedPod, outcome: Outcome, labels: Mapping[str, object] | None = None
) -> bool:
    """Tell whether the request is gone; log why it is not. `labels`: of the resource, for the log."""
    match outcome:
        case Applied():
            return True
        case Rejected(_, reason) | NotSent(reason) | OutcomeUnknown(reason):
            logger.warning(not_withdrawn(step, reason), extra=labels)
            return False


async def without_requests(status: Status, at: Stamp, withdraw: Withdraw | None) -> Status:
    """The status after every request in it was withdrawn: while the document or the cluster cannot be read, or the
    status cannot be kept, nobody judges whether the restart is still wanted, and allowed. It is requested again once it
    is. `withdraw`: None where nothing is sent.
    """
    if withdraw is None:
        return status
    for step in _waiting_in(status):
        if is_withdrawn(step, await withdraw(step)):
            status = with_withdrawn(status, step, at)
    return status


async def withdraw_all(
    status: Status, withdraw: Withdraw, sleep: Callable[[float], Awaitable[None]], labels: Mapping[str, object]
) -> bool:
    """Withdraw the requests of a deleted resource, several times where that is refused or not answered: nothing looks
    at them later. True if they were all that it had under way, and are gone. `labels`: of the resource, for the log.
    """
    steps = _waiting_in(status)
    are_all = 0 < len(steps) == len(status.intents)
    for pause in WITHDRAW_AFTER:
        await sleep(pause)
        steps = [step for step in steps if not is_withdrawn(step, await withdraw(step), labels)]
        if not steps:
            return are_all
    return False


def _waiting_in(status: Status) -> list[RestartNode]:
    """Restarts whose request may wait on a pod: it was not withdrawn, and the pod was not observed to stop."""
    intents = asked_among(sent_in(status))
    return [intent.step for intent in intents if intent.unwanted_since is None and intent.stopping_since is None]
