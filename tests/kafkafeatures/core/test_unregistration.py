"""Controllers that may be unregistered: ghost registrations, and no others. 3001 leads, 3002 votes,
3003 is the ghost.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import REPLACED, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import NO_CONNECTION, Failure, FailureKind
from kafkafeatures.core.levels.unregistration import controller_objection
from tests.kafkafeatures.worlds import SILENT, answer, node, observation, quorum

GHOST = node(3003, state=NodeState.GHOST, said=SILENT, voter=False)
LEVELS = {"metadata.version": 33}
UNREAD = Unknown(Failure(FailureKind.AUTHORIZATION, "k:1", "CLUSTER_ACTION is missing", "grant it"))
NOT_RUNNING = (*NO_CONNECTION, FailureKind.WRONG_CLUSTER, *REPLACED)
"""Kinds of failures that show that the ghost does not run at its address."""


def cluster(ghost: Any = GHOST, level: int = 33, **facts: Any) -> Observation:
    return replace(observation(node(3001), node(3002), node(1), ghost, levels={"metadata.version": level}), **facts)


def failure(kind: FailureKind) -> Failure:
    return Failure(kind, "h:3003", "it says nothing")


@pytest.mark.parametrize("kind", NOT_RUNNING)
def test_a_ghost_controller_may_be_unregistered(kind: FailureKind) -> None:
    ghost = node(3003, state=NodeState.GHOST, said=failure(kind), voter=False)
    assert controller_objection(cluster(ghost), 3003) == ""


@pytest.mark.parametrize("level", [33, 34])
def test_a_ghost_controller_may_be_unregistered_from_the_metadata_version_on_that_kafka_requires(level: int) -> None:
    assert controller_objection(cluster(level=level), 3003) == ""


@pytest.mark.parametrize(
    ("observation", "controller", "words"),
    [
        (cluster(), 3009, "controller 3009 is not registered"),
        (cluster(), 1, "controller 1 is not registered"),
        (cluster(), 3001, "controller 3001 is the active controller"),
        (cluster(), 3002, "controller 3002 is a voter; remove it from the quorum first"),
        (cluster(node(3003, state=NodeState.GHOST, said=SILENT, voter=True)), 3003, "controller 3003 is a voter"),
        (cluster(node(3003, state=NodeState.LIVE, said=answer(), voter=False)), 3003, "controller 3003 answers at"),
        (cluster(node(3003, state=NodeState.UNREACHABLE, said=SILENT, voter=False)), 3003, "was fetching"),
        (cluster(level=32), 3003, "once metadata.version 33 (4.4-IV2) is finalized; it is 32 (4.4-IV1); until then "
         "start a controller with id 3003 on the new Kafka once, so that it registers again, then stop it"),
        (cluster(cluster_id=UNREAD), 3003, "the cluster could not be identified"),
        (cluster(registered_controllers=UNREAD), 3003, "the registered controllers could not be read"),
        (cluster(active_controller=UNREAD), 3003, "the active controller is not known"),
        (cluster(quorum=UNREAD), 3003, "the voters could not be read"),
        (cluster(finalized=UNREAD), 3003, "the finalized levels are not known"),
    ],
)  # fmt: skip
def test_a_controller_that_may_still_be_needed_is_not_unregistered_and_the_message_has_the_reason(
    observation: Observation, controller: int, words: str
) -> None:
    assert words in controller_objection(observation, controller)


def test_a_voter_that_only_the_quorum_names_is_not_unregistered() -> None:
    assert "is a voter" in controller_objection(
        replace(cluster(), quorum=observation(voting=quorum(voters=(3001, 3003))).quorum), 3003
    )


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind not in NOT_RUNNING])
def test_a_ghost_controller_that_may_run_is_not_unregistered(kind: FailureKind) -> None:
    ghost = node(3003, state=NodeState.GHOST, said=failure(kind), voter=False)
    assert "it is unknown whether controller 3003 runs" in controller_objection(cluster(ghost), 3003)
