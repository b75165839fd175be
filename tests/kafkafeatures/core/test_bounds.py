"""The status of the largest roll stays below 32 KiB without losing what later decisions need."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import (
    EMPTY,
    BlockerStatus,
    ExcusedTopics,
    FeatureState,
    FeatureStatus,
    HistoryEntry,
    Intent,
    PlannedStage,
    PlanStatus,
    Result,
    RevisionStatus,
    RolloutStatus,
    Status,
    StatusCondition,
    Via,
    WorkloadStatus,
)
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.costs import without_marks
from kafkafeatures.core.kinds import in_flight
from kafkafeatures.core.report.bounds import MAX_STATUS, bounded
from kafkafeatures.core.roll.excuses import MOST_MARKS, excused_by
from kafkafeatures.core.roll.planner import MOST_IN_FLIGHT
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from tests.kafkafeatures.core.fleets import NEW
from tests.kafkafeatures.core.rolls import CONTROLLERS, ROLLED_CONTROLLERS, cluster, restart_in, rolled

AT = Stamp("2026-01-02T03:04:05Z")
LONGEST_NAME = 52
"""The longest name of a StatefulSet: a label of its pods has its name, a hyphen and ten more characters, 63 at most."""


def restart_of(node_id: int, stateful_set: str, epoch: int) -> Intent:
    """Build the intent of a restart in flight, with each field at its longest."""
    step = RestartNode(
        node_id,
        f"broker {node_id}",
        f"{stateful_set}-{node_id}",
        "0b6c1f6e-4d57-4c55-9d6e-7f5f3c1f2a10",
        next_revision=f"{stateful_set}-7d9f8c6b5d",
        broker_epoch=epoch,
        out_of_sync=4_000,
    )
    return RestartInFlight(step, AT, Via.API_SERVER, accepted=True, stable_since=AT).to_intent()


def full(text: int) -> Status:
    """Build the status of a roll with the most content; each text has this many characters."""
    conditions = ("Ready", "Reconciling", "Reachable", "NodesRolled", "FeaturesCurrent", "PlanApproved", "Compatible")
    features = [f"feature.{number}" for number in range(7)]
    revision = RevisionStatus(name="n" * LONGEST_NAME, revision="r" * 63, since=AT, left=100)
    present = tuple(replace(revision, name=f"{number}" + "n" * (LONGEST_NAME - 1)) for number in range(3))
    earlier = (replace(revision, left=0, since=None, reached=True),) * 6
    return replace(
        EMPTY,
        features=tuple(
            FeatureStatus(name=name, state=FeatureState.IN_SYNC, desired=27, finalized=27) for name in features
        ),
        blockers=(BlockerStatus(kind="Partition", message="b" * text, remedy="r" * text),) * 20,
        blockers_total=20,
        workloads=(WorkloadStatus(name="n" * LONGEST_NAME, update_revision="r" * 63, updated=7, total=300),) * 3,
        rollout=RolloutStatus(
            id="a" * 12, started_at=AT, total=300, done=7, notes=("n" * text,) * 8, revisions=(*present, *earlier)
        ),
        history=tuple(
            HistoryEntry(
                at=AT, action="a" * 60, target="t" * 57, kind="RestartNode", after="r" * 63, result=Result.APPLIED
            )
            for _ in range(10)
        ),
        conditions=tuple(
            StatusCondition(
                type=condition, status="True", reason="InProgress", message="m" * text, last_transition_time=AT
            )
            for condition in conditions
        ),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, MOST_IN_FLIGHT),
    st.integers(1, LONGEST_NAME),
    st.integers(0, 9_999 - MOST_IN_FLIGHT),
    st.integers(0, 10**12),
    st.integers(0, 512),
)
def test_a_status_stays_below_32_kib_and_keeps_every_node_in_flight_and_every_level(
    nodes: int, name: int, first: int, epoch: int, text: int
) -> None:
    intents = tuple(restart_of(first + number, "n" * name, epoch) for number in range(nodes))
    before = replace(full(text), intents=intents)
    shortened = bounded(before, len(before.features))
    assert len(json.dumps(shortened.as_json())) < 32 * 1024
    assert (shortened.intents, shortened.features) == (before.intents, before.features)
    assert shortened.rollout is not None
    assert before.rollout is not None
    assert shortened.rollout.revisions[:3] == before.rollout.revisions[:3]


MANY_TOPICS = excused_by({f"topic-of-some-application-{number}": 1 for number in range(MOST_MARKS)})
"""A consent to as many topics as the status has marks for."""


def large_roll(excused: ExcusedTopics | None) -> Status:
    """Build the status of a roll with 64 restarts in flight and 300 restarted nodes, whose ids form no ranges."""
    intents = (restart_of(900 + number, "kafka-broker", 10**12) for number in range(MOST_IN_FLIGHT))
    restarts = (restart for restart in map(in_flight, intents) if isinstance(restart, RestartInFlight))
    stopped = (
        restart.remembering(replace(restart, stopping_since=Stamp("2026-01-02T03:05:45Z"))) for restart in restarts
    )
    status = full(512)
    assert status.rollout is not None
    rollout = replace(status.rollout, excused=excused, nodes=", ".join(str(3 * number) for number in range(300)))
    return replace(status, intents=tuple(restart.to_intent() for restart in stopped), rollout=rollout)


def test_the_status_of_a_large_roll_keeps_every_intent_and_feature() -> None:
    status = large_roll(MANY_TOPICS)
    assert status.intents[0].unknown["stoppedAfter"] == 100  # seconds: a time would take more room
    shortened = bounded(status, len(status.features))
    assert len(json.dumps(shortened.as_json())) < 32 * 1024
    assert (shortened.intents, shortened.features) == (status.intents, status.features)


def test_the_status_of_a_large_migration_keeps_every_intent_and_its_plan() -> None:
    """The plan of a migration has the marks of the topics, which all of its rolls use; `status.rollout`, which has them
    otherwise, has none.
    """
    shown = PlannedStage(kind="Migration", start={"phase": "None"}, target={"phase": "Finalized"}, excused=MANY_TOPICS)
    plan = PlanStatus(hash="sha256:" + "a" * 64, created_at=AT, irreversible=True, summary="s" * 512, stages=(shown,))
    status = replace(large_roll(without_marks(MANY_TOPICS)), plan=plan)
    shortened = bounded(status, len(status.features))
    assert len(json.dumps(shortened.as_json())) < 32 * 1024
    assert (shortened.intents, shortened.plan) == (status.intents, status.plan)


def test_an_intent_of_a_restart_has_each_field_once_and_is_read_back_as_written() -> None:
    step = restart_in(rolled(cluster(ROLLED_CONTROLLERS)))
    intent = RestartInFlight(step, AT, Via.API_SERVER).to_intent()
    assert intent.unknown == {
        "target": step.pod,
        "title": step.title,
        "nodeId": step.node_id,
        "after": NEW,
        "podUid": step.pod_uid,
        "brokerEpochBefore": step.broker_epoch,
        "via": "ApiServer",
        "at": AT,
    }
    read = in_flight(intent)
    assert isinstance(read, RestartInFlight)
    assert read.step == step
    step = restart_in(rolled(cluster()))
    assert step.node_id in CONTROLLERS
    assert step.incarnation  # it has no epoch


@pytest.mark.parametrize("character", ["a", '"', "\n", "\0", "\x7f", "\xe9", "\u20ac", "\U0001f600", "\ud800"])
def test_a_status_with_any_characters_stays_within_its_maximum_size(character: str) -> None:
    for length in range(0, 512, 8):
        blocker = BlockerStatus(kind="Partition", message=character * length, remedy="r")
        status = bounded(replace(EMPTY, blockers=(blocker,) * 20), 0)
        assert len(json.dumps(status.as_json())) <= MAX_STATUS
