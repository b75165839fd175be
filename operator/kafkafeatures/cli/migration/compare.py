"""`kafkafeatures migration compare`: prints the differences between ZooKeeper and the metadata log, up to `MOST_KEPT`,
and their number.

It works only while a migration writes to both. Changes nothing. Called by `command.py`.
"""

from __future__ import annotations

import argparse

from rich.text import Text

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.cli.cluster.connect import cluster_of, on_cluster
from kafkafeatures.cli.migration.connection import connection_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.indented import line
from kafkafeatures.cli.shell.output import console, print_document
from kafkafeatures.core.facts.observation import Unknown
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.migration.equality import Differs, Equality
from kafkafeatures.core.report.equality_document import equality_document, equality_lines
from kafkafeatures.core.words import printable
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings
from kafkafeatures.zookeeper.compare import compare
from kafkafeatures.zookeeper.ensemble import Ensemble


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print the differences. Exit code 0: no difference, 4: differences, 5: unknown."""
    connection = connection_of(arguments)
    equality = on_cluster(_compared(connection.settings, connection.ensemble))
    if arguments.output != "table":
        document = {"apiVersion": API_VERSION, "kind": "MigrationEquality", **equality_document(equality)}
        print_document(document, arguments.output)
    elif isinstance(equality, Unknown):
        is_of_cluster = equality.failure.location != f"ZooKeeper {connection.ensemble}"
        raise CommandFailed(printable(str(equality.failure)), Exit.UNREACHABLE, is_of_cluster=is_of_cluster)
    else:
        out = console()
        for text in equality_lines(equality):
            line(out, Text(text))
    if isinstance(equality, Unknown):
        return Exit.UNREACHABLE
    return Exit.BLOCKED if isinstance(equality, Differs) else Exit.DONE


async def _compared(settings: ClusterSettings, ensemble: Ensemble) -> Equality:
    async with cluster_of(settings) as cluster:
        cluster_id = (await cluster.read()).probe.cluster_id
        if isinstance(cluster_id, Failure):
            return Unknown(cluster_id)
        async with cluster.whole_log() as log:
            return await compare(ensemble, log, cluster_id, SYSTEM)
