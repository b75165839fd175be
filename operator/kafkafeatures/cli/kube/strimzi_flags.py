"""Flags of commands that find a cluster by its `Kafka` resource of Strimzi. It is read by `cli/kube/strimzi.py`, which
is imported only where `--strimzi` is given.
"""

from __future__ import annotations

import argparse

from kafkafeatures.cli.kube.api import add_kube_flags
from kafkafeatures.cli.shell.values import resource_name


def add_strimzi_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--strimzi`, and the flags for the API server."""
    group = parser.add_argument_group("Strimzi, instead of addresses")
    group.add_argument("--strimzi", type=resource_name, metavar="NAME", help="the Kafka resource of the cluster")
    group.add_argument(
        "--strimzi-user", type=resource_name, default="kafka-features", metavar="NAME",
        help="the KafkaUser to log in as (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--strimzi-listener", metavar="NAME",
        help="the listener (default: the first one with TLS that fits the user, internal ones before others)",
    )  # fmt: skip
    add_kube_flags(group)
