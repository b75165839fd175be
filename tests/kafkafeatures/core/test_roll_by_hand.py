"""Restarts that a person is asked for: one at a time, only while nothing forbids them, withdrawn otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import BlockerKind, Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import EMPTY, RolloutStatus, Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Rollout
from kafkafeatures.core.facts.observation import NodeState, SourceKind, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.roll.drivers import MANUAL
from kafkafeatures.core.roll.report import nodes_rolled
from kafkafeatures.core.roll.restart_node import RestartInFlight, RestartNode
from kafkafeatures.core.roll.roll import is_withdrawn
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    PARTITIONS,
    ROLLOUT,
    UNREAD,
    a_node,
    cluster,
    fresh,
    refused,
    restart_in,
    rolled,
    sent,
)
from tests.kafkafeatures.worlds import NOW, SILENT, answer, known

BY_HAND = Rollout(MANUAL.name)
RAISE = UpdateFeature("metadata.version", 27, 30)
"""A raise that needs a newer Kafka on every node."""


def test_a_person_is_asked_for_one_node_at_a_time_and_only_for_nodes_that_do_not_support_the_level() -> None:
    observation = replace(cluster(), workloads=Unknown(SILENT))
    step = restart_in(rolled(observation, rollout=BY_HAND, changes=(RAISE,)))
    assert (step.node_id, step.pod) == (3002, "")
    requested = RestartInFlight(step, Stamp(NOW.isoformat()), Via.PERSON)
    roll = rolled(observation, requested, rollout=BY_HAND, changes=(RAISE,))
    assert "was not restarted yet" in refused(roll, Reason.ROLLING_NODES)
    assert rolled(observation, rollout=BY_HAND).decision is None


@pytest.mark.parametrize(("seconds", "delay"), [(0, 1.0), (30, 3.0), (3_600, 5.0)])
def test_the_delay_during_a_restart_by_hand_is_a_tenth_of_the_time_since_the_request_between_1_and_5_s(
    seconds: int, delay: float
) -> None:
    observation = replace(cluster(), workloads=Unknown(SILENT))
    step = restart_in(rolled(observation, rollout=BY_HAND, changes=(RAISE,)))
    since = Stamp((NOW - timedelta(seconds=seconds)).isoformat())
    waits = rolled(observation, RestartInFlight(step, since, Via.PERSON), rollout=BY_HAND, changes=(RAISE,)).decision
    assert isinstance(waits, Wait)
    assert waits.delay == delay


@pytest.mark.parametrize(
    ("epoch", "text"),
    [
        (101, "broker 1 does not answer yet"),
        (202, "broker 1 is fenced, and does not answer: it recovers its log, or was stopped"),
    ],
    ids=["registration from before the restart", "new registration"],
)
def test_the_message_about_a_fenced_silent_broker_does_not_claim_that_it_runs(epoch: int, text: str) -> None:
    fenced = replace(a_node(1), state=NodeState.FENCED, answer=Unknown(SILENT), broker_epoch=epoch)
    step = RestartNode(1, "broker 1", earlier_support="7-27", broker_epoch=101)
    assert step.state_in(replace(cluster(nodes={1: fenced}), workloads=Unknown(SILENT)), None).detail == text


def test_without_the_metadata_log_a_node_restarted_by_hand_is_back_once_it_supports_more_than_before() -> None:
    unregistered = {id_: replace(a_node(id_), broker_epoch=-1, incarnation="") for id_ in (*CONTROLLERS, *BROKERS)}
    observation = cluster(nodes=unregistered)
    step = restart_in(rolled(observation, rollout=BY_HAND, changes=(RAISE,)))
    requested = RestartInFlight(step, Stamp(NOW.isoformat()), Via.PERSON)
    waits = rolled(observation, requested, rollout=BY_HAND, changes=(RAISE,))
    assert "was not restarted yet" in refused(waits, Reason.ROLLING_NODES)
    newer = {"metadata.version": (7, 33), "kraft.version": (0, 1)}
    restarted = replace(unregistered[3002], registered={}, answer=known(answer(newer), SourceKind.API_REQUESTS))
    observation = cluster(nodes={**unregistered, 3002: restarted})
    assert "stable for" in refused(
        rolled(observation, requested, rollout=BY_HAND, changes=(RAISE,)), Reason.ROLLING_NODES
    )


def test_a_person_is_not_asked_again_to_restart_a_node_that_was_restarted() -> None:
    request = RestartInFlight(
        RestartNode(1, "broker 1", broker_epoch=101, incarnation="first-1"), sent(1).at, Via.PERSON
    )
    for nodes, asks in (({}, True), (fresh(1), False)):
        observation = replace(cluster(nodes=nodes), workloads=Unknown(SILENT))
        roll = rolled(observation, request, rollout=BY_HAND, changes=(RAISE,))
        assert roll.decision is not None
        condition = nodes_rolled(roll, roll.decision)
        assert condition is not None
        assert (condition[1] is Reason.RESTART_REQUESTED) is asks


STEP = RestartNode(1, "broker 1", broker_epoch=101, incarnation="first-1")
WANTED = DesiredState({}, rollout=BY_HAND)


def test_a_request_to_restart_a_node_by_hand_is_withdrawn_once_the_document_no_longer_needs_it() -> None:
    """If the person were still asked, the restart would stay in flight, and no level would be changed, until it was
    done.
    """
    observation = replace(cluster(), workloads=Unknown(NOT_ASKED))
    assert not is_withdrawn(STEP, WANTED, observation, (RAISE,))
    supported = replace(RAISE, to_level=26)
    assert is_withdrawn(STEP, WANTED, observation, (supported,))
    assert is_withdrawn(STEP, WANTED, observation, ())  # the document changes no level
    assert is_withdrawn(STEP, replace(WANTED, rollout=ROLLOUT), observation, (RAISE,))  # another driver


def test_a_request_to_restart_a_node_by_hand_stands_while_the_finalized_levels_are_unknown() -> None:
    observation = replace(cluster(), workloads=Unknown(NOT_ASKED), finalized=Unknown(SILENT))
    assert not is_withdrawn(STEP, WANTED, observation, ())


def test_a_request_to_restart_a_node_by_hand_is_not_withdrawn_after_the_restart() -> None:
    observation = replace(cluster(nodes=fresh(1)), workloads=Unknown(NOT_ASKED))
    assert not is_withdrawn(STEP, WANTED, observation, ())


REQUESTED = RestartInFlight(STEP, sent(1).at, Via.PERSON)

DEAD = {5: replace(a_node(5), state=NodeState.GHOST)}

WITHOUT_5 = tuple(replace(partition, in_sync=partition.isr - {5}) for partition in PARTITIONS)

WITHOUT_1 = tuple(replace(partition, in_sync=partition.isr - {1}) for partition in PARTITIONS)

LATE = Failure(FailureKind.WAITING_FOR_BUDGET, "partitions", "others have theirs in memory")


@pytest.mark.parametrize(
    ("nodes", "partitions", "cause"),
    [
        ({}, PARTITIONS, ""),
        (DEAD, PARTITIONS, "broker 5 is unavailable"),
        (DEAD, WITHOUT_5, "broker 5 is unavailable"),
        ({}, WITHOUT_5, "fewer in-sync replicas than min.insync.replicas"),
        ({}, UNREAD, "the partitions could not be read"),
        ({}, LATE, ""),
        ({}, WITHOUT_1, ""),
        ({1: replace(a_node(1), state=NodeState.FENCED)}, WITHOUT_1, ""),
        ({}, (row("orders", 1, 2, 3, isr=[2]), row("more", 1, 2, 3, isr=[1, 2])), "more-0"),
    ],
    ids=[
        "nothing forbids it", "another broker is down", "another broker is down and out of sync",
        "another broker is out of sync", "no right to read partitions", "no memory for partitions yet",
        "it is out of sync itself", "it is fenced itself", "only one of its partitions is in sync",
    ],
)  # fmt: skip
def test_a_request_to_restart_a_node_by_hand_is_withdrawn_once_a_partition_forbids_the_restart(
    nodes: dict[int, Any], partitions: Any, cause: str
) -> None:
    """A person may take days, in which another broker may fail. What the requested restart does itself is no reason."""
    observation = replace(cluster(nodes=nodes, partitions=partitions), workloads=Unknown(NOT_ASKED))
    roll = rolled(observation, REQUESTED, rollout=BY_HAND, changes=(RAISE,))
    assert [restart for restart, _ in roll.withdrawn] == ([REQUESTED] if cause else [])
    assert all(cause in reason for _, reason in roll.withdrawn)
    assert (roll.in_flight == ()) is bool(cause)


def test_a_node_that_was_restarted_with_the_former_kafka_halts_the_roll_and_asks_for_a_newer_one() -> None:
    observation = replace(cluster(), workloads=Unknown(SILENT))
    begun = RolloutStatus(id=rolled(observation, rollout=BY_HAND, changes=(RAISE,)).id, total=9, nodes="3002")
    roll = rolled(observation, rollout=BY_HAND, changes=(RAISE,), status=replace(EMPTY, rollout=begun))
    message = refused(roll, Reason.ROLLOUT_HALTED)
    assert message.endswith("; restart controller 3002 with a Kafka that supports it, or change the document")


def test_a_ghost_broker_is_a_blocker_with_its_unregistration_in_the_remedy() -> None:
    ghost = replace(a_node(4), state=NodeState.GHOST, answer=Unknown(SILENT))
    observation = replace(cluster(nodes={4: ghost}), workloads=Unknown(SILENT))
    decision = rolled(observation, rollout=BY_HAND, changes=(RAISE,)).decision
    assert isinstance(decision, Wait)
    assert "kafkafeatures unregister --broker 4" in decision.remedy
    assert [(blocker.kind, blocker.subject) for blocker in decision.blockers] == [
        (BlockerKind.GHOST_REGISTRATION, "broker 4")
    ]


def test_a_person_is_not_asked_to_upgrade_a_node_while_a_level_is_too_low_for_the_new_kafka() -> None:
    of_3_9 = answer({"metadata.version": (1, 21)}, {"metadata.version": 4})
    nodes = {id_: replace(a_node(id_), answer=known(of_3_9), registered={}) for id_ in (*CONTROLLERS, *BROKERS)}
    observation = cluster(nodes=nodes)
    observation = replace(observation, workloads=Unknown(SILENT), finalized=known({"metadata.version": 4}))
    roll = rolled(observation, rollout=BY_HAND, changes=(UpdateFeature("metadata.version", 4, 25),))
    message = refused(roll, Reason.NODES_BEHIND)
    assert "metadata.version 4 (3.3-IV0) is below what Kafka 4.0 supports (7 and up)" in message
    assert "first raise it to 7..21 while the nodes run 3.9" in message
