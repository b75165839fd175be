"""The stages of a plan: pods that are restarted with the update revisions of their StatefulSets, and levels.

Pure. Called by `core/engine/plan.py`, which hashes them: they are what a person approves, and never single nodes. So a
node more, or one that is done, leaves a plan standing; another image, or another level, is another plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from kafkafeatures.api.status import ExcusedTopics, Stage
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.facts.readings import FailureKind
from kafkafeatures.core.facts.releases import format_level
from kafkafeatures.core.levels.update_feature import UpdateFeature

if TYPE_CHECKING:  # no level needs the pods: `apply` starts faster
    from kafkafeatures.core.facts.workloads import StatefulSet, WorkloadsReading

LEVELS = "Levels"
"""The kind of a stage that moves finalized levels."""
ROLL = "Roll"
"""The kind of a stage that restarts pods."""


class PodsOfSet(Struct, frozen=True):
    """A StatefulSet that is rolled. `before`: the revisions of its pods that are not at `after`; `left`: how many."""

    name: str
    before: str
    after: str
    left: int

    def __str__(self) -> str:
        return f"restart the pods of {self.name} with revision {self.after}"


Pods = Mapping[str, PodsOfSet]
"""By StatefulSet: all of them, those too that are at their update revision."""


def pods_of(reading: WorkloadsReading) -> Pods | None:
    """None while a StatefulSet's own controller has not seen its newest template: which revision that is, is open."""
    if not all(one.observed and one.update_revision for one in reading.stateful_sets):
        return None
    return {one.name: _pods_of(one) for one in reading.stateful_sets}


def pods_in(seen: Observation) -> Pods | None:
    """Of the StatefulSets; none where no driver reads them."""
    if isinstance(seen.workloads, Known):
        return pods_of(seen.workloads.value)
    return {} if seen.workloads.why.kind is FailureKind.NOT_ASKED else None


def nodes_to_restart(seen: Observation, changes: tuple[UpdateFeature, ...]) -> Mapping[int, str]:
    """Nodes that a person has to restart with a newer Kafka, and why: those that do not support a desired level."""
    return {
        node.id: f"it supports {one.feature} {found}; level {format_level(one.feature, one.after)} is required"
        for one in changes
        for node in seen.nodes
        if node.roles and (found := node.known_range_of(one.feature)) is not None and one.after not in found
    }


def _pods_of(one: StatefulSet) -> PodsOfSet:
    older = [pod.revision for pod in one.pods if pod.revision != one.update_revision]
    return PodsOfSet(one.name, ", ".join(sorted(set(older))), one.update_revision, len(older))


def stages_of(
    changes: tuple[UpdateFeature, ...], pods: Pods, excused: ExcusedTopics | None = None
) -> tuple[Stage, ...]:
    """In the order in which they are carried out. Levels that are only downgraded may be what a roll waits for.

    `excused`: what restarts make unavailable, of a roll, or of nodes that a person restarts for these levels.
    """
    rolled = {name: one for name, one in pods.items() if one.left}
    roll = Stage(
        kind=ROLL,
        start={name: one.before for name, one in rolled.items()},
        target={name: one.after for name, one in rolled.items()},
        excused=excused,
    )
    levels = Stage(
        kind=LEVELS,
        start={change.feature: change.before for change in changes},
        target={change.feature: change.after for change in changes},
        excused=None if rolled else excused,
    )
    if not rolled or not changes:
        return (roll,) if rolled else (levels,)
    return (levels, roll) if all(change.is_downgrade for change in changes) else (roll, levels)


def are_readable(stages: tuple[Stage, ...]) -> bool:
    """Whether this release knows what they are; one of each kind, whole, and nothing else in it."""
    kinds = [stage.kind for stage in stages]
    return (
        set(kinds) <= {LEVELS, ROLL}
        and len(set(kinds)) == len(kinds)
        and all(stage.start.keys() == stage.target.keys() and not stage.unknown for stage in stages)
        and all(isinstance(level, int) for ends in _ends(stages, LEVELS) for level in ends.values())
    )


def levels_of(stages: tuple[Stage, ...]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """From which to which, of stages that are readable."""
    start, target = _ends(stages, LEVELS)
    return cast("Mapping[str, int]", start), cast("Mapping[str, int]", target)


def rolled_by(stages: tuple[Stage, ...], pods: Pods | None) -> tuple[PodsOfSet, ...]:
    """What the stages roll, with what is left of it now; nothing where that is not known. In the order of the pods that
    were read: the API server sorts what a status says by name.
    """
    start, target = _ends(stages, ROLL)
    now = pods or {}
    ordered = dict.fromkeys((*(name for name in now if name in target), *sorted(target)))
    return tuple(
        PodsOfSet(name, str(start.get(name, "")), str(target[name]), now[name].left if name in now else 0)
        for name in ordered
    )


def excused_in(stages: tuple[Stage, ...]) -> ExcusedTopics | None:
    """What the restarts of a plan may make unavailable."""
    return next((stage.excused for stage in stages if stage.excused is not None), None)


def roll_id(seen: Observation, changes: tuple[UpdateFeature, ...]) -> str:
    """Of what is rolled to, so that the same roll is known again; a new image is a new one. By hand: which levels."""
    sets = seen.workloads.value.stateful_sets if isinstance(seen.workloads, Known) else ()
    revisions = sorted(f"{one.name}={one.update_revision}" for one in sets)
    return hashlib.sha256("\n".join(revisions or map(str, changes)).encode()).hexdigest()[:12]


def still_rolls(stages: tuple[Stage, ...], pods: Pods | None) -> bool:
    """Whether a roll that was planned is what there is to roll: the same revisions, whatever is done of it."""
    if pods is None:
        return True
    planned = {one.name: one.after for one in rolled_by(stages, pods)}
    wanted = {name: one.after for name, one in pods.items()}
    left = {name: one.after for name, one in pods.items() if one.left}
    return planned.items() <= wanted.items() and left.items() <= planned.items()


def _ends(stages: tuple[Stage, ...], kind: str) -> tuple[Mapping[str, int | str], Mapping[str, int | str]]:
    """Both empty where there is no such stage."""
    return next(((stage.start, stage.target) for stage in stages if stage.kind == kind), ({}, {}))
