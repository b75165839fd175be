"""Targets that nodes are rolled to: one revision of one StatefulSet; by hand, one level, or the way of a migration.

Pure. What a roll did is known of each target alone (`core/roll/revisions.py`): another StatefulSet that changes changes
nothing of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkafeatures.api.status import ExcusedTopics, RevisionStatus, RolloutStatus
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.levels.update_feature import UpdateFeature

if TYPE_CHECKING:  # no level needs the pods: `apply` starts faster
    from kafkafeatures.core.facts.workloads import StatefulSet
    from kafkafeatures.core.roll.coming_back import AwayNode


class Target(NamedTuple):
    """`name`: of the StatefulSet, and empty where a person restarts nodes. `revision`: or a level, or a way."""

    name: str
    revision: str


class ExcusedPartitions(NamedTuple):
    """Topics that restarts may make unavailable, by a consent. `targets`: what they are for; `is_for_all`: for whatever
    the plan restarts, as it says so itself.
    """

    topics: ExcusedTopics
    targets: frozenset[Target] = frozenset()
    is_for_all: bool = False


Revisions = Mapping[Target, RevisionStatus]
"""Status that is remembered of each target: see `core/roll/revisions.py`."""


def target_of(stateful_set: StatefulSet) -> Target:
    """The present target of the pods of a StatefulSet."""
    return Target(stateful_set.name, stateful_set.update_revision)


def targets_of_levels(changes: tuple[UpdateFeature, ...]) -> tuple[Target, ...]:
    """The targets of nodes that a person restarts for these levels."""
    return tuple(Target("", f"{change.feature} {change.to_level}") for change in changes)


def revision_of(targets: tuple[Target, ...]) -> str:
    """The targets of one restart, as its intent has them."""
    return ", ".join(target.revision for target in targets)


def targets_of_restart(step: AwayNode) -> tuple[Target, ...]:
    """The targets of a restart that was decided before. The pods of a StatefulSet have its name, and a number."""
    if step.pod:
        return (Target(step.pod.rpartition("-")[0], step.next_revision),)
    return tuple(Target("", revision) for revision in step.next_revision.split(", "))


def present_targets(observation: Observation) -> Mapping[Target, StatefulSet]:
    """The present targets of all StatefulSets of which the newest template is known."""
    sets = observation.workloads.value.stateful_sets if isinstance(observation.workloads, Known) else ()
    return {
        target_of(stateful_set): stateful_set
        for stateful_set in sets
        if stateful_set.observed and stateful_set.update_revision
    }


def outdated_targets(observation: Observation) -> frozenset[Target]:
    """The targets that some pod has not reached, or for which the restart of one is requested."""
    present = present_targets(observation).items()
    return frozenset(
        target for target, owner in present if any(not pod.stays_at(target.revision) for pod in owner.pods)
    )


def roll_id(observation: Observation, changes: tuple[UpdateFeature, ...], purpose: str = "") -> str:
    """The name that a roll gets when it begins: a hash of all that is rolled to. By hand: of the levels.

    `purpose`: of a migration, which restarts the same nodes several times.
    """
    sets = observation.workloads.value.stateful_sets if isinstance(observation.workloads, Known) else ()
    revisions = sorted(f"{stateful_set.name}={stateful_set.update_revision}" for stateful_set in sets)
    rolled = [*(revisions or map(str, changes)), *([purpose] if purpose else [])]
    return hashlib.sha256("\n".join(rolled).encode()).hexdigest()[:12]


def known_revisions(
    rollout: RolloutStatus | None, observation: Observation, changes: tuple[UpdateFeature, ...], purpose: str = ""
) -> Revisions:
    """Statuses that are remembered, by target. The release before kept one set of nodes for all targets, and their
    hash: it says something of the present ones only where that is the hash of all of them.
    """
    if rollout is None:
        return {}
    if rollout.revisions or not rollout.is_in_progress:
        return {Target(revision.name, revision.revision): revision for revision in rollout.revisions}
    if rollout.id != roll_id(observation, changes, purpose):
        return {}
    targets = tuple(present_targets(observation)) or ((Target("", purpose),) if purpose else targets_of_levels(changes))
    return {
        target: RevisionStatus(
            name=target.name,
            revision=target.revision,
            since=rollout.started_at,
            nodes=rollout.nodes,
            left=1,
            excused=rollout.excused is not None,
        )
        for target in targets
    }


def left_in(
    observation: Observation, flying: tuple[AwayNode, ...], by_hand: Mapping[str, tuple[Target, ...]]
) -> Mapping[Target, int]:
    """Number of pods or nodes that have not reached each target that there is now, those in flight among them.
    `by_hand`: the targets of nodes that a person restarts, by their titles.
    """
    present, remaining = present_targets(observation), dict[Target, set[str]]()
    targets_by_name = {target.name: target for target in present}
    for target, owner in present.items():
        remaining[target] = {pod.name for pod in owner.pods if not pod.stays_at(target.revision)}
    for step in flying:
        for target in targets_of_restart(step):
            remaining.setdefault(targets_by_name.get(target.name, target), set()).add(step.pod or step.title)
    for title, targets in by_hand.items():
        for target in targets:
            remaining.setdefault(target, set()).add(title)
    return {target: len(names) for target, names in remaining.items() if names}
