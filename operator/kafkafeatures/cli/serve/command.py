"""`kafkafeatures serve`: pages that stay up to date in a browser, of resources on Kubernetes or of one cluster.

Read-only, on 127.0.0.1 alone, with the rights of the kubeconfig or of the connection flags. It serves until Ctrl-C, and
ends with 0 then.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafkafeatures.cli.cluster.connect import add_connection_flags, flags_of, settings_from_flags
from kafkafeatures.cli.kube.api import add_kube_flags, connected
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell

if TYPE_CHECKING:
    from kafkafeatures.cli.kube.resource import KubeResource
    from kafkafeatures.cli.serve.cluster import ClusterPage
    from kafkafeatures.cli.serve.live import Reader
    from kafkafeatures.cli.serve.resources import ResourcePages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `serve`."""
    parser.add_argument(
        "--port", type=_port, default=0, metavar="PORT", help="port on 127.0.0.1 (default: one that is free)"
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="serve the resources of all namespaces")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="serve only resources with these labels")
    add_kube_flags(parser)
    add_connection_flags(parser, "one cluster, instead of resources on Kubernetes")


def run(arguments: argparse.Namespace) -> int:
    """Read once, so that mistakes end the command here; then print the address, and serve until Ctrl-C."""
    from kafkafeatures.cli.serve.live import Reader
    from kafkafeatures.cli.serve.server import PageServer
    from kafkafeatures.environment import SYSTEM

    with ExitStack() as ending:
        reader = Reader(SYSTEM)
        ending.callback(reader.close)
        site = _cluster(arguments, reader) if _is_cluster(arguments) else _resources(arguments, reader, ending)
        site.start()
        server = ending.enter_context(PageServer(site, arguments.port))
        print(server.url, flush=True)
        tell("read-only; whoever has this address can read the pages; Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return Exit.DONE
    return Exit.DONE


def _is_cluster(arguments: argparse.Namespace) -> bool:
    """True for the flags of a cluster. Raises CommandFailed for those of Kubernetes beside them."""
    if not any((arguments.bootstrap_server, arguments.bootstrap_controller, arguments.config)):
        return False
    for flag in ("all_namespaces", "selector", "namespace", "context", "kubeconfig", "as_user"):
        if getattr(arguments, flag):
            name = flag.removesuffix("_user").replace("_", "-")
            raise CommandFailed(f"--{name} selects resources on Kubernetes; give it without --bootstrap-*", Exit.USAGE)
    return True


def _cluster(arguments: argparse.Namespace, reader: Reader) -> ClusterPage:
    from kafkafeatures.cli.serve.cluster import ClusterPage

    settings = settings_from_flags(arguments)
    return ClusterPage(settings, reader, flags_of(arguments))


def _resources(arguments: argparse.Namespace, reader: Reader, ending: ExitStack) -> ResourcePages:
    from kafkafeatures.cli.serve.resources import ResourcePages

    kube = ending.enter_context(connected(arguments))

    def read() -> list[KubeResource]:
        return kube.resources(everywhere=arguments.all_namespaces, selector=arguments.selector)

    return ResourcePages(kube, read, reader, _kube_flags(arguments))


def _kube_flags(arguments: argparse.Namespace) -> list[str]:
    """The flags that select API server and user, for commands on the pages."""
    flags = [("--context", arguments.context), ("--kubeconfig", arguments.kubeconfig), ("--as", arguments.as_user)]
    flags += [("--as-group", group) for group in arguments.as_groups]
    return [word for flag, value in flags if value for word in (flag, str(value))]


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"invalid port {text[:20]!r}: expected 1 to 65535, or 0 for one that is free")
    return int(text)
