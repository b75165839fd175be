"""`kafkafeatures describe`: shows every feature on every node of a cluster, and what prevents higher levels. Changes
nothing.

With `--from` it reads a node's metadata log from files instead of a cluster.

Rights: none for the version ranges of live nodes (ApiVersions); DESCRIBE on the cluster for the lists of nodes;
CLUSTER_ACTION, and a network route to the controllers, for the metadata log, without which some facts stay unknown.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from kafkafeatures.api.names import API_VERSION
from kafkafeatures.cli.cluster.connect import (
    add_connection_flags,
    add_zookeeper_flags,
    cluster_of,
    flags_of,
    look,
    look_at,
    on_cluster,
    settings_from_flags,
)
from kafkafeatures.cli.cluster.connection_sources import names_cluster
from kafkafeatures.cli.cluster.drawn import show
from kafkafeatures.cli.kube.strimzi_flags import add_strimzi_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import DRAWN, add_output_flag, clean_stdout, console, print_document, tell
from kafkafeatures.core.facts.observation import Known
from kafkafeatures.core.facts.readings import ANY_CLUSTER
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.environment import SYSTEM

if TYPE_CHECKING:
    from rich.console import Console

    from kafkafeatures.core.facts.observation import Observation
    from kafkafeatures.core.facts.znodes import ZooKeeperReading
    from kafkafeatures.kafka.base.settings import ClusterSettings

_TITLE = "kafkafeatures describe: features of a Kafka cluster, and what blocks a raise"

_LATEST_MS = 4_102_444_800_000
"""The year 2100, in ms since 1970. Time stamps in a log that are later are damaged, and Python cannot format the
largest ones.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `describe`."""
    add_connection_flags(parser, takes_document=True)
    add_output_flag(parser, is_drawn=True)
    parser.add_argument(
        "--from", dest="files", type=Path, metavar="PATH",
        help="instead of a cluster: a node's log directory, its __cluster_metadata-0, a file of it, or a support "
        "bundle (tar, tar.gz, zip)",
    )  # fmt: skip
    add_zookeeper_flags(
        parser,
        "what Kafka keeps in ZooKeeper, as zookeeper.connect names it; with --bootstrap-* also the phase of a "
        "migration to KRaft, without them nothing else is asked",
    )
    parser.add_argument(
        "--explain-levels", action="store_true",
        help="every level that is known: what it turns on, what Kafka writes besides, the way back; with a cluster "
        "also which are finalized",
    )  # fmt: skip
    add_strimzi_flags(parser)
    parser.add_argument("--apis", action="store_true", help="every API's version range on every node (KIP-35)")
    parser.add_argument(
        "-w", "--watch", action="store_true", help="on a terminal: draw it again after each change, until Ctrl-C"
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the cluster once, and print the result."""
    if arguments.zookeeper_config is not None and arguments.zookeeper is None:
        raise CommandFailed("--zookeeper-config says how to speak to --zookeeper; give that as well", Exit.USAGE)
    if arguments.watch:
        return _watch(arguments)
    if arguments.explain_levels:
        return _describe_levels(arguments)
    if arguments.files is not None:
        return _describe_files(arguments)
    if arguments.strimzi and arguments.zookeeper:
        raise CommandFailed("Strimzi runs no cluster with ZooKeeper; give --strimzi without --zookeeper", Exit.USAGE)
    if arguments.zookeeper is not None and not names_cluster(arguments):
        return _describe_zookeeper(arguments, _read_zookeeper(arguments))
    settings = None if arguments.strimzi else settings_from_flags(arguments)
    # Before the cluster: the phase of a migration needs a metadata log that is newer than the znodes.
    znodes = None if arguments.zookeeper is None else _read_zookeeper(arguments)
    observation = _observed(arguments, settings, znodes)
    if arguments.output in DRAWN:

        def draw(on: Console) -> None:
            _draw(arguments, on, observation)
            if znodes is not None:
                from kafkafeatures.cli.cluster import ensemble

                on.print()
                ensemble.draw(on, znodes, observation)

        def page() -> str:
            from kafkafeatures.cli.cluster.page import cluster_page

            return cluster_page(observation, flags_of(arguments), _api_names() if arguments.apis else None)

        # What ZooKeeper holds has no page of its own: it is drawn as on a terminal.
        show(arguments.output, draw, _TITLE, page if znodes is None else None)
    else:
        from kafkafeatures.core.report.cluster_document import cluster_document

        document = cluster_document(observation, api_names=_api_names() if arguments.apis else None)
        if znodes is not None:
            from kafkafeatures.core.report.zookeeper_document import zookeeper_document

            document["zooKeeper"] = zookeeper_document(znodes, observation)
        print_document(document, arguments.output)
    return Exit.DONE if znodes is None or not znodes.failures else Exit.FAILED


def _draw(arguments: argparse.Namespace, on: Console, observation: Observation) -> None:
    from kafkafeatures.cli.cluster import matrix

    if arguments.apis:
        matrix.draw_apis(on, observation, _api_names())
    else:
        matrix.draw(on, observation, flags=_flags_of(arguments))


def _api_names() -> dict[int, str]:
    from kafkafeatures.kafka.base.api_names import API_NAMES

    return dict(API_NAMES)


def _watch(arguments: argparse.Namespace) -> int:
    """Draw the cluster again after each change. Ctrl-C ends the process with exit code 0."""
    other_flags = (
        *(arguments.files, arguments.zookeeper, arguments.explain_levels, arguments.strimzi),
        arguments.output != "table",
    )
    if any(other_flags):
        text = "--watch draws a cluster on a terminal; it takes no --from, --zookeeper, --explain-levels, --strimzi, -o"
        raise CommandFailed(text, Exit.USAGE)
    if not sys.stdout.isatty():
        raise CommandFailed("--watch draws on a terminal; stdout is not one: leave out --watch", Exit.USAGE)
    from kafkafeatures.cli.cluster.other_nodes import OtherNodes
    from kafkafeatures.cli.cluster.watch import watch

    settings = settings_from_flags(arguments)

    async def work() -> None:
        async with cluster_of(settings) as cluster:

            async def read_at(current: ClusterSettings) -> Observation:
                names = frozenset({IBP})
                return await (look_at(cluster, names) if current is settings else look(current, names))

            read, draw = partial(OtherNodes(settings).observed, read_at), partial(_draw, arguments)
            await watch(read, draw, console, clean_stdout(), SYSTEM)

    on_cluster(work(), code_of_interrupt=Exit.DONE)
    return Exit.DONE


def _flags_of(arguments: argparse.Namespace) -> str:
    """Flags for commands in remedies, which do not take `--strimzi`."""
    return f"{ANY_CLUSTER} --config client.properties" if arguments.strimzi else flags_of(arguments)


def _observed(
    arguments: argparse.Namespace, settings: ClusterSettings | None, znodes: ZooKeeperReading | None
) -> Observation:
    """Read the cluster that the flags name. `settings`: None for one of Strimzi."""
    if settings is not None:
        return on_cluster(look(settings, frozenset({IBP}), znodes))
    from kafkafeatures.cli.kube.strimzi import observed

    return observed(arguments)


def _read_zookeeper(arguments: argparse.Namespace) -> ZooKeeperReading:
    from kafkafeatures.cli.cluster import ensemble

    return ensemble.read(ensemble.named(arguments))


def _describe_zookeeper(arguments: argparse.Namespace, zookeeper_reading: ZooKeeperReading) -> int:
    """Print what was read from ZooKeeper only. Exit code 1 if some of it could not be read."""
    if arguments.apis:
        raise CommandFailed("--apis needs a cluster; give --bootstrap-server as well", Exit.USAGE)
    if arguments.output in DRAWN:
        from kafkafeatures.cli.cluster import ensemble

        show(arguments.output, partial(ensemble.draw, zookeeper_reading=zookeeper_reading), _TITLE)
    else:
        from kafkafeatures.core.report.zookeeper_document import zookeeper_document

        print_document(
            {"apiVersion": API_VERSION, "kind": "Ensemble", **zookeeper_document(zookeeper_reading)}, arguments.output
        )
    return Exit.FAILED if zookeeper_reading.failures else Exit.DONE


def _describe_levels(arguments: argparse.Namespace) -> int:
    """Print what every known level does; with a cluster also which of them are finalized."""
    from kafkafeatures.core.report.levels_document import levels_document

    finalized = None
    if names_cluster(arguments) or arguments.strimzi:
        settings = None if arguments.strimzi else settings_from_flags(arguments)
        observation = _observed(arguments, settings, None)
        finalized = observation.known_levels if isinstance(observation.finalized, Known) else None
    levels = levels_document(finalized)
    if arguments.output in DRAWN:
        from kafkafeatures.cli.cluster import levels_text

        draw = partial(levels_text.draw, levels=levels["levels"])
        show(arguments.output, draw, "kafkafeatures: what each level does")
    else:
        print_document(levels, arguments.output)
    return Exit.DONE


def _describe_files(arguments: argparse.Namespace) -> int:
    """Print the state by a metadata log on disk. Exit code 1 if records are missing, so that it may be wrong."""
    if names_cluster(arguments) or arguments.strimzi:
        text = "--from reads files instead of a cluster; give it without --bootstrap-*, -f, --profile and --strimzi"
        raise CommandFailed(text, Exit.USAGE)
    if arguments.apis:
        raise CommandFailed("--apis needs a cluster: a metadata log does not hold the APIs of its nodes", Exit.USAGE)
    from datetime import UTC, datetime

    from kafkafeatures.cli.log.paths import log_folder
    from kafkafeatures.cli.log.state import problems_of, restored
    from kafkafeatures.core.facts.observe_files import NO_LEADER, observe_files
    from kafkafeatures.core.facts.readings import LogReading

    folder = log_folder(arguments.files)
    state = restored(folder, None)
    image = state.image
    at = datetime.fromtimestamp(min(max(image.timestamp_ms, 0), _LATEST_MS) / 1000, UTC)
    leader = NO_LEADER if image.leader_id is None else image.leader_id
    reading = LogReading(image, image.offset, leader, image.epoch, at)
    observation = observe_files(reading, cluster_id=folder.cluster_id, files=folder.display_name)
    problems = problems_of(state)
    if arguments.output in DRAWN:
        from kafkafeatures.cli.cluster import matrix

        def page() -> str:
            from kafkafeatures.cli.cluster.page import cluster_page

            return cluster_page(observation)

        show(arguments.output, partial(matrix.draw, observation=observation), _TITLE, page)
        if arguments.output == "table":
            print(f"\nTo see which registrations may be ghosts: kafkafeatures log ghosts {quote(folder.display_name)}")
    else:
        from kafkafeatures.core.report.cluster_document import cluster_document

        print_document(cluster_document(observation), arguments.output)
    for problem in problems:
        tell(f"{folder.display_name}: {problem}")
    return Exit.FAILED if problems else Exit.DONE
