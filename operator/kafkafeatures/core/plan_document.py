"""The document of `plan -o json`: what would be done to a cluster, and what prevents it.

Pure. Called by `plan`.
"""

from __future__ import annotations

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Json
from kafkafeatures.core.cluster_document import node_shape, not_read, or_none, source_shape, with_level_names
from kafkafeatures.core.decide import Act, Decision, Held, Proposal, Stalled, Wait
from kafkafeatures.core.observation import Observation, Unknown
from kafkafeatures.core.report import blocker_status, feature_states, steps_of
from kafkafeatures.core.steps import Accepted, Refused, Unavailable, Verdict


def plan_document(
    decision: Decision,
    observation: Observation,
    proposal: Proposal,
    verdict: Verdict | None,
    *,
    name: str,
    generation: int,
) -> Json:
    """The document of `plan -o json`."""
    blocked = () if isinstance(decision, Act) else decision.blockers
    document: Json = {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "resource": name,
        "generation": generation,
        "clusterId": or_none(observation.cluster_id),
        "verdict": plan_verdict(decision, observation, proposal),
        "hash": proposal.plan.hash if proposal.changes else "",
        "irreversible": bool(proposal.changes) and proposal.plan.irreversible,
        "metadataMode": or_none(observation.mode),
        "source": source_shape(observation),
        "reason": (Reason.UPDATING_FEATURES if isinstance(decision, Act) else decision.reason).value,
        "message": str(decision.step) if isinstance(decision, Act) else decision.message,
        "features": [with_level_names(one.as_json()) for one in feature_states(observation, proposal, blocked)],
        "nodes": [node_shape(node) for node in observation.nodes],
        "steps": [one.as_json() for one in steps_of(proposal.plan) if proposal.changes],
        "blockers": [blocker_status(blocker).as_json() for blocker in blocked],
        "notRead": not_read(observation),
    }
    if verdict is not None:
        document["serverVerdict"] = verdict_shape(verdict)
    return document


def plan_verdict(decision: Decision, observation: Observation, proposal: Proposal) -> str:
    """InSync, Changes, ApprovalRequired, Blocked or Unknown."""
    if isinstance(observation.finalized, Unknown) or isinstance(observation.cluster_id, Unknown):
        return "Unknown"
    if isinstance(decision, Held) and decision.reason is Reason.APPROVAL_REQUIRED:
        return "ApprovalRequired"
    if isinstance(decision, Act) or (decision.reason is Reason.NOT_AUTHORIZED and not decision.blockers):
        return "Changes"  # who plans need not be allowed to apply: the server's verdict is then unavailable
    if decision.blockers or isinstance(decision, Stalled | Held):
        return "Blocked"
    if not proposal.changes:
        return "InSync"
    return "Unknown" if isinstance(decision, Wait) else "Changes"


def verdict_shape(verdict: Verdict) -> Json:
    """The server's own word, as in plan documents."""
    match verdict:
        case Accepted():
            return {"state": "Accepted"}
        case Refused(code, message):
            return {"state": "Refused", "code": code, "message": message}
        case Unavailable(why):
            return {"state": "Unavailable", "message": why}
