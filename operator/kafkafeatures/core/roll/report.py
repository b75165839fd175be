"""Report of a roll for people: `status.workloads`, `status.rollout` and the condition NodesRolled.

Pure. Called by `core/roll/stage.py`, and by the stages of migrations and of the inter.broker.protocol.version. It does
without numpy, so that a resource whose nodes no driver restarts need not import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.since_status import NodeSince
from kafkafeatures.api.status import ExcusedTopics, RevisionStatus, RolloutStatus, Status, WorkloadStatus
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Decision, Held, Stalled
from kafkafeatures.core.engine.stage import ConditionText
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.roll.disks import written_disks
from kafkafeatures.core.roll.restart_node import RestartNode

if TYPE_CHECKING:
    from kafkafeatures.core.roll.breaking_clients import ClientBreaks
    from kafkafeatures.core.roll.roll import Roll


MOST_NAMED = 8
"""Most nodes of one kind that are named one by one in a status."""


def workload_statuses(observation: Observation, previous: Status) -> tuple[WorkloadStatus, ...]:
    """Number of pods of each StatefulSet, and of those at the update revision; the previous ones if pods could not be
    read, none if no driver reads them.
    """
    workloads = observation.workloads
    if isinstance(workloads, Unknown):
        return () if workloads.failure.kind is FailureKind.NOT_ASKED else previous.workloads
    return tuple(
        WorkloadStatus(
            name=stateful_set.name,
            update_revision=stateful_set.update_revision,
            updated=sum(
                pod.revision == stateful_set.update_revision and not pod.terminating for pod in stateful_set.pods
            ),
            total=stateful_set.replicas,
        )
        for stateful_set in workloads.value.stateful_sets
    )


def rollout_status(
    roll: Roll | None,
    decision: Decision,
    previous: RolloutStatus | None,
    current_stamp: Stamp,
    excused: ExcusedTopics | None = None,
) -> RolloutStatus | None:
    """The roll in progress, or the last one; None where there was none, and where no driver restarts nodes.

    previous: `status.rollout` as this reconciliation found it.
    excused: topics that the roll may make unavailable, by a consent.
    """
    if roll is None:
        return None
    decision = _of_roll(roll, decision)
    is_rolled = roll.needing or roll.in_flight or roll.fleet.followed
    if not roll.is_read or (not is_rolled and roll.is_active):
        # It is not known what remains, so the earlier status stands.
        if previous is None and (roll.unconfirmed or roll.disks.lost):
            previous = RolloutStatus(id=roll.id, total=roll.total, done=roll.done)
        if previous is None:
            return None
        if roll.disks.lost:
            previous = replace(previous, total=roll.total, done=roll.done)
        rollout = replace(previous, revisions=_revisions_of(roll, current_stamp), disks=_disks(roll, decision))
        return _waiting(rollout if roll.is_read else previous, roll, decision)
    if not roll.is_active:
        return (
            replace(completed(previous), revisions=_revisions_of(roll, current_stamp)) if previous is not None else None
        )
    goes_on = previous is not None and previous.id == roll.id and previous.is_in_progress
    started_at = (previous.started_at if goes_on and previous is not None else None) or current_stamp
    status = RolloutStatus(
        id=roll.id,
        started_at=None if _waits_for_levels(roll) else started_at,
        total=roll.total,
        done=roll.done,
        restarted=previous.restarted if goes_on and previous is not None else 0,
        nodes=previous.nodes if goes_on and previous is not None else "",
        node_seconds=previous.node_seconds if goes_on and previous is not None else 0,
        rounds=roll.limits.rounds,
        notes=roll.limits.notes,
        excused=excused,
        revisions=_revisions_of(roll, current_stamp),
        disks=_disks(roll, decision),
        unknown=previous.unknown if previous is not None else {},
    )
    return _waiting(status, roll, decision)


def completed(rollout: RolloutStatus) -> RolloutStatus:
    """The roll once every node is current."""
    over = (replace(revision, left=0, since=None, excused=False, client_breaks=()) for revision in rollout.revisions)
    return replace(_idle(rollout), done=rollout.total, revisions=tuple(over), disks=())


def without_restarts(rollout: RolloutStatus | None, *, is_known: bool) -> RolloutStatus | None:
    """The roll if no node is in flight and none has to be restarted: completed where that is known (`is_known`), else
    without anything that it waits for.
    """
    if rollout is None:
        return None
    return completed(rollout) if is_known else _idle(rollout)


def _idle(rollout: RolloutStatus) -> RolloutStatus:
    return replace(rollout, waiting_for="", waiting_since=None, unconfirmed=(), behind=())


def _disks(roll: Roll, decision: Decision) -> tuple[str, ...]:
    """Lines of the status with the disks that each node had, first of nodes that lost them or are being restarted. The
    node of this decision is one of them, although it is in flight only from the next reconciliation on: that may be
    made by another process, which has nothing but the status to compare with.
    """
    first = {*roll.disks.lost_ids, *roll.flying}
    if isinstance(decision, Act) and isinstance(decision.step, RestartNode):
        first.add(decision.step.node_id)
    return written_disks(roll.disks.earlier, first)


def _revisions_of(roll: Roll, current_stamp: Stamp) -> tuple[RevisionStatus, ...]:
    """Status of each target, with the time since when nodes may be restarted to it. That time begins anew after a level
    has forbidden the restarts.
    """
    waits = _waits_for_levels(roll)
    return tuple(
        replace(revision, since=None if waits or not revision.left else revision.since or current_stamp)
        for revision in roll.revisions
    )


def with_breaks(rollout: RolloutStatus | None, breaks: ClientBreaks) -> RolloutStatus | None:
    """The status of the roll, with the consents to break clients that the restart that was decided just now uses: each
    revision that it leads to notes them.
    """
    if rollout is None or not breaks.consents:
        return rollout
    revisions = tuple(
        replace(revision, client_breaks=tuple(sorted(breaks.consents)))
        if (revision.name, revision.revision) in breaks.targets
        else revision
        for revision in rollout.revisions
    )
    return replace(rollout, revisions=revisions)


def _waiting(status: RolloutStatus, roll: Roll, decision: Decision) -> RolloutStatus:
    """The status of a roll with what it waits for; `waiting_since` is filled in `core/report/status.py`."""
    return replace(
        status,
        waiting_for=_message_of(decision),
        waiting_since=None,
        unconfirmed=_first_of(roll.unconfirmed),
        behind=_first_of(roll.lagging),
    )


def _first_of(nodes: Mapping[int, Stamp]) -> tuple[NodeSince, ...]:
    return tuple(NodeSince(node_id=id_, since=at) for id_, at in sorted([*nodes.items()][:MOST_NAMED]))


def _waits_for_levels(roll: Roll) -> bool:
    """Tell whether the roll waits because the new image does not support a finalized level. Restarts may begin once it
    supports all, such as after a downgrade; `core/roll/snapshots.py` counts from then on.
    """
    refused = isinstance(roll.decision, Stalled) and roll.decision.reason in (
        Reason.NODES_BEHIND,
        Reason.DOWNGRADE_REFUSED,
    )
    return roll.levels_first or refused


def _of_roll(roll: Roll, decision: Decision) -> Decision:
    """What the roll waits for. Where another operator alone restarts pods, it waits for that one, and not for what
    holds back our changes, such as an approval.
    """
    is_of_another = roll.fleet.followed and not (roll.needing or roll.in_flight)
    return roll.decision if is_of_another and roll.decision is not None else decision


def _message_of(decision: Decision) -> str:
    return "" if isinstance(decision, Act) else decision.message


def nodes_rolled(roll: Roll | None, decision: Decision) -> ConditionText:
    """Condition that every node runs what it should; None where no driver restarts nodes."""
    if roll is None:
        return None
    if not roll.is_active:
        return "True", Reason.ALL_CURRENT, f"all {roll.total} nodes are current"
    decision = _of_roll(roll, decision)
    if not roll.is_read:
        return "Unknown", Reason.UNKNOWN, _message_of(decision)
    done = f"{roll.done} of {roll.total} nodes are current"
    by_hand = next((restart.step.title for restart in roll.in_flight if restart.is_asked_of_a_person), "")
    if by_hand:
        return "False", Reason.RESTART_REQUESTED, f"restart {by_hand}; {done}"
    if isinstance(decision, Act):
        return "False", Reason.IN_PROGRESS, f"{done}; {decision.step} is next"
    return "False", _REASONS.get(type(decision), Reason.IN_PROGRESS), f"{done}; {decision.message}"


_REASONS = {Stalled: Reason.HALTED, Held: Reason.PAUSED}
"""Reasons of the condition for decisions that restart nothing."""
