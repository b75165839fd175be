"""Flags of `clients check` for a Prometheus, and the evidence that is read from it.

Called by `check.py`. It turns failures of `kafkafeatures.prometheus`, which is imported only when it is used, into
messages that name the flags.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from kafkafeatures.cli.clients.scrapes import ScrapeFiles
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.core.words import printable

if TYPE_CHECKING:
    from kafkafeatures.core.clients.coverage import EvidenceWindow
    from kafkafeatures.core.clients.evidence import CounterKey
    from kafkafeatures.prometheus.brokers import BrokerLabel
    from kafkafeatures.prometheus.http import HttpTransport

_SHOWN = 12
"""Labels, or values of one label, that a message shows."""
_LONGEST = 60
"""Characters of a value that are shown."""
_MOST_PATTERN = 200
"""Characters of `--broker-pattern`."""


def add_arguments(group: argparse._ActionsContainer) -> None:
    """Flags for the server, the brokers in it, and their ids."""
    group.add_argument(
        "--prometheus", default="", metavar="URL",
        help="Prometheus, or another server with its query API, that scrapes the brokers, such as "
        "http://prometheus:9090; instead of --evidence",
    )  # fmt: skip
    group.add_argument(
        "--prometheus-config", type=Path, metavar="FILE",
        help="login and TLS for it in YAML, as Prometheus' own clients have them: basic_auth, authorization, "
        "bearer_token_file, tls_config",
    )  # fmt: skip
    group.add_argument(
        "--selector", default="", metavar="MATCHERS",
        help="label matchers of the brokers of one cluster, such as 'namespace=\"kafka\"'",
    )  # fmt: skip
    group.add_argument(
        "--broker-label", default="", metavar="LABEL",
        help="label that has the id of a broker (default: one that is known to have it, such as broker_id)",
    )  # fmt: skip
    group.add_argument(
        "--broker-pattern", default="", metavar="REGEX",
        help="how that label has the id: one group, such as '.*-([0-9]+)' (default: the whole value)",
    )  # fmt: skip


def refuse_without_server(arguments: argparse.Namespace) -> None:
    """Raise CommandFailed for a flag that has no meaning without `--prometheus`."""
    for flag in ("prometheus_config", "selector", "broker_label", "broker_pattern"):
        if getattr(arguments, flag):
            raise CommandFailed(f"clients check: --{flag.replace('_', '-')} requires --prometheus URL", Exit.USAGE)


def read_prometheus(
    arguments: argparse.Namespace, window: EvidenceWindow, matters: Callable[[CounterKey], bool]
) -> ScrapeFiles:
    """The evidence. `matters`: see `read_evidence`. Raises CommandFailed."""
    from kafkafeatures.prometheus.api import PrometheusApi, PrometheusFailed
    from kafkafeatures.prometheus.brokers import BrokersNotNamed, SeveralClusters
    from kafkafeatures.prometheus.evidence import read_evidence
    from kafkafeatures.prometheus.queries import is_selector

    if arguments.cluster is not None:
        raise CommandFailed("clients check: --cluster is for --evidence; use --selector", Exit.USAGE)
    if not is_selector(arguments.selector):
        text = "expected matchers of labels of the brokers, such as 'namespace=\"kafka\"', without braces"
        raise CommandFailed(f"clients check: --selector: {text}", Exit.USAGE)
    label = _label(arguments)
    name = arguments.prometheus
    with closing(_transport(arguments)) as transport:
        try:
            evidence = read_evidence(PrometheusApi(transport), arguments.selector, label, window, matters)
        except PrometheusFailed as failed:
            raise CommandFailed(f"Prometheus {name}: {failed}", Exit.UNREACHABLE) from None
        except BrokersNotNamed as failed:
            pairs = ", ".join(f'{name}="{_short(value)}"' for name, value in sorted(failed.labels.items())[:_SHOWN])
            text = f"{failed}, such as those of {{{pairs}}}; use --broker-label LABEL, and --broker-pattern REGEX"
            raise CommandFailed(f"Prometheus {name}: {text} if the id is a part of it", Exit.USAGE) from None
        except SeveralClusters as failed:
            text = f"{failed}: {_differing(failed.labels)}; use --selector for one of them"
            raise CommandFailed(f"Prometheus {name}: {text}", Exit.USAGE) from None
    return ScrapeFiles("", evidence.scrapes, evidence.problems)


def unregistered(evidence: ScrapeFiles, registered: Set[int] | None) -> Sequence[str]:
    """A line about ids that no registered broker has, if registered brokers are missing as well: then the label may not
    be the one with the ids. Empty in all other cases. `registered`: None if they are not known.
    """
    ids = {scrape.broker for scrape in evidence.scrapes}
    if not registered or registered <= ids or ids <= registered:
        return ()
    unknown_ids = ", ".join(map(str, sorted(ids - registered)[:_SHOWN]))
    return (f"ids in Prometheus that no registered broker has: {unknown_ids}; check --selector and --broker-label",)


def _label(arguments: argparse.Namespace) -> BrokerLabel | None:
    """The label with the ids, by the flags; None if they name none. Raises CommandFailed."""
    from kafkafeatures.prometheus.brokers import BrokerLabel

    if not arguments.broker_label:
        if arguments.broker_pattern:
            raise CommandFailed("clients check: --broker-pattern requires --broker-label LABEL", Exit.USAGE)
        return None
    try:
        groups = re.compile(arguments.broker_pattern or "(.*)").groups
    except re.error as error:
        raise CommandFailed(f"clients check: --broker-pattern: {error}", Exit.USAGE) from None
    if groups != 1 or len(arguments.broker_pattern) > _MOST_PATTERN:
        text = "expected a regular expression with one group, such as '.*-([0-9]+)'"
        raise CommandFailed(f"clients check: --broker-pattern: {text}", Exit.USAGE)
    return BrokerLabel(arguments.broker_label, arguments.broker_pattern)


def _transport(arguments: argparse.Namespace) -> HttpTransport:
    """The transport to the server, with the login and TLS of `--prometheus-config`. Raises CommandFailed."""
    from kafkafeatures.prometheus.config import HttpConfig, HttpConfigRefused, context_of, headers_of, read_http_config
    from kafkafeatures.prometheus.http import HttpTransport, PrometheusUrlRefused, parse_url

    path = arguments.prometheus_config
    try:
        url = parse_url(arguments.prometheus)
    except PrometheusUrlRefused as refused:
        raise CommandFailed(f"clients check: --prometheus: {refused}", Exit.USAGE) from None
    try:
        config = HttpConfig() if path is None else read_http_config(path)
        folder = Path() if path is None else path.parent
        context = context_of(config, folder) if url.scheme == "https" else None
        headers = headers_of(config, folder)
    except HttpConfigRefused as refused:
        raise CommandFailed(f"clients check: --prometheus-config: {refused}", Exit.USAGE) from None
    return HttpTransport(url, headers, context, server_name=config.tls_config.server_name)


def _differing(labels: Mapping[str, Sequence[str]]) -> str:
    """The labels that differ between clusters, with their values."""
    texts = [f"{name} is {', '.join(map(_short, values[:_SHOWN]))}" for name, values in labels.items()]
    return "; ".join(texts[:_SHOWN]) or "no label tells them apart"


def _short(text: str) -> str:
    return printable(text)[:_LONGEST]
