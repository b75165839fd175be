"""A broker and a controller with the same id as two processes, which a dynamic quorum allows: neither is a ghost."""

from __future__ import annotations

import pytest

from kafkafeatures.core.facts.observation import NodeState
from kafkafeatures.core.facts.readings import QuorumAnswer, ReplicaProgress, Role
from kafkafeatures.core.levels.unregistration import broker_objection, controller_objection
from tests.kafkafeatures.core.test_identity import (
    AS_BROKER,
    AS_CONTROLLER,
    CONTROLLERS,
    FORMER,
    ONLY_BROKER,
    ONLY_CONTROLLER,
    TWO_ROLES,
    node_in_role,
    observe_nodes,
    proved_as,
)
from tests.kafkafeatures.worlds import NEW, SILENT, asked, image, quorum


@pytest.mark.parametrize("controller_first", [True, False])
@pytest.mark.parametrize("proves", [True, False])
def test_a_broker_that_answers_is_no_ghost_because_of_a_controller_with_its_id(
    controller_first: bool, proves: bool
) -> None:
    broker = asked(3001, AS_BROKER, Role.BROKER)
    pair = [
        proved_as(asked(3001, AS_CONTROLLER), ONLY_CONTROLLER),
        proved_as(broker, ONLY_BROKER) if proves else broker,
    ]
    observation = observe_nodes(
        asked(1), *(pair if controller_first else reversed(pair)), asked(3002), asked(3003), log=FORMER
    )
    node = node_in_role(observation, 3001, Role.BROKER)
    assert node.state is NodeState.FENCED
    assert broker_objection(node)


@pytest.mark.parametrize("controller_first", [True, False])
@pytest.mark.parametrize("proves", [True, False])
def test_a_controller_that_answers_is_no_ghost_because_of_a_broker_with_its_id(
    controller_first: bool, proves: bool
) -> None:
    log = image({1: (NEW, False), 2: (NEW, False)}, dict.fromkeys((*CONTROLLERS, 2), NEW))
    controller = asked(2, AS_CONTROLLER, Role.CONTROLLER)
    pair = [
        proved_as(controller, ONLY_CONTROLLER) if proves else controller,
        proved_as(asked(2, AS_BROKER), ONLY_BROKER),
    ]
    observation = observe_nodes(
        asked(1), *(pair if controller_first else reversed(pair)), *map(asked, CONTROLLERS), log=log
    )
    node = node_in_role(observation, 2, Role.CONTROLLER)
    assert node.state is NodeState.LIVE
    assert "answers" in controller_objection(observation, 2)


def test_a_controller_is_no_ghost_while_the_voters_are_not_known() -> None:
    broker = proved_as(asked(3001, AS_BROKER, Role.BROKER), ONLY_BROKER)
    observation = observe_nodes(
        asked(1), broker, asked(3001, SILENT), *map(asked, CONTROLLERS[1:]), log=FORMER, quorum=SILENT
    )
    assert node_in_role(observation, 3001, Role.CONTROLLER).state is not NodeState.GHOST


def test_a_broker_that_recovers_its_log_fetches_and_is_no_ghost_because_of_a_controller_with_its_id() -> None:
    voters = quorum(voters=CONTROLLERS).voters
    now = max(voter.last_fetch_timestamp for voter in voters)
    twice = QuorumAnswer(3001, 4, 100, voters, (ReplicaProgress(3001, 100, now, now),))
    controller = proved_as(asked(3001, AS_CONTROLLER), ONLY_CONTROLLER)
    observation = observe_nodes(*TWO_ROLES, controller, log=FORMER, quorum=twice)
    node = node_in_role(observation, 3001, Role.BROKER)
    assert node.state is not NodeState.GHOST
    assert broker_objection(node)
