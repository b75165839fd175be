"""Prints a plan: the cluster, the steps and how each can be undone, the blockers, and the hash. Called by `plan`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.status import Status
from kafkafeatures.cli.cluster.blockers_text import draw_blockers
from kafkafeatures.cli.cluster.matrix import draw
from kafkafeatures.cli.document.steps_text import APPROVED, COLOURS, draw_steps, draw_way_back
from kafkafeatures.cli.shell.indented import heading, line
from kafkafeatures.cli.shell.site import runbook_of
from kafkafeatures.core.engine.blockers import blocked_by, grouped
from kafkafeatures.core.engine.decisions import Act
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.engine.steps import DryRun, DryRunAccepted, DryRunRejected
from kafkafeatures.core.report.blockers import blocker_status
from kafkafeatures.core.report.migration_lines import migration_lines
from kafkafeatures.core.report.status import steps_of
from kafkafeatures.core.roll.drivers import driver_of
from kafkafeatures.reconcile.evaluation import Evaluation


def draw_plan(
    console: Console, evaluation: Evaluation, status: Status, verdict: PlanVerdict, *, to_approve: str = ""
) -> None:
    """Print the plan of an evaluation. `status`: the one that the evaluation leads to. `to_approve`: how to approve the
    plan, usually a command line; empty for none.
    """
    draw(console, evaluation.observation, blockers=False)  # the blockers of this plan follow below
    _steps(console, evaluation)
    blocked = evaluation.decision.blockers
    if blocked:
        heading(console, "Blockers")
        draw_blockers(console, map(blocker_status, grouped(blocked)))
    if evaluation.verdict is not None:
        console.print()
        line(console, dry_run(evaluation.verdict))
    console.print()
    text = Text.assemble(("Plan: ", "bold"), (verdict, f"bold {COLOURS[verdict]}"))
    if verdict is PlanVerdict.BLOCKED and blocked:
        text.append(blocked_by(blocked).removeprefix("blocked"))
    if not evaluation.proposal.plan.is_over:
        text.append(f"  {evaluation.proposal.plan.hash[:HASH_SHOWN]}")
        # A blocked plan is not carried out, and levels that a command computed are not named by a person.
        approved_by = None if blocked or not evaluation.desired.approves_by_name else evaluation.approved_by
        text.append(f"  {APPROVED[approved_by]}" if approved_by else "")
    line(console, text)
    if blocked and (page := runbook_of(evaluation.decision.reason)):
        line(console, Text(f"See {page}"))
    for note in notes_of(evaluation, status):
        line(console, Text(note))
    draw_way_back(console, status.way_back)
    if verdict is PlanVerdict.APPROVAL_REQUIRED and to_approve:
        console.print(Text(f"To approve: {to_approve}"), soft_wrap=True)  # to be copied: never broken in two


def notes_of(evaluation: Evaluation, status: Status) -> Iterator[str]:
    """Lines below the verdict of a plan: why nothing is sent, the migration, and who restarts nodes."""
    if not isinstance(evaluation.decision, Act) and not evaluation.decision.blockers:
        yield f"{evaluation.decision.reason.value}: {evaluation.decision.message}"
    if status.migration is not None and status.migration.phase:
        yield f"Migration: {'; '.join(migration_lines(status.migration, status.rollout))}"
    rollout = evaluation.desired.rollout
    driver = driver_of(rollout)
    if driver.reads_pods and not driver.restarts_outdated:
        yield f"Restarts: by {driver.asked or 'another operator'}, which the operator waits for"
    elif driver.reads_pods:
        sets = ", ".join((*rollout.brokers, *rollout.controllers))
        yield f"Restarts: by the operator, of the pods of {sets}; plan NAME shows which"


def _steps(console: Console, evaluation: Evaluation) -> None:
    if evaluation.proposal.plan.is_over:
        return
    heading(console, "Steps")
    draw_steps(console, tuple(steps_of(evaluation.proposal.plan)))


def dry_run(verdict: DryRun) -> Text:
    """Line about the answer of the active controller to a dry run."""
    match verdict:
        case DryRunAccepted():
            return Text("Dry run (validateOnly) accepted by the active controller.", "green")
        case DryRunRejected(_, message):
            return Text(f"Dry run (validateOnly) rejected by the active controller: {message}", "red")
        case _:
            return Text(f"Dry run (validateOnly) unavailable: {verdict.reason}", "yellow")
