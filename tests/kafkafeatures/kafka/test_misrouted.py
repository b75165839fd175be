"""Addresses that lead to another broker: from Kafka 4.4 on, a broker refuses requests with the id of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, FailureKind, Host, NodeAnswer, Role
from kafkafeatures.kafka.base.errors import Disconnected, ErrorCode
from kafkafeatures.kafka.base.settings import ClusterSettings, Sasl, Security
from kafkafeatures.kafka.probe.misrouted import MOST_NAMES
from kafkafeatures.kafka.probe.prober import NodeProber, probe_cluster, probe_more
from kafkafeatures.kafka.wire.messages import ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest
from tests.kafkafeatures.kafka.scripted import HANG, Cluster, Node, at, broker, controller, hosts, quorum, standby
from tests.kafkafeatures.kafka.test_directory import BROKERS, CONTROLLERS, settings

CHECKS_NAMES = VersionRange(0, 5)  # versions of ApiVersions: from 5 on the request names the node


def refusing_other_names(node: Node, id_: int, cluster_id: str = "C1") -> Node:
    """Make a node a process with this id, of Kafka 4.4: it refuses requests for every other cluster and node id."""
    node.apis = {**node.apis, 18: CHECKS_NAMES}

    def api_versions(request: ApiVersionsRequest) -> ApiVersionsResponse:
        is_own = request.cluster_id is None or (request.cluster_id, request.node_id) == (cluster_id, id_)
        return node.api_versions if is_own else ApiVersionsResponse(ErrorCode.REBOOTSTRAP_REQUIRED, {})

    node.answers[ApiVersionsRequest] = api_versions
    return node


def cluster_of(*processes: int, listed: tuple[Host, ...] = BROKERS) -> Cluster:
    """A cluster that lists these brokers; `processes` are the ids of the processes at their addresses."""
    answer = quorum(3001, CONTROLLERS)
    at_addresses = zip(listed, processes, strict=True)
    nodes = {at(host.port): refusing_other_names(broker(listed, answer), id_) for host, id_ in at_addresses}
    nodes |= {at(h.id): controller(CONTROLLERS, 3001, answer if h.id == 3001 else standby()) for h in CONTROLLERS}
    for host in CONTROLLERS:
        nodes[at(host.id)].apis = {**nodes[at(host.id)].apis, 18: CHECKS_NAMES}
    return Cluster(nodes)


async def probed(cluster: Cluster, config: ClusterSettings | None = None) -> ClusterProbe:
    async with cluster.pool(config or settings(servers=(1,))) as pool:
        return await probe_cluster(pool)


def failures(probe: ClusterProbe) -> dict[int | None, Failure]:
    return {node.id: node.answer for node in probe.nodes if isinstance(node.answer, Failure)}


def names(node: Node) -> list[tuple[str | None, int]]:
    """The cluster ids and node ids in the requests to a node."""
    return [(one.cluster_id, one.node_id) for one in node.asked if isinstance(one, ApiVersionsRequest)]


async def test_each_broker_is_asked_once_with_the_cluster_and_node_id_it_is_listed_with() -> None:
    cluster = cluster_of(1, 2, 3)
    assert not failures(await probed(cluster))
    assert [names(cluster.nodes[at(id_)]) for id_ in (1, 2, 3)] == [[("C1", 1)], [("C1", 2)], [("C1", 3)]]
    assert cluster.connects.count(at(1)) == 1


async def test_swapped_addresses_of_two_brokers_are_reported_for_both() -> None:
    found = failures(await probed(cluster_of(1, 3, 2)))
    assert {id_: (one.kind, one.message) for id_, one in found.items()} == {
        2: (FailureKind.ANOTHER_NODE, "its address node:2 is that of broker 3 now"),
        3: (FailureKind.ANOTHER_NODE, "its address node:3 is that of broker 2 now"),
    }
    assert "make node:2 lead to it" in found[2].remedy


async def test_the_identity_of_the_bootstrap_broker_is_checked_too() -> None:
    found = failures(await probed(cluster_of(2, 1, 3)))
    assert {id_: one.message for id_, one in found.items()} == {
        1: "its address node:1 is that of broker 2 now",
        2: "its address node:2 is that of broker 1 now",
    }


async def test_one_broker_behind_every_address_is_reported_for_the_other_brokers() -> None:
    found = failures(await probed(cluster_of(2, 2, 2)))
    assert {id_: one.message for id_, one in found.items()} == {
        1: "its address node:1 is that of broker 2 now",
        3: "its address node:3 is that of broker 2 now",
    }


async def test_an_unlisted_broker_at_a_listed_address_is_reported_without_its_id() -> None:
    found = failures(await probed(cluster_of(1, 2, 9)))
    words = "another node answers at its address node:3: it refuses to be broker 3"
    assert {id_: (one.kind, one.message) for id_, one in found.items()} == {3: (FailureKind.ANOTHER_NODE, words)}


async def test_an_address_of_another_cluster_is_reported_with_both_cluster_ids() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.nodes[at(3)] = refusing_other_names(broker(BROKERS, cluster_id="C2"), 3, "C2")
    found = failures(await probed(cluster))
    assert {id_: (one.kind, one.message) for id_, one in found.items()} == {
        3: (FailureKind.WRONG_CLUSTER, "its address node:3 leads to cluster C2, expected C1")
    }


async def test_a_broker_that_refuses_its_identity_is_identified_over_the_same_connection() -> None:
    """Behind a load balancer, another connection could lead to another node."""
    cluster = cluster_of(1, 3, 2)
    await probed(cluster)
    assert cluster.connects.count(at(2)) == 1
    assert len(cluster.nodes[at(2)].asked) == 4  # its name, the cluster, and the names of brokers 1 and 3


@pytest.mark.parametrize("then", [Disconnected, HANG])
async def test_a_refused_identity_counts_if_the_broker_then_disconnects_or_hangs(then: Any) -> None:
    cluster = cluster_of(1, 2, 9)
    cluster.nodes[at(3)].answers[DescribeClusterRequest] = then
    found = failures(await probed(cluster))
    assert {id_: one.kind for id_, one in found.items()} == {3: FailureKind.ANOTHER_NODE}


async def test_brokers_of_an_older_kafka_get_no_additional_request() -> None:
    cluster = cluster_of(1, 3, 2)
    for id_ in (1, 2, 3):
        cluster.nodes[at(id_)].apis = {**cluster.nodes[at(id_)].apis, 18: VersionRange(0, 4)}
    assert not failures(await probed(cluster))
    assert [names(cluster.nodes[at(id_)]) for id_ in (1, 2, 3)] == [[], [], []]


async def test_an_older_broker_among_newer_ones_is_asked_without_its_identity() -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.nodes[at(3)].apis = {**cluster.nodes[at(3)].apis, 18: VersionRange(0, 4)}
    assert not failures(await probed(cluster))
    assert [names(cluster.nodes[at(id_)]) for id_ in (1, 2, 3)] == [[("C1", 1)], [("C1", 2)], []]


async def test_a_newer_broker_is_asked_for_its_identity_once_its_versions_are_known() -> None:
    cluster = cluster_of(1, 3, 2)
    for id_ in (1, 2):
        cluster.nodes[at(id_)].apis = {**cluster.nodes[at(id_)].apis, 18: VersionRange(0, 4)}
    assert failures(await probed(cluster)).keys() == {3}


async def test_the_identity_of_each_broker_is_checked_after_sasl() -> None:
    security = Security(sasl=Sasl("PLAIN", "alice", "secret"))
    found = failures(await probed(cluster_of(1, 3, 2), settings(servers=(1,), security=(security, security))))
    assert {id_: one.message for id_, one in found.items()} == {
        2: "its address node:2 is that of broker 3 now",
        3: "its address node:3 is that of broker 2 now",
    }


async def test_the_identity_of_controllers_is_not_checked() -> None:
    cluster = cluster_of(1, 2, 3)
    await probed(cluster, settings(servers=(1,), controllers=(3001,)))
    assert not any(names(cluster.nodes[at(host.id)]) for host in CONTROLLERS)


async def test_the_identity_of_brokers_is_not_checked_without_a_common_cluster_id() -> None:
    cluster = cluster_of(1, 2, 3)
    for id_ in (1, 2, 3):
        cluster.nodes[at(id_)].answers[DescribeClusterRequest] = broker(BROKERS, cluster_id="").answers[
            DescribeClusterRequest
        ]
    assert not failures(await probed(cluster))
    assert not any(names(cluster.nodes[at(id_)]) for id_ in (1, 2, 3))


async def test_the_identity_of_brokers_is_not_checked_if_the_addresses_belong_to_two_clusters() -> None:
    """The two clusters are reported elsewhere, for the addresses."""
    cluster = cluster_of(1, 2, 3)
    async with cluster.pool(settings(servers=(1,))) as pool:
        prober = NodeProber(pool)
        prober.cluster_ids = {Role.BROKER: {"C1", "C2"}}
        prober.begin(Role.BROKER, BROKERS)
        nodes = await prober.finish()
    assert all(isinstance(node.answer, NodeAnswer) for node in nodes)
    assert not any(names(cluster.nodes[at(id_)]) for id_ in (1, 2, 3))


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR])
async def test_an_unexpected_error_code_proves_no_identity(code: int) -> None:
    cluster = cluster_of(1, 2, 3)
    cluster.nodes[at(3)].answers[ApiVersionsRequest] = ApiVersionsResponse(code, {})
    assert failures(await probed(cluster))[3].kind is FailureKind.REJECTED


async def test_a_misrouted_broker_of_a_large_cluster_is_not_asked_for_every_node_id() -> None:
    many = hosts(*range(1, 61))
    cluster = cluster_of(*range(1, 60), 99, listed=many)
    found = failures(await probed(cluster, settings(servers=(1,), request_timeout=10.0)))
    assert {id_: one.kind for id_, one in found.items()} == {60: FailureKind.ANOTHER_NODE}
    assert len(names(cluster.nodes[at(60)])) == 1 + MOST_NAMES  # asked by its own id, then by so many others


async def test_the_identity_of_brokers_that_only_the_log_names_is_checked() -> None:
    cluster = cluster_of(1, 3, 2)
    async with cluster.pool(settings(controllers=(3001,))) as pool:
        first = await probe_cluster(pool)
        second = await probe_more(pool, first, Role.BROKER, BROKERS)
    assert {id_: one.message for id_, one in failures(second).items()} == {
        2: "its address node:2 is that of broker 3 now",
        3: "its address node:3 is that of broker 2 now",
    }


async def test_an_identity_is_checked_again_if_the_idle_connection_has_died() -> None:
    cluster = cluster_of(1, 2, 3)
    node = cluster.nodes[at(1)]
    answer: Callable[[Any], Any] = node.answers[ApiVersionsRequest]
    died: list[object] = []

    def dies_once(request: ApiVersionsRequest) -> Any:
        if not died:
            died.append(request)
            return Disconnected("gone")
        return answer(request)

    node.answers[ApiVersionsRequest] = dies_once
    found = await probed(cluster)
    assert not failures(found)
    assert all(isinstance(one.answer, NodeAnswer) for one in found.nodes)
    assert cluster.connects.count(at(1)) == 2
