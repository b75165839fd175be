"""The probe of a scripted cluster: nodes are found from any address, and each is asked once on each listener."""

from __future__ import annotations

import time
import tracemalloc
from datetime import UTC, datetime

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import BrokerList, ClusterProbe, Failure, FailureKind, Host, NodeAnswer, Role
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.errors import Disconnected
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.probe.prober import probe_cluster, probe_more
from kafkafeatures.kafka.wire.messages import DescribeClusterRequest, DescribeClusterResponse
from tests.kafkafeatures.kafka.scripted import HANG, Cluster, at, broker, controller, hosts, quorum, standby
from tests.kafkafeatures.kafka.test_directory import BROKERS, CONTROLLERS, settings, whole

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


async def surveyed(cluster: Cluster, config: ClusterSettings) -> ClusterProbe:
    async with cluster.pool(config, environment=Environment(lambda: NOW)) as pool:
        result = await probe_cluster(pool)
    assert cluster.open == 0
    return result


async def test_one_broker_leads_to_every_broker_and_controller() -> None:
    result = await surveyed(whole(), settings(servers=(1,)))
    assert [(n.role, n.id) for n in result.nodes] == [
        *((Role.BROKER, h.id) for h in BROKERS),
        *((Role.CONTROLLER, h.id) for h in CONTROLLERS),
    ]
    assert all(
        isinstance(n.answer, NodeAnswer) and n.answer.finalized == {"metadata.version": 25} for n in result.nodes
    )
    assert {n.at for n in result.nodes} == {NOW}
    assert result.bootstrap_failures == ()


async def test_an_address_that_was_just_contacted_is_not_connected_to_again() -> None:
    cluster = whole()
    await surveyed(cluster, settings(servers=(1,), controllers=(3001,)))
    assert cluster.connects.count(at(1)) == 1
    assert cluster.connects.count(at(3001)) == 1
    assert set(cluster.connects) == set(cluster.nodes)


async def test_a_combined_node_is_asked_on_both_its_listeners() -> None:
    brokers, controllers = (Host(1, "node", 19), Host(2, "node", 29)), (Host(1, "node", 18), Host(2, "node", 28))
    answer = quorum(1, controllers)
    cluster = Cluster(
        {
            at(19): broker(brokers, answer),
            at(29): broker(brokers, answer),
            at(18): controller(controllers, 1, answer),
            at(28): controller(controllers, 1, standby()),
        }
    )
    result = await surveyed(cluster, settings(servers=(19,)))
    assert [(n.role, n.id, n.port) for n in result.nodes] == [
        (Role.BROKER, 1, 19),
        (Role.BROKER, 2, 29),
        (Role.CONTROLLER, 1, 18),
        (Role.CONTROLLER, 2, 28),
    ]


async def test_nodes_that_do_not_answer_are_failures_beside_those_that_do() -> None:
    cluster = whole()
    del cluster.nodes[at(2)]
    cluster.nodes[at(3)].refuses = Disconnected
    cluster.nodes[at(3003)].refuses = HANG
    result = await surveyed(cluster, settings(servers=(1,)))
    kinds = {n.id: n.answer.kind for n in result.nodes if isinstance(n.answer, Failure)}
    assert kinds == {
        2: FailureKind.UNREACHABLE,
        3: FailureKind.DISCONNECTED,
        3003: FailureKind.UNREACHABLE,
    }


async def test_brokers_are_probed_while_the_quorum_does_not_answer() -> None:
    cluster = Cluster({at(h.id): broker(BROKERS, HANG) for h in BROKERS})
    result = await surveyed(cluster, settings(servers=(1,)))
    assert sum(isinstance(n.answer, NodeAnswer) for n in result.nodes) == 3
    assert isinstance(result.quorum, Failure)


async def test_a_failing_bootstrap_address_is_reported_while_another_one_answers() -> None:
    result = await surveyed(whole(), settings(servers=(99, 1)))
    assert [f.location for f in result.bootstrap_failures] == ["node:99"]
    assert isinstance(result.brokers, BrokerList)


async def test_a_bootstrap_address_that_is_a_listed_node_is_not_named_twice() -> None:
    cluster = whole()
    del cluster.nodes[at(2)]
    result = await surveyed(cluster, settings(servers=(2, 1)))
    assert result.bootstrap_failures == ()
    assert [n.id for n in result.nodes if isinstance(n.answer, Failure)] == [2]


async def test_controllers_with_an_unknown_id_are_part_of_the_probe() -> None:
    cluster = whole(named=False)
    for host in CONTROLLERS:
        cluster.nodes[at(host.id)].answers[DescribeClusterRequest] = DescribeClusterResponse(
            35,
            "too low",
            2,
            "",
            -1,
            (),
            1,  # UNSUPPORTED_VERSION: the metadata.version is too low
        )
    result = await surveyed(cluster, settings(controllers=(3001,)))
    assert [(n.id, n.role, n.port) for n in result.nodes] == [(None, Role.CONTROLLER, 3001)]


async def test_a_probe_without_a_reachable_address_has_only_failures() -> None:
    result = await surveyed(Cluster({}), settings(servers=(1,), controllers=(2,)))
    assert result.nodes == ()
    for part in (result.cluster_id, result.brokers, result.controllers, result.quorum):
        assert isinstance(part, Failure)
    assert "node:1" in str(result.cluster_id)
    assert "node:2" in str(result.cluster_id)


async def test_brokers_that_only_the_metadata_log_names_are_probed_once_in_a_second_step() -> None:
    cluster = whole()
    async with cluster.pool(settings(controllers=(3001,))) as pool:
        first = await probe_cluster(pool)
        assert {n.role for n in first.nodes} == {Role.CONTROLLER}
        second = await probe_more(pool, first, Role.BROKER, BROKERS)
        third = await probe_more(pool, second, Role.BROKER, BROKERS)
    assert [n.id for n in second.nodes] == [3001, 3002, 3003, 1, 2, 3]
    assert third == second


async def test_the_caller_is_notified_of_each_node_that_is_found() -> None:
    heard: list[tuple[Role, int]] = []
    async with whole().pool(settings(servers=(1,))) as pool:
        await probe_cluster(pool, report_nodes=lambda role, found: heard.extend((role, h.id) for h in found))
    assert set(heard) == {(Role.BROKER, h.id) for h in BROKERS} | {(Role.CONTROLLER, h.id) for h in CONTROLLERS}


async def test_a_thousand_equal_nodes_share_their_maps_and_few_connections() -> None:
    many = hosts(*range(1, 1001))
    node = broker(many, quorum(1, ()))
    node.apis = {key: VersionRange(0, key) for key in range(1, 90)}
    cluster = Cluster({at(h.id): node for h in many})
    tracemalloc.start()
    try:
        began = time.monotonic()
        result = await surveyed(cluster, settings(servers=(1,), request_timeout=30.0))
        took = time.monotonic() - began
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    answers = [n.answer for n in result.nodes if isinstance(n.answer, NodeAnswer)]
    assert len(answers) == 1000
    assert len({id(a.apis) for a in answers}) == 1
    assert len({id(a.supported) for a in answers}) == 1
    assert cluster.most <= 100 + 32  # connections at once: in use, and kept idle (`Pool`)
    assert took < 5  # seconds
    assert peak < 20_000_000  # bytes
