"""Facts that a status remembers for the next decision.

Pure. Called by `reconcile/evaluate.py` before it decides.
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


class Memory(Struct, frozen=True):
    """`reached`: levels that were once in sync as they are wanted now.

    `corrections`: feature to how often its drift was corrected within the last hour. `plan`: the standing one.
    `unverified`: consents that may have been used before the status began. `lost_cluster`: a cluster was read before,
    and its id is missing now. `rollout`: the one that is in progress.
    `passed_on`: features whose change was sent through a broker, each with the time since: it may send it again.
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
    """Facts of a status that decisions need. Levels count as reached only while they are wanted as they were.

    `known_for`: like `age_of`, but never longer than the real age, also where a clock was set.
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
    """Tell whether a status has facts of a cluster but no id: it was removed, or an older schema dropped it."""
    remembered = status.source, status.features, status.history, status.change_count
    return not status.cluster_id and any((*remembered, status.intents, status.spent_consents, status.plan))


def counts_as_correction(entry: HistoryEntry, age_of: AgeOf) -> bool:
    """Tell whether an entry counts against the next correction of the same drift. An unverified change counts too:
    something else may have undone it at once.
    """
    return entry.result in (Result.CORRECTED, Result.UNVERIFIED) and age_of(entry.at) < CONFLICT_WINDOW


def remembering(status: Status, previous: InFlight, current: InFlight) -> Status:
    """The status with what is known by now of a step whose outcome is open."""
    if current is previous:
        return status
    old, new = previous.to_intent(), current.to_intent()
    return replace(status, intents=tuple(new if intent == old else intent for intent in status.intents))
