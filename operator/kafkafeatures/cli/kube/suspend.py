"""`kafkafeatures suspend NAME`: suspends a resource: the step in progress completes, no new step starts.

It writes the annotation kafkafeatures.dev/pause, which Git does not revert, unlike `spec.suspend`. No resourceVersion
is sent, so that it is written even if the resource is changed meanwhile. `cli/kube/resume.py` removes it.
"""

from __future__ import annotations

import argparse

from kafkafeatures.api.names import PAUSE
from kafkafeatures.cli.kube.api import add_resource_flags, connected
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.core.kinds import in_flight


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `suspend`."""
    add_resource_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the annotation."""
    with connected(arguments) as kube:
        resource = kube.annotate(arguments.name, {PAUSE: "true"})
    print(f"{resource} is suspended: the step in progress completes, no new step starts")
    for intent in resource.status.intents:
        print(f"in progress: {in_flight(intent)}")
    if resource.suspended_in_document:
        print("spec.suspend is also true in the document")
    return Exit.DONE
