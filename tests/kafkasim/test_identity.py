"""The adapter reads processes that report their own node id: ids without a process, and addresses of another node."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import FailureKind, Role
from kafkafeatures.core.report.reach import headline
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.probe.prober import probe_cluster
from kafkasim.connection import Access, Network
from kafkasim.node import Node
from kafkasim.ports import SimulatedCluster
from kafkasim.world import World
from tests.kafkasim.clusters import START_MS, plan, served, settle


def read(world: World) -> Observation:
    return observe(*asyncio.run(SimulatedCluster(world).read()))


def states(observation: Observation) -> list[tuple[int, list[str], NodeState]]:
    return [(node.id, [role.value for role in node.roles], node.state) for node in observation.nodes]


def test_controllers_that_were_combined_nodes_leave_ghost_brokers() -> None:
    for release in ("4.1", "4.2"):
        ghosts = tuple((Role.BROKER, id_, release) for id_ in (3001, 3002, 3003))
        observation = read(settle(World(plan(ghosts=ghosts), now_ms=START_MS, random=Random(0))))
        found = states(observation)
        assert [one for one in found if one[0] > 3000] == [
            *((id_, ["Controller"], NodeState.LIVE) for id_ in (3001, 3002, 3003)),
            *((id_, ["Broker"], NodeState.GHOST) for id_ in (3001, 3002, 3003)),
        ]
        assert not observation.gaps


def test_a_combined_node_with_a_fenced_broker_is_still_one_node() -> None:
    world = settle(World(plan(brokers={1: "4.2", 3001: "4.2"}), now_ms=START_MS, random=Random(0)))
    world.stop(Role.BROKER, 3001)
    for _ in range(30):  # seconds, until its session is over
        settle(world, 1000)
    observation = read(world)
    (combined,) = (state for state in states(observation) if state[0] == 3001)
    assert combined == (3001, ["Controller", "Broker"], NodeState.FENCED)


def test_of_two_brokers_with_one_address_the_one_that_does_not_run_is_a_ghost() -> None:
    made = plan(brokers={1: "4.2", 13: "4.2"}, ghosts=((Role.BROKER, 3, "4.1"),))
    at = "127.0.0.1", 12_345
    made = replace(made, addresses={(Role.BROKER, 3): at, (Role.BROKER, 13): at})
    world = settle(World(made, now_ms=START_MS, random=Random(0)))
    observation = read(world)
    assert [one for one in states(observation) if one[1] == ["Broker"]] == [
        (1, ["Broker"], NodeState.LIVE), (3, ["Broker"], NodeState.GHOST), (13, ["Broker"], NodeState.LIVE)
    ]  # fmt: skip


# --- two quorums with one cluster id ---


class Misrouted(Network):
    """A network in which the addresses of two brokers lead to each other, or that of the first to the second."""

    def __init__(self, world: World, first: int, second: int, *, both: bool = True, log: bool = True) -> None:
        super().__init__(world, Access(cluster_action=log))
        here, there = (world.nodes[Role.BROKER, id_] for id_ in (first, second))
        self._led = {Address(here.host, here.port): there}
        if both:
            self._led[Address(there.host, there.port)] = here

    def node_at(self, address: Address) -> Node | None:
        return self._led.get(address) or super().node_at(address)


def read_by(network: Network) -> Observation:
    async def read_all() -> Observation:
        async with Cluster(network.settings, environment=network.environment, connect=network.connect) as cluster:
            return observe(*await cluster.read())

    return asyncio.run(read_all())


def of_release(release: str, *others: int) -> World:
    brokers, controllers = dict.fromkeys((1, 2, 3, *others), release), dict.fromkeys((3001, 3002, 3003), release)
    return settle(World(plan(brokers, controllers, metadata_version=25), now_ms=START_MS, random=Random(0)))


def reasons(observation: Observation) -> dict[int, str]:
    """The kind and the end of the message of each broker's failure, for brokers without an answer of their own."""
    found = {node.id: node.answer.failure for node in observation.nodes if isinstance(node.answer, Unknown)}
    return {id_: f"{failure.kind}: {failure.message.split(' is that of ')[-1]}" for id_, failure in found.items()}


@pytest.mark.parametrize("log", [True, False], ids=["with log", "without log"])
def test_swapped_addresses_of_brokers_are_detected_from_kafka_4_4_on(log: bool) -> None:
    observation = read_by(Misrouted(of_release("4.4"), 1, 3, log=log))
    assert reasons(observation) == {1: "AnotherNode: broker 3 now", 3: "AnotherNode: broker 1 now"}
    assert {node.id: node.state for node in observation.nodes if node.id < 4} == {
        1: NodeState.UNREACHABLE, 2: NodeState.LIVE, 3: NodeState.UNREACHABLE
    }  # fmt: skip
    assert not reasons(read_by(Misrouted(of_release("4.3"), 1, 3, log=log)))


def test_a_broker_whose_address_leads_to_another_broker_is_reported() -> None:
    assert reasons(read_by(Misrouted(of_release("4.4"), 2, 3, both=False))) == {2: "AnotherNode: broker 3 now"}


def test_a_fenced_broker_whose_address_leads_to_another_broker_does_not_run() -> None:
    world = of_release("4.4")
    world.stop(Role.BROKER, 2)
    for _ in range(30):
        settle(world, 1000)
    observation = read_by(Misrouted(world, 2, 3, both=False))
    assert reasons(observation) == {2: "AnotherNode: broker 3 now"}
    assert {node.id: node.state for node in observation.nodes if node.id < 4}[2] is NodeState.GHOST


def test_a_combined_node_whose_broker_address_leads_elsewhere_answers_as_a_controller() -> None:
    observation = read_by(Misrouted(of_release("4.4", 3001), 3001, 1, both=False))
    (combined,) = (node for node in observation.nodes if node.id == 3001)
    assert (combined.roles, combined.state) == ((Role.CONTROLLER, Role.BROKER), NodeState.LIVE)


def test_two_fenced_brokers_at_one_address_are_distinguished_without_the_log() -> None:
    at = "127.0.0.1", 12_345
    made = plan({1: "4.4", 13: "4.4"}, dict.fromkeys((3001, 3002, 3003), "4.4"), ghosts=((Role.BROKER, 3, "4.4"),))
    made = replace(made, addresses={(Role.BROKER, 3): at, (Role.BROKER, 13): at})
    world = settle(World(made, now_ms=START_MS, random=Random(0)))
    observation = read_by(Network(world, Access(cluster_action=False)))
    assert reasons(observation) == {3: "AnotherNode: broker 13 now"}


class Counted:
    """Counts the requests of each API, in frames that leave."""

    def __init__(self) -> None:
        self.apis: Counter[int] = Counter()

    def sent(self, address: Address, frame: bytes) -> None:
        self.apis[int.from_bytes(frame[4:6], "big")] += 1

    def received(self, address: Address, frame: bytes) -> None:
        """Ignore answers: only requests are counted."""


async def requests_of(release: str) -> Counter[int]:
    """The number of requests for one probe of five brokers."""
    made = plan(dict.fromkeys(range(1, 6), release), dict.fromkeys((3001, 3002, 3003), release), metadata_version=25)
    async with served(made) as server:
        broker, counted = server.world.nodes[Role.BROKER, 1], Counted()
        settings = ClusterSettings(bootstrap_servers=(Address(broker.host, broker.port),), request_timeout=5.0)
        async with Pool(settings, recorder=counted, environment=Environment()) as pool:
            await probe_cluster(pool)
        return counted.apis


async def test_asking_brokers_by_name_takes_one_more_request_in_total() -> None:
    with_names, without = await requests_of("4.4"), await requests_of("4.3")
    assert with_names - without == Counter({18: 1})  # the broker that lists the others was connected to without a name


async def read_over_both(brokers: tuple[int, ...], controllers: tuple[int, ...]) -> Observation:
    """The reading of a client whose bootstrap addresses are in cluster 0, in cluster 1, or in both."""
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


@pytest.mark.parametrize(
    ("brokers", "controllers"),
    [((0,), (1,)), ((0, 1), ()), ((), (0, 1))],
    ids=["brokers and controllers", "only brokers", "only controllers"],
)
def test_two_quorums_with_the_same_cluster_id_make_the_cluster_id_unknown(
    brokers: tuple[int, ...], controllers: tuple[int, ...]
) -> None:
    observation = asyncio.run(read_over_both(brokers, controllers))
    assert isinstance(observation.cluster_id, Unknown)
    assert observation.cluster_id.failure.kind is FailureKind.WRONG_CLUSTER
    assert observation.cluster_id.failure.message.count("(voters 3001, 3002, 3003, epoch ") == 2
    level = observation.level_of(METADATA_VERSION)
    assert level is not None
    assert "while the addresses lead to two clusters" in headline(observation, level + 1, ())[0]


@pytest.mark.parametrize(
    ("brokers", "controllers"),
    [((0,), (0,)), ((0, 0), ()), ((), (0,))],
    ids=["brokers and controllers", "only brokers", "only controllers"],
)
def test_addresses_of_one_quorum_give_a_known_cluster_id(
    brokers: tuple[int, ...], controllers: tuple[int, ...]
) -> None:
    observation = asyncio.run(read_over_both(brokers, controllers))
    assert isinstance(observation.cluster_id, Known)
