"""Approval of a plan: whether it was given, and in which way. Pure."""

from __future__ import annotations

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import ApprovedBy
from kafkafeatures.core.engine.decisions import Held
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState
from kafkafeatures.core.engine.plan import HASH_SHOWN, Plan, is_another_named


def hold_until_approved(
    desired: DesiredState,
    plan: Plan,
    *,
    waits: bool,
    unverified: tuple[str, ...] = (),
    pending: Reason = Reason.PLAN_PENDING,
) -> Held | None:
    """Decision that holds the next step back until the plan is approved; None if the step may begin.

    waits: the approval policy requires a person's approval before the next step. unverified: consents that may have
    been used before the status was lost. pending: reason of the condition ApprovalRequired.
    """
    is_another = is_another_named(plan.hash, desired.approvals)
    if not is_another and (plan.is_approved_by(desired.approvals) or not waits):
        return None
    if is_another:
        return Held(
            Reason.APPROVAL_REQUIRED,
            f"the approval is for another plan; the current plan is {plan.hash[:HASH_SHOWN]}: {plan}; "
            "approve this plan, or remove the approval",
            condition=(Condition.APPROVAL_REQUIRED, Reason.PLAN_CHANGED),
        )
    note = ""
    if unverified:
        note = f"; it is unknown whether consent {unverified[0]!r} was already used: it is older than the status"
    return Held(
        Reason.APPROVAL_REQUIRED,
        f"approve plan {plan.hash[:HASH_SHOWN]}: {plan}{note}",
        condition=(Condition.APPROVAL_REQUIRED, pending),
    )


def approved_by(desired: DesiredState, plan: Plan, *, waits: bool) -> ApprovedBy | None:
    """Way in which the plan was approved; None while it is not approved, or needs no approval. `waits`: the approval
    policy requires a person's approval.
    """
    if plan.is_over or is_another_named(plan.hash, desired.approvals):
        return None
    if plan.is_approved_by(desired.approvals):
        in_document = plan.is_approved_by(desired.approvals - {desired.annotated})
        return ApprovedBy.PLAN_HASH if in_document else ApprovedBy.ANNOTATION
    if plan.is_safe_to_undo or waits:
        return None
    return ApprovedBy.POLICY if desired.policy is ApprovalPolicy.NEVER else ApprovedBy.NAMED_IN_SPEC
