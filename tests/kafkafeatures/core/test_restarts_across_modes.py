"""A restart of a node that changes between ZooKeeper and KRaft mode: recognized by czxid or broker epoch."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kafkafeatures.api.records import Stamp
from kafkafeatures.api.spec import Desired
from kafkafeatures.api.status import Via
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act
from kafkafeatures.core.facts.observation import Node
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.core.roll.coming_back import ReturnPhase
from kafkafeatures.core.roll.restart_node import RestartNode
from tests.kafkafeatures.core.migrations import a_node, cluster, looks, wanting

PLAIN, FLAGGED, KRAFT = Shape.PLAIN_BROKER, Shape.FLAGGED_BROKER, Shape.KRAFT_BROKER
OF_ZOOKEEPER = RestartNode(2, "broker 2", czxid=500)
"""A restart of broker 2, which ran in ZooKeeper mode when the restart was decided; its znode had this czxid."""
OF_KRAFT = RestartNode(2, "broker 2", broker_epoch=500, incarnation="first-2")
"""A restart of broker 2, which ran in KRaft mode then; its registration had this epoch."""


@dataclass(frozen=True)
class Case:
    """A restart of broker 2, and broker 2 as it is now. `is_restarted`: another process runs."""

    step: RestartNode
    node: Node
    is_restarted: bool


def broker_2(shape: Shape, *, epoch: int, czxid: int = -1, incarnation: str = "") -> Node:
    return replace(a_node(2, shape, epoch=epoch), czxid=czxid, incarnation=incarnation)


CASES = {
    "the same process, registered with the quorum as well": Case(
        OF_ZOOKEEPER, broker_2(FLAGGED, epoch=77, czxid=500), False
    ),
    "another process in ZooKeeper mode": Case(OF_ZOOKEEPER, broker_2(FLAGGED, epoch=500, czxid=600), True),
    "it runs in KRaft mode, at an epoch that is its czxid of before": Case(
        OF_ZOOKEEPER, broker_2(KRAFT, epoch=500), True
    ),
    "in KRaft mode, while the znode of its former process still exists": Case(
        OF_ZOOKEEPER, broker_2(KRAFT, epoch=77, czxid=500), True
    ),
    "the same process in KRaft mode": Case(OF_KRAFT, broker_2(KRAFT, epoch=500, incarnation="first-2"), False),
    "it is in ZooKeeper mode, at a czxid that is its epoch of before": Case(
        OF_KRAFT, broker_2(FLAGGED, epoch=500, czxid=500), True
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_new_process_of_a_node_is_recognized_by_its_mode_and_its_czxid_or_epoch(name: str) -> None:
    case = CASES[name]
    phase = case.step.state_in(cluster(Position.COPIED, case.node), None).phase
    assert (phase is not ReturnPhase.REQUESTED) is case.is_restarted  # REQUESTED: the old process still runs


def test_the_restart_of_a_process_in_zookeeper_mode_remembers_its_czxid_and_no_epoch() -> None:
    node = replace(a_node(2, FLAGGED, epoch=77), czxid=500)
    observation = cluster(Position.COPIED, a_node(1, KRAFT), node)
    decision = looks(wanting(Desired.DUAL_WRITE), observation).decision
    assert isinstance(decision, Act)
    step = decision.step
    assert isinstance(step, RestartNode)
    assert (step.node_id, step.czxid, step.broker_epoch) == (2, 500, -1)
    begun = step.begin(Stamp("2026-01-02T03:00:00Z"), Via.PERSON, observation)
    assert RestartNode.read(begun.to_intent()).step == step
