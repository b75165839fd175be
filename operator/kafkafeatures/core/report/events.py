"""What happened between two statuses, for Events: one per change, not one per reconciliation.

Pure. Called by `reconcile/controller.py` with the status of before and the one that was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import HistoryEntry, Intent, Result, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.event_records import MAX_NOTE, NO_FACTS, EventFacts, EventRecord
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.engine.steps import UnknownStep, UpdateFeature, in_flight
from kafkafeatures.core.roll.restart_node import RestartNode


def events_between(before: Status, after: Status) -> tuple[EventRecord, ...]:
    """In the order in which people read them."""
    return (
        *_plan(before, after),
        *_rollout(before, after),
        *_restarts(before, after),
        *_results(before, after),
        *_suspended(before, after),
        *_drift(before, after),
        *_stalled(before, after),
    )


def _plan(before: Status, after: Status) -> Iterator[EventRecord]:
    new = after.plan
    if new is None:
        return
    old_hash, was_approved = (before.plan.hash, bool(before.plan.approved_by)) if before.plan else ("", False)
    shown = f"plan {new.hash[:HASH_SHOWN]}"
    if new.hash != old_hash:
        yield EventRecord("PlanComputed", "Plan", f"{shown}: {new.summary}", facts=EventFacts(plan=new.hash))
    if new.approved_by and (new.hash != old_hash or not was_approved):
        yield EventRecord(
            "PlanApproved", "Plan", f"{shown} is approved: {new.approved_by}", facts=EventFacts(plan=new.hash)
        )


def _rollout(before: Status, after: Status) -> Iterator[EventRecord]:
    old, new = before.rollout, after.rollout
    if new is None:
        return
    begins = new.is_in_progress and (old is None or old.id != new.id or not old.is_in_progress)
    if begins:
        yield EventRecord("RolloutStarted", "Roll", f"{new.total - new.done} of {new.total} nodes are to be restarted")
    elif old is not None and old.is_in_progress and not new.is_in_progress:
        yield EventRecord("RolloutCompleted", "Roll", f"all {new.total} nodes are current")


def _restarts(before: Status, after: Status) -> Iterator[EventRecord]:
    """Each is announced once: its intent stays the same until it is over, but for when the node was seen to be back."""
    known = {_restart_of(intent) for intent in before.intents}
    for intent in after.intents:
        facts = facts_of(intent)
        if facts.kind != RestartNode.kind or _restart_of(intent) in known:
            continue
        if facts.pod:
            note = f"restarting {facts.node}: pod {facts.pod} is evicted"
            yield EventRecord("RestartingNode", "Evict", note, facts=facts)
        else:
            yield EventRecord("RestartRequested", "Restart", f"restart {facts.node}", facts=facts)


def _restart_of(intent: Intent) -> tuple[str, ...]:
    return tuple(str(intent.unknown.get(name)) for name in ("nodeId", "podUid", "at"))


def facts_of(intent: Intent) -> EventFacts:
    """What is known of an act that is in flight; nothing of one that this release cannot read."""
    sent = in_flight(intent)
    if isinstance(sent, UnknownStep):
        return NO_FACTS
    step = sent.step
    if isinstance(step, UpdateFeature):
        levels = str(step.before), str(step.after)
        return EventFacts(kind=step.kind, feature=step.feature, before=levels[0], after=levels[1], begun_at=sent.at)
    return EventFacts(
        kind=step.kind, node=step.title, node_id=step.node_id, pod=step.pod, after=step.after,
        begun_at=sent.at, in_sync_at=sent.stable_since,
    )  # fmt: skip


def _facts_of_entry(entry: HistoryEntry, kind: str) -> EventFacts:
    """Less is known of an act that was not seen in flight."""
    if kind != RestartNode.kind:
        return EventFacts(kind=kind, feature=entry.target)
    if _is_by_hand(entry):
        return EventFacts(kind=kind, node=entry.target)
    return EventFacts(kind=kind, pod=entry.target)


def _is_by_hand(entry: HistoryEntry) -> bool:
    """Of a restart: a person was asked for it, so that there is no pod beside the node."""
    return entry.action == entry.target


def _results(before: Status, after: Status) -> Iterator[EventRecord]:
    known = list(before.history)
    flew = {(one.kind, one.feature or one.pod or one.node): one for one in map(facts_of, before.intents)}
    for entry in after.history:
        if entry in known:
            known.remove(entry)
            continue
        if entry.result == Result.REJECTED and any(replace(one, at=entry.at) == entry for one in known):
            continue  # once more
        restart = entry.kind == RestartNode.kind
        reason, warning = (_OF_RESTARTS if restart else _RESULTS).get(entry.result, ("", False))
        if not reason:
            continue
        note = f"{entry.action}: {entry.message}" if entry.message else entry.action
        if entry.result == Result.NOT_APPLIED:
            if not _is_by_hand(entry):
                continue
            note = f"do not restart {note}"
        kind = entry.kind or UpdateFeature.kind  # which history leaves out
        facts = flew.get((kind, entry.target)) or _facts_of_entry(entry, kind)
        yield EventRecord(reason, "Restart" if restart else "UpdateFeatures", note[:MAX_NOTE], warning, facts)


_RESULTS: Mapping[str, tuple[str, bool]] = {
    Result.APPLIED: ("FeatureUpdated", False),
    Result.CORRECTED: ("DriftCorrected", False),
    Result.REJECTED: ("FeatureUpdateRejected", True),
}
_OF_RESTARTS: Mapping[str, tuple[str, bool]] = {
    Result.APPLIED: ("NodeRestarted", False),
    Result.NOT_APPLIED: ("RestartWithdrawn", True),  # of a person who was asked for it
}


def _suspended(before: Status, after: Status) -> Iterator[EventRecord]:
    was, now = before.condition(Condition.READY), after.condition(Condition.READY)
    was_suspended = was is not None and was.reason == Reason.SUSPENDED
    if now is not None and now.reason == Reason.SUSPENDED and not was_suspended:
        yield EventRecord("Suspended", "Suspend", now.message[:MAX_NOTE])
    if now is not None and now.reason in _NOT_SUSPENDED and was_suspended:
        yield EventRecord("Resumed", "Resume", "reconciliation resumed")


# What `core/engine/decide.py` comes to only after it found that nothing is suspended. Every other reason may be told of
# a resource that still is: its cluster is away, an older one owns it, what it waited for was done outside
# KafkaFeatures. So Resumed never lies; it is missed where the first word after Suspended is one of those, as Preflight,
# WaitingForQuorum or InSync.
_NOT_SUSPENDED = frozenset(
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
        Reason.SOAKING,
        Reason.WAITING_FOR_WINDOW,
    }
)


def _drift(before: Status, after: Status) -> Iterator[EventRecord]:
    was, now = before.condition(Condition.DRIFT_DETECTED), after.condition(Condition.DRIFT_DETECTED)
    if now is not None and (was is None or now.message != was.message):
        yield EventRecord("DriftDetected", "Observe", now.message[:MAX_NOTE], warning=True)


def _stalled(before: Status, after: Status) -> Iterator[EventRecord]:
    now = after.condition(Condition.STALLED)
    if now is not None and now.reason != before.reason(Condition.STALLED):
        yield EventRecord(now.reason, "Reconcile", now.message[:MAX_NOTE], warning=True)
