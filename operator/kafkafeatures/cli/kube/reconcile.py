"""`kafkafeatures reconcile NAME`: have the operator look at the cluster now, and see what it says then.

Written as the annotation kafkafeatures.dev/reconcile-requested-at, which the operator repeats in the status once it
looked: `status.lastHandledReconcileAt`. A resource that is suspended is looked at too, and stays suspended.
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
    """Ask, wait for the answer, print it."""
    with connected(arguments) as kube:
        resource = kube.annotate(arguments.name, {RECONCILE: datetime.now(UTC).isoformat()})
        ending = until(
            kube,
            lambda: kube.resource(arguments.name),
            lambda found, _: answer(found),
            lambda _: f"waiting for the operator; check that it is running and watches namespace {kube.namespace}",
            seconds=arguments.timeout,
            missing=f"{resource} is not reconciled yet",
        )
    return ending.conclude()


def answer(resource: KubeResource) -> Ending | None:
    """Return what the operator says after the last request, which may be one that came after ours; None before that."""
    if resource.status.last_handled_reconcile_at != resource.annotation(RECONCILE):
        return None
    ready, text = resource.status.condition(Condition.READY), f"{resource}: {progress(resource, Goal())}"
    is_known = ready is not None and ready.status in ("True", "False")
    return judge(resource, Goal()) or Ending(Exit.DONE if is_known else Exit.UNREACHABLE, text)
