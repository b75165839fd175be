"""`kafkafeatures plan -f FILE`: shows what `apply` would do to a live cluster, and the blockers. Changes nothing.

Without the right ALTER it works as well, but the controller's own verdict (a dry run) is then reported as unavailable.
`plan NAME` shows the plan that the operator made instead (`cli/kube/plan.py`). `apply --dry-run` equals `plan -f FILE`.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from kafkafeatures.api.names import KRAFT_VERSION
from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.records import Json
from kafkafeatures.api.values import replace
from kafkafeatures.cli.cluster.connect import cluster_of, failed, on_cluster
from kafkafeatures.cli.cluster.document_settings import document_errors
from kafkafeatures.cli.cluster.drawn import show
from kafkafeatures.cli.document.documents import (
    ConnectionSettings,
    Document,
    add_document_flags,
    connection_settings_of,
    documents_of,
    how_to_approve,
)
from kafkafeatures.cli.document.permission import unverified_consents
from kafkafeatures.cli.document.several import each
from kafkafeatures.cli.kube.api import add_kube_flags, connected
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import DRAWN, HTML, SVG, add_output_flag
from kafkafeatures.cli.shell.values import resource_name
from kafkafeatures.core.engine.decisions import Act, lacks_access
from kafkafeatures.core.facts.observation import supported_by_all
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.report.plan_document import plan_document, plan_verdict
from kafkafeatures.environment import SYSTEM
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.evaluate import evaluate
from kafkafeatures.reconcile.evaluation import Evaluation, Unread
from kafkafeatures.reconcile.file_store import FileStore
from kafkafeatures.reconcile.ports import Resource

if TYPE_CHECKING:
    from kafkafeatures.core.facts.observation import Observation

TITLE = "kafkafeatures plan: steps, and what blocks them"
"""Title of the plan as a picture or a page."""
CODES = {
    PlanVerdict.IN_SYNC: Exit.DONE,
    PlanVerdict.CHANGES: Exit.DONE,
    PlanVerdict.APPROVAL_REQUIRED: Exit.APPROVAL,
    PlanVerdict.BLOCKED: Exit.BLOCKED,
    PlanVerdict.UNKNOWN: Exit.UNREACHABLE,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `plan`."""
    parser.add_argument(
        "name", nargs="?", type=resource_name, metavar="NAME", help="a resource on Kubernetes, instead of -f FILE"
    )
    add_document_flags(parser, required=False)
    add_kube_flags(parser)
    add_output_flag(parser, is_drawn=True)
    parser.add_argument(
        "--latest",
        action="store_true",
        help="plan the highest levels that all nodes support",
    )
    parser.add_argument("--detailed-exitcode", action="store_true", help="exit with 2 if there are changes")


def run(arguments: argparse.Namespace) -> int:
    """Read the cluster once, make the plan, and print it."""
    if (arguments.name is None) == (arguments.file is None):
        raise CommandFailed("specify either -f FILE or the NAME of a resource on Kubernetes", Exit.USAGE)
    if arguments.name is not None:
        return _code(arguments, _of_resource(arguments))
    documents = documents_of(arguments)
    if arguments.output in (SVG, HTML) and len(documents) > 1:
        raise CommandFailed(f"-o {arguments.output} draws one document; these are {len(documents)}", Exit.USAGE)
    return each(arguments, documents, plan_of, arguments.output)


def _code(arguments: argparse.Namespace, verdict: PlanVerdict) -> Exit:
    # `apply --dry-run` has no flag --detailed-exitcode
    if verdict is PlanVerdict.CHANGES and getattr(arguments, "detailed_exitcode", False):
        return Exit.CHANGES
    return CODES[verdict]


def _of_resource(arguments: argparse.Namespace) -> PlanVerdict:
    for flag in ("state", "approve", "secrets_dir", "config", "controller_config", "latest"):
        if getattr(arguments, flag):
            raise CommandFailed(f"--{flag.replace('_', '-')} requires -f FILE instead of NAME", Exit.USAGE)
    from kafkafeatures.cli.kube.plan import show_plan

    with connected(arguments) as kube:
        resource = kube.resource(arguments.name)
    return show_plan(resource, arguments.output, TITLE)


def plan_of(arguments: argparse.Namespace, document: Document) -> tuple[Exit, Json | None]:
    """Make the plan of one document. Prints it, or returns it as a document for `-o yaml` and `-o json`."""
    latest = getattr(arguments, "latest", False)
    with document_errors(document.file, Exit.BLOCKED):
        connection = connection_settings_of(arguments, document)
        store = document.store(arguments)
        resource = store.peek()
    evaluation = on_cluster(_evaluated(connection, document, store, resource, latest=latest))
    if isinstance(evaluation, Unread):
        raise failed(evaluation.failure)
    status = evaluation.status
    verdict = plan_verdict(status, resource.generation, sends=False)
    # If only the rights of this user are missing, the plan may be fine for another user.
    if verdict is PlanVerdict.BLOCKED and lacks_access(evaluation.decision):
        verdict = PlanVerdict.UNKNOWN
    if arguments.output in (None, *DRAWN):
        from kafkafeatures.cli.document.plan_text import draw_plan

        to_approve = "" if latest else how_to_approve(arguments, document, evaluation.proposal.plan.hash)
        draw = partial(draw_plan, evaluation=evaluation, status=status, verdict=verdict, to_approve=to_approve)

        def page() -> str:
            from kafkafeatures.cli.document.plan_page import plan_page

            return plan_page(resource.name, evaluation, status, verdict, to_approve)

        show(arguments.output or "table", draw, TITLE, page)
        doubts = "" if latest else store.why_unverified(unverified_consents(evaluation))
        if doubts and isinstance(evaluation.decision, Act) and arguments.output in (None, "table"):
            print(f"apply asks for confirmation, or needs --yes: {doubts}")
        return _code(arguments, verdict), None
    shape = plan_document(
        evaluation.decision, evaluation.observation, evaluation.proposal, evaluation.verdict,
        status=status, name=resource.name, generation=resource.generation, verdict=verdict,
    )  # fmt: skip
    return _code(arguments, verdict), shape


async def _evaluated(
    connection: ConnectionSettings,
    document: Document,
    store: FileStore,
    resource: Resource,
    *,
    latest: bool,
) -> Evaluation | Unread:
    async with cluster_of(connection.settings) as cluster:
        if latest:
            target = replace(resource.desired, levels={}, bundle=_latest(observe(*await cluster.read())))
            resource = replace(resource, desired=target)
        context = ReconcileContext(
            store,
            cluster,
            SYSTEM,
            ages=Ages(SYSTEM.monotonic),
            competing_owner=document.competing_owner,
            zookeeper=connection.zookeeper(cluster),
        )
        return await evaluate(context, resource)


def _latest(observation: Observation) -> dict[str, int]:
    """The highest level of each feature that every node supports; never kraft.version, which is irreversible."""
    ranges = supported_by_all(observation, (name for name in observation.feature_names() if name != KRAFT_VERSION))
    return {name: supported.max for name, supported in ranges.items() if supported is not None}
