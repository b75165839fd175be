"""`kafkafeatures describe`: every feature on every node of a cluster, and what blocks them. Changes nothing.

Needs no right for the ranges of live nodes (ApiVersions); DESCRIBE on the cluster for the lists; CLUSTER_ACTION and a
route to the controllers for the metadata log, which alone shows everything.
"""

from __future__ import annotations

import argparse

from kafkafeatures.cli.connect import add_connection_flags, flags_of, look, on_cluster, settings_from_flags
from kafkafeatures.cli.exit_codes import Exit
from kafkafeatures.cli.output import add_output_flag, console, print_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `describe`."""
    add_connection_flags(parser)
    add_output_flag(parser)
    parser.add_argument("--apis", action="store_true", help="every API's version range on every node (KIP-35)")


def run(arguments: argparse.Namespace) -> int:
    """Look once and print."""
    observation = on_cluster(look(settings_from_flags(arguments)))
    api_names = None
    if arguments.apis:
        from kafkafeatures.kafka.api_names import API_NAMES

        api_names = dict(API_NAMES)
    if arguments.output == "table":
        from kafkafeatures.cli.matrix import draw

        draw(console(), observation, api_names=api_names, flags=flags_of(arguments))
    else:
        from kafkafeatures.core.cluster_document import cluster_document

        print_document(cluster_document(observation, api_names=api_names), arguments.output)
    return Exit.DONE
