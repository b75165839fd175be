"""The simulated ports give the same observation as the real adapter that reads a simulated server.

Two worlds of the same plan and seed have the same history: one is read by the real adapter over TCP, the other by the
simulated ports. The observations are equal except for times, offsets, the texts of failures, and the number of
addresses that were tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation, SourceKind, Unknown
from kafkafeatures.core.facts.observe import ClusterUnreachable, observe
from kafkafeatures.core.facts.past import LastRegistration, PastLevels, Returns
from kafkafeatures.core.facts.readings import (
    NO_CONNECTION,
    Failure,
    FailureKind,
    LogReading,
    NodeAnswer,
    QuorumAnswer,
    Readings,
    Role,
)
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address, ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkasim.connection import Access
from kafkasim.ledger import COMMIT_MS
from kafkasim.plan import Plan, TopicPlan
from kafkasim.ports import CALL_MS, SimulatedCluster
from kafkasim.quorum import ELECTION_MS
from kafkasim.releases import release_named
from kafkasim.rules import FeatureUpdate, UpgradeType
from kafkasim.wire.server import Ports, SimulatorServer
from kafkasim.world import World
from tests.amounts import SOAK, some
from tests.kafkasim.clusters import START_MS, plan

SEEDS, AT_ONCE = 600 if SOAK else 12, 4
TIMEOUT_MS = 1_500

Event = Callable[[World], object]

BOTH = Access(request_timeout_ms=TIMEOUT_MS)
ACCESSES = (
    BOTH,
    replace(BOTH, controllers=False),
    replace(BOTH, brokers=False),
    replace(BOTH, reaches_controllers=False),
    replace(BOTH, reaches_controllers=False, controllers=False),
)


# --- events of both worlds ---


def after(ms: int) -> Event:
    return lambda world: world.advance(world.now_ms + ms)


def stop(*ids: int, kill: bool = True) -> Event:
    def do(world: World) -> None:
        for one in ids:
            world.stop(Role.CONTROLLER if one >= 3000 else Role.BROKER, one, kill=kill)

    return do


def start(*ids: int, release: str | None = None) -> Event:
    def do(world: World) -> None:
        for one in ids:
            world.start(
                Role.CONTROLLER if one >= 3000 else Role.BROKER, one, release_named(release) if release else None
            )

    return do


def finalize(feature: str, level: int) -> Event:
    def do(world: World) -> None:
        if world.active_node is not None:
            world.update_features(world.active_node, [FeatureUpdate(feature, level)], validate_only=False)

    return do


def calm(world: World) -> None:
    """Advance until nothing but NoOps happens within 1.5 s, so that no event falls into a reading over TCP.

    20 steps are enough: only brokers that are refused try again for ever, without an effect.
    """
    for _ in range(20):
        if world._due and world._due[0][0] < world.now_ms + 1_500:
            world.advance(world._due[0][0] + COMMIT_MS + 1)


def deny(world: World) -> None:
    world.grants_cluster_action = False


OLD = plan({1: "3.9", 2: "3.9"}, {3001: "3.9", 3002: "3.9", 3003: "3.9"}, metadata_version=17)
OLDEST = plan({1: "3.9", 2: "3.9"}, {3001: "3.9", 3002: "3.9", 3003: "3.9"}, metadata_version=14)
MIXED = plan({1: "4.2", 2: "4.0", 3: "4.2"}, metadata_version=25)
GHOSTS = plan(metadata_version=25, ghosts=((Role.BROKER, 7, "4.0"), (Role.CONTROLLER, 3009, "4.0")), group_version=1)
DYNAMIC = plan(metadata_version=29, kraft_version=1, share_version=1)
PLANS = {
    "plain": plan(), "old": OLD, "oldest": OLDEST, "mixed": MIXED, "ghosts": GHOSTS, "dynamic": DYNAMIC
}  # fmt: skip

STATES: dict[str, tuple[Plan, tuple[Event, ...]]] = {
    "plain": (plan(), ()),
    "at rest": (MIXED, ()),
    "a broker stopped in order": (MIXED, (stop(2, kill=False), after(100))),
    "a broker killed, its session still open": (MIXED, (stop(2), after(100))),
    "a broker killed, its session over": (MIXED, (stop(2), after(10_000))),
    "a broker back with other ranges": (MIXED, (stop(2, kill=False), start(2, release="4.2"), after(1_000))),
    "a broker that may not join": (
        plan(metadata_version=29), (stop(2, kill=False), start(2, release="4.0"), after(1_000))
    ),
    "a standby controller killed": (MIXED, (stop(3003), after(2_000))),
    "an election under way": (MIXED, (stop(3001), after(100))),
    "a new leader": (MIXED, (stop(3001), after(3_000))),
    "a majority of the controllers dead": (MIXED, (stop(3001, 3002), after(3_000))),
    "a majority dead, and a broker too": (MIXED, (stop(2, kill=False), after(100), stop(3001, 3002), after(3_000))),
    "all controllers dead": (MIXED, (stop(3001, 3002, 3003), after(3_000))),
    "everything dead": (MIXED, (stop(1, 2, 3), after(10_000), stop(3001, 3002, 3003), after(100))),
    "ghosts": (GHOSTS, ()),
    "ghosts, and no majority": (GHOSTS, (stop(3001, 3002), after(3_000))),
    "old nodes": (OLD, ()),
    "old nodes, one broker down": (OLD, (stop(2, kill=False), after(100))),
    "before controllers register": (OLDEST, ()),
    "before controllers register, a standby dead": (OLDEST, (stop(3003), after(100))),
    "before controllers register, no majority": (OLDEST, (stop(3001, 3002), after(3_000))),
    "a dynamic quorum": (DYNAMIC, ()),
    "a dynamic quorum without a voter": (DYNAMIC, (stop(3002), after(1_000))),
    "a level just finalized": (MIXED, (finalize("group.version", 1), after(CALL_MS))),
    "no right to read the log": (GHOSTS, (deny,)),
    "no right, and an election": (MIXED, (deny, stop(3001), after(100))),
    "no right, and no majority": (MIXED, (deny, stop(3001, 3002), after(3_000))),
    "no right, and old nodes": (OLD, (deny, stop(2, kill=False), after(100))),
    "no right, before controllers register": (OLDEST, (deny,)),
}  # fmt: skip

WITH_EVERY_ACCESS = ("at rest", "ghosts", "a majority of the controllers dead", "before controllers register")


# --- the two ways to read ---


@asynccontextmanager
async def served(made: Plan, seed: int, access: Access) -> AsyncIterator[tuple[SimulatorServer, Callable[[int], None]]]:
    """The world on real ports, with a clock that can be set forward. A node that cannot be reached has an address that
    does not answer.
    """
    loop = asyncio.get_running_loop()
    skipped = 0

    def now_ms() -> int:
        return START_MS + skipped + int(loop.time() * 1000) - began

    def skip(ms: int) -> None:
        nonlocal skipped
        skipped += ms

    began = int(loop.time() * 1000)
    ports = Ports((node.role, node.id) for node in made.nodes)
    nowhere = Ports((Role.CONTROLLER, node.id) for node in made.nodes)
    try:
        named = ports.addresses if access.reaches_controllers else {**ports.addresses, **nowhere.addresses}
        simulated = World(replace(made, addresses=named), now_ms=now_ms(), random=Random(seed))
        async with SimulatorServer(simulated, ports, now_ms) as server:
            yield server, skip
    finally:
        nowhere.close()


def addresses(world: World, role: Role) -> tuple[Address, ...]:
    return tuple(Address(one.host, one.port) for one in world.of_role(role) if one.running)


async def on_the_wire(made: Plan, seed: int, access: Access, events: tuple[Event, ...]) -> tuple[Readings, Plan]:
    """The readings of the real adapter, and the plan with the addresses of the nodes."""
    async with served(made, seed, access) as (server, skip):
        settings = ClusterSettings(
            addresses(server.world, Role.BROKER) if access.brokers else (),
            addresses(server.world, Role.CONTROLLER) if access.controllers else (),
            request_timeout=access.request_timeout_ms / 1000,
        )
        for event in (*events, after(CALL_MS)):
            before = server.world.now_ms
            await server.act(event)
            skip(server.world.now_ms - before)
        at = {(node.role, node.id): (node.host, node.port) for node in server.world.nodes.values()}
        async with Cluster(settings, environment=SYSTEM) as cluster:
            return await cluster.read(), replace(made, addresses=at)


async def in_process(made: Plan, seed: int, access: Access, events: tuple[Event, ...]) -> Readings:
    simulated = World(made, now_ms=START_MS, random=Random(seed))
    cluster = SimulatedCluster(simulated, access)
    for event in events:
        event(simulated)
    return await cluster.read()


async def compare(made: Plan, seed: int, access: Access, events: tuple[Event, ...]) -> None:
    wire, located = await on_the_wire(made, seed, access, events)
    typed = await in_process(located, seed, access, events)
    assert observed(typed) == observed(wire)
    # Milliseconds decide how many addresses are tried besides the first one that answers.
    silent, on_wire = ({one.location for one in each.probe.bootstrap_failures} for each in (typed, wire))
    assert silent <= on_wire


def observed(readings: Readings) -> Any:
    """The observation of the readings, without times, offsets and texts."""
    try:
        return shown(observe(replace(readings.probe, bootstrap_failures=()), readings.log))
    except ClusterUnreachable as error:
        return shown(error.failure)


def shown(value: Any) -> Any:
    """A value as it is compared: without times, offsets and the words of failures."""
    match value:
        case Failure():  # a server refuses what cannot be reached: nothing on a loopback is silent
            return FailureKind.NOT_LISTENING if value.kind in NO_CONNECTION else value.kind
        case Observation():
            found = shown_fields(value) | {"source": value.source.kind, "gaps": {shown(one) for one in value.gaps}}
            return {name: one for name, one in found.items() if name != "at"}
        case Known():
            return shown(value.value), value.source
        case LastRegistration():
            return value.offset >= 0
        case Returns():
            return value.times.keys()
        case PastLevels():
            return value.given_up_at.keys(), value.since
        case QuorumAnswer():
            voters, observers = (
                {one.id: one.last_fetch_timestamp >= 0 for one in of} for of in (value.voters, value.observers)
            )
            return value.leader_id, value.leader_epoch, voters, observers, value.has_majority
        case NodeAnswer():
            return value.supported, value.finalized, value.apis, value.zk_migration_ready, value.complete
        case Node():  # its epoch is an offset
            return shown_fields(value) | {"broker_epoch": value.broker_epoch >= 0}
        case Unknown():
            return shown_fields(value)
        case tuple():
            return [shown(one) for one in value]
        case Mapping():
            return {name: shown(one) for name, one in value.items()}
        case _:
            return value


def shown_fields(value: Observation | Node | Unknown) -> dict[str, Any]:
    return {one: shown(getattr(value, one)) for one in value.__struct_fields__}


@pytest.mark.parametrize("state", some(STATES))
async def test_the_simulated_ports_give_the_readings_of_the_simulated_server(state: str) -> None:
    made, events = STATES[state]
    timeout_ms = 3 * ELECTION_MS if "election" in state else TIMEOUT_MS
    chosen = ACCESSES if state in WITH_EVERY_ACCESS else ACCESSES[:2]
    reaching = (replace(access, request_timeout_ms=timeout_ms) for access in chosen)
    await asyncio.gather(*(compare(made, 0, access, events) for access in reaching))


# --- random histories ---


def history(chance: Random, made: Plan) -> tuple[Event, ...]:
    """A random history: nodes crash, stop, start and change their release, levels are changed, and time passes."""
    ids = [node.id for node in made.nodes]
    found: list[Event] = [deny] if chance.random() < 0.2 else []
    for _ in range(chance.randrange(1, 7)):
        match chance.randrange(5):
            case 0 | 1:
                found.append(stop(chance.choice(ids), kill=chance.random() < 0.5))
            case 2:
                found.append(start(chance.choice(ids), release=chance.choice(("4.2", "4.0", None))))
            case 3:
                found.append(finalize("group.version", chance.randrange(2)))
            case _:
                pass
        found.append(after(chance.choice((20, 400, 3_000, 12_000))))
    return (*found, calm)


@pytest.mark.parametrize("seed", range(0, SEEDS, AT_ONCE))
async def test_the_simulated_ports_give_the_readings_of_the_server_after_any_history(seed: int) -> None:
    cases = []
    for one in range(seed, seed + AT_ONCE):
        chance = Random(one)
        made = chance.choice(tuple(PLANS.values()))
        cases.append(compare(made, one, chance.choice(ACCESSES), history(chance, made)))
    await asyncio.gather(*cases)


# --- readings without a majority, without a right, after a snapshot ---


async def states(world: World, access: Access = BOTH) -> dict[int, NodeState]:
    return {one.id: one.state for one in observe(*await SimulatedCluster(world, access).read()).nodes}


async def test_a_fenced_broker_is_no_ghost_while_the_quorum_has_no_majority() -> None:
    simulated = World(MIXED, now_ms=START_MS, random=Random(0))
    cluster = SimulatedCluster(simulated)
    stop(2, kill=False)(simulated)
    after(1_000)(simulated)
    assert {one.id: one.state for one in observe(*await cluster.read()).nodes}[2] is NodeState.GHOST
    stop(3001, 3002)(simulated)
    after(3_000)(simulated)
    assert {one.id: one.state for one in observe(*await cluster.read()).nodes}[2] is NodeState.FENCED


async def test_a_user_who_may_not_read_the_log_gets_the_answers_of_the_nodes() -> None:
    simulated = World(MIXED, now_ms=START_MS, random=Random(0))
    deny(simulated)
    observation = observe(*await SimulatedCluster(simulated).read())
    assert observation.source.kind is SourceKind.API_REQUESTS
    assert isinstance(observation.zk_migration_state, Unknown)
    assert all(node.registered == {} for node in observation.nodes)


async def test_the_high_watermark_does_not_advance_without_a_majority() -> None:
    simulated = World(MIXED, now_ms=START_MS, random=Random(0))
    after(2_000)(simulated)
    before = simulated.log.high_watermark
    after(2_000)(simulated)
    assert simulated.log.high_watermark > before
    stop(3001, 3002)(simulated)
    before = simulated.log.high_watermark
    after(10_000)(simulated)
    assert simulated.log.high_watermark == before


async def test_a_log_that_is_read_again_with_partitions_keeps_the_downgraded_levels() -> None:
    """The snapshot of the leader was written after the last reading, and has the current levels only."""
    made = replace(plan(metadata_version=27), topics=(TopicPlan("orders", ((1, 2, 3),)),))
    async with served(made, 0, BOTH) as (server, skip):
        settings = ClusterSettings((), addresses(server.world, Role.CONTROLLER), request_timeout=5)
        async with Cluster(settings, environment=SYSTEM) as cluster:
            await cluster.read()
            active = server.world.active_node
            assert active is not None
            for level, kind in ((29, UpgradeType.UPGRADE), (27, UpgradeType.SAFE_DOWNGRADE)):
                update = FeatureUpdate("metadata.version", level, kind)
                assert server.world.update_features(active, [update], validate_only=False).verdict.levels
                skip(2 * COMMIT_MS)
                await server.act(World.take_snapshot)
            assert server.world.log.snapshot is not None
            log = (await cluster.read(partitions=True)).log
            assert isinstance(log, LogReading)
            former = log.image.former_levels
            assert (set(former.dropped), former.since_ms) == ({("metadata.version", level) for level in (27, 29)}, -1)
