"""Rolls of combined nodes, which are controllers and brokers at once: nodes 1 to 3; brokers 4 to 6 are done."""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.facts.readings import QuorumAnswer, ReplicaProgress, Role
from kafkafeatures.core.roll.roll import Roll
from tests.kafkafeatures.core.replicas import row
from tests.kafkafeatures.core.rolls import (
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    a_pod,
    cluster,
    current,
    refused,
    restarted_id,
    rolled,
)

COMBINED = {id_: replace(a_node(id_), roles=(Role.CONTROLLER, Role.BROKER), is_voter=True) for id_ in (1, 2, 3)}


def led_by(leader: int) -> QuorumAnswer:
    """Build the answer of a quorum of nodes 1 to 3."""
    progress = tuple(ReplicaProgress(id_, 100, 50_000, 50_000) for id_ in COMBINED)
    return QuorumAnswer(leader, 4, 100, progress, ())


def only_3_may_be_away(leader: int) -> Roll:
    """Judge the roll of nodes 1 to 3 while a partition needs 1 and 2: its min.insync.replicas is 2."""
    partitions = (row("busy", 1, 2, 3, isr=[1, 2]),)
    observation = cluster({**ROLLED_CONTROLLERS, **current(4, 5, 6)}, COMBINED, partitions, quorum=led_by(leader))
    return rolled(observation, rollout=replace(ROLLOUT, availability=Availability.RESPECT_MIN_ISR))


def test_of_combined_nodes_a_follower_that_may_be_away_is_restarted() -> None:
    assert restarted_id(only_3_may_be_away(leader=2)) == 3


def test_the_leader_of_combined_nodes_waits_for_its_followers_although_it_may_be_away() -> None:
    assert "node 1" in refused(only_3_may_be_away(leader=3), Reason.ROLLING_NODES)


@pytest.mark.parametrize(
    ("away", "message"),
    [
        ({"node": {"state": NodeState.UNREACHABLE}}, "it may recover its log for hours; see `kubectl logs broker-1`"),
        ({"pod": {"waiting": "CrashLoopBackOff"}}, "answers, but the container of its pod broker-1 waits"),
    ],
    ids=["unreachable", "crashing"],
)
def test_a_combined_node_that_is_away_does_not_wait_for_itself(away: dict[str, Any], message: str) -> None:
    nodes = {**COMBINED, 1: replace(COMBINED[1], **away.get("node", {}))}
    pods = {**ROLLED_CONTROLLERS, **current(2, 3, 4, 5, 6), 1: a_pod(1, **away.get("pod", {}))}
    assert message in refused(rolled(cluster(pods, nodes, quorum=led_by(2))), Reason.ROLLING_NODES)
