"""`kafkafeatures suspend NAME`: the step in progress completes, no new step starts.

Written as the annotation kafkafeatures.dev/pause, so that Git does not revert it. It needs no plan and no version of
the resource: a suspension takes effect at once. `cli/kube/resume.py` takes it back.
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
