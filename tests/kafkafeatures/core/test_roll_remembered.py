"""What one process remembers of restarts between reconciliations, for every kind of stage."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import EMPTY, RolloutStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Wait
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import StageInput
from kafkafeatures.core.engine.memory import NO_MEMORY
from kafkafeatures.core.engine.stage import StageMemory
from kafkafeatures.core.facts.observation import Observation, Unknown
from kafkafeatures.core.facts.past import Returns
from kafkafeatures.core.facts.readings import Failure, FailureKind, Mark
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.roll.disks import disks_of
from kafkafeatures.core.roll.proposal import ROLL
from kafkafeatures.core.roll.remembered import RollMemory, disks_before, kept_of_roll, remembered_of
from kafkafeatures.core.roll.roll import Roll
from tests.kafkafeatures.core import ibps
from tests.kafkafeatures.core.migrations import Look, wanting
from tests.kafkafeatures.core.migrations import cluster as migrating
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    cluster,
    current,
    rolled,
    sent,
)
from tests.kafkafeatures.worlds import NOW, known

CLUSTER = cluster({**ROLLED_CONTROLLERS, **current(2, 5)})
"""Brokers 2 and 5, and the controllers, need no restart; 1, 3, 4 and 6 do."""
ALL = (*CONTROLLERS, *BROKERS)


class Process:
    """One process that reconciles again and again. `kept`: what it remembers of the stages between reconciliations."""

    def __init__(self) -> None:
        self.kept: Mapping[str, StageMemory] = {}

    def reconcile(self, second: float, observation: Observation, *flying: Any, status: Status = EMPTY) -> Roll:
        """Judge the roll, so many seconds after the process began. `flying`: restarts in flight."""
        facts = self.facts(second, observation, status)
        up_for = remembered_of(facts).up_for
        roll = rolled(
            observation, *flying, known_for=timedelta(0), up_for=up_for, disks=disks_before(facts), status=status
        )
        self.kept = kept_of_roll(facts, roll.disks.earlier, is_over=not roll.is_active)
        return roll

    def facts(self, second: float, observation: Observation, status: Status = EMPTY) -> StageInput:
        def no_time(_: str) -> timedelta:
            return timedelta(0)

        wanted = DesiredState({}, rollout=ROLLOUT)
        return StageInput(
            wanted, observation, NO_MEMORY, status, (), NOW, no_time, no_time, monotonic=second, stage_memory=self.kept
        )


def returned(
    seconds: Mapping[int, float],
    *,
    now: datetime = NOW,
    marks: Mapping[int, Mark] | None = None,
    of: Observation = CLUSTER,
) -> Observation:
    """Build nodes that have been up for so many seconds by the metadata log, whose clock shows `now`; all others for
    two hours. `marks`: identities of these returns.
    """
    times = {id_: now - timedelta(seconds=seconds.get(id_, 7200)) for id_ in ALL}
    return replace(of, returns=Returns(times, now, {**dict.fromkeys(ALL, (0, 1)), **(marks or {})}))


def test_a_rarely_written_log_does_not_lengthen_the_wait_for_a_node_that_returned() -> None:
    """The log shows the time only in its batches: here broker 5 seems to have returned 1 s ago at each reading. So the
    process counts the 30 s of stableFor itself.
    """
    process = Process()
    for second in range(0, 30, 5):
        roll = process.reconcile(second, returned({5: 1}, now=NOW + timedelta(seconds=second)))
        assert isinstance(roll.decision, Wait), second
        assert "broker 5 has been up only" in roll.decision.message
    assert isinstance(process.reconcile(30, returned({5: 1}, now=NOW + timedelta(seconds=30))).decision, Act)


def test_clocks_of_controllers_that_are_ahead_do_not_repeat_the_wait_after_a_restart() -> None:
    process = Process()
    ahead = NOW + timedelta(minutes=1)
    for second in range(0, 30, 5):
        process.reconcile(second, returned({5: second}, now=ahead), sent(5))
    assert isinstance(process.reconcile(30, returned({5: 30}, now=ahead)).decision, Act)


@pytest.mark.parametrize(
    "mark",
    [(0, 2), (700, 0), (700, 1)],
    ids=["later in the log", "known from a snapshot", "log read from a snapshot on"],
)
def test_a_node_that_returned_unobserved_once_more_has_to_become_stable_again(mark: Mark) -> None:
    """The return of the node has another mark (first offset of the reading, and time in the log) than at second 0,
    which is (0, 1). stableFor is 30 s.
    """
    process = Process()
    process.reconcile(0, returned({5: 1}))
    for second, is_waited_for in ((600, True), (629, True), (630, False)):
        roll = process.reconcile(second, returned({5: 1}, marks={5: mark}))
        assert isinstance(roll.decision, Wait if is_waited_for else Act), second


def test_the_time_a_node_is_up_survives_a_reconciliation_without_a_reading() -> None:
    process = Process()
    process.reconcile(0, returned({5: 1}))
    process.reconcile(20, CLUSTER)
    process.kept = {name: memory.interrupted("no node answered") for name, memory in process.kept.items()}
    assert isinstance(process.reconcile(30, returned({5: 1})).decision, Act)


def test_the_time_a_node_is_up_is_forgotten_with_another_cluster_id_or_an_unknown_one() -> None:
    process = Process()
    process.reconcile(0, returned({5: 1}))
    assert remembered_of(process.facts(30, returned({5: 1}))).up_for[5] == timedelta(seconds=30)
    another = replace(returned({5: 1}), cluster_id=known("another"))
    assert remembered_of(process.facts(30, another)).up_for[5] == timedelta(0)
    unknown = replace(returned({5: 1}), cluster_id=Unknown(Failure(FailureKind.UNREACHABLE, "", "no node answered")))
    assert kept_of_roll(process.facts(30, unknown), None, is_over=False) == {}


def test_the_process_keeps_recorded_disks_until_the_roll_is_over() -> None:
    process = Process()
    begun = cluster(ROLLED_CONTROLLERS, {1: replace(a_node(1), log_dirs=frozenset({"old"}))})
    process.reconcile(0, begun)
    memory = kept_of_roll(process.facts(1, begun), None, is_over=False)[ROLL]
    assert isinstance(memory, RollMemory)
    assert memory.disks[1] == disks_of(replace(a_node(1), log_dirs=frozenset({"old"})))
    over = kept_of_roll(process.facts(1, begun), None, is_over=True)[ROLL]
    assert isinstance(over, RollMemory)
    assert over.disks == {}


@pytest.mark.parametrize(
    ("desired", "position"),
    [(Desired.DUAL_WRITE, Position.COPIED), (Desired.ROLLED_BACK, Position.DUAL_WRITE)], ids=str,
)  # fmt: skip
def test_a_migration_whose_status_is_lost_still_recognizes_a_new_disk(desired: Desired, position: Position) -> None:
    def with_dirs(*log_dirs: str) -> Observation:
        observation = migrating(position)
        nodes = tuple(
            replace(node, log_dirs=frozenset(log_dirs)) if node.id == 2 else node for node in observation.nodes
        )
        return replace(observation, nodes=nodes)

    first = Look(wanting(desired), with_dirs("old"))
    second = Look(wanting(desired), with_dirs("old"), before=first)
    lost = Look(wanting(desired), with_dirs("new"), before=second, status=Status(rollout=RolloutStatus(id="1")))
    assert "broker 2 came back on a new disk" in lost.decision.message
    assert "came back" not in getattr(Look(wanting(desired), with_dirs("new")).decision, "message", "")


def test_a_roll_of_the_inter_broker_protocol_version_recognizes_a_new_disk() -> None:
    def with_dirs(*log_dirs: str) -> Observation:
        return ibps.brokers(replace(ibps.broker(2), log_dirs=frozenset(log_dirs)))

    first = Look(ibps.wanting(), with_dirs("old"))
    lost = Look(ibps.wanting(), with_dirs("new"), before=first)
    assert "broker 2 came back on a new disk" in getattr(lost.decision, "message", "")
