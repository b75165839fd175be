"""Rare moments of a roll, each with the one safe decision."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import Result
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.settling import OpenOutcome
from kafkafeatures.core.engine.steps import InFlight
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, SourceKind
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.roll.coming_back import AwayNode, ReturnPhase
from kafkafeatures.core.roll.restart_node import RestartNode
from tests.kafkafeatures.core import migrations
from tests.kafkafeatures.core.rolls import (
    BROKERS,
    CONTROLLERS,
    CRASHES,
    ONE_AT_A_TIME,
    PARTITIONS,
    ROLLED_CONTROLLERS,
    ROLLOUT,
    a_node,
    a_pod,
    cluster,
    current,
    fresh,
    looks,
    refused,
    replaced,
    replication_of,
    restarted_id,
    rolled,
    sent,
    voting,
    with_workloads,
    workloads_of,
)
from tests.kafkafeatures.worlds import NOW, known


def phase(flying: InFlight, observation: Observation) -> ReturnPhase:
    assert isinstance(flying.step, RestartNode)
    return flying.step.state_in(observation, replication_of(observation)).phase


# --- late ---


def behind(*ids: int) -> Any:
    """Return the partitions with these brokers out of sync."""
    return tuple(replace(partition, in_sync=partition.isr - {*ids}) for partition in PARTITIONS)


@pytest.mark.parametrize(
    ("observation", "so_far"),
    [
        (cluster({**ROLLED_CONTROLLERS, 1: a_pod(1, terminating=True)}), ReturnPhase.STOPPING),
        (cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fresh(1), behind(1)), ReturnPhase.CATCHING_UP),
        (cluster({**ROLLED_CONTROLLERS, **replaced(1)}), ReturnPhase.STARTING),
    ],
    ids=["stops", "catches up", "starts"],
)
def test_a_node_that_stops_starts_or_catches_up_for_longer_than_node_timeout_halts_the_roll(
    observation: Observation, so_far: ReturnPhase
) -> None:
    """nodeTimeout is 15 min. Only a node that recovers its log may take longer."""
    assert phase(sent(1), observation) is so_far
    assert "broker 1 is not back after 15 min" in refused(
        rolled(observation, sent(1, minutes=16)), Reason.ROLLOUT_HALTED
    )


@pytest.mark.parametrize(("minutes", "says_where"), [(15, False), (16, True)])
def test_the_message_about_a_node_that_recovers_for_longer_than_node_timeout_says_where_to_look(
    minutes: int, says_where: bool
) -> None:
    observation = cluster(
        {**ROLLED_CONTROLLERS, **replaced(1)}, {1: replace(fresh(1)[1], state=NodeState.FENCED)}, behind(1)
    )
    text = refused(rolled(observation, sent(1, minutes=minutes), rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)
    assert text.startswith("broker 1 is fenced: it recovers its log")
    assert ("see `kubectl logs broker-1`" in text and text.endswith("if it hangs, delete the pod")) is says_where


def test_a_node_whose_pod_is_gone_counts_as_not_yet_restarted() -> None:
    observation = cluster(nodes={1: replace(a_node(1), state=NodeState.GHOST)})
    controllers, brokers = workloads_of(observation).stateful_sets
    observation = with_workloads(observation, stateful_sets=(controllers, replace(brokers, pods=brokers.pods[1:])))
    roll = rolled(observation, sent(1))
    assert (roll.done, roll.total) == (0, 9)


# --- back ---


def test_a_controller_that_is_behind_the_leader_is_not_back_and_no_other_controller_is_restarted() -> None:
    observation = cluster({**replaced(3002)}, fresh(3002), quorum=voting(behind=[3002]))
    assert phase(sent(3002), observation) is ReturnPhase.CATCHING_UP
    assert "controller 3002 is behind" in refused(rolled(observation, sent(3002)), Reason.ROLLING_NODES)
    assert phase(sent(3002), replace(observation, quorum=cluster().quorum)) is ReturnPhase.BACK


def test_a_fenced_broker_is_not_back_although_the_last_records_have_it_in_sync() -> None:
    nodes = {1: replace(fresh(1)[1], state=NodeState.FENCED)}
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, nodes)
    assert phase(sent(1), observation) is ReturnPhase.RECOVERING
    assert phase(sent(1), cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fresh(1))) is ReturnPhase.BACK


@pytest.mark.parametrize(("seconds", "result"), [(0, OpenOutcome()), (29, OpenOutcome()), (30, Result.APPLIED)])
def test_the_time_for_which_a_node_is_stable_is_measured_by_one_process_and_not_by_a_clock(
    seconds: int, result: Result | OpenOutcome
) -> None:
    """A node that was back before the operator was restarted may have stopped once more meanwhile."""
    observation = cluster({**ROLLED_CONTROLLERS, **replaced(1)}, fresh(1))
    readings = looks(observation, lived=timedelta(seconds=seconds), stable_for=timedelta(seconds=30))
    assert sent(1, minutes=60, is_back=True).settle(readings) == result


@pytest.mark.parametrize(("seconds", "result"), [(0, OpenOutcome()), (60, OpenOutcome()), (61, Result.NOT_APPLIED)])
def test_the_time_for_which_an_eviction_may_be_on_its_way_is_measured_by_one_process(
    seconds: int, result: Result | OpenOutcome
) -> None:
    readings = looks(cluster(ROLLED_CONTROLLERS), lived=timedelta(seconds=seconds))
    assert sent(1, minutes=60, unwanted=60).settle(readings) == result


def test_a_restart_whose_pod_was_not_replaced_yet_is_not_superseded_by_another_image() -> None:
    """The template has changed, and the former pod crashes; but the eviction that was sent may still arrive."""
    crashes = {1: a_pod(1, **CRASHES)}
    observation = cluster({**ROLLED_CONTROLLERS, **crashes}, {1: replace(a_node(1), state=NodeState.GHOST)}, behind(1))
    restart = sent(1, minutes=20, after="in-between")
    assert isinstance(restart.settle(looks(observation)), OpenOutcome)
    pods = {**ROLLED_CONTROLLERS, **replaced(1, revision="bad", **CRASHES)}
    pod_replaced = replace(observation, workloads=cluster(pods).workloads)
    assert restart.settle(looks(pod_replaced)) is Result.SUPERSEDED


# --- the next node while another one is away ---


def test_no_controller_is_restarted_while_a_broker_is_in_flight_or_uses_up_max_parallel() -> None:
    """The image of the controller was changed once more while brokers were restarted."""
    observation = cluster(replaced(1, ready=False, phase="Pending", waiting="ContainerCreating"), fresh(1), behind(1))
    assert "pod broker-1 does not run" in refused(rolled(observation, sent(1)), Reason.ROLLING_NODES)
    back = cluster(replaced(1), fresh(1))
    assert "stable for" in refused(rolled(back, sent(1, is_back=True)), Reason.ROLLING_NODES)
    drained = cluster({1: a_pod(1, terminating=True)}, partitions=behind(1))
    assert "broker 1" in refused(rolled(drained, rollout=ONE_AT_A_TIME), Reason.ROLLING_NODES)


def test_a_broker_that_may_be_recovering_its_log_is_not_restarted_although_no_partition_forbids_it() -> None:
    fenced = {1: replace(a_node(1), state=NodeState.FENCED)}
    observation = cluster({**ROLLED_CONTROLLERS, **current(2, 3, 4, 5, 6)}, fenced, behind(1))
    rule = replace(ROLLOUT, availability=Availability.RESPECT_MIN_ISR)
    assert "it may recover its log for hours" in refused(rolled(observation, rollout=rule), Reason.ROLLING_NODES)


# --- levels and binaries ---


def finalized(observation: Observation, **levels: int) -> Observation:
    named = {name.replace("_", "."): level for name, level in levels.items()}
    return replace(observation, finalized=Known(named, SourceKind.METADATA_LOG, "", NOW))


def test_no_node_is_restarted_into_a_binary_that_no_longer_supports_a_low_finalized_level() -> None:
    """Kafka 4.x begins at metadata.version 7."""
    observation = finalized(cluster(ROLLED_CONTROLLERS), metadata_version=6)
    message = refused(rolled(observation), Reason.NODES_BEHIND)
    assert "supports metadata.version 7-" in message
    assert message.endswith("first run Kafka 3.9 on every node, and raise it to 7..21 there")
    assert restarted_id(rolled(finalized(cluster(ROLLED_CONTROLLERS), metadata_version=7))) in BROKERS


def test_levels_are_changed_before_the_roll_only_if_the_new_binary_needs_the_change() -> None:
    """To 4.1, which supports share.version 0-1 and no metadata.version above 27."""
    to_4_1 = cluster({**current(*CONTROLLERS)}, release="4.1")
    downgrade, unrelated_raise = UpdateFeature("share.version", 2, 1), UpdateFeature("group.version", 0, 1)
    assert not rolled(finalized(to_4_1, share_version=1), changes=(unrelated_raise,)).levels_first
    assert not rolled(finalized(to_4_1, share_version=2), changes=(unrelated_raise,)).levels_first
    assert rolled(finalized(to_4_1, share_version=2), changes=(downgrade, unrelated_raise)).levels_first


def test_levels_are_not_changed_before_the_roll_if_the_new_binary_would_lack_another_level_anyway() -> None:
    """4.1 supports no metadata.version above 27, and the document does not downgrade it."""
    to_4_1 = finalized(cluster({**current(*CONTROLLERS)}, release="4.1"), share_version=2, metadata_version=28)
    assert not rolled(to_4_1, changes=(UpdateFeature("share.version", 2, 1),)).levels_first


@pytest.mark.parametrize("position", [Position.ZOOKEEPER, Position.PRE_MIGRATION, Position.COPIED])
def test_the_restart_of_an_unregistered_broker_in_a_migration_is_in_flight_while_the_broker_is_stopped(
    position: Position,
) -> None:
    """While brokers register in ZooKeeper, a stopped broker has no registration, like one that a person unregistered.
    So the restart is waited for, and the message has the remedy for both.
    """
    observation = without_broker(2, migrations.cluster(position))
    assert not AwayNode(2, "broker 2").is_overtaken(observation)
    state = AwayNode(2, "broker 2").state_in(observation, None)
    assert state.phase is ReturnPhase.STARTING
    assert (
        "broker 2 is not registered: start it; if it runs, see its log, and if that shows no reason, restart it"
        in state.detail
    )


def test_the_restart_of_a_broker_that_was_unregistered_in_kraft_mode_is_over() -> None:
    assert AwayNode(2, "broker 2").is_overtaken(without_broker(2, migrations.cluster(Position.FINALIZED)))


def without_broker(id_: int, observation: Observation) -> Observation:
    return replace(
        observation,
        nodes=tuple(node for node in observation.nodes if node.id != id_),
        registered_brokers=known(frozenset({1, 2, 3} - {id_})),
        registered_controllers=known(frozenset(migrations.CONTROLLERS)),
    )
