"""`kafkafeatures clients check`: shows whether clients use API versions that a release lacks, by the brokers' counters.

Called by `command.py`. It reads scrapes and asks which brokers are registered; `core/clients/verdict.py` judges.
Exit code 0: ready, 4: blocked, 5: unknown.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kafkafeatures.api.values import replace
from kafkafeatures.cli.clients import prometheus
from kafkafeatures.cli.clients.registered import registered_brokers
from kafkafeatures.cli.clients.request_logs import read_owners, read_request_logs
from kafkafeatures.cli.clients.scrapes import ScrapeFiles, read_scrapes
from kafkafeatures.cli.clients.senders_text import draw_senders, senders_shape
from kafkafeatures.cli.clients.verdict_table import counted_csv, logged_csv
from kafkafeatures.cli.clients.verdict_text import draw, verdict_document
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import CSV, HTML, clean_stdout, console, print_document, tell
from kafkafeatures.client_targets import client_targets
from kafkafeatures.core.clients.coverage import EvidenceWindow, window_length
from kafkafeatures.core.clients.senders import senders_of, version_uses
from kafkafeatures.core.clients.targets import Targets
from kafkafeatures.core.clients.verdict import ClientVerdict, check_clients
from kafkafeatures.core.words import printable

CODES = {  # exit codes
    ClientVerdict.READY: Exit.DONE,
    ClientVerdict.BLOCKED: Exit.BLOCKED,
    ClientVerdict.UNKNOWN: Exit.UNREACHABLE,
}
DAYS = 35  # of the window, unless the user sets another
_DAY = 86_400_000  # ms
_LATER = "there are scrapes of a time after the window, which were not looked at; without --at they are"
_REASONS_SHOWN = 5
"""Files and targets of Prometheus that were not read, of which the reason is shown; the others are only counted."""


def add_arguments(group: argparse._ActionsContainer) -> None:
    """Flags for the release, the window, the evidence, and the brokers that it has to cover."""
    group.add_argument("--release", type=_release, metavar="X", help="the release, such as 4.1")
    group.add_argument(
        "--evidence", type=Path, metavar="DIR|FILE",
        help="metrics of the brokers as their exporters answered: files BROKER/TIME.prom, with the id of the broker "
        "and the time in seconds since 1970; folders of several clusters may stand around them",
    )  # fmt: skip
    prometheus.add_arguments(group)
    group.add_argument(
        "--window", type=_window, default=DAYS * _DAY, metavar="35d",
        help=f"time that has to be free of old requests, in days or hours (default: {DAYS}d)",
    )  # fmt: skip
    group.add_argument(
        "--at", type=_time, metavar="TIME",
        help="end of the window, such as 2026-11-28T12:00:00Z (default: now)",
    )  # fmt: skip
    group.add_argument(
        "--log", type=Path, metavar="PATH",
        help="metadata log that says which brokers are registered, if the cluster is not asked",
    )  # fmt: skip
    group.add_argument(
        "--owners", type=Path, metavar="FILE",
        help="YAML that says which client ids and principals are whose: owners: [{team, clientId, principal}]",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Judge once, and show the verdict in the form that `--output` names."""
    if arguments.release is None:
        raise CommandFailed("clients check: --release is required", Exit.USAGE)
    if arguments.owners is not None and not arguments.request_logs:
        raise CommandFailed("clients check: --owners needs --request-logs, which name the clients", Exit.USAGE)
    end = arguments.at if arguments.at is not None else round(time.time() * 1000)
    window = EvidenceWindow(end - arguments.window, end)
    table = client_targets()
    try:
        registered = registered_brokers(arguments, window)
        evidence = _evidence(arguments, window, table)
        owners, logs = read_owners(arguments.owners), read_request_logs(arguments.request_logs)
    except CommandFailed as failed:
        # Code 4 must mean that clients use old versions: without a verdict it is 5.
        failed.code = Exit.UNREACHABLE if failed.code in (Exit.BLOCKED, Exit.FAILED) else failed.code
        raise
    if arguments.prometheus:
        unknown_brokers = prometheus.unregistered(
            evidence, None if registered.registry is None else registered.registry.present
        )
        evidence = replace(evidence, refused=(*unknown_brokers, *evidence.refused))
    check = check_clients(
        arguments.release, table, evidence.scrapes, registered.registry, window, all_refuse=registered.all_refuse,
        logged=version_uses(logs.uses, window),
    )  # fmt: skip
    senders = senders_of(logs.uses, arguments.release, table, window, owners)
    refused = (*evidence.refused, *logs.refused)
    notes = [*registered.notes, *([_LATER] if evidence.is_later else [])]
    source = _source(arguments, evidence, registered.cluster_id)
    if arguments.output == HTML:
        from kafkafeatures.cli.clients.verdict_page import verdict_page

        page = verdict_page(
            check, table, notes, refused, source=source, is_past=evidence.is_later, senders=senders, uses=logs.uses
        )
        print(page, end="", file=clean_stdout())
    elif arguments.output == CSV:
        is_logged = bool(arguments.request_logs)
        text = logged_csv(check, logs.uses, table, owners) if is_logged else counted_csv(check, table)
        print(text, end="", file=clean_stdout())
    elif arguments.output == "table":
        screen = console()
        draw(screen, check, table, notes, source=source, is_past=evidence.is_later)
        draw_senders(screen, senders)
    else:
        document = verdict_document(
            check, table, source=arguments.prometheus or str(arguments.evidence), cluster=evidence.cluster,
            cluster_id=registered.cluster_id, refused=refused, notes=notes,
        )  # fmt: skip
        document["senders"] = senders_shape(senders) if arguments.request_logs else None
        print_document(document, arguments.output)
    _tell_refused(refused)
    return CODES[check.verdict]


def _source(arguments: argparse.Namespace, evidence: ScrapeFiles, cluster_id: str) -> str:
    """Words that name the evidence and the cluster, so that a user notices scrapes of another cluster."""
    source = printable(arguments.prometheus or str(arguments.evidence))
    folder = f", folder {printable(evidence.cluster)}" if evidence.cluster else ""
    return f"evidence {source}{folder}; cluster {printable(cluster_id) or 'id not known'}"


def _evidence(arguments: argparse.Namespace, window: EvidenceWindow, table: Targets) -> ScrapeFiles:
    """The scrapes, from files or from a Prometheus. Raises CommandFailed."""
    if bool(arguments.prometheus) == (arguments.evidence is not None):
        raise CommandFailed("clients check: expected either --prometheus URL or --evidence DIR", Exit.USAGE)
    if arguments.prometheus:
        return prometheus.read_prometheus(arguments, window, table.matters(arguments.release))
    prometheus.refuse_without_server(arguments)
    return read_scrapes(arguments.evidence, arguments.cluster, window, table.matters(arguments.release))


def _tell_refused(refused: Sequence[str]) -> None:
    for line in refused[:_REASONS_SHOWN]:
        tell(line)
    if (omitted := len(refused) - _REASONS_SHOWN) > 0:
        tell(f"and {omitted} more were not read; -o json has all of them")


def _release(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,2})?", text):
        raise argparse.ArgumentTypeError(f"invalid release {text[:60]!r}: expected a release of Kafka, such as 4.1")
    return text


def _window(text: str) -> int:
    """A duration in ms."""
    milliseconds = window_length(text)
    if milliseconds is None:
        raise argparse.ArgumentTypeError(f"invalid window {text[:60]!r}: expected days or hours, such as 35d")
    return milliseconds


def _time(text: str) -> int:
    """A time in ms."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None or not 1970 < time.year < 9000:
        raise argparse.ArgumentTypeError(f"invalid time {text[:60]!r}: expected one such as 2026-11-28T12:00:00Z")
    return round(time.astimezone(UTC).timestamp() * 1000)
