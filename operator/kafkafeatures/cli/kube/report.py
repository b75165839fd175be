"""`kafkafeatures report NAME`: one file to attach to an issue: versions, the resource, its status, Events, and
operator.

It contains no secrets: a document only names Secrets, the operator writes none into statuses and Events, and Secrets
are not read here. Annotations may hold anything, so only those of this project are copied; of others only the names.
The HTML page also uses the metadata log of the cluster, if there are connection flags: only the log has the phases of
restarts and the state of partitions.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from kafkafeatures import __version__
from kafkafeatures.api.names import API_VERSION, GROUP
from kafkafeatures.cli.cluster.connect import add_connection_flags, settings_from_flags
from kafkafeatures.cli.kube.api import Kube, add_resource_flags, connected
from kafkafeatures.cli.kube.report_operator import operator_of
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.seen_events import SeenEvent, seen_event
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import print_document, tell

if TYPE_CHECKING:  # read for the page alone
    from kafkafeatures.kafka.base.settings import ClusterSettings
    from kraftlog.rolls import RollHistory

T = TypeVar("T")

STDOUT = Path("-")
"""The name of standard output as a file."""

_METADATA = ("name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp")
"""Fields of the metadata that are copied as they are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `report`."""
    add_resource_flags(parser)
    output_flags = parser.add_mutually_exclusive_group()
    output_flags.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to this file; - is stdout (default)"
    )
    output_flags.add_argument(
        "--html", type=Path, metavar="FILE", help="write one HTML page for people to this file; - is stdout"
    )
    add_connection_flags(parser, "cluster, for the roll on the HTML page")


def run(arguments: argparse.Namespace) -> int:
    """Collect everything, and write the report."""
    settings = _settings(arguments)
    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
        document, events = _report(kube, resource)
    html = ""
    if arguments.html:
        from kafkafeatures.cli.pages.resource import page

        html = page(resource, events, datetime.now(UTC), _metadata_log(settings, resource))

    def write(stream: TextIO) -> None:
        if html:
            stream.write(html)
        else:
            print_document(document, "yaml", stream)

    path: Path = arguments.html or arguments.output or STDOUT
    if path == STDOUT:
        write(sys.stdout)
        return Exit.DONE
    try:
        with path.open("w", encoding="utf-8") as file:
            write(file)
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}; choose another file", Exit.USAGE) from None
    tell(f"wrote {path}")
    return Exit.DONE


def _settings(arguments: argparse.Namespace) -> ClusterSettings | None:
    """Settings of the cluster; None without connection flags. Raises CommandFailed for such flags without a page."""
    flags = ("bootstrap_server", "bootstrap_controller", "config", "controller_config", "profile")
    used_flags = [name for name in flags if getattr(arguments, name)]
    if used_flags and not arguments.html:
        raise CommandFailed(
            f"--{used_flags[0].replace('_', '-')} needs --html FILE: it is for the page alone", Exit.USAGE
        )
    return settings_from_flags(arguments) if used_flags else None


def _metadata_log(settings: ClusterSettings | None, resource: KubeResource) -> RollHistory | str:
    """The history of restarts by the metadata log, or the reason why it was not read."""
    if settings is None:
        kind, addresses = resource.bootstrap
        addresses = shlex.quote(addresses)
        return f"Run `report` with --bootstrap-{kind} {addresses}, and --config FILE if the cluster asks for a login."
    from kafkafeatures.cli.kube.report_log import read_roll
    from kafkafeatures.cli.pages.roll_rows import window_begins

    since = window_begins(resource.status, datetime.now(UTC))
    return read_roll(settings, resource.status.cluster_id, since)


def _report(kube: Kube, resource: KubeResource) -> tuple[dict[str, Any], Sequence[SeenEvent] | None]:
    """The report as a document, and the Events for the page; None if they could not be read."""
    gaps: list[dict[str, str]] = []

    def unless_refused(subject: str, read: Callable[[], T]) -> T | None:
        """The result of `read`; None if it failed, and then the report says why."""
        try:
            return read()
        except CommandFailed as failed:  # a report with a gap is better than none
            gaps.append({"what": subject, "why": str(failed)})
            return None

    version, events, operator = (
        unless_refused("the version of Kubernetes", kube.version),
        unless_refused("events", lambda: events_of(kube, resource)),
        operator_of(kube, resource, unless_refused),
    )
    document = {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "versions": {
            "kafkafeatures": __version__,
            "operator": resource.status.operator_version or None,
            "kubernetes": version,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("kio", "pykube-ng")},
        },
        "resource": without_status(resource),
        "status": dict(resource.written_status),
        "events": None if events is None else [event.as_json() for event in events],
        "operator": operator,
        "notRead": gaps,
    }
    return document, events


def without_status(resource: KubeResource) -> dict[str, Any]:
    """The resource without its status: metadata without foreign annotations, and the spec."""
    annotations = resource.metadata.get("annotations") or {}
    resource_metadata: dict[str, Any] = {key: resource.metadata[key] for key in _METADATA if key in resource.metadata}
    resource_metadata["labels"] = dict(resource.metadata.get("labels") or {})
    resource_metadata["annotations"] = {
        name: text for name, text in annotations.items() if name.startswith(f"{GROUP}/")
    }
    return {
        "apiVersion": resource.raw.get("apiVersion"),
        "kind": resource.raw.get("kind"),
        "metadata": resource_metadata,
        "otherAnnotations": sorted(set(annotations) - set(resource_metadata["annotations"])),
        "spec": dict(resource.spec),
    }


def events_of(kube: Kube, resource: KubeResource) -> Sequence[SeenEvent]:
    """The Events of the resource, the oldest first; without those of a deleted resource of the same name (by uid)."""
    raw_events = (
        event
        for event in kube.events(resource.metadata["namespace"], resource.metadata["name"])
        if event["regarding"].get("uid") == resource.uid
    )
    return sorted(map(seen_event, raw_events), key=lambda event: event.at)
