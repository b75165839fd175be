"""`kafkafeatures resume NAME`: removes the annotation of `suspend`. It does not change `spec.suspend`, which is for
Git.
"""

from __future__ import annotations

import argparse

from kafkafeatures.api.names import PAUSE
from kafkafeatures.cli.kube.api import add_resource_flags, connected
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `resume`."""
    add_resource_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Remove the annotation. Exit code 4 if `spec.suspend` still suspends the resource."""
    with connected(arguments) as kube:
        resource = kube.annotate(arguments.name, {PAUSE: None})
    if resource.suspended_in_document:
        text = f"{resource} stays suspended: spec.suspend is true in the document; remove it there (in Git)"
        raise CommandFailed(text, Exit.BLOCKED)
    print(f"{resource} is resumed")
    return Exit.DONE
