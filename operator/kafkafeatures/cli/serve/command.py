"""`kafkafeatures serve`: pages that stay up to date in a browser, of resources on Kubernetes or of one cluster.

Read-only, on 127.0.0.1 alone, with the rights of the kubeconfig or of the connection flags. It serves until Ctrl-C or
SIGTERM, and ends with 0 then.
"""

from __future__ import annotations

import argparse
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafkafeatures.cli.cluster.connect import add_connection_flags, flags_of, settings_from_flags
from kafkafeatures.cli.cluster.connection_sources import names_cluster
from kafkafeatures.cli.kube.api import add_kube_flags, connected
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.cli.shell.values import resource_name

if TYPE_CHECKING:
    from kafkafeatures.cli.kube.resource import KubeResource
    from kafkafeatures.cli.serve.cluster import ClusterPage
    from kafkafeatures.cli.serve.live import Reader
    from kafkafeatures.cli.serve.resources import ResourcePages

_ON_KUBERNETES = {
    "all_namespaces": "--all-namespaces",
    "selector": "--selector",
    "namespace": "--namespace",
    "context": "--context",
    "kubeconfig": "--kubeconfig",
    "as_user": "--as",
}
"""Flags that select resources on Kubernetes, by their attributes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `serve`."""
    parser.add_argument(
        "name", nargs="?", type=resource_name, metavar="NAME",
        help="serve this resource alone; with --bootstrap-* also its nodes and its metadata log",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=_port, default=0, metavar="PORT", help="port on 127.0.0.1 (default: one that is free)"
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="serve the resources of all namespaces")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="serve only resources with these labels")
    add_kube_flags(parser)
    add_connection_flags(parser, "cluster: of NAME, or instead of resources on Kubernetes", takes_document=True)


def run(arguments: argparse.Namespace) -> int:
    """Read once, so that mistakes end the command here; then print the address, and serve until Ctrl-C."""
    from kafkafeatures.cli.serve.live import Reader
    from kafkafeatures.cli.serve.server import PageServer
    from kafkafeatures.environment import SYSTEM

    _check(arguments)
    with ExitStack() as ending:
        reader = Reader(SYSTEM)
        ending.callback(reader.close)
        has_cluster = _has_cluster(arguments)
        is_cluster = has_cluster and arguments.name is None
        site = _cluster(arguments, reader) if is_cluster else _resources(arguments, reader, ending)
        path = site.start()
        server = ending.enter_context(PageServer(site, arguments.port))
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary files of keys are removed
        print(f"{server.url}{path}", flush=True)
        tell("read-only; whoever has this address can read the pages; Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return Exit.DONE
    return Exit.DONE


def _has_cluster(arguments: argparse.Namespace) -> bool:
    return names_cluster(arguments) or bool(arguments.config)


def _check(arguments: argparse.Namespace) -> None:
    """Raise CommandFailed for flags that exclude each other."""
    used_flags = [flag for name, flag in _ON_KUBERNETES.items() if getattr(arguments, name)]
    if arguments.name is None and _has_cluster(arguments) and used_flags:
        text = f"{used_flags[0]} selects resources on Kubernetes; give NAME as well, or leave out --bootstrap-*"
        raise CommandFailed(text, Exit.USAGE)
    if arguments.name is not None and (arguments.all_namespaces or arguments.selector):
        raise CommandFailed("NAME selects one resource; leave out --all-namespaces and --selector", Exit.USAGE)


def _cluster(arguments: argparse.Namespace, reader: Reader) -> ClusterPage:
    from kafkafeatures.cli.serve.cluster import ClusterPage

    settings = settings_from_flags(arguments)
    return ClusterPage(settings, reader, flags_of(arguments))


def _resources(arguments: argparse.Namespace, reader: Reader, ending: ExitStack) -> ResourcePages:
    from kafkafeatures.cli.serve.cluster import ClusterOfResource
    from kafkafeatures.cli.serve.resources import ResourcePages

    cluster = ClusterOfResource(settings_from_flags(arguments), reader) if _has_cluster(arguments) else None
    try:
        kube = ending.enter_context(connected(arguments))
    except CommandFailed as failed:
        if failed.code is Exit.USAGE and cluster is None:  # there may be no Kubernetes here
            raise CommandFailed(f"{failed}; to serve a Kafka cluster, use --bootstrap-server", failed.code) from None
        raise

    def read() -> list[KubeResource]:
        if arguments.name is not None:
            return [kube.resource(arguments.name)]
        return kube.resources(everywhere=arguments.all_namespaces, selector=arguments.selector)

    return ResourcePages(kube, read, reader, _kube_flags(arguments), cluster)


def _kube_flags(arguments: argparse.Namespace) -> list[str]:
    """The flags that select API server and user, for commands on the pages."""
    flags = [("--context", arguments.context), ("--kubeconfig", arguments.kubeconfig), ("--as", arguments.as_user)]
    flags += [("--as-group", group) for group in arguments.as_groups]
    return [word for flag, value in flags if value for word in (flag, str(value))]


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"invalid port {text[:20]!r}: expected 1 to 65535, or 0 for one that is free")
    return int(text)
