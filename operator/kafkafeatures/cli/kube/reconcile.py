"""`kafkafeatures reconcile NAME`: requests a reconciliation now, waits for it, and prints the result.

Writes the annotation kafkafeatures.dev/reconcile-requested-at, whose value the operator copies into
`status.lastHandledReconcileAt` once a reconciliation has ended, also one that could not read the cluster. A suspended
resource is read too, and stays suspended.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from kafkafeatures.api.names import RECONCILE
from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.kube.api import add_resource_flags, connected
from kafkafeatures.cli.kube.polling import Ending, until
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.kube.wait import Goal, judge, progress
from kafkafeatures.cli.shell.exit_codes import Exit
from kafkafeatures.cli.shell.values import duration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `reconcile`."""
    add_resource_flags(parser)
    parser.add_argument(
        "--timeout", type=duration, default=120.0, metavar="2m", help="stop waiting after this time (default: 2m)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the annotation, wait for the status, and print the result."""
    with connected(arguments) as kube:
        resource = kube.annotate(arguments.name, {RECONCILE: datetime.now(UTC).isoformat()})
        ending = until(
            kube,
            lambda: kube.resource(arguments.name),
            lambda reading, _: answer(reading),
            lambda _: f"waiting for the operator; check that it is running and watches namespace {kube.namespace}",
            seconds=arguments.timeout,
            missing=f"{resource} is not reconciled yet",
        )
    return ending.conclude()


def answer(resource: KubeResource) -> Ending | None:
    """The result, once the operator has handled the last request (that of this command, or a later one); None before.
    A resource that is not ready gives exit code 0 as well, since the reconciliation was done; unless it is stalled, or
    waits for approval (`judge`).
    """
    if resource.status.last_handled_reconcile_at != resource.annotation(RECONCILE):
        return None
    ready, text = resource.status.condition(Condition.READY), f"{resource}: {progress(resource, Goal())}"
    is_known = ready is not None and ready.status in ("True", "False")
    return judge(resource, Goal()) or Ending(Exit.DONE if is_known else Exit.UNREACHABLE, text)
