"""Blockers on real Kafka, as the operator reports them: condition and blocker, with a bounded number of requests. Each
disappears by itself when its cause is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.kafka.wire import feature_records
from tests.e2e.kubernetes.resources import FEW, Resources, delete_all, levels, requests_of_a_while
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.kubernetes.operator import Operator
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import MIDDLE, OLD


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One old broker among new ones: an upgrade is half done."""
    with Cluster(
        tmp_path_factory.mktemp("kafka"), MIDDLE, release_version="3.9", controllers=1, brokers=2, versions={2: OLD}
    ) as running:
        yield running


@pytest.fixture
def resources(operator: Operator, kafka: Cluster) -> Iterator[Resources]:
    yield Resources(operator.plane, kafka)
    delete_all(operator.plane)


def blockers(resources: Resources, name: str) -> set[tuple[str, int]]:
    return {(one["kind"], one.get("nodeId", -1)) for one in resources.status(name).get("blockers", ())}


def test_a_resource_with_an_unmet_dependency_is_stalled(resources: Resources, operator: Operator) -> None:
    resources.apply("needs", {"eligible.leader.replicas.version": 1})
    condition = resources.until("needs", "Stalled", "DependencyMissing")
    assert "requires metadata.version" in condition["message"]
    assert requests_of_a_while(operator) <= FEW


def test_a_resource_waits_for_an_old_live_node_and_is_not_stalled(
    resources: Resources, kafka: Cluster, operator: Operator
) -> None:
    """An old node is live: the resource waits. The node is stopped and stays registered, a ghost: the resource is
    stalled. The node comes back with the new Kafka: the level is raised.

    When it is stopped once more, with nothing left to do, the resource stays ready and only reports it.
    """
    before = feature_records(kafka)
    resources.apply("old", {"metadata.version": 27})
    condition = resources.until("old", "Reconciling", "WaitingForNodes")
    assert "broker 2" in condition["message"]
    assert resources.condition("old", "Stalled") == {}
    assert blockers(resources, "old") == {("NodeRange", 2)}
    assert requests_of_a_while(operator) <= FEW

    kafka.nodes[2].stop()
    condition = resources.until("old", "Stalled", "GhostRegistration")
    assert "kafkafeatures unregister --broker 2 --bootstrap-server " in resources.status("old")["blockers"][0]["remedy"]
    assert ("Warning", "GhostRegistration") in {event[:2] for event in resources.events("old")}

    assert 0 < requests_of_a_while(operator, 12.0) <= FEW
    assert feature_records(kafka) == before

    kafka.nodes[2].start(MIDDLE)
    resources.wait("old", "Ready")
    assert levels(kafka)["metadata.version"] == 27
    assert blockers(resources, "old") == set()

    kafka.nodes[2].stop()
    condition = resources.until("old", "Reachable", "PartiallyConnected")
    assert "broker 2" in condition["message"]
    assert resources.condition("old", "Ready")["status"] == "True"
    kafka.nodes[2].start(MIDDLE)
    resources.until("old", "Reachable", "Connected")


def test_a_resource_with_an_unsupported_level_or_an_unknown_feature_is_stalled(resources: Resources) -> None:
    resources.apply("high", {"metadata.version": 99})
    resources.until("high", "Stalled", "UnsupportedLevel")
    resources.apply("high", {"grup.version": 1})
    condition = resources.until("high", "Stalled", "UnknownFeature")
    assert "grup.version" in condition["message"]


def test_a_resource_is_stalled_while_kafka_refuses_a_broker_and_recovers_after_its_end(
    resources: Resources, kafka: Cluster, operator: Operator
) -> None:
    """The broker is too old for the finalized level, so it tries to register again and again."""
    stranger = kafka.add_broker(9, OLD, start=False)
    stranger.start(wait=False)
    try:
        wait_until("it tries to register", lambda: "UNSUPPORTED_VERSION" in stranger.log)
        resources.apply("refused", {"group.version": 1})
        condition = resources.until("refused", "Stalled", "NodeRefused")
        assert "node 9 fetches the metadata log, but is registered neither" in condition["message"]
        assert requests_of_a_while(operator) <= FEW
    finally:
        stranger.kill()
    resources.wait("refused", "Ready")
