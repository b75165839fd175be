"""What a status remembers for the next decision, and how the end of an act is written into it.

Pure. Called by `reconcile/evaluate.py` before it decides, and by `reconcile/act.py` where an act ends at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct, field

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import ExcusedTopics, FeatureState, HistoryEntry, PlanStatus, Result, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import BROKER_KEEPS, InFlight
from kafkafeatures.core.facts.node_sets import with_node
from kafkafeatures.core.roll.restart_node import RestartNode
from kafkafeatures.core.words import cut

CONFLICT_WINDOW = timedelta(hours=1)
MAX_HISTORY = 10
MAX_MESSAGE = 512
"""Bytes of a history message: with a rejection come the server's own words, up to 32 KB of them."""

AgeOf = Callable[[str], timedelta]
"""How long ago a stamp of a status was."""


class Memory(Struct, frozen=True):
    """`reached`: levels that were once in sync as they are wanted now.

    `corrections`: feature to how often its drift was corrected within the last hour. `plan`: the standing one.
    `unverified`: consents that may have been used before the status began. `lost_cluster`: a cluster was read before,
    and which one is not there any more. `excused`: what the roll of `roll_id`, which is in progress, may make
    unavailable. `passed_on`: of features whose last change a broker passed on, for how long that is known: it may do
    so again.
    """

    cluster_id: str = ""
    lost_cluster: bool = False
    change_count: int = 0
    spent: frozenset[str] = frozenset()
    unverified: frozenset[str] = frozenset()
    reached: Mapping[str, int] = field(default_factory=dict)
    corrections: Mapping[str, int] = field(default_factory=dict)
    passed_on: Mapping[str, timedelta] = field(default_factory=dict)
    plan: PlanStatus | None = None
    roll_id: str = ""
    excused: ExcusedTopics | None = None


def memory_of(status: Status, age_of: AgeOf, known_for: AgeOf) -> Memory:
    """What decisions need of it. Levels count as reached only while they are wanted as they were.

    `known_for`: the part of an age that no clock that was set makes longer.
    """
    return Memory(
        cluster_id=status.cluster_id,
        lost_cluster=lost_cluster(status),
        change_count=status.change_count,
        spent=frozenset(status.spent_consents),
        unverified=frozenset(status.unverified_consents),
        reached={
            one.name: one.desired
            for one in status.features
            if one.state in (FeatureState.IN_SYNC, FeatureState.DRIFTED) and one.desired is not None
        },
        corrections=Counter(entry.target for entry in status.history if _counts_as_correction(entry, age_of)),
        passed_on={one.target: known_for(one.at) for one in status.history if one.via == Via.BROKER},
        plan=status.plan,
        roll_id=status.rollout.id if status.rollout is not None and status.rollout.is_in_progress else "",
        excused=status.rollout.excused if status.rollout is not None else None,
    )


NO_MEMORY = Memory()


def lost_cluster(status: Status) -> bool:
    """Whether it tells of a cluster and not of which: the id was removed, or an older schema dropped it."""
    told = status.source, status.features, status.history, status.change_count
    return not status.cluster_id and any((*told, status.intents, status.spent_consents, status.plan))


def with_result(
    status: Status, ended: InFlight, result: Result, *, at: Stamp, age_of: AgeOf, message: str = ""
) -> Status:
    """The status once an act has ended, with what that means for consents and for plans approved before."""
    step, restarted = ended.step, isinstance(ended.step, RestartNode)
    count, spent, features = status.change_count, status.spent_consents, status.features
    if result is Result.SUPERSEDED and ended.accepted:
        features = step.reverted_in(features)  # before it was read: drift, and not a step to send again
    if result in _MAY_HAVE_CHANGED and not restarted:  # a plan that stands outlives the restarts that it waits for
        count += 1
        if ended.corrects_drift and result is not Result.UNVERIFIED:
            result = Result.CORRECTED
    elif step.consent and result not in _MAY_HAVE_CHANGED:  # nothing was changed, so nothing was used up
        spent = tuple(one for one in spent if one != step.consent)
    entry = HistoryEntry(
        at=at,
        action=str(step),
        target=step.target,
        kind=step.kind if restarted else "",
        after=step.after if isinstance(step, RestartNode) else "",
        result=result.value,
        message=cut(message, MAX_MESSAGE),
        plan_hash=status.plan.hash if status.plan is not None else "",
        via=ended.via.value if ended.via is Via.BROKER and result in _ANSWERED else "",
    )
    history = status.history
    repeats = history and replace(history[-1], at=at) == entry  # what fails again and again is told once
    by_hand = isinstance(step, RestartNode) and not step.pod  # each is told to whom it was asked of
    if result in (Result.APPLIED, Result.CORRECTED) or by_hand or not repeats:
        history = (*history, entry)
    elif entry.via:  # from now on a broker may pass it on once more
        history = (*history[:-1], entry)
    rollout = status.rollout
    if restarted and result is Result.APPLIED and rollout is not None:
        seconds, others = int(age_of(ended.stopping_since or ended.at).total_seconds()), rollout.restarted
        average = (rollout.node_seconds * others + seconds) // (others + 1)
        rollout = replace(rollout, restarted=others + 1, node_seconds=average)
        if isinstance(step, RestartNode):
            rollout = replace(rollout, nodes=with_node(rollout.nodes, step.node_id))
    return replace(
        status,
        rollout=rollout,
        intents=tuple(one for one in status.intents if one != ended.to_intent()),
        change_count=count,
        spent_consents=spent,
        features=features,
        history=_newest(history, age_of),
    )


_MAY_HAVE_CHANGED = (Result.APPLIED, Result.SUPERSEDED, Result.UNVERIFIED)
_ANSWERED = (Result.APPLIED, Result.CORRECTED, Result.REJECTED)
"""What is known at once. Before anything else is believed, a broker had its time."""


def _counts_as_correction(entry: HistoryEntry, age_of: AgeOf) -> bool:
    return entry.result == Result.CORRECTED and age_of(entry.at) < CONFLICT_WINDOW


def _newest(history: tuple[HistoryEntry, ...], age_of: AgeOf) -> tuple[HistoryEntry, ...]:
    """As many as are kept. Restarts go first: a roll has many. Corrections that still count go last, and what a broker
    may pass on again: neither a fight nor a request is forgotten over failures.
    """

    def dispensable_too(entry: HistoryEntry) -> bool:
        passed_on = entry.via == Via.BROKER and age_of(entry.at) < BROKER_KEEPS
        return not passed_on and not _counts_as_correction(entry, age_of)

    kept = list(history)
    for dispensable in (_is_restart, dispensable_too):
        for entry in [one for one in kept[:-1] if dispensable(one)][: max(0, len(kept) - MAX_HISTORY)]:
            kept.remove(entry)
    return tuple(kept[-MAX_HISTORY:])


def _is_restart(entry: HistoryEntry) -> bool:
    return entry.kind == RestartNode.kind
