"""What happened between two statuses, for Events: one per change, not one per reconciliation.

Pure. Called by `reconcile/worker.py` with the status of before and the one that was written (contract, section 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.core.plan import HASH_SHOWN

Status = Mapping[str, Any]

MAX_NOTE = 1000  # the API server takes 1024 bytes


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event: `reason` in PascalCase, `action` what was done or tried, `note` for people."""

    reason: str
    action: str
    note: str
    warning: bool = False


def events_between(before: Status, after: Status) -> tuple[EventRecord, ...]:
    """In the order in which people read them."""
    return (
        *_plan(before, after),
        *_updates(before, after),
        *_suspended(before, after),
        *_drift(before, after),
        *_stalled(before, after),
    )


def _plan(before: Status, after: Status) -> Iterator[EventRecord]:
    old, new = before.get("plan") or {}, after.get("plan") or {}
    if not new:
        return
    if new["hash"] != old.get("hash"):
        yield EventRecord("PlanComputed", "Plan", f"plan {new['hash'][:HASH_SHOWN]}: {new['summary']}")
    if new.get("approvedBy") and (new["hash"] != old.get("hash") or not old.get("approvedBy")):
        yield EventRecord("PlanApproved", "Plan", f"plan {new['hash'][:HASH_SHOWN]} is approved: {new['approvedBy']}")


def _updates(before: Status, after: Status) -> Iterator[EventRecord]:
    known = list(before.get("history") or ())
    for entry in after.get("history") or ():
        if entry in known:
            known.remove(entry)
            continue
        reason, warning = _RESULTS.get(entry["result"], ("", False))
        if reason:
            yield EventRecord(reason, "UpdateFeatures", entry["action"], warning)
        elif entry["result"].startswith("refused"):
            note = f"{entry['action']}: {entry['result']}"
            yield EventRecord("FeatureUpdateRejected", "UpdateFeatures", note[:MAX_NOTE], warning=True)


_RESULTS: Mapping[str, tuple[str, bool]] = {
    "read back": ("FeatureUpdated", False),
    "corrected, after somebody else had moved it": ("DriftCorrected", False),
}


def _suspended(before: Status, after: Status) -> Iterator[EventRecord]:
    was, now = (_condition(one, Condition.READY).get("reason") == Reason.SUSPENDED for one in (before, after))
    if now and not was:
        yield EventRecord("Suspended", "Suspend", _condition(after, Condition.READY)["message"][:MAX_NOTE])
    if was and _condition(after, Condition.READY).get("reason") in _GOES_ON:
        yield EventRecord("Resumed", "Resume", "reconciliation resumed")


# What `core/decide.py` comes to only after it found that nothing is suspended. Every other reason may be told of a
# resource that still is: its cluster is away, an older one owns it, somebody else did what it waited for. So Resumed
# never lies; it is missed where the first word after Suspended is one of those, as Preflight, WaitingForQuorum or
# InSync.
_GOES_ON = frozenset(
    {
        Reason.UPDATING_FEATURES,
        Reason.APPROVAL_REQUIRED,
        Reason.DRIFTED,
        Reason.CONTROLLER_REJECTED,
        Reason.NOT_AUTHORIZED,
        Reason.UNSUPPORTED_LEVEL,
        Reason.UNKNOWN_FEATURE,
        Reason.GHOST_REGISTRATION,
        Reason.NODE_REFUSED,
        Reason.DEPENDENCY_MISSING,
        Reason.DOWNGRADE_REFUSED,
        Reason.CONSENT_REQUIRED,
        Reason.CONSENT_SPENT,
        Reason.ZOOKEEPER_MODE,
        Reason.MIGRATING,
        Reason.WAITING_FOR_NODES,
    }
)


def _drift(before: Status, after: Status) -> Iterator[EventRecord]:
    now = _condition(after, Condition.DRIFT_DETECTED)
    if now and now.get("message") != _condition(before, Condition.DRIFT_DETECTED).get("message"):
        yield EventRecord("DriftDetected", "Observe", now["message"][:MAX_NOTE], warning=True)


def _stalled(before: Status, after: Status) -> Iterator[EventRecord]:
    now = _condition(after, Condition.STALLED)
    if now and now["reason"] != _condition(before, Condition.STALLED).get("reason"):
        yield EventRecord(now["reason"], "Reconcile", now["message"][:MAX_NOTE], warning=True)


def _condition(status: Status, kind: Condition) -> Mapping[str, Any]:
    return next((one for one in status.get("conditions") or () if one["type"] == kind), {})
