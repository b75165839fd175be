"""`kafkafeatures run`: the operator. In a pod with its account, outside of one with KUBECONFIG."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket

from kafkafeatures.cli.exit_codes import CommandFailed, Exit
from kafkafeatures.kafka.wire.addresses import Network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `run`; each has an environment variable for the chart."""
    parser.add_argument(
        "--namespace",
        action="append",
        default=[one for one in os.environ.get("KAFKAFEATURES_NAMESPACES", "").split(",") if one],
        metavar="NS",
        help="watch this namespace; may be given again (default: all namespaces)",
    )
    parser.add_argument(
        "--listen",
        type=_listen,
        default=os.environ.get("KAFKAFEATURES_LISTEN", "0.0.0.0:8080"),
        metavar="HOST:PORT",
        help="probes and metrics (default: %(default)s)",
    )
    for flag, what in (
        ("--allow-address", "no other addresses are connected to"),
        ("--deny-address", "never to these"),
    ):
        parser.add_argument(
            flag,
            type=_network,
            action="append",
            metavar="CIDR",
            help=f"where Kafka may be: {what}; may be given again",
        )
    parser.add_argument(
        "--log-format",
        choices=("json", "text"),
        default=os.environ.get("KAFKAFEATURES_LOG_FORMAT"),
        help="default: text on a terminal, json otherwise",
    )


def run(arguments: argparse.Namespace) -> int:
    """Until SIGTERM."""
    try:
        from kafkafeatures import app
        from kafkafeatures.kube.errors import NoAccount
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"the operator needs {error.name}; install it with pip install 'kafka-features-operator[operator]'",
            Exit.FAILED,
        ) from None
    import asyncio

    from kafkafeatures.logs import configure
    from kafkafeatures.settings import OperatorSettings

    configure(arguments.log_format)
    host, port = arguments.listen
    settings = OperatorSettings(
        namespaces=tuple(dict.fromkeys(arguments.namespace)),
        listen_host=host,
        listen_port=port,
        allowed=tuple(arguments.allow_address or _networks_in("KAFKAFEATURES_ALLOW_ADDRESS")),
        denied=tuple(arguments.deny_address or _networks_in("KAFKAFEATURES_DENY_ADDRESS")),
        instance=os.environ.get("POD_NAME") or socket.gethostname(),
    )
    try:
        asyncio.run(app.run(settings))
    except NoAccount as error:
        raise CommandFailed(str(error), Exit.BLOCKED) from None
    except OSError as error:
        raise CommandFailed(f"cannot listen on {host}:{port}: {error.strerror or error}", Exit.FAILED) from None
    return Exit.DONE


def _networks_in(variable: str) -> list[Network]:
    try:
        return [_network(one) for one in os.environ.get(variable, "").split(",") if one]
    except argparse.ArgumentTypeError as error:
        raise CommandFailed(f"{variable}: {error}", Exit.USAGE) from None


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no network; write 10.0.0.0/8") from None


def _listen(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)
