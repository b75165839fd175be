"""Withdrawals of requests that wait on a pod for another operator (`Driver.asked`), which would carry them out even if
nobody wants them any more.

Called by `reconcile/act.py`, and by `reconcile/controller.py` where no document can be judged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import Status
from kafkafeatures.core.engine.memory import remembering
from kafkafeatures.core.engine.steps import Applied, Outcome
from kafkafeatures.core.kinds import sent_in
from kafkafeatures.core.roll.asked import asked_among
from kafkafeatures.core.roll.restart_node import RestartNode

Withdraw = Callable[[RestartNode], Awaitable[Outcome]]
"""Function that takes back a request."""


def with_withdrawn(status: Status, step: RestartNode, at: Stamp) -> Status:
    """The status in which the request of this restart is withdrawn. Its intent stays, as it may have begun."""
    for intent in asked_among(sent_in(status)):
        if intent.step == step:
            status = remembering(status, intent, intent.with_request(at, repeats=False))
    return status


async def without_requests(status: Status, at: Stamp, withdraw: Withdraw | None) -> Status:
    """The status after every request in it was withdrawn: while the document or the cluster cannot be read, nobody
    judges whether the restart is still wanted, and allowed. It is requested again once it is.
    """
    for intent in asked_among(sent_in(status)) if withdraw is not None else ():
        has_ended = intent.unwanted_since is not None or intent.stopping_since is not None
        if not has_ended and isinstance(await withdraw(intent.step), Applied):
            status = with_withdrawn(status, intent.step, at)
    return status
