"""The verdict of a plan, and the document of `plan -o json`: what would be done to a cluster, and what prevents it.

Pure. Called by `plan`: `plan -f FILE` evaluates the cluster itself; `plan NAME` reads the operator's status. The
verdict is computed from a status alone, so it is the same for both and agrees with the conditions.
"""

from __future__ import annotations

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.reasons import Condition, PlanVerdict, Reason
from kafkafeatures.api.records import Json
from kafkafeatures.api.status import Status, StatusCondition
from kafkafeatures.core.engine.decisions import Decision
from kafkafeatures.core.engine.plan import Proposal
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted, DryRunRejected, DryRunUnavailable
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.kinds import KINDS
from kafkafeatures.core.levels.report import feature_states
from kafkafeatures.core.levels.stage import levels_in
from kafkafeatures.core.report.blockers import blocker_status
from kafkafeatures.core.report.cluster_document import node_shapes, not_read, or_none, source_shape, with_level_names
from kafkafeatures.core.report.status import steps_of

_GOES_ON = (
    Reason.SOAKING,
    Reason.WAITING_FOR_WINDOW,
    Reason.WAITING_FOR_GIT,
    *(kind.reason for kind in KINDS.values()),
)
"""Reasons of the condition Reconciling with which the plan will be carried out: a step runs, or only time or a change
in Git is needed.
"""


def plan_verdict(status: Status, generation: int, *, approved: bool = False, sends: bool = True) -> PlanVerdict:
    """Verdict of a status on this generation of the document.

    approved: the plan was approved after the status was written.
    sends: False where the caller does not send the changes itself, so that a right which it lacks is no blocker.
    """

    def true_condition(kind: Condition) -> StatusCondition | None:
        """The condition, if it is True for this generation; else None."""
        condition = status.condition(kind)
        return (
            condition
            if condition and condition.status == "True" and condition.observed_generation == generation
            else None
        )

    ready, levels = status.condition(Condition.READY), status.condition(Condition.FEATURES_FINALIZED)
    blocked = bool(status.blockers or status.blockers_total)
    stalled = true_condition(Condition.STALLED)
    if stalled:
        only_a_right = stalled.reason == Reason.NOT_AUTHORIZED and not blocked
        return PlanVerdict.CHANGES if only_a_right and not sends else PlanVerdict.BLOCKED
    if not ready or ready.observed_generation != generation or not levels or levels.status == "Unknown":
        return PlanVerdict.UNKNOWN
    if true_condition(Condition.APPROVAL_REQUIRED) and not approved:
        return PlanVerdict.APPROVAL_REQUIRED
    reconciling = true_condition(Condition.RECONCILING)
    if reconciling and not status.plan:
        # Levels could not be confirmed: the operator still waits, although nothing is left to do.
        return PlanVerdict.UNKNOWN
    if blocked or ready.reason in (Reason.SUSPENDED, Reason.DRIFTED):
        return PlanVerdict.BLOCKED
    if reconciling and reconciling.reason not in _GOES_ON:
        return PlanVerdict.UNKNOWN
    if status.plan:
        return PlanVerdict.CHANGES
    return PlanVerdict.IN_SYNC if ready.status == levels.status == "True" else PlanVerdict.UNKNOWN


def document_of_status(status: Status, *, name: str, generation: int, approved: bool) -> Json:
    """A plan document made from a status alone: as by `plan_document`, without the fields that a status lacks."""
    ready, plan = status.condition(Condition.READY), status.plan
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "resource": name,
        "generation": ready.observed_generation if ready else None,
        "clusterId": status.cluster_id or None,
        "verdict": plan_verdict(status, generation, approved=approved),
        "hash": plan.hash if plan else "",
        "irreversible": plan is not None and plan.irreversible,
        "metadataMode": status.metadata_mode or None,
        "source": {"kind": status.source or None},
        "reason": ready.reason if ready else None,
        "message": ready.message if ready else None,
        "features": [with_level_names(feature.as_json()) for feature in status.features],
        "steps": [step.as_json() for step in plan.steps] if plan else [],
        "blockers": [blocker.as_json() for blocker in status.blockers],
        **optional_fields(status),
    }


def optional_fields(status: Status) -> Json:
    """Fields that a document has only if a soak runs, a level has a way back, or a migration is desired."""
    fields = {
        "soakStartedAt": status.soak_started_at,
        "wayBack": status.way_back and status.way_back.as_json(),
        "migration": status.migration and status.migration.as_json(),
    }
    return {name: value for name, value in fields.items() if value}


def plan_document(
    decision: Decision,
    observation: Observation,
    proposal: Proposal,
    server: DryRun | None,
    *,
    status: Status,
    name: str,
    generation: int,
    verdict: PlanVerdict,
) -> Json:
    """The document of a plan that was just made.

    server: answer of the active controller to the dry run; None for none.
    status: the status as a reconciliation would write it.
    """
    document: Json = {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "resource": name,
        "generation": generation,
        "clusterId": or_none(observation.cluster_id),
        "verdict": verdict,
        "hash": "" if proposal.plan.is_over else proposal.plan.hash,
        "irreversible": proposal.plan.irreversible,
        "metadataMode": or_none(observation.mode),
        "source": source_shape(observation),
        "reason": decision.reason.value,
        "message": decision.message,
        "features": [
            with_level_names(feature_state.as_json())
            for feature_state in feature_states(
                observation, levels_in(proposal), decision.blockers, observation.feature_names()
            )
        ],
        "nodes": node_shapes(observation),
        "steps": [] if proposal.plan.is_over else [step.as_json() for step in steps_of(proposal.plan)],
        "blockers": [blocker_status(blocker).as_json() for blocker in decision.blockers],
        "notRead": not_read(observation),
        **optional_fields(status),
    }
    if server is not None:
        document["serverVerdict"] = verdict_shape(server)
    return document


def verdict_shape(verdict: DryRun) -> Json:
    """The server's answer to the dry run, in the form of plan documents."""
    match verdict:
        case DryRunAccepted():
            return {"state": "Accepted"}
        case DryRunRejected(code, message):
            return {"state": "Refused", "code": code, "message": message}
        case DryRunUnavailable(why):
            return {"state": "Unavailable", "message": why}
