"""Rights of this user that a driver needs in Kubernetes. Asks the API server, changes nothing.

Called by `cli/document/check_rights.py`.
"""

from __future__ import annotations

import argparse

from msgspec import Struct

from kafkafeatures.cli.kube.api import connected
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kafkafeatures.core.roll.drivers import Driver
from kafkafeatures.kube.workloads.adapters import adapter_of


class DriverRight(Struct, frozen=True):
    """A verb on a resource. `is_granted` None: not known, for the reason in `message`."""

    verb: str
    resource: str
    is_granted: bool | None
    message: str = ""
    remedy: str = ""


def driver_rights(arguments: argparse.Namespace, driver: Driver) -> list[DriverRight]:
    """Each right that a driver of pods needs, in the namespace of the flags. If the API server cannot be asked, each
    has `is_granted` None.
    """
    rights = [(right, f"{right.resource}.{right.group}" if right.group else right.resource)
              for right in adapter_of(driver).RIGHTS]  # fmt: skip
    try:
        with connected(arguments) as kube:
            answers = [(right.verb, resource, kube.may(*right)) for right, resource in rights]
            namespace = kube.namespace
    except CommandFailed as failed:
        return [DriverRight(right.verb, resource, None, str(failed)) for right, resource in rights]
    user = arguments.as_user or "this user"
    return [
        DriverRight(
            verb, f"{resource} in namespace {namespace}", may,
            "the API server could not evaluate all rules" if may is None else "",
            "" if may else f"grant {verb} on {resource} to {user} with a Role in namespace {namespace}",
        )
        for verb, resource, may in answers
    ]  # fmt: skip
