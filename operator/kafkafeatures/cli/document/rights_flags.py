"""Flags of `check --rights`, called by `check.py`. They are no part of `check_rights.py`, so that a plain `check` does
not import that.
"""

from __future__ import annotations

import argparse

from kafkafeatures.cli.cluster.connect import add_zookeeper_flags
from kafkafeatures.cli.kube.api import add_kube_flags
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.roll.drivers import DRIVERS, NOBODY

MODES = {
    "observe": "describe, plan, and spec.mode: Observe",
    "levels": "also raise levels (default)",
    "unregister": "unregister a node that no longer exists",
    "ibp": "raise inter.broker.protocol.version",
    "migrate": "migrate from ZooKeeper to KRaft",
}
"""Values of `--mode`: the purpose of the rights. `--driver` adds the rights for restarts."""


def add_rights_flags(parser: argparse.ArgumentParser) -> None:
    """The flag `--rights`, and flags that require it."""
    group = parser.add_argument_group("rights")
    group.add_argument(
        "--rights", action="store_true", help="check instead which rights this user has, and which are missing"
    )
    described = "; ".join(f"{name}: {text}" for name, text in MODES.items())
    group.add_argument("--mode", type=_mode, choices=MODES, help=f"what the rights are for. {described}")
    group.add_argument(
        "--driver", choices=[driver.name for driver in DRIVERS],
        help="also the rights that workload.driver needs, in Kafka and in the namespace of Kubernetes (with --as "
        f"system:serviceaccount:NS:NAME those of the operator); default: {NOBODY.name}",
    )  # fmt: skip
    add_zookeeper_flags(parser, "with --mode ibp or migrate: the ensemble, as zookeeper.connect names it")
    add_kube_flags(parser)


def _mode(name: str) -> str:
    """The value of `--mode`. Refuses `drivers`, which the table of rights in docs/how-to/connect.md has as well."""
    if name == "drivers":
        raise argparse.ArgumentTypeError("the rights for restarts are those of a driver: use --driver StatefulSet")
    return name


def rights_are_asked(arguments: argparse.Namespace) -> bool:
    """True for `check --rights`. Raises CommandFailed for flags that do not fit together."""
    dependent = {
        "--mode": arguments.mode, "--driver": arguments.driver, "--zookeeper": arguments.zookeeper,
        "--zookeeper-config": arguments.zookeeper_config, "--namespace": arguments.namespace or None,
        "--context": arguments.context or None, "--kubeconfig": arguments.kubeconfig,
        "--as": arguments.as_user or None, "--as-group": arguments.as_groups or None,
    }  # fmt: skip
    if not arguments.rights:
        if wrong_flag := next((flag for flag, value in dependent.items() if value is not None), None):
            raise CommandFailed(f"{wrong_flag} requires --rights", Exit.USAGE)
        return False
    if arguments.release is not None:
        raise CommandFailed("--rights and --release are two checks; run them one after the other", Exit.USAGE)
    if arguments.zookeeper is None and arguments.zookeeper_config is not None:
        raise CommandFailed("--zookeeper-config says how to speak to --zookeeper; give that as well", Exit.USAGE)
    if arguments.zookeeper is not None and arguments.mode not in ("ibp", "migrate"):
        raise CommandFailed("--zookeeper requires --mode ibp or --mode migrate", Exit.USAGE)
    return True
