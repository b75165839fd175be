"""Topics that the consent `single-replica-topics` covers: those that the plan showed when the consent was given.

Pure. Made by `core/roll/stage.py` when a roll first has the consent, kept in `status.rollout` while that roll lasts,
and read by `core/roll/checks.py` before every restart. Stages that roll nodes several times, of a migration or of the
inter.broker.protocol.version, keep the topics in their plan instead, so that its hash covers them. A topic that is
added later is not covered, nor is one that becomes unavailable only since its min.insync.replicas was raised to the
number of its replicas. Topics are kept as short marks. Of more than `MOST_MARKS` topics only one digest is kept, and
the topics must then be exactly the same.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping

from kafkafeatures.api.names import SINGLE_REPLICA_TOPICS
from kafkafeatures.api.status import ExcusedTopics, PlanStatus
from kafkafeatures.core.engine.consents import ConsentState, state_of
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.memory import Memory
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.core.roll.targets import ExcusedPartitions, known_revisions

MOST_MARKS = 100
"""Most topics that are remembered one by one: with 64 nodes in flight a status has no room for more."""
MOST_NAMES = 5
"""Most topics that a plan shows by name."""
MARK_LENGTH = 6
"""Characters of the mark of a topic."""
SHOWN_LENGTH = 64
"""Most characters of a name that a plan shows; Kafka allows 249."""


def excused_now(
    desired: DesiredState,
    observation: Observation,
    memory: Memory,
    *,
    changes: tuple[UpdateFeature, ...],
    unavailable: Mapping[str, int] | None,
) -> tuple[ExcusedPartitions | None, bool]:
    """Return the topics that the consent covers (None: none), and whether that is known; False too where no target is
    due.

    The consent stays with the targets of the roll that it was given for until they are reached. Other targets get it
    only if no restart has used it yet.

    unavailable: number of partitions that no restart of their broker keeps available, by topic; None: not known.
    """
    due_targets, state = driver_of(desired.rollout).targets(observation, changes), _state(desired, memory)
    rollout, is_spent = memory.rollout, state is ConsentState.SPENT
    if state is not ConsentState.MISSING and rollout is not None and rollout.excused is not None:
        revisions = known_revisions(rollout, observation, changes)
        covered = frozenset(target for target, revision in revisions.items() if revision.excused)
        # After the consent was used, other targets may be due beside the covered ones, and wait until these are
        # reached. Before, the consent has to cover all that are due; else it is worked out anew.
        is_for_others = due_targets and (covered.isdisjoint(due_targets) if is_spent else not covered >= due_targets)
        if covered and not is_for_others:
            return ExcusedPartitions(rollout.excused, covered), True
    if not due_targets:
        return None, False
    if state is not ConsentState.GIVEN:
        return None, True
    return (ExcusedPartitions(excused_by(unavailable), due_targets), True) if unavailable is not None else (None, False)


def excused_in_all_rolls(facts: StageInput, excused: ExcusedTopics | None) -> ExcusedTopics | None:
    """Topics that the consent covers in a plan of several rolls: those that the plan shows, from its first
    reconciliation to its end. None without the consent, and while the partitions are not known.

    `excused`: topics that the standing plan shows, if it has the same target. If it shows none, the topics that
    restarts make unavailable now are taken, unless another plan has used the consent.
    """
    state, replication = _state(facts.desired, facts.memory), facts.replication
    if excused is not None and state is not ConsentState.MISSING:
        return excused
    if replication is None or state is not ConsentState.GIVEN:
        return None
    return excused_by(replication.never_available())


def _state(desired: DesiredState, memory: Memory) -> ConsentState:
    return state_of(SINGLE_REPLICA_TOPICS, desired.consents, memory.spent)


def is_to_be_shown(desired: DesiredState, plan: PlanStatus | None) -> bool:
    """Tell whether the partitions have to be read only so that a plan can show which topics the consent is for."""
    is_shown = plan is not None and any(stage.excused is not None for stage in plan.stages)
    return SINGLE_REPLICA_TOPICS in desired.consents and not is_shown


def excused_by(unavailable: Mapping[str, int]) -> ExcusedTopics:
    """What is remembered of a consent to exactly these topics. `unavailable`: number of partitions, by topic."""
    names = sorted(unavailable)
    return ExcusedTopics(
        partitions=sum(unavailable.values()),
        topics=len(names),
        names=tuple(name[:SHOWN_LENGTH] for name in names[:MOST_NAMES]),
        digest=_digest(names),
        marks="".join(sorted(map(_mark, names))) if len(names) <= MOST_MARKS else "",
    )


def not_covered(excused: ExcusedTopics | None, unavailable: Mapping[str, int]) -> Mapping[str, int]:
    """Part of `unavailable` that the consent does not cover; all of it if there is no consent, or if the consent is for
    more than `MOST_MARKS` topics and these are no longer exactly the same.
    """
    if excused is None or not unavailable:
        return unavailable
    if excused.topics > MOST_MARKS:
        return {} if _digest(sorted(unavailable)) == excused.digest else unavailable
    marks = {excused.marks[at : at + MARK_LENGTH] for at in range(0, len(excused.marks), MARK_LENGTH)}
    return {name: count for name, count in unavailable.items() if _mark(name) not in marks}


def _mark(name: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).decode()[:MARK_LENGTH]


def _digest(names: Iterable[str]) -> str:
    return "sha256:" + hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]
