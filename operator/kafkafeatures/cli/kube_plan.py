"""`kafkafeatures plan NAME`: the plan that stands in the status of a resource, in the shape of every plan document.

Nothing is computed and no Kafka is asked: it says what the operator read and decided. What a status does not hold is
left out of the document: `nodes`, `notRead`, `serverVerdict`. Called by `cli/plan.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.cli.kube_resource import KubeResource
from kafkafeatures.cli.output import console, print_document
from kafkafeatures.core.cluster_document import with_level_names


def show(resource: KubeResource, form: str) -> str:
    """Print it; the verdict."""
    document = plan_document_of(resource)
    if form == "table":
        from kafkafeatures.cli.status_text import draw_plan_of

        draw_plan_of(console(), resource, str(document["verdict"]), datetime.now(UTC))
    else:
        print_document(document, form)
    return str(document["verdict"])


def plan_document_of(resource: KubeResource) -> dict[str, Any]:
    """As `core/plan_document.py` makes it of a live cluster, as far as the status has it."""
    status, ready = resource.status, resource.condition(Condition.READY)
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "resource": str(resource),
        "generation": ready.get("observedGeneration"),
        "clusterId": status.get("clusterId"),
        "verdict": verdict_of(resource),
        "hash": resource.plan_hash,
        "irreversible": bool(resource.plan.get("irreversible")),
        "metadataMode": status.get("metadataMode"),
        "source": {"kind": status.get("source")},
        "reason": ready.get("reason"),
        "message": ready.get("message"),
        "features": [with_level_names(one) for one in status.get("features") or ()],
        "steps": list(resource.plan.get("steps") or ()),
        "blockers": list(status.get("blockers") or ()),
    }


def verdict_of(resource: KubeResource) -> str:
    """InSync, Changes, ApprovalRequired, Blocked or Unknown: of the document as it is now."""
    ready, levels = resource.condition(Condition.READY), resource.condition(Condition.FEATURES_FINALIZED)
    if resource.says(Condition.STALLED):
        return "Blocked"
    if not resource.is_current(ready) or levels.get("status", "Unknown") == "Unknown":
        return "Unknown"
    if resource.says(Condition.APPROVAL_REQUIRED) and not resource.is_approved:
        return "ApprovalRequired"
    if resource.status.get("blockers") or ready["reason"] in (Reason.SUSPENDED, Reason.DRIFTED):
        return "Blocked"
    if not resource.plan:
        return "InSync"
    waits = resource.says(Condition.RECONCILING).get("reason", Reason.UPDATING_FEATURES) != Reason.UPDATING_FEATURES
    return "Unknown" if waits else "Changes"
