"""The cluster whose request logs are switched, with its brokers and its state file.

Called by the modules of the steps in this folder.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import Mapping

from msgspec import Struct

from kafkafeatures.cli.clients.request_logger.state import SwitchFile, default_path
from kafkafeatures.cli.cluster.connect import failed, flags_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.core.facts.observation import Known, Node, Observation
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.requests.request_log_level import request_log_level


class LoggingTarget(Struct, frozen=True):
    """A cluster. `brokers`: its registered brokers by id; `file`: its state file; `connection_flags`: flags with which
    another command reaches the cluster and the file.
    """

    cluster_id: str
    brokers: Mapping[int, Node]
    file: SwitchFile
    connection_flags: str

    @property
    def stop_command(self) -> str:
        """The command that restores the levels, to be shown to the user."""
        return f"kafkafeatures clients evidence stop {self.connection_flags.strip()}"


def target_of(arguments: argparse.Namespace, observation: Observation) -> LoggingTarget:
    """The target of a command. Raises CommandFailed if the id of the cluster is not known."""
    if not isinstance(observation.cluster_id, Known):
        text = f"the id of the cluster is not known: {observation.cluster_id.failure}"
        raise CommandFailed(text, Exit.UNREACHABLE)
    cluster_id = observation.cluster_id.value
    brokers = {node.id: node for node in observation.nodes if Role.BROKER in node.roles}
    path = arguments.state if arguments.state is not None else default_path(cluster_id)
    state = "" if arguments.state is None else f" --state {shlex.quote(str(arguments.state))}"
    return LoggingTarget(cluster_id, brokers, SwitchFile(path, cluster_id), flags_of(arguments) + state)


def address_of(node: Node) -> Address:
    """The address of a broker's listener."""
    return Address(node.host, node.port)


async def read_levels(pool: Pool, nodes: Mapping[int, Node]) -> dict[int, str | Failure]:
    """The level of each broker, read from all at once."""
    readings = await asyncio.gather(*(request_log_level(pool, id_, address_of(node)) for id_, node in nodes.items()))
    return dict(zip(nodes, readings, strict=True))


def tell_failure(failure: Failure) -> Exit:
    """Tell a failure, and return its exit code."""
    error = failed(failure)
    tell(str(error))
    return error.code
