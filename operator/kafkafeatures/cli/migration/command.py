"""`kafkafeatures migration`: checks the settings that the next phase of a migration to KRaft requires, or compares
ZooKeeper with the metadata log. Changes nothing.

Rights: DESCRIBE_CONFIGS on the cluster for the settings of nodes, and CLUSTER_ACTION for the metadata log once there
are controllers.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from kafkafeatures.cli.cluster.connect import add_connection_flags, add_secrets_flag, add_zookeeper_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import add_output_flag
from kafkafeatures.core.migration.edges import TARGETS

ACTIONS = {
    "settings": "kafkafeatures.cli.migration.settings",
    "compare": "kafkafeatures.cli.migration.compare",
}
"""Actions, each with its module."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags for the action, and for the cluster and its ZooKeeper ensemble."""
    parser.add_argument(
        "action", choices=tuple(ACTIONS),
        help="settings: show the lines that each kind of node needs for the next phase, and what each node has "
        "otherwise; compare: show all that ZooKeeper and the metadata log say differently, while both are written to",
    )  # fmt: skip
    parser.add_argument(
        "-f", "--file", type=Path, action="append", metavar="FILE",
        help="KafkaFeatures document (YAML) that names the cluster and its ensemble; - is stdin",
    )  # fmt: skip
    add_secrets_flag(parser)
    add_connection_flags(parser, "cluster, without a document")
    add_zookeeper_flags(parser, "the ensemble of the cluster, as the brokers' zookeeper.connect names it")
    parser.add_argument(
        "--to",
        choices=tuple(target.value for target in TARGETS),
        help="of settings: where the migration is to go (default: where the document wants it)",
    )
    add_output_flag(parser)
    parser.set_defaults(state=None)  # nothing is written


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    if arguments.to is not None and arguments.action != "settings":
        raise CommandFailed("migration compare does not take --to", Exit.USAGE)
    return int(importlib.import_module(ACTIONS[arguments.action]).run(arguments))
