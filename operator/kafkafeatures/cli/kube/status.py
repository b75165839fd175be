"""`kafkafeatures status NAME`: the state of a resource, since when, the plan, and the blockers. Reads one object.

`-w` then reads it each second, and adds a line when its reason or message changes (with `-o`, the whole object).
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from operator import attrgetter

from kafkafeatures.cli.kube.api import add_resource_flags, connected
from kafkafeatures.cli.kube.polling import add_watch_flag, changes
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.wait import Goal, progress
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import add_output_flag, console, print_document
from kafkafeatures.core.words import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `status`."""
    add_resource_flags(parser)
    add_watch_flag(parser)
    add_output_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read and print; json and yaml are the object itself, without managedFields."""
    with connected(arguments) as kube:
        if not arguments.watch:
            _show(kube.resource(arguments.name), arguments.output)
            return Exit.DONE
        essence = _line if arguments.output == "table" else attrgetter("without_version")
        for number, resources in enumerate(changes(kube, lambda: (kube.resource(arguments.name),), essence)):
            for resource in resources:
                _show(resource, arguments.output, another=number > 0)
    return Exit.DONE


def _show(resource: KubeResource, form: str, *, another: bool = False) -> None:
    if form != "table":
        print_document(resource.document, form, another=another)
    elif another:
        print(f"{datetime.now(UTC).astimezone():%H:%M:%S} {_line(resource)}")
    else:
        from kafkafeatures.cli.kube.status_text import draw_status

        draw_status(console(), resource, datetime.now(UTC))


def _line(resource: KubeResource) -> str:
    return printable(progress(resource, Goal()))
