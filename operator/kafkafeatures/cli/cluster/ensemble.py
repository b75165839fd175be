"""Reads once what Kafka keeps in ZooKeeper, and prints it.

Called by `describe` and other commands with the flag `--zookeeper`, and imported only then.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from kafkafeatures.cli.cluster.connect import failed, on_loop
from kafkafeatures.cli.cluster.zookeeper_config import access_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.indented import hanging, line
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.report.zookeeper_document import zookeeper_lines
from kafkafeatures.core.words import printable
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kafkafeatures.zookeeper.reader import read_zookeeper

_TITLE_COLUMNS = 13
"""Columns of the titles."""


def named(arguments: argparse.Namespace) -> Ensemble:
    """The ensemble that the flags name. Raises CommandFailed if the addresses or the file of `--zookeeper-config` are
    not valid.
    """
    try:
        servers, chroot = parse_connect(arguments.zookeeper, "--zookeeper")
    except ValueError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    tls, digest = access_of(arguments.zookeeper_config)
    return Ensemble(servers, chroot, tls, digest, timeout=arguments.request_timeout)


def read(ensemble: Ensemble) -> ZooKeeperReading:
    """Read the ensemble once. Raises CommandFailed if it cannot be reached."""
    reading = on_loop(read_zookeeper(ensemble, lambda: datetime.now(UTC)))
    if isinstance(reading, Failure):
        raise failed(reading, is_of_cluster=False)
    return reading


def draw(console: Console, zookeeper_reading: ZooKeeperReading, observation: Observation | None = None) -> None:
    """Print the reading, and below it what could not be read, with remedies. `observation`: of the cluster, made after
    the reading; with it the phase of a migration is printed too.
    """
    for title, text in zookeeper_lines(zookeeper_reading, observation):
        hanging(console, Text(printable(text)), indent=_TITLE_COLUMNS, first=Text(f"{title:<{_TITLE_COLUMNS}}", "bold"))
    for failure in zookeeper_reading.failures:
        line(console, Text(f"Not read: {printable(str(failure))}", "red"))
