"""Real nodes that are gone: all others answer in time, and each missing node is a failure.

The cluster is not healed afterwards, so this is the last file that uses it.
"""

from __future__ import annotations

from kafkafeatures.core.facts.readings import BrokerList, ControllerList, Failure, FailureKind, Role
from kafkafeatures.kafka.requests.features import route
from tests.e2e.kafka.test_asking import CONTROLLERS, answering, probed, settings
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import OLD


async def test_stopped_and_frozen_nodes_are_failures_and_the_time_of_a_probe_is_bounded(six: Cluster) -> None:
    cluster = six
    cluster.nodes[2].stop()
    leader = cluster.leader()
    standby = next(id_ for id_ in sorted(CONTROLLERS) if id_ != leader)
    cluster.nodes[standby].kill()

    result, took = await probed(settings(cluster, timeout=5.0))
    print(f"{cluster.version} a broker and a controller stopped: {took:.3f} s")
    assert answering(result, Role.BROKER) == {1, 3}
    assert answering(result, Role.CONTROLLER) == CONTROLLERS - {standby}
    gone = {(n.role, n.id): n.answer.kind for n in result.nodes if isinstance(n.answer, Failure)}
    expected = {(Role.CONTROLLER, standby): FailureKind.NOT_LISTENING}
    if cluster.version != OLD:  # a stopped broker is fenced, and listed only by DescribeCluster v2
        expected[Role.BROKER, 2] = FailureKind.NOT_LISTENING
        assert isinstance(result.brokers, BrokerList)
        assert [h.id for h in result.brokers.brokers if h.is_fenced] == [2]
    else:
        gone.pop((Role.BROKER, 2), None)  # older lists drop it, but not at once
    assert gone == expected
    assert took < 3

    # A frozen broker accepts connections and never answers.
    cluster.nodes[3].freeze()
    result, took = await probed(settings(cluster, timeout=1.5))
    print(f"{cluster.version} a broker frozen, 1.5 s of patience: {took:.3f} s")
    cluster.nodes[3].thaw()
    assert 1 in answering(result, Role.BROKER)
    assert took < 5

    # Two of three controllers are gone. The last one may still name the dead leader, so the quorum decides.
    leader = cluster.leader()
    cluster.nodes[leader].kill()
    (last,) = CONTROLLERS - {standby, leader}
    result, took = await probed(settings(cluster, timeout=3.0))
    print(f"{cluster.version} no leader: {took:.3f} s")
    assert answering(result, Role.CONTROLLER) == {last}
    assert isinstance(result.controllers, ControllerList)
    assert result.controllers.active in (None, leader)
    assert isinstance(result.quorum, Failure)
    assert took < 7
    way = route(result)
    assert way.closed is not None
    assert way.stops() == ()

    result, took = await probed(settings(cluster, controllers=False, timeout=3.0))
    print(f"{cluster.version} no leader, from brokers: {took:.3f} s")
    assert isinstance(result.quorum, Failure)
    assert 1 in answering(result, Role.BROKER)
    assert took < 8
