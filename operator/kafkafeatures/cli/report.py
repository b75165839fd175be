"""`kafkafeatures report NAME`: one file for an issue: versions, the resource, its status, its events.

Nothing has to be blacked out, because nothing secret can be in it: a document names Secrets and never holds one, the
operator writes none into statuses and events, and Secrets are not read here. Of annotations, which may hold anything,
only those of this project are taken over; of the others their names.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from kafkafeatures import __version__
from kafkafeatures.api.names import API_VERSION, GROUP
from kafkafeatures.cli.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.kube import Kube, add_resource_flags, connected
from kafkafeatures.cli.kube_resource import KubeResource
from kafkafeatures.cli.output import print_document, tell

_METADATA = ("name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_EVENT = ("type", "reason", "action", "note", "reportingController", "reportingInstance")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `report`."""
    add_resource_flags(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to this file (default: stdout)")
    where.add_argument("--html", type=Path, metavar="FILE", help="write one HTML page for people to this file")


def run(arguments: argparse.Namespace) -> int:
    """Read, put together, write."""
    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
        document = _report(kube, resource)
    path: Path | None = arguments.html or arguments.output
    if path is None:
        print_document(document, "yaml")
        return Exit.DONE
    try:
        with path.open("w", encoding="utf-8") as file:
            if arguments.html:
                from kafkafeatures.cli.report_page import page

                file.write(page(resource, document["events"], datetime.now(UTC)))
            else:
                print_document(document, "yaml", file)
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}; choose another file", Exit.BLOCKED) from None
    tell(f"wrote {path}")
    return Exit.DONE


def _report(kube: Kube, resource: KubeResource) -> dict[str, Any]:
    gaps: list[dict[str, str]] = []

    def unless_refused(what: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except CommandFailed as failed:  # a report with a gap is better than none
            gaps.append({"what": what, "why": str(failed)})
            return None

    return {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "versions": {
            "kafkafeatures": __version__,
            "operator": resource.status.get("operatorVersion"),
            "kubernetes": unless_refused("the version of Kubernetes", kube.version),
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("kio", "pykube-ng")},
        },
        "resource": without_status(resource),
        "status": dict(resource.status),
        "events": unless_refused("events", lambda: _events(kube, resource)),
        "notRead": gaps,
    }


def without_status(resource: KubeResource) -> dict[str, Any]:
    """What the user wrote, and who it is."""
    annotations = resource.metadata.get("annotations") or {}
    kept: dict[str, Any] = {key: resource.metadata[key] for key in _METADATA if key in resource.metadata}
    kept["labels"] = dict(resource.metadata.get("labels") or {})
    kept["annotations"] = {name: text for name, text in annotations.items() if name.startswith(f"{GROUP}/")}
    return {
        "apiVersion": resource.raw.get("apiVersion"),
        "kind": resource.raw.get("kind"),
        "metadata": kept,
        "otherAnnotations": sorted(set(annotations) - set(kept["annotations"])),
        "spec": dict(resource.spec),
    }


def _events(kube: Kube, resource: KubeResource) -> list[dict[str, Any]]:
    """The oldest first. Of this life of the name only: an earlier one had another uid."""
    ours = [one for one in kube.events(resource.metadata["name"]) if one["regarding"].get("uid") == resource.uid]
    return [{"at": _time(one), **{key: one[key] for key in _EVENT if key in one}} for one in sorted(ours, key=_time)]


def _time(event: dict[str, Any]) -> str:
    return str(event.get("eventTime") or event["metadata"].get("creationTimestamp", ""))
