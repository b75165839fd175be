"""Processes that name themselves, read by the adapter: roles that were given up, and an id behind another name."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.report.reach import headline
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkasim.ports import SimulatedCluster
from kafkasim.world import World
from tests.kafkasim.clusters import START_MS, plan, served, settle

OLD_BROKERS = tuple((Role.BROKER, id_, "4.1") for id_ in (3001, 3002, 3003))


def read(world: World) -> Observation:
    return observe(*asyncio.run(SimulatedCluster(world).read()))


def states(seen: Observation) -> list[tuple[int, list[str], NodeState]]:
    return [(node.id, [role.value for role in node.roles], node.state) for node in seen.nodes]


def test_controllers_that_once_were_combined_leave_ghosts_of_brokers() -> None:
    for release in ("4.1", "4.2"):
        ghosts = tuple((Role.BROKER, id_, release) for id_ in (3001, 3002, 3003))
        seen = read(settle(World(plan(ghosts=ghosts), now_ms=START_MS, random=Random(0))))
        found = states(seen)
        assert [one for one in found if one[0] > 3000] == [
            *((id_, ["Controller"], NodeState.LIVE) for id_ in (3001, 3002, 3003)),
            *((id_, ["Broker"], NodeState.GHOST) for id_ in (3001, 3002, 3003)),
        ]
        assert not seen.gaps


def test_a_combined_node_is_one_node_also_while_its_broker_is_fenced() -> None:
    world = settle(World(plan(brokers={1: "4.2", 3001: "4.2"}), now_ms=START_MS, random=Random(0)))
    world.stop(Role.BROKER, 3001)
    for _ in range(30):
        settle(world, 1000)
    seen = read(world)
    assert [one for one in states(seen) if one[0] == 3001] == [(3001, ["Controller", "Broker"], NodeState.FENCED)]


def test_a_broker_with_a_new_id_has_the_address_of_the_old_one() -> None:
    made = plan(brokers={1: "4.2", 13: "4.2"}, ghosts=((Role.BROKER, 3, "4.1"),))
    at = "127.0.0.1", 12_345
    made = replace(made, addresses={(Role.BROKER, 3): at, (Role.BROKER, 13): at})
    world = settle(World(made, now_ms=START_MS, random=Random(0)))
    seen = read(world)
    assert [one for one in states(seen) if one[1] == ["Broker"]] == [
        (1, ["Broker"], NodeState.LIVE), (3, ["Broker"], NodeState.GHOST), (13, ["Broker"], NodeState.LIVE)
    ]  # fmt: skip


# --- two quorums with one cluster id ---


async def read_over_both(brokers: tuple[int, ...], controllers: tuple[int, ...]) -> Observation:
    """The picture of a client that was given addresses of cluster 0, of cluster 1, or of both."""
    async with served(plan()) as one, served(plan(), seed=1) as other:
        worlds = one.world, other.world

        def addresses(role: Role, of: tuple[int, ...]) -> tuple[Address, ...]:
            return tuple(Address(node.host, node.port) for number in of for node in worlds[number].of_role(role)[:1])

        settings = ClusterSettings(
            bootstrap_servers=addresses(Role.BROKER, brokers),
            bootstrap_controllers=addresses(Role.CONTROLLER, controllers),
            request_timeout=5.0,
        )
        async with Cluster(settings, environment=Environment()) as cluster:
            return observe(*await cluster.read())


@pytest.mark.parametrize(("brokers", "controllers"), [((0,), (1,)), ((0, 1), ()), ((), (0, 1))])
def test_two_quorums_with_one_cluster_id_are_named_and_nothing_counts_as_one_cluster(
    brokers: tuple[int, ...], controllers: tuple[int, ...]
) -> None:
    seen = asyncio.run(read_over_both(brokers, controllers))
    assert isinstance(seen.cluster_id, Unknown)
    assert seen.cluster_id.why.kind is FailureKind.WRONG_CLUSTER
    assert seen.cluster_id.why.message.count("(voters 3001, 3002, 3003, epoch ") == 2
    level = seen.level_of(METADATA_VERSION)
    assert level is not None
    assert "while the addresses lead to two clusters" in headline(seen, level + 1, ())[0]


@pytest.mark.parametrize(("brokers", "controllers"), [((0,), (0,)), ((0, 0), ()), ((), (0,))])
def test_addresses_of_one_quorum_are_of_one_cluster(brokers: tuple[int, ...], controllers: tuple[int, ...]) -> None:
    seen = asyncio.run(read_over_both(brokers, controllers))
    assert isinstance(seen.cluster_id, Known)
