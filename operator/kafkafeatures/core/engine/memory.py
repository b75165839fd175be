"""Facts of the previous status that the next decision needs: reached levels, used consents, the plan.

Pure. What this process alone remembers, and no status has, is a `StageMemory`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct, field

from kafkafeatures.api.status import FeatureState, HistoryEntry, PlanStatus, Result, RolloutStatus, Status, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.settling import AgeOf
from kafkafeatures.core.engine.steps import InFlight

CONFLICT_WINDOW = timedelta(hours=1)
"""Time for which a correction of drift counts against the next one of the same level."""


class Memory(Struct, frozen=True):
    """Facts of a status that decisions need.

    cluster_id: the cluster that was read; empty for none yet.
    lost_cluster: a cluster was read before, but its id is missing from the status.
    change_count: `status.changeCount`.
    spent: consents that were used.
    unverified: consents that may have been used before, by an earlier status (`core/engine/consents.py`).
    reached: feature to its desired level, if the status says that it was reached: in sync, or drifted since.
    corrections: feature to the number of corrections of its drift within the last hour, with unverified changes.
    passed_on: feature to the time since its change was sent through a broker, which may deliver the change again.
    plan: the plan in the status.
    rollout: the roll in progress.
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
    rollout: RolloutStatus | None = None


def memory_of(status: Status, age_of: AgeOf, known_for: AgeOf) -> Memory:
    """Facts of this status.

    age_of: age of a time in the status. known_for: the part of that age during which this process has run, by the
        monotonic clock; setting a clock cannot make it too long.
    """
    return Memory(
        cluster_id=status.cluster_id,
        lost_cluster=lost_cluster(status),
        change_count=status.change_count,
        spent=frozenset(status.spent_consents),
        unverified=frozenset(status.unverified_consents),
        reached={
            feature.name: feature.desired
            for feature in status.features
            if feature.state in (FeatureState.IN_SYNC, FeatureState.DRIFTED) and feature.desired is not None
        },
        corrections=Counter(entry.target for entry in status.history if counts_as_correction(entry, age_of)),
        passed_on={entry.target: known_for(entry.at) for entry in status.history if entry.via == Via.BROKER},
        plan=status.plan,
        rollout=status.rollout if status.rollout is not None and status.rollout.is_in_progress else None,
    )


NO_MEMORY = Memory()


def lost_cluster(status: Status) -> bool:
    """Tell whether a status describes a cluster but has no cluster id: somebody removed the id, or an older schema of
    the resource dropped the field.
    """
    remembered = status.source, status.features, status.history, status.change_count
    return not status.cluster_id and any((*remembered, status.intents, status.spent_consents, status.plan))


def counts_as_correction(entry: HistoryEntry, age_of: AgeOf) -> bool:
    """Tell whether an entry counts against the next correction of the same drift. An unverified change counts too:
    something else may have undone it at once.
    """
    return entry.result in (Result.CORRECTED, Result.UNVERIFIED) and age_of(entry.at) < CONFLICT_WINDOW


def remembering(status: Status, previous: InFlight, current: InFlight) -> Status:
    """The status with the present progress of a step in flight in its intent. `previous`: the step as it was read from
    the status. `current`: the same step as it is now.
    """
    if current is previous:
        return status
    old, new = previous.to_intent(), current.to_intent()
    return replace(status, intents=tuple(new if intent == old else intent for intent in status.intents))
