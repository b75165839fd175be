"""A roll whose pod template changes, before Kubernetes has processed the change and while a node is away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import Stamp
from kafkafeatures.api.status import EMPTY, RevisionStatus, RolloutStatus, Status
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Act, Stalled, Wait
from kafkafeatures.core.engine.desired_state import DesiredState, Rollout
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, SourceKind
from kafkafeatures.core.roll.drivers import STATEFUL_SET
from kafkafeatures.core.roll.remembered import RollContext
from kafkafeatures.core.roll.report import nodes_rolled, rollout_status
from kafkafeatures.core.roll.roll import Roll, roll_of
from tests.kafkafeatures.core.fleets import NEW, OLD, in_pod, observed_fleet, pod, stateful_set
from tests.kafkafeatures.core.replicas import reading, row
from tests.kafkafeatures.core.rolls import replication_of
from tests.kafkafeatures.worlds import NOW

STARTED = Stamp("2026-01-01T00:00:00Z")
WANTED = DesiredState({}, rollout=Rollout(driver=STATEFUL_SET.name, brokers=("broker",)))


def world(**of_set: Any) -> Observation:
    """Build three brokers in pods, with a partition on all of them."""
    pods = tuple(pod(id_) for id_ in (1, 2, 3))
    observation = observed_fleet(*(in_pod(id_) for id_ in (1, 2, 3)), sets=(stateful_set(*pods, **of_set),))
    partitions = reading(row("orders", 1, 2, 3), default=2)
    return replace(observation, partitions=Known(partitions, SourceKind.METADATA_LOG, "", NOW))


def no_time(_: str) -> timedelta:
    return timedelta(0)


def rolled(observation: Observation, status: Status = EMPTY) -> Roll:
    remembered = RollContext((), status, NOW, age_of=no_time, known_for=no_time)
    return roll_of(WANTED, observation, (), remembered, replication_of(observation))


def test_a_template_that_kubernetes_has_not_processed_is_waited_for_and_nothing_counts_as_rolled() -> None:
    roll = rolled(world(observed=False, update_revision=OLD))
    assert isinstance(roll.decision, Wait)
    assert "not processed" in roll.decision.message
    condition = nodes_rolled(roll, roll.decision)
    assert condition is not None
    assert condition[:2] == ("False", Reason.IN_PROGRESS)


def test_the_progress_of_a_roll_is_kept_until_kubernetes_has_processed_the_template() -> None:
    roll = rolled(world(observed=False, update_revision=OLD))
    assert roll.decision is not None
    before = RolloutStatus(id="r", started_at=STARTED, total=3, done=1)
    rollout = rollout_status(roll, roll.decision, before, STARTED)
    assert rollout is not None
    assert (rollout.id, rollout.done, rollout.started_at) == ("r", 1, STARTED)
    assert "not processed" in rollout.waiting_for
    assert rollout_status(roll, roll.decision, None, STARTED) is None


def test_a_pod_of_an_old_revision_whose_node_does_not_answer_keeps_a_roll_from_being_over() -> None:
    observation = world()
    silent = [replace(node, state=NodeState.UNREACHABLE, proved_at="") for node in observation.nodes]
    roll = rolled(replace(observation, nodes=tuple(silent)))
    assert not roll.needing
    assert roll.is_active
    assert isinstance(roll.decision, Wait)
    condition = nodes_rolled(roll, roll.decision)
    assert condition is not None
    assert condition[0] == "False"


@pytest.mark.parametrize(
    ("restarted_to", "decision"), [(NEW, Stalled), ("another", Act)], ids=["same revision", "another revision"]
)
def test_an_earlier_restart_halts_the_roll_only_if_its_pod_still_needs_the_same_revision(
    restarted_to: str, decision: type
) -> None:
    observation = world()
    restarted = RevisionStatus(name="broker", revision=restarted_to, nodes="1", left=3)
    rollout = RolloutStatus(id="r", started_at=STARTED, total=3, done=0, revisions=(restarted,))
    roll = rolled(observation, replace(EMPTY, rollout=rollout))
    assert isinstance(roll.decision, decision)
