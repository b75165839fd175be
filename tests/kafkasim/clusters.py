"""Simulated clusters for tests: short plans, worlds whose clock only tests advance, and raw exchanges over TCP."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from kafkasim.plan import NodePlan, Plan
from kafkasim.pods import Pods
from kafkasim.releases import release_named
from kafkasim.statefulsets import revision_of
from kafkasim.wire.server import Ports, SimulatorServer
from kafkasim.world import World
from kraftlog.batches import Batch
from kraftlog.walks import walk

START_MS = 1_767_323_045_000  # NOW of tests/kafkafeatures/worlds.py
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def plan(
    brokers: Mapping[int, str] | None = None,
    controllers: Mapping[int, str] | None = None,
    *,
    metadata_version: int = 21,
    ghosts: tuple[tuple[Role, int, str], ...] = (),
    leader: int | None = None,
    **levels: int,
) -> Plan:
    """A plan of brokers and controllers, each id with its release. `ghosts`: role, id and release; `levels`: other
    finalized levels, with underscores for dots.
    """
    brokers = {1: "4.2", 2: "4.2", 3: "4.2"} if brokers is None else brokers
    controllers = controllers or {3001: "4.2", 3002: "4.2", 3003: "4.2"}
    nodes = [NodePlan(Role.CONTROLLER, i, release_named(r)) for i, r in controllers.items()]
    nodes += [NodePlan(Role.BROKER, i, release_named(r)) for i, r in brokers.items()]
    nodes += [NodePlan(role, i, release_named(r), ghost=True) for role, i, r in ghosts]
    named = {name.replace("_", "."): level for name, level in levels.items()}
    return Plan(tuple(nodes), {"metadata.version": metadata_version, **named}, leader, CLUSTER_ID)


def world(made: Plan | None = None, seed: int = 0) -> World:
    return World(made or plan(), now_ms=START_MS, random=Random(seed))


def settle(made: World, ms: int = 100) -> World:
    """Advance the clock by so many milliseconds."""
    made.advance(made.now_ms + ms)
    return made


def batches(data: bytes) -> list[Batch]:
    """The batches of a log, none of which may be damaged."""
    found = []
    for one in walk(data):
        assert isinstance(one, Batch), one
        found.append(one)
    return found


@asynccontextmanager
async def served(made: Plan, seed: int = 0) -> AsyncIterator[SimulatorServer]:
    """A cluster on real ports, with the real clock."""
    loop = asyncio.get_running_loop()

    def now_ms() -> int:
        return START_MS + int(loop.time() * 1000)

    ports = Ports((node.role, node.id) for node in made.nodes)
    simulated = World(replace(made, addresses=ports.addresses), now_ms=now_ms(), random=Random(seed))
    async with SimulatorServer(simulated, ports, now_ms) as server:
        yield server


async def exchange(server: SimulatorServer, role: Role, node_id: int, request: bytes) -> bytes:
    """Send one frame on a new connection and return the answer. Raises EOFError if the node closes it instead."""
    node = server.world.nodes[role, node_id]
    reader, writer = await asyncio.open_connection(node.host, node.port)
    try:
        writer.write(request)
        head = await reader.readexactly(4)
        return head + await reader.readexactly(struct.unpack(">i", head)[0])
    finally:
        writer.close()
        await writer.wait_closed()


def outdated(pods: Pods) -> list[str]:
    """The names of pods that do not run the current template, and of those that do not exist."""
    sets = pods.reading().stateful_sets
    current = {one.name for each in sets for one in each.pods if one.revision == revision_of(each.name, each.image)}
    named = (f"{each.name}-{ordinal}" for each in sets for ordinal in range(each.replicas))
    return [name for name in named if name not in current]
