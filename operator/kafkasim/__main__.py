"""`python -m kafkasim`: serve a simulated cluster until SIGTERM. For demos, client tests and benchmarks.

Prints one JSON line with the bootstrap addresses when every port is open. Then it reads control requests
(`control.py`), one per line, from standard input, and answers each with a JSON line when it is done. `kafkafeatures
simulate` is the same with sentences for people (`dialogue.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Sequence
from random import Random
from typing import Any

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.core.facts.releases import metadata_version_named
from kafkasim.control import RefusedError, perform
from kafkasim.dialogue import Dialogue, JsonLines
from kafkasim.plan import NodePlan, Plan
from kafkasim.releases import RELEASES, Release, release_named
from kafkasim.wire.server import Ports, SimulatorServer
from kafkasim.world import World

FIRST_CONTROLLER = 3001
_FILES_BESIDE_LISTENERS = 512  # connections of clients, pipes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that describe a cluster."""
    parser.add_argument("--controllers", type=int, default=3, metavar="N", help="controllers (default: 3)")
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="brokers (default: 3)")
    parser.add_argument("--nodes", type=int, metavar="N", help="total number of brokers and controllers")
    parser.add_argument("--release", type=_release, default="4.2", help=f"one of {', '.join(RELEASES)} (default: 4.2)")
    parser.add_argument("--metadata-version", type=_metadata_version, metavar="LEVEL", help="27 or 4.1-IV1")
    parser.add_argument("--feature", action="append", default=[], type=_level, metavar="NAME=LEVEL")
    for role in ("broker", "controller"):
        for kind, text in (("old", "runs another release"), ("ghost", "registered, but no such node exists any more")):
            parser.add_argument(
                f"--{kind}-{role}", action="append", default=[], type=_other_node, metavar="ID=RELEASE",
                help=f"a {role} that {text}",
            )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port of the first broker; the other nodes have the next ones"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers (default: 0)")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when standard input ends")


def _release(text: str) -> Release:
    try:
        return release_named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _metadata_version(text: str) -> int:
    if text.isdecimal():
        return int(text)
    version = metadata_version_named(text)
    if version is None:
        raise argparse.ArgumentTypeError(f"invalid metadata.version {text!r}: expected a level or a name")
    return version.level


def _level(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not level.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected NAME=LEVEL")
    return name, int(level)


def _other_node(text: str) -> tuple[int, Release]:
    node_id, _, release = text.partition("=")
    if not node_id.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected ID=RELEASE")
    return int(node_id), _release(release)


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The cluster that the flags describe. Raises ValueError for one that cannot be. Without --metadata-version it has
    the level with which the oldest of its releases begins.
    """
    brokers = arguments.brokers if arguments.nodes is None else arguments.nodes - arguments.controllers
    if arguments.controllers < 1 or brokers < 1:
        count = "" if arguments.nodes is None else f" in --nodes {arguments.nodes}"
        raise ValueError(f"expected at least one controller and one broker{count}; set --controllers and --brokers")
    nodes = {(Role.BROKER, 1 + i): arguments.release for i in range(brokers)}
    nodes |= {(Role.CONTROLLER, FIRST_CONTROLLER + i): arguments.release for i in range(arguments.controllers)}
    nodes |= {(Role.BROKER, node_id): release for node_id, release in arguments.old_broker}
    nodes |= {(Role.CONTROLLER, node_id): release for node_id, release in arguments.old_controller}
    planned = [NodePlan(role, node_id, release) for (role, node_id), release in nodes.items()]
    for role, ghosts in ((Role.BROKER, arguments.ghost_broker), (Role.CONTROLLER, arguments.ghost_controller)):
        planned += [NodePlan(role, node_id, release, ghost=True) for node_id, release in ghosts]
    lowest = min(node.release.bootstrap_level for node in planned)
    levels = {METADATA_VERSION: arguments.metadata_version or lowest, **dict(arguments.feature)}
    return Plan(tuple(planned), levels)


async def serve(plan: Plan, dialogue: Dialogue, *, seed: int, first_port: int, exit_with_stdin: bool) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError for a port that another process has."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    ports = Ports(((node.role, node.id) for node in plan.nodes), first_port=first_port)
    random = Random(seed)  # noqa: S311 - drawn ids and elections of a simulation, no secret
    world = World(replace(plan, addresses=ports.addresses), now_ms=_now_ms(), random=random)
    async with SimulatorServer(world, ports, _now_ms) as server:
        dialogue.greet(_greeting(world))
        control = asyncio.create_task(_control(server, dialogue, stop if exit_with_stdin else None))
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(server.stopped())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in (control, *ends):
            task.cancel()
        await asyncio.gather(control, *ends, return_exceptions=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _greeting(world: World) -> dict[str, Any]:
    def listening(role: Role) -> str:
        nodes = [n for n in world.of_role(role) if n.running and not n.refused]
        return ",".join(f"{n.host}:{n.port}" for n in nodes[:3])  # a client finds the others through any of them

    return {
        "simulated": True,
        "clusterId": world.cluster_id,
        "bootstrapServers": listening(Role.BROKER),
        "bootstrapControllers": listening(Role.CONTROLLER),
        "nodes": len(world.nodes),
    }


async def _control(server: SimulatorServer, dialogue: Dialogue, at_end: asyncio.Event | None) -> None:
    """Carry out requests from standard input until it ends, and set `at_end` then."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin is not None else 0
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and sys.stdin.isatty())):
        return  # closed, a file or /dev/null: there is nothing to take requests from
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with contextlib.closing(transport):
        while line := await reader.readline():
            request = line.decode(errors="replace").strip()
            if dialogue.explains(request):
                continue
            try:
                await perform(server, request)
            except RefusedError as refusal:
                dialogue.answer(request, str(refusal))
            else:
                dialogue.answer(request, "")
    if at_end is not None:
        at_end.set()


def _raise_file_limit(listeners: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * listeners + _FILES_BESIDE_LISTENERS  # a listener and a connection of each node
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (needed if hard == resource.RLIM_INFINITY else min(needed, hard), hard)
        )


def simulate(arguments: argparse.Namespace, dialogue: Dialogue) -> None:
    """Serve the cluster of the flags until SIGTERM or SIGINT. Raises ValueError for flags that describe no cluster, and
    OSError for a port that another process has.
    """
    plan = plan_of(arguments)
    _raise_file_limit(len(plan.nodes))
    asyncio.run(
        serve(
            plan,
            dialogue,
            seed=arguments.seed,
            first_port=arguments.port,
            exit_with_stdin=arguments.exit_with_stdin,
        )
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run; 64 for flags that describe no cluster, or ports that are taken."""
    parser = argparse.ArgumentParser(
        prog="python -m kafkasim",
        description="A simulated Kafka cluster on 127.0.0.1. Broker ids are 1, 2 and so on, controller ids 3001, 3002.",
    )
    add_arguments(parser)
    try:
        simulate(parser.parse_args(words), JsonLines())
    except (ValueError, OSError) as error:
        sys.stderr.write(f"kafkasim: {error}\n")
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main())
