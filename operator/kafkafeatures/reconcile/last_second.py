"""The last check before a step leaves the process: whether it would still be decided.

Called by `reconcile/act.py` for steps of all kinds, once the intent is written. Between the reading and the step lie a
write of the status and any delay of the API server or the network, which may be half a minute. Meanwhile an approval
may be withdrawn, a window close, or a partition fall out of sync. For a restart the whole decision is therefore made
again, by the same code, on a reading not older than `FRESH`. For any step it is checked that the resource has not
changed, that no other resource owns the cluster, that the window is open, and that this process is not being stopped.
What cannot be read is a refusal.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Held, Stalled, Wait
from kafkafeatures.core.engine.gates import owned_by
from kafkafeatures.core.engine.steps import InFlight, Step
from kafkafeatures.core.engine.windows import closed_until
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.report.history import without
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.evaluate import evaluate
from kafkafeatures.reconcile.evaluation import Evaluation, Unread
from kafkafeatures.reconcile.ports import NotReadable, Resource

FRESH = 2.0
"""Largest age in seconds of the reading by which a restart is decided, from its start to the first byte of the request.
"""
NOT_SENT = "nothing was sent: "
_RETRY_SECONDS = 1.0
"""Seconds until the next reconciliation after a refusal."""

Refusal = Wait | Stalled | Held
"""Decision that replaces the step at the last moment."""


class LastLook(NamedTuple):
    """Evidence on which a step is sent.

    read_at: when the last reading began, in seconds of the monotonic clock; None where the step is not decided again.
    at_any_time: the step may be sent outside of windows, as where no partition has a leader.
    """

    read_at: float | None
    at_any_time: bool


async def why_not_now(
    context: ReconcileContext, evaluation: Evaluation, kept: Status, sent_step: InFlight, *, asked_before: bool
) -> Refusal | LastLook:
    """Refusal to send the step of this intent; if there is none, the evidence on which it is sent.

    kept: the status with the intent, as it was written.
    asked_before: the intent is from an earlier reconciliation, and the step may have been sent.
    """
    step = sent_step.step
    last_look = LastLook(None, step.goes_at_any_time)
    if step.is_decided_again:
        # A new step is decided as if it had not begun, so that every check is made again.
        status = kept if asked_before else without(kept, sent_step)
        renewed = await evaluate(context, replace(evaluation.resource, status=status), only_for_restart=True)
        if isinstance(renewed, Unread):
            return not_sent(f"the cluster could not be read again: {renewed.failure}")
        if (refusal := _decided_otherwise(renewed, step)) is not None:
            return refusal
        last_look = LastLook(renewed.read_at, renewed.observation.nothing_is_led)
    try:
        resource = await context.store.read_again()
    except NotReadable as error:
        return not_sent(str(error))
    return _changed(evaluation.resource, resource, sent_step) or too_late(context, evaluation, last_look) or last_look


def _decided_otherwise(renewed: Evaluation, step: Step) -> Refusal | None:
    """Refusal if the renewed evaluation does not decide for this step."""
    match renewed.decision:
        case Act(step=next_step) if next_step == step:
            return None
        case Wait() | Stalled() | Held() as refusal:
            return refusal
        case _:
            return not_sent(f"{step.request} is no longer the next step")


def _changed(earlier: Resource, current: Resource, sent_step: InFlight) -> Refusal | None:
    """Refusal if the document or the intent has changed, such as by a suspension, or an approval that is withdrawn."""
    if (current.generation, current.desired) != (earlier.generation, earlier.desired):
        return not_sent("the resource was changed in the meantime")
    if sent_step.to_intent() not in current.status.intents:
        return not_sent("the status no longer contains the intent")
    return None


def too_late(context: ReconcileContext, evaluation: Evaluation, last_look: LastLook) -> Refusal | None:
    """Refusal if something forbids the step at this very moment. Called once the intent is written, and again right
    before the first byte, so it must not wait for anything.
    """
    task = asyncio.current_task()
    if context.is_stopping() or (task is not None and task.cancelling()):
        return not_sent("this process is shutting down; its successor continues")
    cluster_id, windows = evaluation.observation.cluster_id, evaluation.desired.rollout.windows
    if isinstance(cluster_id, Known):
        refusal = owned_by(context.competing_owner(cluster_id.value))
        if refusal is not None:
            return refusal
    if windows and not last_look.at_any_time and (opens := closed_until(windows, context.now())) is not None:
        at = opens.isoformat(timespec="minutes")
        return Wait(
            Reason.WAITING_FOR_WINDOW,
            f"the window of spec.rollout has closed; the next opens at {at}",
            _RETRY_SECONDS,
            is_dated=True,
            subject="spec.rollout.windows",
            remedy="wait until it opens, or change spec.rollout.windows",
        )
    if last_look.read_at is not None and context.environment.monotonic() - last_look.read_at > FRESH:
        return not_sent(
            f"the cluster was read more than {FRESH:g} s ago; a restart is decided on a newer reading: give the "
            "operator a faster way to the controllers and the API server, or more CPU, if this persists"
        )
    return None


def not_sent(reason: str) -> Wait:
    """Wait until the next reconciliation, because something changed at the last moment."""
    return Wait(
        Reason.PREFLIGHT,
        reason if reason.startswith(NOT_SENT) else f"{NOT_SENT}{reason}",
        delay=_RETRY_SECONDS,
        subject="the next step",
        remedy="wait: it is decided on anew; if this persists, give the operator a faster way to the cluster",
    )
