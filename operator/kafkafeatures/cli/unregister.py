"""`kafkafeatures unregister --broker N`: forget a broker that is gone and still registered. Asks before it does.

Only a broker that is fenced, does not answer, and hosts no replica is forgotten: anything else may come back, or its
data would be lost sight of.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from kafkafeatures.cli.connect import add_connection_flags, failed, on_cluster, settings_from_flags
from kafkafeatures.cli.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.output import tell
from kafkafeatures.core.observation import Node, NodeState
from kafkafeatures.core.survey import Failure, Role
from kafkafeatures.kafka.settings import ClusterSettings
from kafkafeatures.reconcile.cluster import Cluster

TOPICS_SHOWN = 5
LOOKS, PAUSE = 20, 0.25  # seconds between them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `unregister`."""
    parser.add_argument("--broker", type=int, required=True, metavar="ID", help="the broker to forget")
    parser.add_argument("--yes", action="store_true", help="do not ask: for scripts")
    add_connection_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check, ask, forget, and look whether it is gone."""
    settings = settings_from_flags(arguments)
    if not arguments.yes:
        _ask(on_cluster(_look_at(settings, arguments.broker)))
    on_cluster(_unregister(settings, arguments.broker))
    print(f"broker {arguments.broker} is not registered any more")
    return Exit.DONE


async def _look_at(settings: ClusterSettings, broker: int) -> Node:
    async with Cluster(settings) as cluster:
        return await _checked(cluster, broker)


async def _unregister(settings: ClusterSettings, broker: int) -> None:
    async with Cluster(settings) as cluster:
        await _checked(cluster, broker)  # once more, for the question may have stood for hours
        failure = await cluster.unregister(broker)
        if failure is not None:
            raise failed(failure)
        for _ in range(LOOKS):  # the brokers learn of it a little after the controller wrote it
            if not any(_is(one, broker) for one in (await cluster.look()).nodes):
                return
            await asyncio.sleep(PAUSE)
        raise CommandFailed(f"broker {broker} is still registered; it may have come back", Exit.FAILED)


async def _checked(cluster: Cluster, broker: int) -> Node:
    """The broker, if it is gone for certain and hosts nothing."""
    node = next((one for one in (await cluster.look()).nodes if _is(one, broker)), None)
    if node is None:
        raise CommandFailed(f"no broker {broker} is registered; describe shows who is", Exit.BLOCKED)
    if node.state is not NodeState.GHOST or Role.CONTROLLER in node.roles:
        raise CommandFailed(
            f"{node.title} is {_what(node)}; only one that is fenced and does not answer can be unregistered",
            Exit.BLOCKED,
        )
    hosted = await cluster.topics_on(broker)
    if isinstance(hosted, Failure):
        raise failed(hosted)
    if hosted.topics:
        shown = ", ".join(hosted.topics[:TOPICS_SHOWN]) + (", ..." if len(hosted.topics) > TOPICS_SHOWN else "")
        raise CommandFailed(
            f"broker {broker} hosts replicas of {len(hosted.topics)} topics ({shown}); "
            "move them away first with kafka-reassign-partitions.sh",
            Exit.BLOCKED,
        )
    return node


def _is(node: Node, broker: int) -> bool:
    return node.id == broker and Role.BROKER in node.roles


def _what(node: Node) -> str:
    return "a controller as well" if Role.CONTROLLER in node.roles else node.state.value.lower()


def _ask(node: Node) -> None:
    if not sys.stdin.isatty():
        raise CommandFailed("not a terminal; use --yes to skip confirmation", Exit.USAGE)
    tell(f"{node.title} ({node.host}:{node.port}) is fenced, does not answer and hosts no replica.")
    print("Type its id to forget its registration: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != str(node.id):
        raise CommandFailed("that is not its id; nothing was changed", Exit.BLOCKED)
