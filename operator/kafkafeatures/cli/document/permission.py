"""Decides whether `apply` may carry out a plan: asks the person at the terminal before the first step is sent.

`apply` calls `check` before each step. A question is raised as `ConfirmationRequired` out of the loop of
reconciliations, and asked by `ask`, so that no connection is open while the person thinks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import chain

from kafkafeatures.api.status import Status, StepState
from kafkafeatures.cli.document.documents import Document
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import answer, at_terminal, console, is_confirmed, paragraph, tell
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.levels.stage import levels_in
from kafkafeatures.interrupts import SENT_STEPS
from kafkafeatures.reconcile.evaluation import Evaluation
from kafkafeatures.reconcile.file_store import FileStore


class ConfirmationRequired(Exception):
    """Raised if the plan in this status must be confirmed before it is carried out. `approves`: a yes also approves the
    plan. `doubts`: the reason why a consent of the plan may have been used before; empty if there is none.
    """

    def __init__(self, status: Status, *, approves: bool, doubts: str = "") -> None:
        super().__init__()
        self.status, self.approves, self.doubts = status, approves, doubts


class Permission:
    """Rules: on a terminal the plan is shown and a person must say yes, before its first step is sent. `--yes` and
    `--approve HASH` replace that answer; `--yes` does not approve a plan that requires approval.

    Without a terminal there is no question, so a plan that needs no approval, or has it, is carried out. If it uses a
    consent that may have been used before, only a yes at the terminal or `--yes` suffices.

    A document that a command made was written by no person. Without a terminal it needs `--yes` or `--approve HASH`. It
    has the consents that its plan needs, and no person gave them yet: the person types each instead of a yes.

    A person's yes also approves a plan that requires approval, unless a plan was approved by its hash (`--approve`, or
    in the document): then no other plan is carried out.
    """

    def __init__(self, store: FileStore, arguments: argparse.Namespace, document: Document) -> None:
        self._store, self._document = store, document
        self._skips_confirmation: bool = arguments.yes
        self._has_approved_hash = bool(arguments.approve)  # by --approve: no other plan is carried out
        has_hash = self._has_approved_hash or bool(document.resource.spec.approval.plan_hash)
        self._may_approve = not (self._skips_confirmation or has_hash)
        self._confirmed = ""  # the hash of the plan that the person confirmed
        self._shown = ""  # the hash of the plan that was printed last

    def check(self, evaluation: Evaluation) -> None:
        """Return if the plan may be carried out; it is printed here unless `ask` prints it. Raises ConfirmationRequired
        if a person has to be asked first; CommandFailed if one has to be, about a consent, and there is no terminal.
        """
        if self._confirmed == evaluation.proposal.plan.hash:
            return
        doubts = "" if self._skips_confirmation else self._store.why_unverified(unverified_consents(evaluation))
        if (doubts or not (self._skips_confirmation or self._has_approved_hash)) and at_terminal():
            raise ConfirmationRequired(evaluation.status, approves=False, doubts=doubts)
        self.show(evaluation.status)
        if doubts:
            raise CommandFailed(
                f"{doubts}; not a terminal; use --yes to skip confirmation; {SENT_STEPS}", Exit.APPROVAL
            )
        if self.cannot_be_given:
            approve = f"--approve {evaluation.proposal.plan.hash[:HASH_SHOWN]}"
            text = (
                f"not a terminal; use --yes to skip confirmation, {approve} for this plan alone, or --dry-run to only"
            )
            raise CommandFailed(f"{text} see it; {SENT_STEPS}", Exit.APPROVAL)

    @property
    def cannot_be_given(self) -> bool:
        """True for a document that a command made, without a terminal, `--yes` and `--approve`."""
        is_given = self._skips_confirmation or self._has_approved_hash
        return bool(self._document.command) and not is_given and not at_terminal()

    def check_approval(self, status: Status) -> None:
        """Raise ConfirmationRequired if the plan requires an approval that the person at the terminal may give."""
        if self._may_approve and status.plan and at_terminal():
            raise ConfirmationRequired(status, approves=True)

    def ask(self, question: ConfirmationRequired) -> None:
        """Show the plan, and read the answer. Raises CommandFailed unless it is yes."""
        plan = question.status.plan
        if plan is None:
            raise RuntimeError("nothing is asked without a plan")
        self.show(question.status)
        consents = [step.consent for step in plan.steps if step.consent and step.state != StepState.DONE]
        doubts = question.doubts or self._store.why_unverified(consents)
        if doubts:
            paragraph(f"{doubts[0].upper()}{doubts[1:]}.", errors=True)
        if consents and self._document.command:
            is_given = all(answer(f"Type {consent} to consent: ") == consent for consent in consents)
        else:
            is_given = is_confirmed("Approve and apply?" if question.approves else "Apply this plan?")
        if not is_given:
            raise CommandFailed(f"not confirmed; {SENT_STEPS}", Exit.BLOCKED)
        self._confirmed = plan.hash
        if question.approves:
            self._store.approve(plan.hash)

    def show(self, status: Status) -> None:
        """Print the plan of the status with its warnings, unless it was printed before."""
        plan = status.plan
        if plan is None or plan.hash == self._shown:
            return
        from kafkafeatures.cli.document.steps_text import draw_steps, step_lines, warnings_of

        self._shown = plan.hash
        cluster = "" if self._document.command else f", cluster {status.cluster_id or 'unknown'}"
        tell(f"Plan {plan.hash[:HASH_SHOWN]} of {self._document}{cluster}:")
        if not sys.stderr.isatty():
            for line in (*step_lines(plan.steps), *warnings_of(plan.steps)):
                tell(line)
            return
        draw_steps(console(errors=True), plan.steps)
        for warning in warnings_of(plan.steps):
            paragraph(warning, errors=True)


def unverified_consents(evaluation: Evaluation) -> Iterator[str]:
    """Consents of the plan that may have been used before, as the status does not show it either way."""
    yield from levels_in(evaluation.proposal).unverified
    yield from chain.from_iterable(stage.unverified for stage in evaluation.stages)
