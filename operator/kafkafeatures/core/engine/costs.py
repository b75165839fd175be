"""Topics that restarts make unavailable, by a consent of the user: shown in the plan, and covered by its hash.

Pure. The costs are the field `excused` of a planned stage: of a roll, of a migration, or of levels for which a person
restarts nodes.
"""

from __future__ import annotations

from kafkafeatures.api.status import ExcusedTopics, PlannedStage
from kafkafeatures.api.values import replace
from kafkafeatures.core.words import counted, first_of


def without_marks(excused: ExcusedTopics | None) -> ExcusedTopics | None:
    """The costs without `marks`, the digests of the topics' names. These are long, so the status has them only once: in
    `status.rollout` for a plain roll, in the plan for a migration. None if no consent is needed.
    """
    return replace(excused, marks="") if excused is not None and excused.partitions else None


def excused_in(stages: tuple[PlannedStage, ...]) -> ExcusedTopics | None:
    """Topics that the restarts of a plan may make unavailable, by the first stage that has any; None for none."""
    return next((stage.excused for stage in stages if stage.excused is not None), None)


def topics_and_partitions(excused: ExcusedTopics) -> str:
    """The cost of a roll for people: 3 partitions of 2 topics (a, b)."""
    names = first_of(excused.names, len(excused.names), total=excused.topics)
    return f"{counted(excused.partitions, 'partition')} of {counted(excused.topics, 'topic')} ({names})"


def costs_of(stages: tuple[PlannedStage, ...]) -> str:
    """Topics that the restarts of a plan make unavailable, in words to be added to what it does; empty for none."""
    excused = excused_in(stages)
    if excused is None or not excused.partitions:
        return ""
    return f"; {topics_and_partitions(excused)} unavailable while a broker restarts"
