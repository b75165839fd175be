"""Restarts that a person is asked for, while the document or the cluster changes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.records import stamp
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Done, Stalled, Wait
from kafkafeatures.core.engine.desired_state import ApprovalPolicy, DesiredState, Mode, Rollout
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.roll.drivers import MANUAL, NOBODY, Driver
from kafkafeatures.core.roll.waits import REFUSED_POLL
from kafkasim.plan import TopicPlan
from kafkasim.releases import release_named
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once, run
from tests.kafkafeatures.reconcile.test_ages import Clocks
from tests.kafkasim.clusters import plan

BY_HAND = DesiredState({"metadata.version": 30}, rollout=Rollout(MANUAL.name))


def requested_restart() -> tuple[Cluster, Store]:
    """Set up nodes of Kafka 4.2, none of which supports the level; the restart of one is requested."""
    cluster = Cluster({"metadata.version": 25})
    store = Store(cluster, {})
    store.wanted = BY_HAND
    once(cluster, store)
    assert [intent["kind"] for intent in store.status["intents"]] == ["RestartNode"]
    return cluster, store


@pytest.mark.parametrize("driver", [MANUAL, NOBODY], ids=lambda driver: driver.name)
def test_a_requested_manual_restart_is_withdrawn_with_its_reason_and_levels_continue(driver: Driver) -> None:
    cluster, store = requested_restart()
    store.wanted = replace(BY_HAND, levels={"metadata.version": 26}, rollout=Rollout(driver.name))
    assert isinstance(run(cluster, store).decision, Done)
    assert cluster.levels["metadata.version"] == 26
    assert "intents" not in store.status
    first = store.status["history"][0]
    assert (first["kind"], first["result"]) == ("RestartNode", "NotApplied")


def test_a_plan_with_manual_restarts_has_a_stage_of_levels_and_none_of_restarts() -> None:
    _, store = requested_restart()
    assert [stage["kind"] for stage in store.status["plan"]["stages"]] == ["Levels"]


def test_a_requested_manual_restart_stays_while_it_is_needed() -> None:
    cluster, store = requested_restart()
    before = store.status["intents"]
    once(cluster, store)
    assert store.status["intents"] == before


@pytest.mark.parametrize(
    "holds",
    [{"suspend": True}, {"mode": Mode.OBSERVE}, {"policy": ApprovalPolicy.ALWAYS}],
    ids=["suspended", "mode Observe", "policy Always"],
)
def test_a_roll_that_waits_for_a_person_to_let_it_begin_reads_the_partitions_only_once(holds: dict[str, Any]) -> None:
    """Few clusters may have their partitions in memory at once. They are read once, for the notes about the roll."""
    cluster = Cluster({"metadata.version": 25})
    store = Store(cluster, {})
    store.wanted = replace(BY_HAND, **holds)
    once(cluster, store)
    assert cluster.reads == [False, True]
    assert store.status["rollout"]["notes"]
    before = store.status
    once(cluster, store)
    assert cluster.reads == [False, True, False]
    assert store.status == before
    store.wanted = BY_HAND
    once(cluster, store)
    assert cluster.reads == [False, True, False, True]
    assert store.status["intents"]


def test_a_manual_restart_is_withdrawn_while_another_broker_is_away_and_requested_again() -> None:
    topics = (TopicPlan("orders", ((1, 2, 3),), 2),)
    cluster = Cluster({"metadata.version": 25}, replace(plan(), topics=topics))
    store = Store(cluster, {})
    store.wanted = BY_HAND
    once(cluster, store)
    request = store.status["intents"][0]["title"]
    cluster.world.stop(Role.BROKER, 1)
    cluster.world.advance(cluster.world.now_ms + 60_000)
    waits = once(cluster, store).decision
    assert isinstance(waits, Wait)
    assert "broker 1" in waits.message
    assert "intents" not in store.status
    ended = store.status["history"][-1]
    assert (ended["action"], ended["result"], ended["message"]) == (request, "NotApplied", waits.message)
    cluster.world.start(Role.BROKER, 1)
    cluster.world.advance(cluster.world.now_ms + 60_000)
    once(cluster, store)
    assert store.status["intents"][0]["title"] == request


def test_node_timeout_starts_when_the_person_stops_the_node() -> None:
    cluster, clocks = Cluster({"metadata.version": 25}), Clocks()
    store = Store(cluster, {})
    store.wanted = BY_HAND
    clocks.reconcile(cluster, store)
    requested_node = store.status["intents"][0]["nodeId"]
    for _ in range(3):
        clocks.wait(timedelta(hours=8))
        waits = clocks.reconcile(cluster, store).decision
    assert isinstance(waits, Wait)
    assert waits.delay == REFUSED_POLL  # after a day the next reading is not urgent
    cluster.world.stop(Role.CONTROLLER, requested_node)
    cluster.world.advance(cluster.world.now_ms + 60_000)
    clocks.wait(timedelta(minutes=1))
    assert isinstance(clocks.reconcile(cluster, store).decision, Wait)
    clocks.wait(timedelta(minutes=20))
    halted = clocks.reconcile(cluster, store).decision
    assert isinstance(halted, Stalled)
    assert halted.reason is Reason.ROLLOUT_HALTED


def test_time_without_readings_does_not_count_for_stable_for() -> None:
    """While the cluster cannot be read, the node may have been restarted once more."""
    cluster, clocks, store = with_a_node_that_is_back()
    assert "stableSince" in store.status["intents"][0]
    cluster.away = True
    clocks.wait(BY_HAND.rollout.stable_for * 2)
    clocks.reconcile(cluster, store)
    cluster.away = False
    clocks.reconcile(cluster, store)
    clocks.wait(BY_HAND.rollout.stable_for - timedelta(seconds=1))
    clocks.reconcile(cluster, store)
    assert "history" not in store.status
    clocks.wait(timedelta(seconds=1))
    clocks.reconcile(cluster, store)
    assert [entry["result"] for entry in store.status["history"]] == ["Applied"]


def test_the_status_shows_since_when_this_process_has_observed_a_restarted_node() -> None:
    cluster, clocks, store = with_a_node_that_is_back()
    clocks.wait(timedelta(hours=1))
    clocks.restart()
    clocks.reconcile(cluster, store)
    since = store.status["intents"][0]["stableSince"]
    assert since == stamp(clocks.wall)
    clocks.wait(BY_HAND.rollout.stable_for - timedelta(seconds=1))
    clocks.reconcile(cluster, store)
    assert store.status["intents"][0]["stableSince"] == since
    clocks.wait(timedelta(seconds=1))
    clocks.reconcile(cluster, store)
    assert [entry["result"] for entry in store.status["history"]] == ["Applied"]


def with_a_node_that_is_back() -> tuple[Cluster, Clocks, Store]:
    """Set up a requested restart that a person has just made."""
    cluster, clocks = Cluster({"metadata.version": 25}), Clocks()
    store = Store(cluster, {})
    store.wanted = BY_HAND
    clocks.reconcile(cluster, store)
    restart(cluster, store.status["intents"][0]["nodeId"])
    clocks.reconcile(cluster, store)
    return cluster, clocks, store


def restart(cluster: Cluster, id_: int) -> None:
    """Restart the node, as the person who was asked to."""
    world = cluster.world
    world.stop(Role.CONTROLLER, id_)
    world.advance(world.now_ms + 5_000)
    world.start(Role.CONTROLLER, id_, release_named("4.4"))
    world.advance(world.now_ms + 20_000)
