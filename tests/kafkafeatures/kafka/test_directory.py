"""Discovery: from bootstrap addresses to all brokers, all controllers, the quorum and its leader."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import BrokerList, ControllerList, Failure, FailureKind, Host, QuorumAnswer, Role
from kafkafeatures.kafka.base.errors import AuthenticationFailed, Disconnected, ErrorCode
from kafkafeatures.kafka.base.settings import ClusterSettings, Sasl, Security
from kafkafeatures.kafka.probe.directory import Directory, Discovery, hosts_from_registrations
from kafkafeatures.kafka.wire.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    UpdateFeaturesRequest,
)
from kafkafeatures.kafka.wire.topic_messages import MetadataRequest, MetadataResponse
from tests.kafkafeatures.kafka.scripted import (
    BROKER_APIS,
    HANG,
    Cluster,
    Node,
    at,
    broker,
    controller,
    hosts,
    quorum,
    standby,
)

BROKERS = hosts(1, 2, 3)
CONTROLLERS = hosts(3001, 3002, 3003)


def settings(
    servers: tuple[int, ...] = (),
    controllers: tuple[int, ...] = (),
    *,
    security: tuple[Security, Security] = (Security(), Security()),
    request_timeout: float = 0.15,
) -> ClusterSettings:
    """Settings with these bootstrap addresses, given by node id. `security`: for brokers and for controllers."""
    return ClusterSettings(tuple(map(at, servers)), tuple(map(at, controllers)), *security, request_timeout)


def whole(leader: int = 3002, *, named: bool = True) -> Cluster:
    """A cluster of three brokers and three controllers. `named`: its answer about the quorum has the addresses of the
    controllers, as from Kafka 3.9 on.
    """
    answer = quorum(leader, CONTROLLERS, named=named)
    nodes = {at(h.id): broker(BROKERS, answer) for h in BROKERS}
    nodes |= {at(h.id): controller(CONTROLLERS, leader, answer if h.id == leader else standby()) for h in CONTROLLERS}
    return Cluster(nodes)


async def discover(cluster: Cluster, config: ClusterSettings) -> Directory:
    async with cluster.pool(config) as pool, Discovery(pool) as discovery:
        directory = await discovery.run()
    assert cluster.open == 0
    return directory


async def test_brokers_alone_lead_to_the_controllers_and_the_leader() -> None:
    cluster = whole()
    directory = await discover(cluster, settings(servers=(1,)))
    assert directory.cluster_id == "C1"
    assert directory.brokers == BrokerList(BROKERS, lists_fenced=True)
    assert directory.controllers == ControllerList(CONTROLLERS, active=3002)
    assert isinstance(directory.quorum, QuorumAnswer)


async def test_controllers_alone_lead_to_all_controllers_and_the_leader_but_not_to_the_brokers() -> None:
    cluster = whole()
    directory = await discover(cluster, settings(controllers=(3003,)))
    assert directory.controllers == ControllerList(CONTROLLERS, active=3002)
    assert isinstance(directory.quorum, QuorumAnswer)
    assert isinstance(directory.brokers, Failure)
    assert directory.brokers.kind is FailureKind.NOT_ASKED
    assert "metadata log" in directory.brokers.remedy
    assert set(cluster.connects) == {at(3003), at(3002)}


async def test_the_quorum_is_asked_of_the_leader_itself_where_controllers_are_given() -> None:
    cluster = whole()
    await discover(cluster, settings(servers=(1,), controllers=(3001,)))
    askers = {a for a, node in cluster.nodes.items() if any(isinstance(m, DescribeQuorumRequest) for m in node.asked)}
    assert askers == {at(3002)}


async def test_brokers_and_controllers_are_asked_with_their_own_security_settings() -> None:
    cluster = whole()
    security = Security(sasl=Sasl("SCRAM-SHA-256", "b", "x")), Security(sasl=Sasl("SCRAM-SHA-512", "c", "x"))
    await discover(cluster, settings(servers=(1,), controllers=(3001,), security=security))
    assert set(cluster.nodes[at(1)].securities) == {security[0]}
    assert set(cluster.nodes[at(3001)].securities) == {security[1]}
    assert set(cluster.nodes[at(3002)].securities) == {security[1]}


async def test_a_first_address_that_drops_packets_delays_discovery_by_a_tenth_of_a_second() -> None:
    cluster = whole()
    cluster.nodes[at(9)] = Node(BROKER_APIS, refuses=HANG)
    config = settings(servers=(9, 1), request_timeout=5.0)
    began = time.monotonic()
    async with cluster.pool(config) as pool, Discovery(pool) as discovery:
        directory = await discovery.run()
        silent = discovery.bootstrap_failures()
    assert time.monotonic() - began < 1.0
    assert isinstance(directory.brokers, BrokerList)
    assert list(silent) == [at(9)]
    assert "no answer yet" in silent[at(9)].message
    assert not set("0123456789") & set(silent[at(9)].message)  # a time in it would change the status with each reading


async def test_addresses_that_fail_are_skipped_at_once_and_named() -> None:
    cluster = whole()
    cluster.nodes[at(8)] = Node(BROKER_APIS, refuses=AuthenticationFailed)
    async with cluster.pool(settings(servers=(7, 8, 2))) as pool, Discovery(pool) as discovery:
        directory = await discovery.run()
        failures = discovery.bootstrap_failures()
    assert isinstance(directory.brokers, BrokerList)
    assert {a: f.kind for a, f in failures.items()} == {
        at(7): FailureKind.UNREACHABLE,
        at(8): FailureKind.AUTHENTICATION,
    }


async def test_when_no_address_answers_one_failure_names_each_with_its_reason() -> None:
    cluster = Cluster({at(8): Node(BROKER_APIS, refuses=AuthenticationFailed)})
    directory = await discover(cluster, settings(servers=(7, 8)))
    assert isinstance(directory.brokers, Failure)
    assert "node:7" in directory.brokers.message
    assert "node:8" in directory.brokers.message
    assert isinstance(directory.cluster_id, Failure)
    assert directory.cluster_id.message == directory.brokers.message
    assert isinstance(directory.quorum, Failure)


@pytest.mark.parametrize(
    ("config", "part", "words"),
    [
        (
            settings(servers=(3001,)),
            "brokers",
            "is a controller; put it under bootstrapControllers (--bootstrap-controller)",
        ),
        (settings(controllers=(1,)), "controllers", "is a broker; put it under bootstrapServers (--bootstrap-server)"),
    ],
    ids=["controller among the brokers", "broker among the controllers"],
)
async def test_a_bootstrap_address_of_the_wrong_role_is_recognised(
    config: ClusterSettings, part: str, words: str
) -> None:
    failure = getattr(await discover(whole(), config), part)
    assert isinstance(failure, Failure)
    assert str(failure).endswith(words)


async def test_a_bootstrap_address_of_the_wrong_role_does_not_affect_other_addresses() -> None:
    cluster = whole()
    async with cluster.pool(settings(servers=(3001, 1))) as pool, Discovery(pool) as discovery:
        directory = await discovery.run()
        failures = discovery.bootstrap_failures()
    assert isinstance(directory.brokers, BrokerList)
    assert "bootstrapControllers" in str(failures[at(3001)])


async def test_a_broker_that_hangs_without_a_leader_makes_only_the_quorum_unknown() -> None:
    cluster = Cluster({at(1): broker(BROKERS, HANG)})
    directory = await discover(cluster, settings(servers=(1,)))
    assert isinstance(directory.brokers, BrokerList)
    assert isinstance(directory.quorum, Failure)
    assert directory.quorum.kind is FailureKind.TIMED_OUT
    assert "no controller is active" in directory.quorum.message


async def test_a_quorum_without_a_leader_is_reported_without_waiting() -> None:
    cluster = whole(leader=-1)
    directory = await discover(cluster, settings(servers=(1,), controllers=(3001,)))
    assert directory.controllers == ControllerList(CONTROLLERS, active=None)
    assert isinstance(directory.quorum, Failure)
    assert directory.quorum.kind is FailureKind.NO_LEADER
    assert not any(isinstance(m, DescribeQuorumRequest) for node in cluster.nodes.values() for m in node.asked)


async def test_a_controller_that_is_cut_off_does_not_decide_which_controller_is_the_leader() -> None:
    cluster = whole()
    cluster.nodes[at(3001)] = controller(CONTROLLERS, -1)
    directory = await discover(cluster, settings(controllers=(3001,)))
    assert isinstance(directory.quorum, QuorumAnswer)
    assert directory.controllers == ControllerList(CONTROLLERS, active=3002)


async def test_a_quorum_answer_without_a_leader_is_a_failure() -> None:
    directory = await discover(Cluster({at(1): broker(BROKERS, quorum(-1, CONTROLLERS))}), settings(servers=(1,)))
    assert isinstance(directory.quorum, Failure)
    assert directory.quorum.kind is FailureKind.NO_LEADER


def list_of_controllers(nodes: tuple[Host, ...], *, active: int, code: int = 0) -> DescribeClusterResponse:
    """The answer of a controller of cluster C1; `active`: id of the active controller, or -1."""
    return DescribeClusterResponse(code, None, 2, "C1", active, nodes, version=1)


@pytest.mark.parametrize("nodes", [(), CONTROLLERS], ids=["empty list", "error 41"])
async def test_the_list_of_a_controller_that_has_just_started_is_not_used(nodes: tuple[Host, ...]) -> None:
    cluster = whole()
    code = ErrorCode.NOT_CONTROLLER if nodes else ErrorCode.NONE
    answer = list_of_controllers(nodes, active=-1, code=code)
    cluster.nodes[at(3001)].answers[DescribeClusterRequest] = answer
    directory = await discover(cluster, settings(controllers=(3001, 3003)))
    assert directory.controllers == ControllerList(CONTROLLERS, active=3002)


async def test_a_leader_id_0_in_an_error_answer_is_not_taken_for_node_0() -> None:
    cluster = whole()
    cluster.nodes[at(3002)].answers[DescribeQuorumRequest] = standby()  # an error code, and the leader id 0
    directory = await discover(cluster, settings(controllers=(3001,)))
    assert isinstance(directory.quorum, Failure)
    assert directory.quorum.kind is FailureKind.NO_LEADER


async def test_discovery_follows_a_leader_that_moves_meanwhile() -> None:
    cluster = whole()
    cluster.nodes[at(3002)].answers[DescribeQuorumRequest] = standby()
    cluster.nodes[at(3003)].answers[DescribeQuorumRequest] = quorum(3003, CONTROLLERS)
    leaders = iter([3002, 3003])

    def moved(request: DescribeClusterRequest) -> DescribeClusterResponse:
        return list_of_controllers(CONTROLLERS, active=next(leaders))

    cluster.nodes[at(3001)].answers[DescribeClusterRequest] = moved
    directory = await discover(cluster, settings(controllers=(3001,)))
    assert isinstance(directory.quorum, QuorumAnswer)
    assert directory.controllers == ControllerList(CONTROLLERS, active=3003)


async def test_a_broker_is_asked_for_the_quorum_if_the_leader_cannot_be_reached() -> None:
    cluster = whole()
    del cluster.nodes[at(3002)]
    directory = await discover(cluster, settings(servers=(1,), controllers=(3001,)))
    assert isinstance(directory.quorum, QuorumAnswer)
    assert directory.controllers == ControllerList(CONTROLLERS, active=3002)


async def test_every_controller_is_asked_for_the_leader_below_metadata_version_3_7() -> None:
    cluster = whole()
    too_low = DescribeClusterResponse(
        35, "Direct-to-controller communication is not supported with the current MetadataVersion.", 2, "", -1, (), 1
    )
    for host in CONTROLLERS:
        cluster.nodes[at(host.id)].answers[DescribeClusterRequest] = too_low
    directory = await discover(cluster, settings(controllers=(3001, 3002)))
    assert isinstance(directory.controllers, Failure)
    assert "Direct-to-controller" in directory.controllers.message
    assert isinstance(directory.quorum, QuorumAnswer)
    assert directory.controller_hosts() == CONTROLLERS


async def test_before_kafka_3_9_the_leader_is_the_controller_that_answers() -> None:
    cluster = whole(named=False)
    for host in CONTROLLERS:
        cluster.nodes[at(host.id)].apis = {1: VersionRange(0, 1), 18: VersionRange(0, 4), 55: VersionRange(0, 1)}
    directory = await discover(cluster, settings(controllers=(3001, 3002)))
    assert isinstance(directory.controllers, Failure)


async def test_before_kafka_3_9_brokers_do_not_lead_to_controllers() -> None:
    directory = await discover(whole(named=False), settings(servers=(1,)))
    assert isinstance(directory.quorum, QuorumAnswer)
    assert isinstance(directory.controllers, Failure)
    assert "3.9" in directory.controllers.remedy
    assert directory.controller_hosts() == ()


async def test_brokers_in_zookeeper_mode_are_not_asked_for_a_quorum() -> None:
    node = broker(BROKERS)
    node.apis = {key: versions for key, versions in BROKER_APIS.items() if key != 55}
    directory = await discover(Cluster({at(1): node}), settings(servers=(1,)))
    assert isinstance(directory.quorum, Failure)
    assert directory.quorum.kind is FailureKind.UNSUPPORTED


async def test_brokers_without_describe_cluster_are_asked_for_metadata() -> None:
    answers: dict[type, Any] = {MetadataRequest: MetadataResponse("C1", 1, BROKERS)}
    node = Node({3: VersionRange(0, 9), 18: VersionRange(0, 3)}, answers)
    directory = await discover(Cluster({at(1): node}), settings(servers=(1,)))
    assert directory.brokers == BrokerList(BROKERS, lists_fenced=False)
    assert directory.cluster_id == "C1"


async def test_fenced_brokers_are_listed_by_version_2_only() -> None:
    cluster = Cluster({at(1): broker(hosts(1, 4, fenced=(4,)), quorum(3001, ()), version=2)})
    listed = (await discover(cluster, settings(servers=(1,)))).brokers
    assert isinstance(listed, BrokerList)
    assert [h.id for h in listed.brokers if h.is_fenced] == [4]
    cluster = Cluster({at(1): broker(BROKERS, quorum(3001, ()), version=1)})
    assert (await discover(cluster, settings(servers=(1,)))).brokers == BrokerList(BROKERS, lists_fenced=False)


async def test_an_empty_list_of_brokers_from_a_starting_broker_is_not_used() -> None:
    empty = DescribeClusterResponse(0, None, endpoint_type=1, cluster_id="C1", controller_id=-1, nodes=(), version=2)
    young = Node(BROKER_APIS, {DescribeClusterRequest: empty})
    directory = await discover(Cluster({at(1): young}), settings(servers=(1,)))
    assert isinstance(directory.brokers, Failure)
    assert "just started" in directory.brokers.message


async def test_addresses_of_two_clusters_are_an_error() -> None:
    cluster = whole()
    for host in CONTROLLERS:
        cluster.nodes[at(host.id)] = controller(CONTROLLERS, 3002, quorum(3002, CONTROLLERS), cluster_id="C2")
    directory = await discover(cluster, settings(servers=(1,), controllers=(3001,)))
    assert isinstance(directory.cluster_id, Failure)
    assert "2 clusters: brokers: C1; controllers: C2" in directory.cluster_id.message


@pytest.mark.parametrize("named", ["C" * 65, "C\x1b[2J"], ids=["long", "not printable"])
async def test_an_invalid_cluster_id_is_not_used(named: str) -> None:
    """A cluster id is kept in statuses and in memory; a reply may have many megabytes."""
    cluster = whole()
    for host in CONTROLLERS:
        cluster.nodes[at(host.id)] = controller(CONTROLLERS, 3002, quorum(3002, CONTROLLERS), cluster_id=named)
    directory = await discover(cluster, settings(controllers=(3001,)))
    assert isinstance(directory.cluster_id, Failure)
    assert f"names a cluster id of {len(named)} characters" in directory.cluster_id.message


async def test_a_missing_right_makes_the_quorum_unknown_and_is_named() -> None:
    denied = replace(quorum(3001, ()), error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    cluster = Cluster({at(1): broker(BROKERS, denied)})
    directory = await discover(cluster, settings(servers=(1,)))
    assert isinstance(directory.quorum, Failure)
    assert directory.quorum.kind is FailureKind.AUTHORIZATION
    assert "DESCRIBE on the cluster" in directory.quorum.message


async def test_a_broker_that_disconnects_when_asked_for_the_quorum_makes_it_unknown() -> None:
    cluster = Cluster({at(1): broker(BROKERS, Disconnected)})
    directory = await discover(cluster, settings(servers=(1,)))
    assert isinstance(directory.quorum, Failure)
    assert (
        directory.quorum.kind is FailureKind.UNREACHABLE
    )  # of brokers 2 and 3, which do not run: they were tried last


async def test_discovery_sends_no_request_that_changes_a_cluster() -> None:
    cluster = whole()
    await discover(cluster, settings(servers=(1, 2), controllers=(3001, 3002)))
    assert not any(isinstance(m, UpdateFeaturesRequest) for node in cluster.nodes.values() for m in node.asked)


class _Endpoint:
    """`protocol`: 0 is PLAINTEXT, 3 is SASL_SSL."""

    def __init__(self, protocol: int, port: int) -> None:
        self.name, self.host, self.port, self.security_protocol = "L", "node", port, protocol


class _Registration:
    def __init__(self, endpoints: list[_Endpoint], *, fenced: bool = False) -> None:
        self.endpoints, self.fenced = endpoints, fenced


class _Image:
    brokers = MappingProxyType(
        {
            2: _Registration([_Endpoint(0, 19), _Endpoint(3, 29)], fenced=True),
            1: _Registration([_Endpoint(3, 11)]),
            3: _Registration([_Endpoint(0, 12)]),
        }
    )
    controllers = MappingProxyType({7: _Registration([_Endpoint(3, 71)])})


def test_registrations_name_the_listener_with_the_configured_security_protocol() -> None:
    image: Any = _Image()
    assert hosts_from_registrations(image, Role.BROKER, "SASL_SSL") == (
        Host(1, "node", 11),
        Host(2, "node", 29, is_fenced=True),
    )
    assert hosts_from_registrations(image, Role.CONTROLLER, "SASL_SSL") == (Host(7, "node", 71),)
    assert hosts_from_registrations(image, Role.BROKER, "SSL") == ()
