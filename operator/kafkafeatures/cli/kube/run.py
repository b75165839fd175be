"""`kafkafeatures run`: the operator. In a pod it uses the service account, elsewhere KUBECONFIG."""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import socket
from typing import TYPE_CHECKING

from kafkafeatures.api.identity import OperatorIdentity
from kafkafeatures.cli.kube.notify_flags import add_notify_arguments, notify_settings
from kafkafeatures.cli.kube.variables import one_of
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit, to_install
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.wire.addresses import Network

if TYPE_CHECKING:
    from kafkafeatures.kafka.recorder.recordings import RecorderSettings

LOG_FORMATS = ("json", "text")
LOG_LEVELS = ("info", "warning", "error")
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
LEAST_MEMORY = 32 * _UNITS["Mi"]
"""Least bytes of a size: one batch of a controller's log may have 8 MiB, and is in memory several times."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `run`; each has an environment variable for the chart."""
    parser.add_argument(
        "--namespace",
        type=_namespace,
        action="append",
        default=[],
        metavar="NS",
        help="watch this namespace; can be repeated (default: all namespaces)",
    )
    parser.add_argument(
        "--request-namespace",
        type=_namespace,
        action="append",
        default=[],
        metavar="NS",
        help="withdraw, in this namespace, requests to restart pods that no resource waits for; can be repeated",
    )
    parser.add_argument(
        "--listen",
        type=_listen,
        default=os.environ.get("KAFKAFEATURES_LISTEN", ":8080"),
        metavar="HOST:PORT",
        help="probes and metrics; without HOST: all addresses, IPv4 and IPv6 (default: %(default)s)",
    )
    for flag, meaning in (
        ("--allow-address", "connect to no other addresses"),
        ("--deny-address", "never connect to these"),
    ):
        parser.add_argument(
            flag,
            type=_network,
            action="append",
            metavar="CIDR",
            help=f"addresses of Kafka: {meaning}; can be repeated",
        )
    for flag, default, meaning in (
        (
            "--memory-per-cluster",
            "64Mi",
            "the data of one cluster may use; a cluster that sends more is not read further",
        ),
        (
            "--memory-all-clusters",
            "256Mi",
            "the data of all clusters may use; above it, the largest is read again",
        ),
    ):
        parser.add_argument(
            flag, type=_size, metavar="SIZE", help=f"memory that {meaning} (32Mi or more, default: {default})"
        )
    parser.add_argument(
        "--max-partition-images",
        type=_count,
        metavar="N",
        help="clusters whose partitions are in memory at once, because their nodes are restarted (default: 2)",
    )
    parser.add_argument(
        "--recorder-folder",
        metavar="DIR",
        help="record the metadata log of each cluster there (default: nowhere); it holds credentials of Kafka users",
    )
    for flag, default, meaning in (
        ("--recorder-per-cluster", "1Gi", "of one resource; the oldest are removed"),
        ("--recorder-all-clusters", "8Gi", "of all together; those of the largest are removed"),
    ):
        parser.add_argument(
            flag, type=_size, metavar="SIZE", help=f"room for recordings {meaning} (32Mi or more, default: {default})"
        )
    add_notify_arguments(parser)
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        help="default: text on a terminal, json otherwise",
    )
    parser.add_argument("--log-level", choices=LOG_LEVELS, help="leave out what matters less (default: info)")


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM."""
    try:
        from kafkafeatures import app
        from kafkafeatures.kube.errors import NoAccount
    except ModuleNotFoundError as error:
        raise CommandFailed(f"the operator needs {error.name}: {to_install('operator')}", Exit.FAILED) from None
    import asyncio

    from kafkafeatures.logs import configure
    from kafkafeatures.settings import OperatorSettings

    host, port = arguments.listen
    defaults = OperatorSettings()
    per_cluster = (
        arguments.memory_per_cluster or _size_in("KAFKAFEATURES_MEMORY_PER_CLUSTER") or defaults.memory_per_cluster
    )
    all_clusters = arguments.memory_all_clusters or _size_in("KAFKAFEATURES_MEMORY_ALL_CLUSTERS")
    # If only the limit of one cluster is set, and is above the default for all of them, the latter gives way.
    all_clusters = all_clusters or max(per_cluster, defaults.memory_all_clusters)
    if per_cluster > all_clusters:
        raise CommandFailed("--memory-per-cluster is more than --memory-all-clusters", Exit.USAGE)
    settings = OperatorSettings(
        namespaces=tuple(dict.fromkeys(arguments.namespace or _namespaces_in("KAFKAFEATURES_NAMESPACES"))),
        request_namespaces=tuple(
            dict.fromkeys(arguments.request_namespace or _namespaces_in("KAFKAFEATURES_REQUEST_NAMESPACES"))
        ),
        listen_host=host,
        listen_port=port,
        allowed=tuple(arguments.allow_address or _networks_in("KAFKAFEATURES_ALLOW_ADDRESS")),
        # a document must not make the operator connect to itself
        denied=(*(arguments.deny_address or _networks_in("KAFKAFEATURES_DENY_ADDRESS")), *_networks_in("POD_IP")),
        memory_per_cluster=per_cluster,
        memory_all_clusters=all_clusters,
        max_partition_images=arguments.max_partition_images or _images() or defaults.max_partition_images,
        recorder=_recorder(arguments),
        notify=notify_settings(arguments),
        operator=_operator(),
    )
    configure(
        arguments.log_format or one_of("KAFKAFEATURES_LOG_FORMAT", LOG_FORMATS),
        arguments.log_level or one_of("KAFKAFEATURES_LOG_LEVEL", LOG_LEVELS) or "info",
    )
    try:
        asyncio.run(app.run(settings, environment=SYSTEM))
    except NoAccount as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    except OSError as error:
        raise CommandFailed(f"cannot listen on {host}:{port}: {error.strerror or error}", Exit.FAILED) from None
    return Exit.DONE


def _recorder(arguments: argparse.Namespace) -> RecorderSettings | None:
    """Settings of the recorder; None without a folder, but its limits are checked anyway."""
    from kafkafeatures.kafka.recorder.recordings import RecorderSettings

    folder = arguments.recorder_folder or os.environ.get("KAFKAFEATURES_RECORDER_FOLDER", "")
    defaults = RecorderSettings(folder)
    per_cluster = arguments.recorder_per_cluster or _size_in("KAFKAFEATURES_RECORDER_PER_CLUSTER")
    all_clusters = arguments.recorder_all_clusters or _size_in("KAFKAFEATURES_RECORDER_ALL_CLUSTERS")
    all_clusters = all_clusters or max(per_cluster, defaults.all_clusters)
    per_cluster = per_cluster or min(all_clusters, defaults.per_cluster)
    if per_cluster > all_clusters:
        raise CommandFailed("--recorder-per-cluster is more than --recorder-all-clusters", Exit.USAGE)
    return RecorderSettings(os.path.abspath(folder), per_cluster, all_clusters) if folder else None


def _operator() -> OperatorIdentity:
    """The identity of this operator process. A pod's name identifies it; elsewhere host name and process id do."""
    return OperatorIdentity(
        os.environ.get("POD_NAMESPACE", ""),
        os.environ.get("KAFKAFEATURES_NAME") or "kafka-features-operator",
        os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
    )


def _namespaces_in(variable: str) -> list[str]:
    listed = (name.strip() for name in os.environ.get(variable, "").split(","))
    try:
        return [_namespace(name) for name in listed if name]
    except argparse.ArgumentTypeError as error:
        raise CommandFailed(f"{variable}: {error}", Exit.USAGE) from None


def _networks_in(variable: str) -> list[Network]:
    try:
        return [_network(cidr) for cidr in os.environ.get(variable, "").split(",") if cidr]
    except argparse.ArgumentTypeError as error:
        raise CommandFailed(f"{variable}: {error}", Exit.USAGE) from None


def _size_in(variable: str) -> int:
    """The bytes in an environment variable; 0 if it is not set."""
    text = os.environ.get(variable, "")
    try:
        return _size(text) if text else 0
    except argparse.ArgumentTypeError as error:
        raise CommandFailed(f"{variable}: {error}", Exit.USAGE) from None


def _images() -> int:
    """The number in KAFKAFEATURES_MAX_PARTITION_IMAGES; 0 if it is not set."""
    text = os.environ.get("KAFKAFEATURES_MAX_PARTITION_IMAGES", "")
    try:
        return _count(text) if text else 0
    except argparse.ArgumentTypeError as error:
        raise CommandFailed(f"KAFKAFEATURES_MAX_PARTITION_IMAGES: {error}", Exit.USAGE) from None


def _namespace(text: str) -> str:
    if len(text) > 63 or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"invalid namespace {text[:70]!r}: expected at most 63 of a-z, 0-9 and '-' (not first or last)"
        )
    return text


def _size(text: str) -> int:
    match = re.fullmatch("([0-9]{1,9})(Ki|Mi|Gi)", text)
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"invalid size {text[:60]!r}: expected 32Mi or more, such as 64Mi or 1Gi")
    return size


def _count(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,2}|1000", text):
        raise argparse.ArgumentTypeError(f"invalid number {text[:60]!r}: expected 1 to 1000")
    return int(text)


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"invalid network {text!r}: expected CIDR notation such as 10.0.0.0/8"
        ) from None
    if ipaddress.ip_interface(text).ip != network.network_address:
        raise argparse.ArgumentTypeError(
            f"invalid network {text!r}: the address has bits beyond /{network.prefixlen}; the network is {network}"
        )
    return network


def _listen(text: str) -> tuple[str, int]:
    """Address to listen on, from "host:port"; without a host on all addresses."""
    name, colon, port = text.rpartition(":")
    host = name.strip("[]")
    if not colon or (name and not host) or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise argparse.ArgumentTypeError(
            f"invalid address {text[:60]!r}: expected HOST:PORT such as 127.0.0.1:8080, or :8080 for all"
        )
    return host, int(port)
