"""`kafkafeatures unregister --broker N | --controller N`: removes the registration of a node that no longer exists.

It asks for confirmation. It accepts only a broker that is fenced, does not answer and hosts no replica, or a controller
that is not a voter, does not answer and does not fetch the log. Any other node may come back, or still has data.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from kafkafeatures.cli.cluster.connect import add_connection_flags, cluster_of, failed, on_cluster, settings_to_change
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import answer, at_terminal, tell
from kafkafeatures.cli.shell.values import node_id
from kafkafeatures.core.facts.observation import Node, SourceKind
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.levels.unregistration import broker_objection, controller_objection
from kafkafeatures.core.words import counted
from kafkafeatures.interrupts import SENT_STEPS
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.requests.unregister import HostedTopics

TOPICS_SHOWN = 5
"""Most names of topics in a message."""
READINGS, PAUSE = 20, 0.25
"""Most readings of the cluster until the registration is gone, and the seconds between them."""
_GONE = {
    Role.BROKER: "is fenced, does not answer and hosts no replica",
    Role.CONTROLLER: "is not a voter, does not answer and does not fetch the metadata log",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `unregister`."""
    selection = parser.add_mutually_exclusive_group(required=True)
    selection.add_argument("--broker", type=node_id, metavar="ID", help=f"a broker that {_GONE[Role.BROKER]}")
    selection.add_argument(
        "--controller",
        type=node_id,
        metavar="ID",
        help=f"a controller that {_GONE[Role.CONTROLLER]}; needs metadata.version 33 (Kafka 4.4)",
    )
    parser.add_argument("--yes", action="store_true", help="skip confirmation (for scripts)")
    add_connection_flags(parser, takes_document=True)


def run(arguments: argparse.Namespace) -> int:
    """Check the node, ask the user, unregister it, and read the cluster to see that it is gone."""
    role = Role.CONTROLLER if arguments.broker is None else Role.BROKER
    node_id = arguments.controller if arguments.broker is None else arguments.broker
    settings = settings_to_change(arguments)
    if not arguments.yes:
        _ask(on_cluster(_read_node(settings, role, node_id)), role)
    on_cluster(_unregister(settings, role, node_id))
    print(f"{role.value.lower()} {node_id} is no longer registered")
    return Exit.DONE


async def _read_node(settings: ClusterSettings, role: Role, node_id: int) -> Node:
    async with cluster_of(settings) as cluster:
        return await _checked(cluster, role, node_id)


async def _unregister(settings: ClusterSettings, role: Role, node_id: int) -> None:
    async with cluster_of(settings) as cluster:
        await _checked(cluster, role, node_id)  # again: the question may have been open for hours
        SENT_STEPS.note(f"unregister {role.value.lower()} {node_id}")
        failure = await cluster.unregister(role, node_id)
        if failure is not None:
            raise failed(failure)
        for _ in range(READINGS):  # brokers read the record a moment after the controller wrote it
            if not any(node.id == node_id and role in node.roles for node in (observe(*await cluster.read())).nodes):
                return
            await asyncio.sleep(PAUSE)
        raise CommandFailed(f"{role.value.lower()} {node_id} is still registered; it may have come back", Exit.FAILED)


async def _checked(cluster: Cluster, role: Role, node_id: int) -> Node:
    """The node, if it certainly no longer runs. Raises CommandFailed otherwise."""
    observation = observe(*await cluster.read())
    if role is Role.CONTROLLER and (reason := controller_objection(observation, node_id)):
        raise CommandFailed(reason, Exit.BLOCKED)
    node = next((node for node in observation.nodes if node.id == node_id and role in node.roles), None)
    if node is None and observation.source.kind is not SourceKind.METADATA_LOG and observation.gaps:
        text = f"whether broker {node_id} is registered is unknown: {observation.gaps[0]}"
        raise CommandFailed(text, Exit.UNREACHABLE, is_of_cluster=True)
    if node is None:
        raise CommandFailed(f"no broker {node_id} is registered; list them with describe", Exit.USAGE)
    if role is Role.BROKER:
        await _check_hosts_nothing(cluster, node)
    return node


async def _check_hosts_nothing(cluster: Cluster, node: Node) -> None:
    """Raise CommandFailed if the broker may come back, or if it hosts replicas or that could not be read."""
    if reason := broker_objection(node):
        raise CommandFailed(reason, Exit.BLOCKED)
    hosted = await cluster.topics_on(node.id)
    if isinstance(hosted, Failure):
        raise failed(hosted)
    if hosted.topics:
        raise CommandFailed(_refusal(node, hosted), Exit.BLOCKED)


def _refusal(node: Node, hosted: HostedTopics) -> str:
    """The refusal of a broker that hosts replicas. Prints a reassignment file for those that can be moved."""
    movable = {name for name, _, _ in hosted.moves}
    stranded = [name for name in hosted.topics if name not in movable]
    text = f"broker {node.id} hosts replicas of {_shown(hosted.topics)}"
    if hosted.moves:
        print(_reassignment(hosted))
        text += (
            "; move them away first: save the JSON that this prints as reassign.json, then "
            "kafka-reassign-partitions.sh --bootstrap-server HOST:PORT --reassignment-json-file reassign.json "
            "--execute (its --generate may fail for a broker that is gone), and run this command again"
        )
    if stranded:
        text += f"; the only replicas of {_shown(stranded)} are there: start the broker, or delete what is lost with it"
    return text


def _shown(topics: Sequence[str]) -> str:
    names = ", ".join(topics[:TOPICS_SHOWN]) + (", ..." if len(topics) > TOPICS_SHOWN else "")
    return f"{counted(len(topics), 'topic')} ({names})"


def _reassignment(hosted: HostedTopics) -> str:
    """A file for `kafka-reassign-partitions.sh`, which does not need the broker that is gone."""
    import json

    moves = [{"topic": name, "partition": number, "replicas": [*ids]} for name, number, ids in hosted.moves]
    return json.dumps({"version": 1, "partitions": moves})


def _ask(node: Node, role: Role) -> None:
    """Ask the person at the terminal. Raises CommandFailed unless the id of the node is typed."""
    if not at_terminal():
        raise CommandFailed("not a terminal; use --yes to skip confirmation; nothing was changed", Exit.APPROVAL)
    tell(f"{role.value.lower()} {node.id} ({node.host}:{node.port}) {_GONE[role]}.")
    if answer("Type its id to unregister it: ") != str(node.id):
        raise CommandFailed("the id does not match; nothing was changed", Exit.BLOCKED)
