"""HTML page of a plan, for `plan -f FILE -o html`: verdict and command first, then blockers, steps and the matrix.

Pure; it has the texts of `plan_text.py`. Called by `plan.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.status import Status
from kafkafeatures.cli.cluster.blocker_cards import blocker_cards
from kafkafeatures.cli.cluster.matrix import identity
from kafkafeatures.cli.cluster.page import STYLE, facts, features, nodes_apart, not_read
from kafkafeatures.cli.document.plan_text import dry_run, notes_of
from kafkafeatures.cli.document.steps_html import VERDICTS, steps_table, style_of_verdict, way_back_line
from kafkafeatures.cli.document.steps_text import APPROVED
from kafkafeatures.cli.shell.html_parts import Html, box, to_copy, whole_page
from kafkafeatures.core.engine.blockers import grouped
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.report.blockers import blocker_status
from kafkafeatures.core.report.status import steps_of
from kafkafeatures.reconcile.evaluation import Evaluation


def plan_page(name: str, evaluation: Evaluation, status: Status, verdict: PlanVerdict, to_approve: str = "") -> str:
    """The whole page. `name`: of the resource. Other arguments: see `draw_plan`."""
    title = f"Plan for {name}, cluster {identity(evaluation.observation)[0]}"
    waits = verdict is PlanVerdict.APPROVAL_REQUIRED and to_approve
    cards = blocker_cards(map(blocker_status, grouped(evaluation.decision.blockers)))
    plan = evaluation.proposal.plan
    sections = (
        Html("<h1>{}</h1>").format(title),
        box(style_of_verdict(verdict), VERDICTS[verdict], *_details(evaluation, status)),
        to_copy("To approve", to_approve) if waits else Html(),
        facts(evaluation.observation),
        Html("<h2>Blockers</h2>\n{}").format(cards) if cards else Html(),
        Html("<h2>Steps</h2>\n{}").format(steps_table(steps_of(plan))) if not plan.is_over else Html(),
        way_back_line(status.way_back),
        Html("<h2>Cluster</h2>\n{}").format(features(evaluation.observation)),
        *nodes_apart(evaluation.observation, "", set()),
        not_read(evaluation.observation),
    )
    return whole_page(f"{title} - KafkaFeatures", sections, STYLE)


def _details(evaluation: Evaluation, status: Status) -> Iterator[str]:
    """Lines below the verdict."""
    plan = evaluation.proposal.plan
    if not plan.is_over:
        approved = APPROVED[evaluation.approved_by] if evaluation.approved_by else ""
        yield ", ".join(filter(None, (f"Plan {plan.hash[:HASH_SHOWN]}", approved)))
    yield from notes_of(evaluation, status)
    if evaluation.verdict is not None:
        yield dry_run(evaluation.verdict).plain
