"""`kafkafeatures clients check`: do clients use API versions that a release lacks? By counters of every broker.

Called by `command.py`. It reads scrapes and asks which brokers are registered; `core/clients/verdict.py` judges.
Exit code 0: ready, 4: blocked, 5: unknown.
"""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.values import replace
from kafkafeatures.cli.clients import prometheus
from kafkafeatures.cli.clients.scrapes import ScrapeFiles, read_scrapes
from kafkafeatures.cli.clients.verdict_text import draw, verdict_document
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import HTML, clean_stdout, console, print_document, tell
from kafkafeatures.core.clients.coverage import EvidenceWindow
from kafkafeatures.core.clients.evidence import MAX_GAP
from kafkafeatures.core.clients.targets import Targets, parse_targets
from kafkafeatures.core.clients.verdict import ClientVerdict, check_clients

if TYPE_CHECKING:
    from kafkafeatures.core.facts.observation import Observation

CODES = {
    ClientVerdict.READY: Exit.DONE,
    ClientVerdict.BLOCKED: Exit.BLOCKED,
    ClientVerdict.UNKNOWN: Exit.UNREACHABLE,
}
DAYS = 35
_HOUR = 3_600_000
_UNITS = {"h": _HOUR, "d": 24 * _HOUR}
_SHOWN = 5
"""Files, or targets of Prometheus, of which the reason is told."""
_ALL_REFUSE = (
    "all brokers run Kafka 4.0 or newer, which refuse removed versions without counting them: clients that fail "
    "already are not shown"
)


class RegisteredBrokers(Struct, frozen=True):
    """The brokers of a cluster. `ids`: None where they are not known, and `problem` says why. `all_refuse`: all
    run Kafka 4.0 or newer.
    """

    ids: frozenset[int] | None
    cluster_id: str = ""
    problem: str = ""
    all_refuse: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about them for people."""
        return (self.problem,) if self.problem else (_ALL_REFUSE,) if self.all_refuse else ()


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
        "--window", type=_window, default=DAYS * _UNITS["d"], metavar="35d",
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


def run(arguments: argparse.Namespace) -> int:
    """Judge once, and show it."""
    if arguments.release is None:
        raise CommandFailed("clients check: --release is required", Exit.USAGE)
    end = arguments.at if arguments.at is not None else round(time.time() * 1000)
    window = EvidenceWindow(end - arguments.window, end)
    evidence = _evidence(arguments, window)
    registered = _registered(arguments, end)
    if arguments.prometheus:
        strangers = prometheus.unregistered(evidence, registered.ids)
        evidence = replace(evidence, refused=(*strangers, *evidence.refused))
    table = targets()
    check = check_clients(
        arguments.release, table, evidence.scrapes, registered.ids, window, all_refuse=registered.all_refuse
    )
    if arguments.output == HTML:
        from kafkafeatures.cli.clients.verdict_page import verdict_page

        print(verdict_page(check, table, registered.notes, evidence.refused), end="", file=clean_stdout())
    elif arguments.output == "table":
        draw(console(), check, table, registered.notes)
    else:
        document = verdict_document(
            check, table, source=arguments.prometheus or str(arguments.evidence), cluster=evidence.cluster,
            cluster_id=registered.cluster_id, refused=evidence.refused, notes=registered.notes,
        )  # fmt: skip
        print_document(document, arguments.output)
    _tell_refused(evidence)
    return CODES[check.verdict]


def targets() -> Targets:
    """The table of this version."""
    return parse_targets(files("kafkafeatures.core.clients").joinpath("targets.json").read_bytes())


def _evidence(arguments: argparse.Namespace, window: EvidenceWindow) -> ScrapeFiles:
    if bool(arguments.prometheus) == (arguments.evidence is not None):
        raise CommandFailed("clients check: expected either --prometheus URL or --evidence DIR", Exit.USAGE)
    if arguments.prometheus:
        return prometheus.read_prometheus(arguments, window)
    prometheus.refuse_without_server(arguments)
    return read_scrapes(arguments.evidence, arguments.cluster, window.end)


def _tell_refused(evidence: ScrapeFiles) -> None:
    for line in evidence.refused[:_SHOWN]:
        tell(line)
    if (omitted := len(evidence.refused) - _SHOWN) > 0:
        tell(f"and {omitted} more were not read; -o json has all of them")


def _registered(arguments: argparse.Namespace, end: int) -> RegisteredBrokers:
    is_live = arguments.bootstrap_server or arguments.bootstrap_controller or arguments.config
    if arguments.log is not None and is_live:
        raise CommandFailed("clients check: --log and --bootstrap-server exclude each other", Exit.USAGE)
    if arguments.log is not None:
        return _of_log(arguments.log, end)
    if is_live:
        from kafkafeatures.cli.cluster.connect import look, on_cluster, settings_from_flags

        return _of_cluster(on_cluster(look(settings_from_flags(arguments))))
    return RegisteredBrokers(
        None, problem="which brokers are registered is not known; use --bootstrap-server HOST:PORT or --log PATH"
    )


def _of_cluster(observation: Observation) -> RegisteredBrokers:
    from kafkafeatures.core.facts.client_standing import refusing_nodes
    from kafkafeatures.core.facts.observation import Known

    cluster_id = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else ""
    brokers = observation.registered_brokers
    if isinstance(brokers, Known):
        all_refuse = brokers.value <= refusing_nodes(observation)
        return RegisteredBrokers(brokers.value, cluster_id, all_refuse=all_refuse)
    return RegisteredBrokers(None, cluster_id, f"which brokers are registered is not known: {brokers.failure}")


def _of_log(path: Path, end: int) -> RegisteredBrokers:
    """The brokers by a metadata log that reaches to the end of the window: later ones may be missing in an older."""
    from kafkafeatures.cli.log.paths import log_folder
    from kafkafeatures.cli.log.state import problems_of, registrations, restored
    from kafkafeatures.cli.log.words import format_time
    from kafkafeatures.core.facts.client_standing import refuses_old_versions
    from kraftlog import BrokerRegistration

    folder = log_folder(path)
    state = restored(folder, None)
    cluster_id = folder.cluster_id or ""
    if problems := problems_of(state):
        return RegisteredBrokers(None, cluster_id, f"{folder.display_name}: {problems[0]}")
    if state.image.timestamp_ms < end - MAX_GAP:
        until = format_time(state.image.timestamp_ms)
        text = f"{folder.display_name}: the metadata log ends at {until}, before the window does; use --at {until}"
        return RegisteredBrokers(None, cluster_id, text)
    brokers = [broker for _, broker in registrations(state.image) if isinstance(broker, BrokerRegistration)]
    all_refuse = all(refuses_old_versions(broker.features.get(METADATA_VERSION)) for broker in brokers)
    return RegisteredBrokers(frozenset(broker.id for broker in brokers), cluster_id, all_refuse=all_refuse)


def _release(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]{1,2})?", text):
        raise argparse.ArgumentTypeError(f"invalid release {text[:60]!r}: expected a release of Kafka, such as 4.1")
    return text


def _window(text: str) -> int:
    """A duration in ms."""
    match = re.fullmatch("([0-9]{1,4})([dh])", text)
    milliseconds = int(match[1]) * _UNITS[match[2]] if match else 0
    if not milliseconds:
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
