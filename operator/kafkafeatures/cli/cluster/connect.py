"""Connection flags of all commands: parses them into settings, opens the cluster, and makes the errors for a cluster
that cannot be reached. `connection_sources.py` decides where the connection comes from.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafkafeatures import interrupts
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.connection_sources import (
    NO_CLUSTER,
    check_connection_flags,
    check_credentials_are_for,
    fill_in,
    is_of_profile,
    names_address,
)
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import tell
from kafkafeatures.cli.shell.values import not_empty
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind
from kafkafeatures.core.words import printable
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings, Security, parse_addresses

if TYPE_CHECKING:
    from kafkafeatures.cli.cluster.requests import KafkaRequests
    from kafkafeatures.core.facts.observation import Observation
    from kafkafeatures.core.facts.znodes import ZooKeeperReading
    from kafkafeatures.kafka.base.pool import Pool
    from kafkafeatures.kafka.cluster import Cluster

T = TypeVar("T")

DEFAULT_TIMEOUT = 10.0
MIN_TIMEOUT, MAX_TIMEOUT = 0.1, 300.0
"""Seconds that `--request-timeout` takes; the default is DEFAULT_TIMEOUT."""


def add_connection_flags(
    parser: argparse.ArgumentParser, heading: str = "cluster", *, takes_document: bool = False
) -> None:
    """Add the flags for the addresses of the cluster, its security, and the request timeout. `takes_document`: also
    `-f` for the connection of a document.
    """
    group = parser.add_argument_group(heading)
    for flag, nodes in (("--bootstrap-server", "brokers"), ("--bootstrap-controller", "controllers")):
        first = f"{nodes} for the first connection"
        group.add_argument(flag, type=not_empty, metavar="HOST:PORT[,..]", help=first)
    add_config_flags(group)
    group.add_argument(
        "--profile",
        type=not_empty,
        metavar="NAME",
        help="the connection of this name in ~/.config/kafkafeatures/config.toml",
    )
    if takes_document:
        group.add_argument(
            "-f", "--file", type=Path, action="append", metavar="FILE",
            help="KafkaFeatures document (YAML) that names the cluster; - is stdin",
        )  # fmt: skip
        add_secrets_flag(group)
    group.add_argument(
        "--request-timeout",
        type=_seconds,
        default=DEFAULT_TIMEOUT,
        metavar="SECONDS",
        help="timeout of each request, and of each connection (default: %(default)s)",
    )
    parser.set_defaults(connection_source="", **({} if takes_document else {"file": None}))


def add_secrets_flag(group: argparse._ActionsContainer) -> None:
    """Add the flag for the Secrets that a document names."""
    group.add_argument("--secrets-dir", type=Path, metavar="DIR", help="directory of secrets: DIR/<secret-name>/<key>")


def add_config_flags(group: argparse._ActionsContainer) -> None:
    """Add the flags for files of client properties, which have the security of the cluster's listeners."""
    group.add_argument(
        "--config",
        "--command-config",
        type=Path,
        metavar="FILE",
        help="Kafka client properties: TLS and SASL; - is stdin",
    )
    group.add_argument("--controller-config", type=Path, metavar="FILE", help="the same for controllers, if different")


def add_zookeeper_flags(parser: argparse.ArgumentParser, help_line: str) -> None:
    """Add the flags for the addresses of the ensemble, and its security."""
    parser.add_argument("--zookeeper", metavar="HOST:PORT[,..][/CHROOT]", help=help_line)
    parser.add_argument(
        "--zookeeper-config", type=Path, metavar="FILE",
        help="how to speak to ZooKeeper: Kafka's zookeeper.ssl.* properties with PEM files, and the user of a digest "
        "as zookeeper.digest.username and zookeeper.digest.password; - is stdin",
    )  # fmt: skip


def settings_from_flags(arguments: argparse.Namespace) -> ClusterSettings:
    """The settings of a cluster, from the flags and the other sources of a connection. Connection flags that were not
    given are set to what the other sources have. Raises CommandFailed.
    """
    check_connection_flags(arguments)
    if arguments.file:
        from kafkafeatures.cli.cluster.document_settings import settings_in_document

        arguments.connection_source = f"spec.cluster of {arguments.file[0]}"
        settings = settings_in_document(arguments, security_of_flags(arguments))
        is_default = arguments.request_timeout == DEFAULT_TIMEOUT
        return settings if is_default else replace(settings, request_timeout=arguments.request_timeout)
    typed_config, (broker_security, own_addresses) = arguments.config, _broker_security(arguments)
    fill_in(arguments)
    is_lent = False
    if arguments.config != typed_config:  # no file is read twice, since it may be stdin
        is_lent = names_address(arguments) and not is_of_profile(arguments)
        broker_security, own_addresses = _broker_security(arguments)
    controller_security = _controller_security(arguments, broker_security)
    if not names_address(arguments):
        source = f"; {arguments.connection_source} names none" if arguments.connection_source else ""
        raise CommandFailed(f"{NO_CLUSTER}{source}", Exit.USAGE)
    try:
        servers = parse_addresses(arguments.bootstrap_server or "", "--bootstrap-server")
        controllers = parse_addresses(arguments.bootstrap_controller or "", "--bootstrap-controller")
        is_bound = is_lent and broker_security.has_credentials
        own = parse_addresses(own_addresses, str(arguments.config)) if is_bound else ()
    except ValueError as error:
        source = f" ({arguments.connection_source})" if arguments.connection_source else ""
        raise CommandFailed(f"{error}{source}", Exit.USAGE) from None
    if not servers and not controllers:
        raise CommandFailed("--bootstrap-server and --bootstrap-controller are empty; expected host:port", Exit.USAGE)
    check_credentials_are_for((*servers, *controllers), own, arguments.config)
    return ClusterSettings(
        bootstrap_servers=servers,
        bootstrap_controllers=controllers,
        brokers=broker_security,
        controllers=controller_security,
        request_timeout=arguments.request_timeout,
    )


def settings_to_change(arguments: argparse.Namespace) -> ClusterSettings:
    """`settings_from_flags`, for a command that changes the cluster: `tell_connection` shows them."""
    settings = settings_from_flags(arguments)
    tell_connection(settings, arguments.connection_source)
    return settings


def tell_connection(settings: ClusterSettings, source: str) -> None:
    """Print on stderr which cluster is about to be changed, before any question: its addresses, the user, and the
    source of the connection, which is empty if all of it was typed.
    """
    addresses = ",".join(map(str, (*settings.bootstrap_servers, *settings.bootstrap_controllers)))
    security = settings.brokers if settings.bootstrap_servers else settings.controllers
    user = f", as user {security.sasl.username}" if security.sasl and security.sasl.username else ""
    tell(printable(f"cluster at {addresses}{user}" + (f"; the connection is that of {source}" if source else "")))


def security_of_flags(arguments: argparse.Namespace) -> tuple[Security, Security] | None:
    """The security for brokers, and for controllers, in place of that of documents; None without `--config` and
    `--controller-config`. Raises CommandFailed.
    """
    if Path("-") in arguments.file and Path("-") in (arguments.config, arguments.controller_config):
        raise CommandFailed("-f - and --config - cannot both be stdin; write one of them to a file", Exit.USAGE)
    if not arguments.config and not arguments.controller_config:
        return None
    brokers = _security(arguments.config)[0]
    return brokers, _controller_security(arguments, brokers)


def _broker_security(arguments: argparse.Namespace) -> tuple[Security, str]:
    """The security and the addresses in the file of `--config`; these are used if no other is named."""
    security, properties = _security(arguments.config)
    servers, controllers = properties.get("bootstrap.servers"), properties.get("bootstrap.controllers")
    if not names_address(arguments):
        arguments.bootstrap_server, arguments.bootstrap_controller = servers, controllers
    return security, ",".join(filter(None, (servers, controllers)))


def _controller_security(arguments: argparse.Namespace, brokers: Security) -> Security:
    has_file = arguments.controller_config not in (None, arguments.config)
    return _security(arguments.controller_config)[0] if has_file else brokers


def cluster_of(settings: ClusterSettings) -> Cluster:
    """The cluster, not connected yet. Its requests are shown if the user asked for that (`-v`)."""
    from kafkafeatures.kafka.cluster import Cluster

    return Cluster(settings, environment=SYSTEM, recorder=_recorder())


def pool_of(settings: ClusterSettings) -> Pool:
    """Connections to the nodes of a cluster, for requests that `Cluster` has no method for."""
    from kafkafeatures.kafka.base.pool import Pool

    return Pool(settings, environment=SYSTEM, recorder=_recorder())


def _recorder() -> KafkaRequests | None:
    """The object that shows requests; None without `-v`."""
    from kafkafeatures.cli.shell.requests import are_shown

    if not are_shown():
        return None
    from kafkafeatures.cli.cluster.requests import KafkaRequests

    return KafkaRequests()


def flags_of(arguments: argparse.Namespace) -> str:
    """The flags of this connection as text, for commands that users are shown to copy. `settings_from_flags` comes
    first: whatever the source of the connection is, the text has all of it.
    """
    from kafkafeatures.core.engine.remedies import cluster_flags

    if arguments.file:
        words = ["-f", "FILE" if str(arguments.file[0]) == "-" else str(arguments.file[0])]
        words += ["--secrets-dir", str(arguments.secrets_dir)] if arguments.secrets_dir else []
        words += ["--config", str(arguments.config)] if arguments.config else []
        flags = shlex.join(words)
    else:
        flags = cluster_flags(
            arguments.bootstrap_server or "", arguments.bootstrap_controller or "", str(arguments.config or "")
        )
    more = []
    if arguments.controller_config not in (None, arguments.config):
        more += ["--controller-config", str(arguments.controller_config)]
    if arguments.request_timeout != DEFAULT_TIMEOUT:
        more += ["--request-timeout", f"{arguments.request_timeout:g}"]
    return f"{flags} {shlex.join(more)}".strip()


def failed(failure: Failure, *, is_of_cluster: bool = True) -> CommandFailed:
    """The error for a system that could not be read, also if it refused our user. `is_of_cluster`: see
    CommandFailed.
    """
    message, address, remedy = map(printable, (failure.message, failure.location, failure.remedy))
    return CommandFailed(
        printable(str(failure)),
        Exit.UNREACHABLE,
        what=message,
        where=address,
        remedy=remedy,
        page=_runbook_of(failure.kind),
        is_of_cluster=is_of_cluster,
    )


def _runbook_of(kind: FailureKind) -> str:
    """The runbook about this kind of failure."""
    from kafkafeatures.api.reasons import Reason
    from kafkafeatures.cli.shell.site import runbook_of
    from kafkafeatures.core.report.status import UNREACHABLE_BECAUSE

    if kind is FailureKind.AUTHORIZATION:
        return runbook_of(Reason.NOT_AUTHORIZED)
    return runbook_of(UNREACHABLE_BECAUSE.get(kind, Reason.UNREACHABLE))


def on_cluster(work: Coroutine[Any, Any, T], *, code_of_interrupt: int = interrupts.EXIT_CODE) -> T:
    """Run the coroutine as `on_loop` does. Raises CommandFailed if no node of the cluster could be reached."""
    from kafkafeatures.core.facts.observe import ClusterUnreachable

    try:
        return on_loop(work, code_of_interrupt=code_of_interrupt)
    except ClusterUnreachable as error:
        raise failed(error.failure) from None


def on_loop(work: Coroutine[Any, Any, T], *, code_of_interrupt: int = interrupts.EXIT_CODE) -> T:
    """Run the coroutine in an event loop, and return its result. Ctrl-C cancels it, and ends the process after its
    cleanup with the exit code `code_of_interrupt`.
    """
    results: list[T] = []

    async def keep() -> None:  # returns nothing: Python formats a task's whole result when it restores signal handlers
        try:
            results.append(await work)
        finally:
            await asyncio.sleep(0)  # a Ctrl-C since the last time that `work` waited for something takes effect here

    with asyncio.Runner() as runner:
        try:
            runner.run(keep())
        except KeyboardInterrupt:
            interrupts.SENT_STEPS.tell()
            interrupts.end(code_of_interrupt)
    return results[0]


async def look(
    settings: ClusterSettings,
    settings_of_zookeeper_mode: frozenset[str] = frozenset(),
    zookeeper: ZooKeeperReading | None = None,
    *,
    partitions: bool = False,
    settings_of_nodes: frozenset[str] = frozenset(),
) -> Observation:
    """Read a cluster once, and return the observation.

    `settings_of_zookeeper_mode`: names of settings that are only needed of brokers in ZooKeeper mode; if there are such
    brokers, the cluster is read a second time, with these settings. `zookeeper`: an earlier reading of the ensemble.
    `partitions`: read every partition, too. `settings_of_nodes`: names of settings to read of every node.
    """
    async with cluster_of(settings) as cluster:
        return await look_at(
            cluster, settings_of_zookeeper_mode, zookeeper, partitions=partitions, settings_of_nodes=settings_of_nodes
        )


async def look_at(
    cluster: Cluster,
    settings_of_zookeeper_mode: frozenset[str] = frozenset(),
    zookeeper: ZooKeeperReading | None = None,
    *,
    partitions: bool = False,
    settings_of_nodes: frozenset[str] = frozenset(),
) -> Observation:
    """`look` at a cluster that is open already."""
    from kafkafeatures.core.facts.observe import observe

    znodes = NOT_ASKED if zookeeper is None else zookeeper
    observation = observe(*await cluster.read(partitions=partitions, settings=settings_of_nodes), zookeeper=znodes)
    if not settings_of_zookeeper_mode or not observation.in_zookeeper_mode:
        return observation
    names = settings_of_nodes | settings_of_zookeeper_mode
    return observe(*await cluster.read(partitions=partitions, settings=names), zookeeper=znodes)


def _security(path: Path | None) -> tuple[Security, Mapping[str, str]]:
    """The security in a file of client properties, and all its properties; no security without a file."""
    if path is None:
        return Security(), {}
    from kafkafeatures.cli.cluster.client_config import STDIN, ConfigInvalid, read_properties, security_of

    source = "stdin" if path == STDIN else str(path)
    try:
        properties = read_properties(path)
        security = security_of(properties, source)
        if security.tls is not None or security.sasl is not None:
            _check(security, source)
        return security, properties
    except ConfigInvalid as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise CommandFailed(f"{source}: {reason}", Exit.USAGE) from None


def _check(security: Security, location: str) -> None:
    """Raise CommandFailed if certificates or keys cannot be used: later that would look like an unreachable node."""
    from kafkafeatures.kafka.base.errors import TlsFailed

    try:
        security.check()
    except TlsFailed as error:
        raise CommandFailed(f"{location}: {error}; {error.remedy}", Exit.USAGE) from None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected a number of seconds") from None
    if not MIN_TIMEOUT <= value <= MAX_TIMEOUT:
        raise argparse.ArgumentTypeError(f"invalid value {text}: expected {MIN_TIMEOUT} to {MAX_TIMEOUT} seconds")
    return value
