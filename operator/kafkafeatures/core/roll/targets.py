"""Targets that nodes are rolled to: one revision of one StatefulSet; where a person restarts nodes, one level, or one
way of a migration.

Pure. Called by everything in `core/roll` and `core/ibp` that remembers or names what a restart is for. Progress is
remembered by target (`core/roll/revisions.py`), so that a change of another StatefulSet in the middle of a roll takes
nothing back.
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
    """State that nodes are restarted to reach.

    name: name of the StatefulSet; empty where a person restarts nodes.
    revision: its update revision; where a person restarts nodes, a level such as "metadata.version 27", or the purpose
        of a permit.
    """

    name: str
    revision: str


class ExcusedPartitions(NamedTuple):
    """Topics that restarts may make unavailable, by a consent.

    targets: targets of the restarts that the consent covers.
    is_for_all: the consent covers every restart of the plan, which shows the topics.
    """

    topics: ExcusedTopics
    targets: frozenset[Target] = frozenset()
    is_for_all: bool = False


Revisions = Mapping[Target, RevisionStatus]
"""What is remembered of each target: see `core/roll/revisions.py`."""


def target_of(stateful_set: StatefulSet) -> Target:
    """The present target of the pods of a StatefulSet."""
    return Target(stateful_set.name, stateful_set.update_revision)


def targets_of_levels(changes: tuple[UpdateFeature, ...]) -> tuple[Target, ...]:
    """The targets of nodes that a person restarts for these levels."""
    return tuple(Target("", f"{change.feature} {change.to_level}") for change in changes)


def revision_of(targets: tuple[Target, ...]) -> str:
    """Text for the targets of one restart in its intent; `targets_of_restart` reads it."""
    return ", ".join(target.revision for target in targets)


def targets_of_restart(step: AwayNode) -> tuple[Target, ...]:
    """The targets of a restart in flight. The name of a pod is that of its StatefulSet, a hyphen and an ordinal."""
    if step.pod:
        return (Target(step.pod.rpartition("-")[0], step.next_revision),)
    return tuple(Target("", revision) for revision in step.next_revision.split(", "))


def present_targets(observation: Observation) -> Mapping[Target, StatefulSet]:
    """Present targets of all StatefulSets whose controller has processed the newest template, with their owners."""
    sets = observation.workloads.value.stateful_sets if isinstance(observation.workloads, Known) else ()
    return {
        target_of(stateful_set): stateful_set
        for stateful_set in sets
        if stateful_set.observed and stateful_set.update_revision
    }


def outdated_targets(observation: Observation) -> frozenset[Target]:
    """Targets with a pod that our operator has to restart."""
    present = present_targets(observation).items()
    return frozenset(target for target, owner in present if any(map(owner.is_to_restart, owner.pods)))


def roll_id(observation: Observation, changes: tuple[UpdateFeature, ...], purpose: str = "") -> str:
    """Name that a roll gets when it begins: a hash of all update revisions, or of the levels where a person restarts
    nodes. `purpose`: of the permit, as a migration restarts the same nodes several times.
    """
    sets = observation.workloads.value.stateful_sets if isinstance(observation.workloads, Known) else ()
    revisions = sorted(f"{stateful_set.name}={stateful_set.update_revision}" for stateful_set in sets)
    rolled = [*(revisions or map(str, changes)), *([purpose] if purpose else [])]
    return hashlib.sha256("\n".join(rolled).encode()).hexdigest()[:12]


def known_revisions(
    rollout: RolloutStatus | None, observation: Observation, changes: tuple[UpdateFeature, ...], purpose: str = ""
) -> Revisions:
    """Remembered statuses, by target. A status of an earlier release of the operator has one set of nodes for all
    targets together, and their hash as the name of the roll: it counts only if the present targets have that hash.
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
    """Number of pods or nodes that have not reached each target yet, including those in flight.
    `by_hand`: targets of the nodes that a person has to restart, by their titles.
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
