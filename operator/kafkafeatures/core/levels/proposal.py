"""Proposal of levels to be changed: the stages of a plan, and the work that remains of each.

Pure. Made by `core/levels/stage.py`; `core/engine/plan.py` combines it with the proposals of other kinds of stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, cast

from msgspec import field

from kafkafeatures.api.names import KRAFT_VERSION, METADATA_VERSION
from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.status import PlannedStage, StepState, StepStatus
from kafkafeatures.core.engine.consents import unverified_among
from kafkafeatures.core.engine.desired_state import DesiredState, OnDrift
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.engine.stage import StageProposal, StageWork
from kafkafeatures.core.facts.observation import Known, Observation
from kafkafeatures.core.facts.releases import Undo, dependencies
from kafkafeatures.core.levels.changes import changes_between, may_lose_metadata
from kafkafeatures.core.levels.check_input import unknown_features_in
from kafkafeatures.core.levels.dynamic_quorum import effects_of_freezing, makes_dynamic, voters_to_freeze
from kafkafeatures.core.levels.effects import effects_of
from kafkafeatures.core.levels.prerequisites import prerequisites_of
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.levels.way_back import way_back_of

LEVELS = "Levels"
"""Kind of a stage that changes finalized levels."""


class LevelsProposal(StageProposal, frozen=True):
    """Work to do about levels.

    desired: feature to the level that it should have.
    finalized: feature to its finalized level; empty if the levels could not be read.
    drifted: changes that restore levels which were reached and then changed outside KafkaFeatures.
    by_stage: changes to be made, one tuple for each stage, in the order in which they are sent. If drift is only
        reported, changes of drifted levels are left out, unless there are no other changes.
    unverified: consents to these changes that may have been used before (`core/engine/consents.py`).
    unknown: features that no node supports.
    voters: voters with their addresses, if the quorum is to become dynamic; None if the addresses are not known: then
        an approved plan stays valid.
    effects: by feature, lines on the effects of its change on this particular cluster.
    held_back: levels that follow once another operator has raised metadata.version (`_held_back`).
    """

    kind: ClassVar[str] = LEVELS

    desired: Mapping[str, int]
    finalized: Mapping[str, int]
    drifted: tuple[UpdateFeature, ...]
    by_stage: tuple[tuple[UpdateFeature, ...], ...]
    unverified: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    voters: tuple[str, ...] | None = ()
    effects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held_back: Mapping[str, int] = field(default_factory=dict)

    @property
    def wanted(self) -> Mapping[str, int]:
        """Feature to the level that the document asks for, at once or later."""
        return {**self.held_back, **self.desired}

    @property
    def changes(self) -> tuple[UpdateFeature, ...]:
        """Changes of the next stage; empty if no level has to be changed."""
        return self.by_stage[0] if self.by_stage else ()

    @property
    def stages(self) -> tuple[PlannedStage, ...]:
        """Stages of levels, each with the levels before and after."""
        return tuple(
            PlannedStage(
                kind=LEVELS,
                start={change.feature: change.from_level for change in changes},
                target={change.feature: change.to_level for change in changes},
                voters=(self.voters or ()) if makes_dynamic(changes) else (),
            )
            for changes in self.by_stage
        )

    @property
    def goes_first(self) -> bool:
        """Tell whether all changes are downgrades: restarts with an older Kafka have to come after them."""
        return all(change.is_downgrade for change in self.changes)

    @property
    def is_known(self) -> bool:
        """Always True: if the finalized levels could not be read, the plan of the status is kept without a
        comparison.
        """
        return True

    @property
    def drift_reason(self) -> Reason:
        """Direction in which the first drifted level was changed. Requires that there is drift."""
        return Reason.LEVEL_AHEAD if self.drifted[0].is_downgrade else Reason.LEVEL_BEHIND

    def work_of(self, stages: tuple[PlannedStage, ...]) -> tuple[StageWork, ...] | None:
        """Remaining work of each stage of levels; None if the stages do not lead to the desired levels, or if changes
        were made in another order than theirs.
        """
        planned = _changes_of(stages)
        if planned is None:
            return None
        pending = [self._pending(planned[number:]) for number in range(len(planned))]
        if makes_dynamic(self.changes) and self.voters is not None:
            approved = [stage.voters for stage in stages if KRAFT_VERSION in stage.target]
            if approved != [self.voters]:
                return None  # other addresses than those that were approved
        if any(changes[len(changes) - len(left) :] != left for changes, left in zip(planned, pending, strict=True)):
            return None  # other changes than the first ones of a stage are done
        if tuple(filter(None, pending)) != self.by_stage:
            return None
        return tuple(map(self._work, planned, pending))

    def _work(self, changes: tuple[UpdateFeature, ...], pending: tuple[UpdateFeature, ...]) -> StageWork:
        """Work of a stage with these changes, of which the last ones are pending: one step for each."""
        return StageWork(
            remaining=tuple(map(str, pending)),
            undo=max((change.undo for change in pending), key=[*Undo].index, default=Undo.SAFE),
            steps=tuple(self._step(change, is_pending=change in pending) for change in changes),
            counted=len(changes) - len(pending),
        )

    def _step(self, change: UpdateFeature, *, is_pending: bool) -> StepStatus:
        """The change as a step of a plan. For a feature that no node supports, it is left open whether it can be
        undone.
        """
        is_known = change.feature not in self.unknown
        undo = Undo.LOSSY if may_lose_metadata(change) else change.undo
        return StepStatus(
            id="",
            action=change.kind,
            detail=change.title,
            reversible=is_known and undo is Undo.SAFE,
            undo=undo.value if is_known else "",
            consent=change.consent,
            effects=effects_of(change) + (self.effects.get(change.feature, ()) if is_pending else ()),
            way_back=way_back_of(change) if is_known else "",
            state=(StepState.PENDING if is_pending else StepState.DONE).value,
        )

    def _pending(self, planned: tuple[tuple[UpdateFeature, ...], ...]) -> tuple[UpdateFeature, ...]:
        """Changes of the first stage that are not made yet. A change also counts as made if a later stage has changed
        the level further.
        """
        first, *later = planned
        reached = {
            (change.feature, change.to_level)
            for changes in later
            for change in changes
            if self.finalized.get(change.feature, 0) == change.to_level
        }
        moved_on = {feature for feature, _ in reached}
        return tuple(
            change
            for change in first
            if self.finalized.get(change.feature, 0) != change.to_level and change.feature not in moved_on
        )


def _changes_of(stages: tuple[PlannedStage, ...]) -> tuple[tuple[UpdateFeature, ...], ...] | None:
    """Changes of each stage of levels; None if this release would not write such stages. Over all stages, the levels of
    a feature may not repeat: the finalized level must show how far the stages have come.
    """
    changes_by_stage, levels_by_feature = [], dict[str, list[int]]()
    for stage in stages:
        if stage.kind != LEVELS:
            continue
        ends = (*stage.start.values(), *stage.target.values())
        if stage.start.keys() != stage.target.keys() or stage.unknown or not all(isinstance(end, int) for end in ends):
            return None
        start, target = cast("Mapping[str, int]", stage.start), cast("Mapping[str, int]", stage.target)
        changes = changes_between(target, start)
        for change in changes:
            passed_levels = levels_by_feature.setdefault(change.feature, [change.from_level])
            if passed_levels[-1] != change.from_level or change.to_level in passed_levels:
                return None
            passed_levels.append(change.to_level)
        changes_by_stage.append(changes)
    return tuple(changes_by_stage)


def levels_to_move(desired: DesiredState, observation: Observation, memory: Memory) -> LevelsProposal:
    """Proposal of the changes to the desired levels; without changes if the finalized levels are not known."""
    finalized = observation.known_levels
    held_back = _held_back(desired, observation, memory)
    levels = {name: level for name, level in desired.desired(finalized).items() if name not in held_back}
    pending = changes_between(levels, finalized) if isinstance(observation.finalized, Known) else ()
    drifted = tuple(change for change in pending if _was_reached(desired, memory, change))
    not_drifted = tuple(change for change in pending if change not in drifted)
    changes = pending if desired.on_drift is OnDrift.CORRECT else not_drifted or pending
    unverified = unverified_among((change.consent for change in changes), memory.unverified, memory.spent)
    unknown = frozenset(feature for feature, _ in unknown_features_in(levels, observation))
    return LevelsProposal(
        levels, finalized, drifted, (changes,) if changes else (), unverified, unknown,
        voters_to_freeze(observation) if makes_dynamic(changes) else (),
        {change.feature: tuple(_effects_here(change, observation)) for change in changes},
        held_back,
    )  # fmt: skip


def _held_back(desired: DesiredState, observation: Observation, memory: Memory) -> dict[str, int]:
    """Levels of a bundle that need a higher metadata.version than the present one, which is another operator's to
    raise: the others do not wait for them. Empty where the present one is not known. A level that was reached before is
    no such level: that it is lower now is drift.
    """
    finalized = observation.known_levels
    present = finalized.get(METADATA_VERSION)
    if present is None or all(level.feature != METADATA_VERSION for level in observation.managed):
        return {}
    return {
        feature: level
        for feature, level in desired.bundle.items()
        if feature not in desired.levels
        and max(finalized.get(feature, 0), memory.reached.get(feature, 0)) < level
        and dependencies(feature, level).get(METADATA_VERSION, 0) > present
    }


def _effects_here(change: UpdateFeature, observation: Observation) -> Iterator[str]:
    """Effects of a change on this particular cluster, besides those that it has on every cluster."""
    if makes_dynamic((change,)):
        yield from effects_of_freezing(observation)
    yield from prerequisites_of(change, observation)


def _was_reached(desired: DesiredState, memory: Memory, change: UpdateFeature) -> bool:
    """Tell whether the level of this change was reached before. A level of a bundle is also reached by a higher one."""
    reached = memory.reached.get(change.feature, -1)
    return reached == change.to_level if change.feature in desired.levels else reached >= change.to_level
