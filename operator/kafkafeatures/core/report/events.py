"""Kubernetes Events about the difference between two statuses: one for each change, not one for each reconciliation.

Pure. Called by `reconcile/controller.py` with the previous status and the one that was written, and by demos and pages
for their lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.names import ZK_FINALIZE
from kafkafeatures.api.reasons import Condition, Phase, Reason
from kafkafeatures.api.status import Intent, Result, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.event_records import MAX_NOTE, NO_FACTS, EventFacts, EventRecord
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.engine.steps import UnknownStep
from kafkafeatures.core.kinds import in_flight, kind_of, sent_in
from kafkafeatures.core.report.migration_lines import forecast, modes_line


def events_between(previous_status: Status, next_status: Status) -> tuple[EventRecord, ...]:
    """Events about the changes from one status to the next, in the order in which people read them."""
    return (
        *_plan(previous_status, next_status),
        *_ended(previous_status, next_status),
        *_migration(previous_status, next_status),
        *_rollout(previous_status, next_status),
        *_begun(previous_status, next_status),
        *_suspended(previous_status, next_status),
        *_drift(previous_status, next_status),
        *_stalled(previous_status, next_status),
        *_clients(previous_status, next_status),
    )


def _plan(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    new = next_status.plan
    if new is None:
        return
    old_hash, was_approved = (
        (previous_status.plan.hash, bool(previous_status.plan.approved_by)) if previous_status.plan else ("", False)
    )
    title = f"plan {new.hash[:HASH_SHOWN]}"
    if new.hash != old_hash:
        yield EventRecord("PlanComputed", "Plan", f"{title}: {new.summary}", facts=EventFacts(plan=new.hash))
    if new.approved_by and (new.hash != old_hash or not was_approved):
        note = f"{title} is approved: {new.approved_by}"
        yield EventRecord("PlanApproved", "Plan", note, facts=EventFacts(plan=new.hash))


def _rollout(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    old, new = previous_status.rollout, next_status.rollout
    if new is None:
        return
    begins = new.is_in_progress and (old is None or old.id != new.id or not old.is_in_progress)
    remaining = new.total - new.done
    # If only nodes remain that were in flight already before, they still belong to the previous roll.
    if begins and remaining > len(_flying(previous_status) & _flying(next_status)):
        yield EventRecord("RolloutStarted", "Roll", f"{remaining} of {new.total} nodes are to be restarted")
    elif old is not None and old.is_in_progress and not new.is_in_progress:
        yield EventRecord("RolloutCompleted", "Roll", f"all {new.total} nodes are current")


def _flying(status: Status) -> frozenset[str]:
    """Targets of the steps in flight."""
    return frozenset(sent_step.step.target for sent_step in sent_in(status))


def _migration(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    """An Event for each phase that is entered; also for the phase in the first status, unless no migration has begun
    (phase `None`).
    """
    old, new = (
        status.migration.phase if status.migration is not None else "" for status in (previous_status, next_status)
    )
    if not new or new == old or next_status.migration is None or (not old and new == Phase.NONE):
        return
    modes, outlook = modes_line(next_status.migration), forecast(next_status.migration, next_status.rollout)
    phases = f"{old} -> {new}" if old else f"phase {new}"
    # A migration that KafkaFeatures finalizes has spent the consent before the first controller restarts for it.
    outside = bool(old) and old not in _ENDS and new in _ENDS and ZK_FINALIZE not in previous_status.spent_consents
    cause = f"this was done outside KafkaFeatures, which has not used the consent {ZK_FINALIZE}" if outside else ""
    note = "; ".join(phrase for phrase in (phases, cause, modes, outlook) if phrase)
    facts = EventFacts(before=old, after=new)
    yield EventRecord(PHASE_CHANGED, "Migrate", note[:MAX_NOTE], warning=outside, facts=facts)


_ENDS = (Phase.FINALIZING, Phase.FINALIZED)
"""Phases of a migration that is being finalized, or is finalized."""
PHASE_CHANGED = "MigrationPhaseChanged"
"""Reason of the Event of a new phase."""


def facts_of(intent: Intent) -> EventFacts:
    """Fields of an Event about a step in flight; none for an intent that this release cannot read."""
    sent_step = in_flight(intent)
    return NO_FACTS if isinstance(sent_step, UnknownStep) else sent_step.facts


def _begun(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    """An Event for each step that began. A step is identified by itself and its time, as its intent changes with its
    progress.
    """
    known_steps = {(sent_step.step, sent_step.at) for sent_step in sent_in(previous_status)}
    for sent_step in sent_in(next_status):
        event = sent_step.announced() if (sent_step.step, sent_step.at) not in known_steps else None
        if event is not None:
            yield event


def _ended(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    """An Event for each new entry of the history."""
    known_entries = list(previous_status.history)
    facts = {(sent_step.step.kind, sent_step.step.target): sent_step.facts for sent_step in sent_in(previous_status)}
    for entry in next_status.history:
        if entry in known_entries:
            known_entries.remove(entry)
            continue
        if entry.result == Result.REJECTED and any(
            replace(known_entry, at=entry.at) == entry for known_entry in known_entries
        ):
            continue  # the same rejection, once more
        kind = kind_of(entry)
        event = kind.event_of(entry, facts.get((kind.kind, entry.target))) if kind is not None else None
        if event is not None:
            yield replace(event, note=event.note[:MAX_NOTE])


def _suspended(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    previous, current = previous_status.condition(Condition.READY), next_status.condition(Condition.READY)
    was_suspended = previous is not None and previous.reason == Reason.SUSPENDED
    if current is not None and current.reason == Reason.SUSPENDED and not was_suspended:
        yield EventRecord("Suspended", "Suspend", current.message[:MAX_NOTE])
    if current is not None and current.reason in _NOT_SUSPENDED and was_suspended:
        yield EventRecord("Resumed", "Resume", "reconciliation resumed")


# Reasons that only a resource which is not suspended can have, by the order of `core/engine/gates.py`. A suspended one
# may have any other reason too, as when its cluster is away, or an older resource owns it. So the Event Resumed is
# never wrong, but it is missing if another reason comes first after Suspended, such as Preflight, WaitingForQuorum or
# InSync.
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


def _drift(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    previous, current = (
        previous_status.condition(Condition.DRIFT_DETECTED),
        next_status.condition(Condition.DRIFT_DETECTED),
    )
    if current is not None and (previous is None or current.message != previous.message):
        yield EventRecord("DriftDetected", "Observe", current.message[:MAX_NOTE], warning=True)


def _stalled(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    current = next_status.condition(Condition.STALLED)
    if current is not None and current.reason != previous_status.reason(Condition.STALLED):
        yield EventRecord(current.reason, "Reconcile", current.message[:MAX_NOTE], warning=True)


def _clients(previous_status: Status, next_status: Status) -> Iterator[EventRecord]:
    """An Event when clients are found that break, and when it is proven that none does."""
    current = next_status.condition(Condition.CLIENTS_COMPATIBLE)
    previous = previous_status.condition(Condition.CLIENTS_COMPATIBLE)
    if current is None or (previous is not None and previous.status == current.status):
        return
    if current.status == "False":
        yield EventRecord("FirstBlockingClient", "Observe", current.message[:MAX_NOTE], warning=True)
    elif current.status == "True":
        yield EventRecord("ClientsCompatible", "Observe", current.message[:MAX_NOTE])
