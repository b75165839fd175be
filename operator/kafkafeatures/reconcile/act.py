"""The second half of a reconciliation: write the status, and send at most one step.

The operator and `apply` send steps only through this module. The
intent of a step is written into the status before the step is sent, so that its outcome can be settled even if this
process dies in between: the next reconciliation does that, in `reconcile/evaluate.py`.

A step may have been sent before, by an intent that is still open (`asked_before`, as an eviction that is repeated).
Then a failure now proves nothing about the earlier request, and the intent stays.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import chain
from typing import assert_never

from msgspec import Struct

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.settling import SEND_WITHIN
from kafkafeatures.core.engine.steps import (
    Applied,
    InFlight,
    NotSent,
    Outcome,
    OutcomeUnknown,
    Rejected,
    Rejection,
    Step,
)
from kafkafeatures.core.engine.waits import explained, without_time
from kafkafeatures.core.facts.observation import Known, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.kinds import known, sent_in
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.ports import Withheld
from kafkafeatures.core.report.history import with_result, without
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.reconcile.context import EffectRecord, ReconcileContext
from kafkafeatures.reconcile.evaluate import evaluate
from kafkafeatures.reconcile.evaluation import Evaluation, Unread
from kafkafeatures.reconcile.last_second import LastLook, Refusal, not_sent, too_late, why_not_now
from kafkafeatures.reconcile.ports import KeptStatus, Resource, ResourceStore, needs_write
from kafkafeatures.reconcile.settle import SETTLE_SECONDS
from kafkafeatures.reconcile.withdrawals import not_withdrawn, with_withdrawn, without_requests


class Reconciliation(Struct, frozen=True):
    """Result of a reconciliation.

    decision: the decision; a Failure if no node answered.
    requeue_after: seconds until the next one; 0 for at once; None: nothing is due by itself.
    status: the status that was written, or would have been if it differed.
    outcome: outcome of the attempt to send a step; None if none was due.
    """

    decision: Decision | Failure
    requeue_after: float | None
    status: Status
    outcome: Outcome | None = None


async def reconcile(context: ReconcileContext, resource: Resource) -> Reconciliation:
    """Read, decide, and send at most one step."""
    return await execute(context, await evaluate(context, resource))


async def execute(context: ReconcileContext, evaluation: Evaluation | Unread) -> Reconciliation:
    """Write the status of an evaluation, and send its step if there is one. `context.before_act` is called first; if it
    raises, nothing is done. It is called during a soak too, to ask a person early: while that person hesitates at the
    end of the soak, nothing is read, and the soak would begin anew.
    """
    if isinstance(evaluation, Unread):
        status = await without_requests(evaluation.status, context.stamp(), context.withdrawal)
        await write_if_changed(context.store, evaluation.resource, status)
        return Reconciliation(evaluation.failure, 2.0, status)  # seconds; `pauses.py` makes them longer
    if isinstance(evaluation.decision, Act) or _is_soaking(evaluation.decision):
        context.before_act(evaluation)
    if isinstance(evaluation.decision, Act):
        return await _act(context, evaluation, evaluation.decision.step)
    evaluation = await _withdraw(context, evaluation)
    status = evaluation.status
    if not evaluation.ours or _pods_are_unread(evaluation):
        status = await without_requests(status, context.stamp(), context.withdrawal)
    await write_if_changed(context.store, evaluation.resource, status)
    return Reconciliation(evaluation.decision, _requeue(evaluation.decision), status)


async def _withdraw(context: ReconcileContext, evaluation: Evaluation) -> Evaluation:
    """Withdraw the requests that wait for another operator and must not be carried out now. Their intents stay, as it
    may have begun. Returns the evaluation, in which they are withdrawn, or with the refusal if one was refused.
    """
    for step in chain.from_iterable(stage.withdrawing for stage in evaluation.stages):
        if (withdraw := context.withdrawal) is None:
            break
        outcome = await withdraw(step)
        if isinstance(outcome, Applied):
            evaluation = replace(evaluation, remembered=with_withdrawn(evaluation.remembered, step, context.stamp()))
        if isinstance(outcome, Rejected):
            rejection = step.rejection(outcome.code, outcome.message)
            refused = _refused(step, replace(rejection, message=not_withdrawn(step, outcome.message)))
            return with_decision(context, evaluation, refused, evaluation.remembered)
    return evaluation


def _pods_are_unread(evaluation: Evaluation) -> bool:
    """Tell whether the pods could not be read, so that nobody judges what is requested of them."""
    workloads = evaluation.observation.workloads
    return isinstance(workloads, Unknown) and workloads.failure.kind is not FailureKind.NOT_ASKED


def _is_soaking(decision: Decision) -> bool:
    return isinstance(decision, Wait) and decision.reason is Reason.SOAKING


async def write_if_changed(store: ResourceStore, previous: KeptStatus, status: Status) -> None:
    """Write the status if it differs from the previous one: a resource at rest causes no writes."""
    if needs_write(previous, status):
        await store.write_status(status)


Send = Callable[[Withheld], Awaitable[Outcome]]
"""Function that sends a step, unless it is withheld at the last moment."""


async def _act(context: ReconcileContext, evaluation: Evaluation, step: Step) -> Reconciliation:
    """Connect, then write the intent and send the step. Connecting is the slow part, and without a connection no intent
    is needed.
    """
    match known(step):
        case UpdateFeature() as change:
            async with context.kafka.prepared(change) as request:
                if isinstance(request, NotSent):
                    return await _not_begun(context, evaluation, step, request)
                return await _carry_out(context, evaluation, step, request.via, request.send)
        case RestartNode() as restart:
            via = Via.API_SERVER if restart.pod else Via.PERSON
            return await _carry_out(context, evaluation, step, via, partial(_ask_for_restart, context, restart))
        case DeleteZnodes() as deletion:
            if context.zookeeper is None:
                return await _not_begun(context, evaluation, step, NotSent("no ensemble is known from here"))
            async with context.zookeeper.prepared(deletion) as transaction:
                if isinstance(transaction, NotSent):
                    return await _not_begun(context, evaluation, step, transaction)
                return await _carry_out(context, evaluation, step, Via.ZOOKEEPER, transaction.send)
        case _ as unknown_kind:
            assert_never(unknown_kind)


async def _ask_for_restart(context: ReconcileContext, step: RestartNode, withheld: Withheld) -> Outcome:
    """Have the driver restart the pod. Where a person restarts the node, nothing is sent."""
    if not step.pod:
        if reason := withheld():
            return NotSent(reason)
        return Applied()  # the intent and its Event are the request to a person
    if context.workloads is None:
        return NotSent("the document names no driver that could restart it")
    return await context.workloads.restart(step, withheld)


async def _not_begun(context: ReconcileContext, evaluation: Evaluation, step: Step, outcome: NotSent) -> Reconciliation:
    """Report a step for which there is no connection. The history gets one entry, however often it is tried."""
    unsent_step = step.begin(context.stamp(), Via.CONTROLLER, evaluation.observation)
    status = _ended(context, evaluation.status, unsent_step, Result.NOT_SENT, outcome.reason)
    await write_if_changed(context.store, evaluation.resource, status)
    return Reconciliation(Act(step), 1.0, status, outcome)


async def _carry_out(
    context: ReconcileContext, evaluation: Evaluation, step: Step, via: Via, send: Send
) -> Reconciliation:
    """Write the intent, make the last checks, send the step, and write its outcome. `via`: its route. `send`: sends it,
    on a connection that exists already.
    """
    began, status = context.environment.monotonic(), evaluation.status
    earlier = (candidate for candidate in sent_in(status) if step.is_asked_for_by(candidate.step))
    in_flight = next(earlier, None) or step.begin(
        context.stamp(),
        via,
        evaluation.observation,
        corrects_drift=any(stage.corrects_drift(step) for stage in evaluation.stages),
    )
    asked_before = in_flight.intent is not None
    # The consent is spent before it is used: if the process dies in between, no later step can use it again.
    spent = sorted({*status.spent_consents, step.consent} - {""})
    other_intents = tuple(intent for intent in status.intents if intent != in_flight.to_intent())
    status = replace(status, intents=(*other_intents, in_flight.to_intent()), spent_consents=tuple(spent))
    await _intend(context, evaluation, status, in_flight)
    last_look = await why_not_now(context, evaluation, status, in_flight, asked_before=asked_before)
    if not isinstance(last_look, LastLook):
        # Nothing of this resource is under way now, so another owner of the cluster need not wait for it.
        if not (other_intents or asked_before):
            context.on_settled()
        return await _held_back(context, evaluation, status, in_flight, last_look)
    cluster_id = evaluation.observation.cluster_id
    cluster = cluster_id.value if isinstance(cluster_id, Known) else ""
    context.effects(EffectRecord(evaluation.resource.name, cluster, step, via))
    outcome = await send(partial(_withheld, context, evaluation, last_look, began))
    if not other_intents and not _may_be_on_its_way(in_flight, outcome, asked_before=asked_before):
        context.on_settled()
    match outcome:
        case Applied():
            # The intent stays until a reading shows the effect: the next reconciliation closes it. It records that the
            # step was accepted, so that a level that someone reverts meanwhile does not look as if never changed.
            accepted = replace(in_flight, accepted=True).to_intent()
            status = replace(status, intents=(*status.intents[:-1], accepted))  # this step's intent is the last one
            await context.store.write_status(status)
            return Reconciliation(Act(step), 0.0, status, outcome)
        case OutcomeUnknown(reason):
            if asked_before:  # a new step needs no report, as the next reading shows its outcome
                status = await _left_open(context, evaluation, status, step, reason)
            return Reconciliation(Act(step), SETTLE_SECONDS, status, outcome)
        case NotSent(reason):
            if asked_before:
                return await _held_back(context, evaluation, status, in_flight, not_sent(reason))
            status = _ended(context, status, in_flight, Result.NOT_SENT, reason)
            await context.store.write_status(status)
            return Reconciliation(Act(step), 1.0, status, outcome)
        case Rejected(code, message):
            rejection = step.rejection(code, message)
            if rejection.recorded:
                status = _ended(context, status, in_flight, Result.REJECTED, rejection.recorded)
            elif not asked_before:  # with `asked_before`, the earlier request may still be under way
                status = without(status, in_flight)
            refusal = with_decision(context, evaluation, _refused(step, rejection), status)
            return await _report(context, refusal, outcome)
        case _:
            assert_never(outcome)


async def _held_back(
    context: ReconcileContext, evaluation: Evaluation, status: Status, sent_step: InFlight, refused: Refusal
) -> Reconciliation:
    """Report that a step was refused at the last moment. The intent of an earlier request stays."""
    if sent_step.intent is None:
        status = _ended(context, status, sent_step, Result.NOT_SENT, refused.message)
    return await _report(context, with_decision(context, evaluation, refused, status), NotSent(refused.message))


async def _intend(context: ReconcileContext, evaluation: Evaluation, status: Status, sent_step: InFlight) -> None:
    """Write the intent, and everything else that must be written before the step is sent. If the intent is there
    already, and only texts or the log position differ, nothing is written.
    """

    def without_texts(status: Status) -> Status:
        rollout = status.rollout and replace(status.rollout, waiting_for="", waiting_since=None)
        return replace(status, conditions=(), ready_reason=None, rollout=rollout, log_position=None)

    resource, asked_before = evaluation.resource, sent_step.intent is not None
    if asked_before and not resource.invalid_fields and without_texts(status) == without_texts(resource.status):
        return
    await context.store.write_status(status)
    if not asked_before:  # only after the write: another process may have written an intent of the same time instead
        context.ages.note_own_stamp(sent_step.at)


_NUMBER = re.compile(r"\d+")
OUTCOME_IS_OPEN = "see what the message says about the connection, and repair it: nothing else is sent meanwhile"
"""Remedy while the outcome of a step is not known."""


async def _left_open(
    context: ReconcileContext, evaluation: Evaluation, kept: Status, step: Step, reason: str
) -> Status:
    """Write and return the status with the reason why the outcome of a repeated request is still unknown. It is built
    on the remembered status, so that the wait keeps its beginning. `kept`: the status with the intent.
    """
    message, rollout = f"{step.request}: its outcome is not known: {reason}", evaluation.remembered.rollout
    previous_message = without_time(rollout.waiting_for) if rollout is not None else ""
    if _NUMBER.sub("", previous_message) == _NUMBER.sub("", message):
        message = previous_message  # only numbers differ, such as the port of a connection
    wait = Wait(step.reason, message, SETTLE_SECONDS, subject=step.request, remedy=OUTCOME_IS_OPEN)
    remembered = replace(evaluation.remembered, intents=kept.intents, spent_consents=kept.spent_consents)
    status = with_decision(context, evaluation, wait, remembered).status
    await write_if_changed(context.store, evaluation.resource, status)
    return status


def _may_be_on_its_way(sent_step: InFlight, outcome: Outcome, *, asked_before: bool) -> bool:
    """Tell whether the step, or an earlier request for it, may still change something."""
    match outcome:
        case OutcomeUnknown():
            return True
        case Applied():
            # A step that is followed has only begun; and a broker may forward a request once more.
            return sent_step.step.is_followed or sent_step.via is Via.BROKER
        case Rejected():
            return asked_before or sent_step.via is Via.BROKER
        case NotSent():
            return asked_before
        case _:
            assert_never(outcome)


def _withheld(context: ReconcileContext, evaluation: Evaluation, last_look: LastLook, began: float) -> str | None:
    """Reason not to send; None to send. Called right before the first byte. Other processes rely on it that no step is
    sent later than SEND_WITHIN after its intent.
    """
    within = SEND_WITHIN.total_seconds()
    if (elapsed := context.environment.monotonic() - began) > within:
        return f"it took {elapsed:.0f} s since its intent; a change is sent within {within:g} s or not at all"
    refused = too_late(context, evaluation, last_look)
    return refused.message if refused is not None else None


def with_decision(
    context: ReconcileContext, evaluation: Evaluation, decision: Decision, remembered: Status
) -> Evaluation:
    """The evaluation with another decision, made at the last moment. Conditions of the previous status stay the basis,
    so that a wait in it goes on as if no step had been tried.
    """
    previous_status = evaluation.resource.status
    remembered = replace(remembered, conditions=previous_status.conditions, ready_reason=previous_status.ready_reason)
    decision = explained(decision, previous_status, context.stamp(), context.age_of)
    return replace(evaluation, decision=decision, remembered=remembered)


def _refused(step: Step, rejection: Rejection) -> Wait | Stalled:
    if rejection.needs_action:
        return Stalled(rejection.reason, rejection.message, subject=step.request, remedy=rejection.remedy)
    return Wait(rejection.reason, rejection.message, delay=2.0, subject=step.request, remedy=rejection.remedy)


def _ended(context: ReconcileContext, status: Status, sent_step: InFlight, result: Result, message: str) -> Status:
    return with_result(status, sent_step, result, at=context.stamp(), age_of=context.age_of, message=message)


async def _report(context: ReconcileContext, evaluation: Evaluation, outcome: Outcome | None = None) -> Reconciliation:
    """Write the status with a decision that was made after the evaluation, maybe because of `outcome`."""
    status = evaluation.status
    await context.store.write_status(status)
    requeue_after = 2.0 if isinstance(outcome, Rejected) else _requeue(evaluation.decision)
    return Reconciliation(evaluation.decision, requeue_after, status, outcome)


def _requeue(decision: Decision) -> float | None:
    match decision:
        case Wait(delay=delay):
            return delay
        case Act():
            return 0.0
        case Done() | Held() | Stalled():
            return None


def summary_of(last: Reconciliation) -> str:
    """One line for logs: the decision or the step, with its reason."""
    if isinstance(last.decision, Failure):
        return f"{Reason.UNREACHABLE}: {last.decision}"
    if isinstance(last.decision, Act):
        step = last.decision.step
        if isinstance(step, RestartNode) and not step.pod and isinstance(last.outcome, Applied):
            return step.request  # a person was asked; nothing was done yet
        reason = f": {last.outcome.reason}" if isinstance(last.outcome, OutcomeUnknown) else ""
        return f"{step.request}: {type(last.outcome).__name__}{reason}"
    return f"{last.decision.reason}: {last.decision.message}"
