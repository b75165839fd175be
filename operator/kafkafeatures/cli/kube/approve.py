"""`kafkafeatures approve NAME`: approves the plan that waits for approval, and no other.

Writes the plan's full hash into the annotation kafkafeatures.dev/approve, with the resourceVersion that was shown. If
the resource was changed meanwhile, it is read again, and must still have the same plan.
"""

from __future__ import annotations

import argparse

from kafkafeatures.api.names import APPROVE
from kafkafeatures.api.reasons import Condition
from kafkafeatures.cli.document.steps_text import draw_steps, warnings_of
from kafkafeatures.cli.kube.api import Changed, Kube, add_resource_flags, connected
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import at_terminal, console, is_confirmed, paragraph
from kafkafeatures.cli.shell.values import plan_hash
from kafkafeatures.core.engine.plan import HASH_SHOWN, is_named
from kafkafeatures.core.words import printable

TRIES = 5
"""Most attempts to write: each status that the operator writes changes the resourceVersion."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `approve`."""
    add_resource_flags(parser)
    parser.add_argument("--plan", type=plan_hash, metavar="HASH", help="approve this plan only, without confirmation")
    parser.add_argument(
        "--yes", action="store_true", help="skip confirmation and approve the current plan (for scripts)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the plan, ask for confirmation, and write the annotation."""
    asks = not (arguments.plan or arguments.yes)
    if asks and not at_terminal():
        raise CommandFailed("not a terminal; use --plan HASH or --yes to skip confirmation", Exit.APPROVAL)
    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
        _check(resource, arguments.plan or "")
        if resource.is_approved:
            print(f"plan {resource.plan_hash[:HASH_SHOWN]} of {resource} is already approved")
            return Exit.DONE
        _show(resource, errors=asks)
        if asks and not is_confirmed("Approve this plan?"):
            raise CommandFailed("not approved; nothing was changed", Exit.BLOCKED)
        _write(kube, arguments.name, resource)
    print(f"plan {resource.plan_hash[:HASH_SHOWN]} of {resource} is approved")
    return Exit.DONE


def _check(resource: KubeResource, hash_prefix: str) -> None:
    """Raise CommandFailed unless there is a plan to approve, and it is the named one. `hash_prefix`: empty for any."""
    if hash_prefix and resource.plan_hash and not is_named(resource.plan_hash, hash_prefix):
        text = (
            f"the plan of {resource} is {resource.plan_hash[:HASH_SHOWN]} now, not {hash_prefix}; review it with plan"
        )
        raise CommandFailed(text, Exit.BLOCKED)
    if not resource.plan_hash or not (resource.true_condition(Condition.APPROVAL_REQUIRED) or resource.is_approved):
        raise CommandFailed(
            f"no plan of {resource} is waiting for approval: {_not_waiting_reason(resource)}", Exit.BLOCKED
        )
    if resource.approved_in_document and not is_named(resource.plan_hash, resource.approved_in_document):
        approved = resource.approved_in_document[:HASH_SHOWN]
        text = f"spec.approval.planHash of {resource} approves another plan, {approved}; remove it, or replace it there"
        raise CommandFailed(text, Exit.BLOCKED)


def _not_waiting_reason(resource: KubeResource) -> str:
    ready = resource.status.condition(Condition.READY)
    if ready is None:
        return "not reconciled yet; try again"
    if not resource.is_current(ready):
        return f"generation {resource.generation} is not reconciled yet; try again"
    return printable(f"{ready.reason}: {ready.message}")


def _show(resource: KubeResource, *, errors: bool) -> None:
    """Print the plan. `errors`: on stderr, where the question about it is asked."""
    cluster = resource.status.cluster_id or "not known"
    paragraph(f"Plan {resource.plan_hash[:HASH_SHOWN]} of {resource}, cluster {cluster}:", errors=errors)
    steps = resource.status.plan.steps if resource.status.plan is not None else ()
    draw_steps(console(errors=errors), steps)
    for warning in warnings_of(steps):
        paragraph(warning, errors=errors)


def _write(kube: Kube, name: str, shown: KubeResource) -> None:
    """Write the annotation. `shown`: the resource whose plan was printed; the plan must still be the same."""
    resource = shown
    for _ in range(TRIES):
        try:
            kube.annotate(name, {APPROVE: shown.plan_hash}, version=resource.metadata["resourceVersion"])
            return
        except Changed:
            resource = kube.resource(name)
            _check(resource, shown.plan_hash)
    raise CommandFailed(f"{shown} keeps changing; try again", Exit.FAILED)
