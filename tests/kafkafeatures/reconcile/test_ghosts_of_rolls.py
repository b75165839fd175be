"""Ghost registrations in a roll: not restarted, and reported before the first restart if they block the level."""

from __future__ import annotations

import pytest

from kafkafeatures.api.reasons import Reason
from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.decisions import Stalled
from kafkafeatures.core.engine.desired_state import DesiredState, Rollout
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.roll.drivers import MANUAL, NOBODY, Driver
from kafkasim.plan import NodePlan, Plan, TopicPlan
from kafkasim.releases import release_named
from tests.kafkafeatures.reconcile.simulated import Cluster, Store, once

OLD, NEW = release_named("4.1"), release_named("4.4")
CONTROLLERS, BROKERS = (3001, 3002, 3003), (1, 2, 3)
GHOST = "broker 9 (127.0.0.1:"


def clusters(ghost: str, other_image: str, *, hosts: bool = False) -> tuple[Cluster, Store]:
    """Set up broker 9 as registered, with Kafka `ghost`, and not running; the other nodes run Kafka `other_image`. The
    document asks for a level that only Kafka 4.4 supports. `hosts`: broker 9 has a replica.
    """
    release = release_named(other_image)
    nodes = [NodePlan(Role.CONTROLLER, id_, release) for id_ in CONTROLLERS]
    nodes += [NodePlan(Role.BROKER, id_, release) for id_ in BROKERS]
    nodes.append(NodePlan(Role.BROKER, 9, release_named(ghost), ghost=True))
    topics = (TopicPlan("orders", ((1, 2, 9) if hosts else (1, 2, 3),), 2),)
    plan = Plan(tuple(nodes), {"metadata.version": 25}, leader=3001, topics=topics)
    cluster = Cluster({"metadata.version": 25}, plan)
    store = Store(cluster, {})
    store.wanted = DesiredState({"metadata.version": 33}, rollout=Rollout(MANUAL.name))
    return cluster, store


@pytest.mark.parametrize("driver", [MANUAL, NOBODY], ids=lambda driver: driver.name)
def test_a_ghost_that_blocks_a_level_is_reported_with_its_remedy_and_not_restarted(driver: Driver) -> None:
    cluster, store = clusters("4.1", "4.4")
    store.wanted = replace(store.wanted, rollout=Rollout(driver.name))
    for _ in range(3):
        stalled = once(cluster, store).decision
        assert isinstance(stalled, Stalled)
        assert stalled.reason is Reason.GHOST_REGISTRATION
        assert stalled.message.startswith(GHOST)
        assert any("kafkafeatures unregister --broker 9" in blocker.remedy for blocker in stalled.blockers)
        assert "intents" not in store.status


def test_a_ghost_that_blocks_the_level_is_reported_before_the_first_restart() -> None:
    cluster, store = clusters("4.1", "4.1")
    stalled = once(cluster, store).decision
    assert isinstance(stalled, Stalled)
    assert stalled.reason is Reason.GHOST_REGISTRATION
    assert "kafkafeatures unregister --broker 9" in stalled.message
    assert "intents" not in store.status
    leader = cluster.world.active_node
    assert leader is not None
    cluster.world.unregister_broker(leader, 9)
    once(cluster, store)
    assert [intent["kind"] for intent in store.status["intents"]] == ["RestartNode"]


def test_a_ghost_that_supports_the_level_and_hosts_nothing_prevents_no_restart() -> None:
    cluster, store = clusters("4.4", "4.1")
    once(cluster, store)
    assert [intent["kind"] for intent in store.status["intents"]] == ["RestartNode"]


def test_a_dead_broker_with_replicas_is_reported_as_away_and_possibly_a_ghost() -> None:
    cluster, store = clusters("4.4", "4.1", hosts=True)
    for id_ in CONTROLLERS:
        cluster.world.upgrade(Role.CONTROLLER, id_, NEW)
        cluster.world.advance(cluster.world.now_ms + 60_000)
    once(cluster, store)
    message = next(condition["message"] for condition in store.status["conditions"] if condition["type"] == "Ready")
    assert "broker 9 is unavailable; bring broker 9 back: no node is restarted until then" in message
    assert "kafkafeatures unregister --broker 9" in message
