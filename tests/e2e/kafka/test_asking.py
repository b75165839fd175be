"""Real nodes are found and probed from brokers and from controllers, and levels are raised through either."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import Applied, DryRunAccepted, DryRunRejected, OutcomeUnknown, Rejected
from kafkafeatures.core.facts.readings import (
    BrokerList,
    ClusterProbe,
    ControllerList,
    Failure,
    FailureKind,
    NodeAnswer,
    QuorumAnswer,
    Role,
)
from kafkafeatures.core.facts.settings import SNAPSHOT_INTERVAL, SettingSource
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from kafkafeatures.kafka.probe.identities import Identities
from kafkafeatures.kafka.probe.prober import probe_cluster, probe_node
from kafkafeatures.kafka.requests.features import AddressRoute, route, validate
from tests.e2e.kafka.wire import update_feature
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.releases import NEWEST, OLD

BROKERS, CONTROLLERS = {1, 2, 3}, {3001, 3002, 3003}


@pytest.fixture
def cluster(six: Cluster) -> Cluster:
    return six


def settings(
    cluster: Cluster, *, servers: bool = True, controllers: bool = True, timeout: float = 10.0
) -> ClusterSettings:
    return ClusterSettings(
        bootstrap_servers=parse_addresses(cluster.bootstrap_servers, "") if servers else (),
        bootstrap_controllers=parse_addresses(cluster.bootstrap_controllers, "") if controllers else (),
        request_timeout=timeout,
    )


async def probed(config: ClusterSettings) -> tuple[ClusterProbe, float]:
    """A probe of the cluster, and how many seconds it took."""
    began = time.monotonic()
    async with Pool(config, environment=SYSTEM) as pool:
        result = await probe_cluster(pool)
    return result, time.monotonic() - began


def answering(result: ClusterProbe, role: Role) -> set[int | None]:
    """The ids of the nodes that answered in this role."""
    return {n.id for n in result.nodes if n.role is role and isinstance(n.answer, NodeAnswer)}


# --- a healthy cluster ---


async def test_every_node_proves_its_id_and_no_node_proves_another_id(cluster: Cluster) -> None:
    async with Client(settings(cluster), environment=SYSTEM) as client:
        first = (await client.read(partitions=True)).probe
    assert {(one.role, one.id, one.proved_at) for one in first.nodes} == {
        *((Role.BROKER, id_, "127.0.0.1") for id_ in BROKERS),
        *((Role.CONTROLLER, id_, "127.0.0.1") for id_ in CONTROLLERS),
    }
    of_another = replace(first, nodes=tuple(replace(one, id=(one.id or 0) + 1) for one in first.nodes))
    async with Pool(settings(cluster), environment=SYSTEM) as pool:
        unproved = await Identities(pool).prove(
            of_another, Failure(FailureKind.NOT_ASKED, "", ""), frozenset({"node.id"})
        )
    assert {one.proved_at for one in unproved.nodes} == {""}


async def test_every_node_reports_its_own_settings_and_their_sources(cluster: Cluster) -> None:
    names = frozenset({"node.id", "min.insync.replicas", SNAPSHOT_INTERVAL, "ssl.keystore.password", "no.such.setting"})
    async with Client(settings(cluster), environment=SYSTEM) as client:
        nodes = (await client.read(settings=names)).probe.nodes
    assert {one.role for one in nodes} == set(Role)
    for one in nodes:
        assert one.settings.keys() == names - {"no.such.setting"}
        number, password = one.settings["node.id"], one.settings["ssl.keystore.password"]
        assert (number.source, number.value, number.is_read_only) == (SettingSource.FILE, str(one.id), True)
        assert (password.source, password.value, password.is_secret) == (SettingSource.DEFAULT, None, True)
        assert one.settings[SNAPSHOT_INTERVAL].is_read_only
        assert not one.settings["min.insync.replicas"].is_read_only
        assert one.settings["min.insync.replicas"].without_requests == "1"


@pytest.mark.parametrize("given", ["brokers", "one broker", "both"])
async def test_every_node_is_probed_where_only_brokers_are_named(cluster: Cluster, given: str) -> None:
    config = settings(cluster, controllers=given == "both")
    if given == "one broker":
        config = replace(config, bootstrap_servers=config.bootstrap_servers[:1])
    result, took = await probed(config)
    print(f"{cluster.version} {given}: {took:.3f} s")
    assert result.cluster_id == cluster.cluster_id
    assert answering(result, Role.BROKER) == BROKERS
    assert answering(result, Role.CONTROLLER) == CONTROLLERS
    assert isinstance(result.brokers, BrokerList)
    assert result.brokers.lists_fenced == (cluster.version != OLD)
    assert isinstance(result.controllers, ControllerList)
    assert isinstance(result.quorum, QuorumAnswer)
    assert result.quorum.leader_id == result.controllers.active == cluster.leader()
    assert {v.id for v in result.quorum.voters} == CONTROLLERS
    assert {o.id for o in result.quorum.observers} == BROKERS
    assert all(isinstance(n.answer, NodeAnswer) and n.answer.complete for n in result.nodes)
    assert result.bootstrap_failures == ()
    assert took < 3


async def test_every_controller_is_probed_where_one_controller_is_named(cluster: Cluster) -> None:
    config = settings(cluster, servers=False)
    for address in config.bootstrap_controllers:
        result, _ = await probed(replace(config, bootstrap_controllers=(address,)))
        assert result.cluster_id == cluster.cluster_id
        assert answering(result, Role.CONTROLLER) == CONTROLLERS
        assert answering(result, Role.BROKER) == set()
        assert isinstance(result.quorum, QuorumAnswer)
        assert isinstance(result.brokers, Failure)
        assert result.brokers.kind is FailureKind.NOT_ASKED


async def test_addresses_under_the_wrong_kind_are_reported(cluster: Cluster) -> None:
    right = settings(cluster)
    result, _ = await probed(
        replace(right, bootstrap_servers=right.bootstrap_controllers, bootstrap_controllers=right.bootstrap_servers)
    )
    assert isinstance(result.brokers, Failure)
    assert "is a controller; put it under bootstrapControllers" in str(result.brokers)
    assert isinstance(result.controllers, Failure)
    assert "is a broker; put it under bootstrapServers" in str(result.controllers)


# --- levels ---


def levels_of(result: ClusterProbe) -> tuple[NodeAnswer, int]:
    assert isinstance(result.quorum, QuorumAnswer)
    leader = result.quorum.leader_id
    (answer,) = [n.answer for n in result.nodes if n.id == leader and n.role is Role.CONTROLLER]
    assert isinstance(answer, NodeAnswer)
    return answer, leader


async def test_a_level_no_node_has_is_refused_by_name(cluster: Cluster) -> None:
    async with Pool(settings(cluster), environment=SYSTEM) as pool:
        result = await probe_cluster(pool)
        answer, leader = levels_of(result)
        change = UpdateFeature("metadata.version", answer.finalized["metadata.version"], 999)
        verdict = await validate(pool, route(result), (change,))
        assert isinstance(verdict, DryRunRejected)
        rejected = await update_feature(pool, route(result), change)
        assert rejected == Rejected(verdict.code, verdict.message)
        assert verdict.code == 95
        assert "Invalid update version 999 for feature metadata.version" in verdict.message
        known = answer.supported["metadata.version"]
        assert f"Local controller {leader} only supports versions {known.min}-{known.max}" in verdict.message


async def test_a_standby_refuses_and_the_outcome_is_unknown(cluster: Cluster) -> None:
    async with Pool(settings(cluster), environment=SYSTEM) as pool:
        result = await probe_cluster(pool)
        answer, leader = levels_of(result)
        standby = next(n for n in result.nodes if n.role is Role.CONTROLLER and n.id != leader)
        level = answer.finalized["metadata.version"]
        outcome = await update_feature(
            pool, AddressRoute(Address(standby.host, standby.port)), UpdateFeature("metadata.version", level, level)
        )
        assert isinstance(outcome, OutcomeUnknown)
        assert f"node {leader}" in outcome.reason


@pytest.mark.parametrize("through", ["a broker", "the controller"])
async def test_a_level_is_validated_raised_and_read_back_everywhere(cluster: Cluster, through: str) -> None:
    async with Pool(settings(cluster), environment=SYSTEM) as pool:
        result = await probe_cluster(pool)
        answer, _ = levels_of(result)
        way = route(result)
        assert way.controller is not None
        if through == "a broker":
            way = replace(way, controller=None)
        before = answer.finalized["metadata.version"]
        # There are two levels to raise: one for each parameter.
        change = UpdateFeature("metadata.version", before, before + 1)
        assert change.to_level in answer.supported["metadata.version"]
        assert await validate(pool, way, (change,)) == DryRunAccepted()
        no_change = replace(change, to_level=before)
        assert await validate(pool, way, (no_change,)) == DryRunAccepted()
        of_a_broker = await probe_node(pool, *_address_of(result, Role.BROKER))
        assert isinstance(of_a_broker, NodeAnswer)
        assert of_a_broker.finalized == answer.finalized
        assert await update_feature(pool, way, change) == Applied()
        for node in result.nodes:
            await _wait_for_level(pool, Address(node.host, node.port), node.role, change)


def _address_of(result: ClusterProbe, role: Role) -> tuple[Address, Role]:
    node = next(n for n in result.nodes if n.role is role)
    return Address(node.host, node.port), role


async def _wait_for_level(pool: Pool, address: Address, role: Role, change: UpdateFeature) -> None:
    deadline = time.monotonic() + 10
    answer: Any = None
    while time.monotonic() < deadline:
        answer = await probe_node(pool, address, role)
        if not isinstance(answer, Failure) and answer.finalized[change.feature] == change.to_level:
            return
    raise AssertionError(f"{address} shows {answer}")


# --- combined ---


@pytest.mark.parametrize("through", ["brokers", "controllers"])
async def test_describe_quorum_shows_whether_a_majority_follows_the_leader(cluster: Cluster, through: str) -> None:
    """Without the right to read the metadata log, only this shows that the leader was cut off from its followers."""
    config = settings(cluster, servers=through == "brokers", controllers=through == "controllers", timeout=2.0)

    async def followed() -> bool:
        result, _ = await probed(config)
        return isinstance(result.quorum, QuorumAnswer) and result.quorum.has_majority

    assert all([await followed() for _ in range(20)])
    leader = cluster.leader()
    standbys = [node for node in cluster.controllers if node.id != leader]
    for node in standbys:
        node.freeze()
    began = time.monotonic()
    try:
        while await followed():
            assert time.monotonic() - began < 10
        print(f"{cluster.version} {through}: seen after {time.monotonic() - began:.1f} s")
        assert not any([await followed() for _ in range(3)])
    finally:
        for node in standbys:
            node.thaw()
    while not await followed():
        assert time.monotonic() - began < 90


async def test_combined_nodes_of_a_dynamic_quorum_are_probed_on_both_listeners(combined: Cluster) -> None:
    result, took = await probed(settings(combined, controllers=False))
    print(f"{NEWEST} combined: {took:.3f} s")
    assert answering(result, Role.BROKER) == {1, 2, 3}
    assert answering(result, Role.CONTROLLER) == {1, 2, 3}
    assert len({(n.host, n.port) for n in result.nodes}) == 6
    from_controllers, _ = await probed(settings(combined, servers=False))
    assert answering(from_controllers, Role.CONTROLLER) == {1, 2, 3}
