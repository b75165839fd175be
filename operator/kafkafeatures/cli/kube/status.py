"""`kafkafeatures status NAME`: how a resource is, since when, what is planned, what stops it. Reads one object."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from kafkafeatures.cli.kube.api import add_resource_flags, connected
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.output import add_output_flag, console, print_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `status`."""
    add_resource_flags(parser)
    add_output_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read once and print; json and yaml are the object itself, without managedFields."""
    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
    if arguments.output == "table":
        from kafkafeatures.cli.kube.status_text import draw_status

        draw_status(console(), resource, datetime.now(UTC))
    else:
        print_document(resource.document, arguments.output)
    return Exit.DONE
