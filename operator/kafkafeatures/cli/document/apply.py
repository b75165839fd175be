"""`kafkafeatures apply -f FILE`: reconciles without Kubernetes, repeatedly, until the cluster matches the document or
cannot continue.

At the end it prints a summary on a terminal, or with `-o` the document with its status; otherwise it prints nothing to
stdout. Progress goes to stderr, one line for each change. The same checks as in the operator come first: if anything
blocks, nothing is sent, and every blocker is named.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.records import Json
from kafkafeatures.cli.cluster.connect import cluster_of, failed, on_loop, tell_connection
from kafkafeatures.cli.cluster.document_settings import document_errors, shown_file
from kafkafeatures.cli.document.documents import (
    ConnectionSettings,
    Document,
    add_document_flags,
    connection_settings_of,
    documents_of,
    how_to_approve,
)
from kafkafeatures.cli.document.permission import ConfirmationRequired, Permission
from kafkafeatures.cli.document.several import each
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import FORMATS, NEVER_WRAPPED, console, tell
from kafkafeatures.cli.shell.site import runbook_of
from kafkafeatures.cli.shell.values import duration
from kafkafeatures.core.engine.blockers import Blocker, blocked_by, grouped
from kafkafeatures.core.engine.decisions import Act, Done, Held, Stalled, Wait, lacks_access, may_pass
from kafkafeatures.core.engine.settling import ON_ITS_WAY
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.resolve import driver_in
from kafkafeatures.core.words import format_span
from kafkafeatures.environment import SYSTEM
from kafkafeatures.interrupts import SENT_STEPS
from kafkafeatures.reconcile.act import Reconciliation, execute, summary_of
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import EffectRecord, ReconcileContext
from kafkafeatures.reconcile.evaluate import evaluate
from kafkafeatures.reconcile.evaluation import Evaluation, Unread
from kafkafeatures.reconcile.file_store import FileStore

if TYPE_CHECKING:
    from kafkafeatures.cli.document.live_steps import LiveSteps

TIMED_OUT = "timed out; run the command again to continue"

_NEEDS_THE_OPERATOR = (
    "spec.workload.driver: {} needs the operator, which reads the pods; create the resource on Kubernetes, or set "
    "the driver to None or Manual"
)
_NEVER_STABLE = (
    "warning: {}: --timeout is not longer than spec.rollout.stableFor ({}): a node that is restarted does not count as "
    "back in this run"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `apply`."""
    add_document_flags(parser)
    add_apply_flags(parser)


def add_apply_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that `apply`, `upgrade` and `downgrade` share: `--timeout`, `--yes`, `--dry-run`, `-o`."""
    parser.add_argument(
        "--timeout",
        type=duration,
        default=600.0,
        metavar="10m",
        help="wait this long for what resolves automatically (default: 10m)",
    )
    parser.add_argument("--yes", action="store_true", help="skip confirmation (for scripts)")
    parser.add_argument(
        "--dry-run", action="store_true", help="show the plan and send nothing, as the command plan does"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMATS[1:],
        help="print the document with its status (default: a summary on a terminal, else nothing)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Reconcile until settled, and print how it ended."""
    return apply_all(arguments, documents_of(arguments))


def apply_all(arguments: argparse.Namespace, documents: Sequence[Document]) -> int:
    """Carry out these documents, or with `--dry-run` show their plans. Returns the exit code."""
    if arguments.dry_run:
        from kafkafeatures.cli.document.plan import plan_of

        return each(arguments, documents, plan_of, arguments.output or "table")
    return each(arguments, documents, _apply, arguments.output or "")


def _apply(arguments: argparse.Namespace, document: Document) -> tuple[Exit, Json | None]:
    """Carry out one document. Returns the exit code, and the document with its status; None without `-o`."""
    resource = document.resource
    with ExitStack() as stack:
        with document_errors(document.file, Exit.BLOCKED):
            connection = connection_settings_of(arguments, document)
            driver = driver_in(resource.spec)
            if driver.reads_pods:
                raise InvalidDocument((_NEEDS_THE_OPERATOR.format(driver.name),))
            stable_for = resource.spec.rollout.stable_for_seconds
            if driver.asks_people and arguments.timeout <= stable_for:
                tell(_NEVER_STABLE.format(document, format_span(timedelta(seconds=stable_for))))
            store = stack.enter_context(document.store(arguments, reads_again=True))
        if not document.command:  # of a command, the connection was shown before the document was made
            sources = (f"spec.cluster of {shown_file(document.file)}", arguments.config, arguments.controller_config)
            tell_connection(connection.settings, " and ".join(map(str, filter(None, sources))))
        permission, progress = Permission(store, arguments, document), _Progress()
        try:
            settled = partial(
                _until_settled, store, connection, document, arguments.timeout, progress=progress, permission=permission
            )
            last, code = _with_questions(settled, permission)
        except BaseException:  # also for the answer no, and Ctrl-C
            progress.remove_unused(document)
            raise
        is_kept = code is Exit.DONE or not progress.remove_unused(document)
        state = store.state if is_kept else None
    to_approve = ""
    permission.show(last.status)
    if code is Exit.APPROVAL and last.status.plan:
        to_approve = how_to_approve(arguments, document, last.status.plan.hash)
    if isinstance(last.decision, Stalled | Wait | Held):
        progress.tell_blockers(last.decision.blockers)
    _last_words(last, code, to_approve, skips_confirmation=arguments.yes)
    is_refused = code in (Exit.APPROVAL, _refusal(last.decision)) or _is_observed(last)
    ending = f"{document}: {_ending(last, code)}"
    ending += "; nothing was changed" if is_refused and not progress.has_sent else ""
    if page := runbook_of(last.status.reason(Condition.READY) or ""):
        ending += f"; see {page}"
    if arguments.output is None and sys.stdout.isatty():
        if progress.summary:
            print(progress.summary)
        print(f"{ending}; status kept in {state}" if state else ending)
    elif is_refused:
        tell(ending)
    result = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": resource.metadata.name, "namespace": resource.metadata.namespace},
        "spec": resource.raw_spec,
        "status": last.status.as_json(),
    }
    return code, result if arguments.output else None


def _with_questions(
    settled: Callable[[], Coroutine[Any, Any, tuple[Reconciliation, Exit]]], permission: Permission
) -> tuple[Reconciliation, Exit]:
    """Reconcile until settled, and ask the questions that come up. Returns and raises what `_until_settled` does;
    CommandFailed also if the answer is no.
    """
    while True:
        try:
            return on_loop(settled())
        except ConfirmationRequired as question:
            # The question is asked without a connection; afterwards everything is read anew.
            permission.ask(question)


async def _until_settled(
    store: FileStore,
    connection: ConnectionSettings,
    document: Document,
    timeout: float,
    *,
    progress: _Progress,
    permission: Permission,
) -> tuple[Reconciliation, Exit]:
    """Reconcile repeatedly, for `timeout` seconds at most. Returns the last reconciliation, and the exit code. Raises
    ConfirmationRequired if a person has to be asked first; then the caller asks, and calls this again. Raises
    CommandFailed if the document changed meanwhile, or if the time is over in the middle of a reconciliation.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    last = None
    async with cluster_of(connection.settings) as cluster:
        context = ReconcileContext(
            store,
            cluster,
            SYSTEM,
            ages=progress.ages,
            competing_owner=document.competing_owner,
            before_act=partial(_before_act, permission, progress),
            effects=progress.sent,
            zookeeper=connection.zookeeper(cluster),
            # The lock on the state file proves that the previous process has ended, but bytes that it sent may still be
            # on their way.
            hand_over=ON_ITS_WAY.total_seconds(),
        )
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    evaluation = await evaluate(context, await store.read())
                    progress.read(evaluation)
                    last = await execute(context, evaluation)
            except TimeoutError:
                if last is not None and last.status == (await store.read()).status:
                    return last, Exit.UNREACHABLE  # no step was begun since, so the last result still holds
                state = progress.last_line or "the cluster did not answer in time"
                raise CommandFailed(f"{TIMED_OUT}: {state}", Exit.UNREACHABLE) from None
            if store.changed_because:
                progress.tell(last)
                raise CommandFailed(f"{store.changed_because}; nothing more was sent; run it again", Exit.BLOCKED)
            code = progress.code_of(last)
            if code is Exit.APPROVAL:
                permission.check_approval(last.status)
            if code is None and not progress.has_begun and isinstance(last.decision, Wait) and last.decision.blockers:
                permission.show(last.status)  # the wait may be long
                progress.tell_blockers(last.decision.blockers)
                code = _refusal(last.decision) if permission.cannot_be_given else None
            progress.tell(last, code)
            if code is not None:
                return last, code
            pause = min(last.requeue_after if last.requeue_after is not None else 1.0, deadline - loop.time())
            if pause <= 0 and loop.time() >= deadline:  # a pause of 0 before the deadline continues at once
                return last, Exit.UNREACHABLE
            await asyncio.sleep(max(pause, 0.0))


def _before_act(permission: Permission, progress: _Progress, evaluation: Evaluation) -> None:
    """Called right before a step is sent: raises if a person has to be asked first, else shows that the step begins."""
    permission.check(evaluation)
    progress.begin(evaluation)


class _Progress:
    """State of the command that outlasts a question to the user: the last line printed, whether a step was begun, or
    sent, whether the cluster was ever read, and the ages of its readings. On a terminal each level has a line that is
    redrawn.
    """

    def __init__(self) -> None:
        self.ages = Ages(SYSTEM.monotonic)
        self.last_line = ""
        self.has_begun = self.has_sent = False
        self._was_read = False
        self._blockers: list[str] = []  # that were printed last
        self._live: LiveSteps | None = None
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from kafkafeatures.cli.document.live_steps import LiveSteps

            self._live = LiveSteps(SYSTEM.monotonic)

    def begin(self, evaluation: Evaluation) -> None:
        """Called right before a step is sent."""
        self.has_begun = True
        if self._live is not None:
            self._live.begin(evaluation)

    def remove_unused(self, document: Document) -> bool:
        """Remove files that `upgrade` or `downgrade` wrote, if no step was begun: nobody confirmed what they name.
        Returns True if there were any.
        """
        if self.has_begun:
            return False
        document.remove_created_files()
        return bool(document.created_files)

    def sent(self, effect: EffectRecord) -> None:
        """Called right before a step is sent."""
        self.has_sent = True
        SENT_STEPS.note(str(effect.step))
        if self._live is not None:
            self._live.sent(effect)

    def read(self, evaluation: Evaluation | Unread) -> None:
        """Update the levels to what the cluster shows now."""
        if self._live is not None and isinstance(evaluation, Evaluation):
            self._live.read(evaluation.observation)

    def tell(self, last: Reconciliation, code: Exit | None = None) -> None:
        """Print a line of progress if it is a new one. `code`: set once the command ends. `_last_words` follows then,
        so this line leaves out what that function prints.
        """
        line = _line(last, code)
        if self._live is not None and self._live.ended(last):
            return
        if line and line != self.last_line:
            (tell if self._live is None else self._live.say)(line)
            self.last_line = line

    def tell_blockers(self, blockers: tuple[Blocker, ...]) -> None:
        """Print what prevents more, each with its remedy, unless the same was printed before."""
        texts = [str(blocker) for blocker in blockers]
        if texts != self._blockers:
            _tell_blockers(blockers)
            self._blockers = texts

    @property
    def summary(self) -> str:
        """Summary of the changes on a terminal; else empty."""
        return self._live.summary() if self._live is not None else ""

    def code_of(self, last: Reconciliation) -> Exit | None:
        """The exit code if the command is over; None to continue, because what is missing resolves automatically.
        Raises CommandFailed if the cluster cannot be read at the beginning.
        """
        match last.decision:
            case Done():
                return Exit.DONE
            case Failure() as failure:
                if not self._was_read and not last.status.intents:
                    # no step is open, so stop at once: a wrong address must not cost the whole timeout
                    raise failed(failure)
                return None
            case Held(reason=reason):
                return Exit.APPROVAL if reason is Reason.APPROVAL_REQUIRED else Exit.BLOCKED
            case Stalled() as stalled:
                return _refusal(stalled)
            case Wait(condition=(Condition.APPROVAL_REQUIRED, _)):
                return Exit.APPROVAL  # waiting does not help; the soak time so far is kept in the state file
            case Act() | Wait() as decision:
                self._was_read = True  # from now on a failure to read may pass
                return None if may_pass(decision) else _refusal(decision)


def _refusal(decision: object) -> Exit:
    """The exit code of a decision that only a person can end."""
    return Exit.UNREACHABLE if lacks_access(decision) else Exit.BLOCKED


def _is_observed(last: Reconciliation) -> bool:
    """Tell whether mode Observe is why a plan was not carried out."""
    return last.status.reason(Condition.READY) == Reason.OBSERVED and bool(last.status.plan)


def _line(last: Reconciliation, code: Exit | None) -> str:
    """A line of progress; empty at the end if the last lines of the command say the same: the plan to approve, or all
    blockers.
    """
    decision = last.decision
    if code is Exit.APPROVAL:
        return ""
    if not isinstance(decision, Wait | Stalled | Held) or not decision.blockers:
        return summary_of(last)
    if code is not None and decision.message.startswith(
        tuple(blocker.message for blocker in grouped(decision.blockers))
    ):
        return ""
    return f"{summary_of(last)}{'; waiting' if isinstance(decision, Wait) and may_pass(decision) else ''}"


def _tell_blockers(blockers: tuple[Blocker, ...]) -> None:
    """Print what prevents more; in a script every blocker, however many there are."""
    from kafkafeatures.cli.cluster.blockers_text import BLOCKS_SHOWN, draw_blockers
    from kafkafeatures.core.report.blockers import blocker_status

    records = list(map(blocker_status, grouped(blockers)))
    is_terminal = sys.stderr.isatty()
    stderr = console(errors=True, width=None if is_terminal else NEVER_WRAPPED)
    stderr.print("Blockers", style="bold")
    draw_blockers(stderr, records, most=BLOCKS_SHOWN if is_terminal else len(records))


def _ending(last: Reconciliation, code: Exit) -> str:
    """End of the last line: the blockers in short, or the reason of Ready. Of nodes that stayed too old it names ways
    out: the halt is in the state file, so the next `apply` ends at once.
    """
    decision = last.decision
    blockers = decision.blockers if code is _refusal(decision) and not isinstance(decision, Failure) else ()
    if not blockers:
        how = ": to carry out the plan, set spec.mode: Apply" if _is_observed(last) else ""
        return f"{last.status.reason(Condition.READY) or ''}{how}"
    if isinstance(decision, Stalled) and decision.reason is Reason.NODES_BEHIND:
        return f"{blocked_by(blockers)}; {decision.remedy}"
    return blocked_by(blockers)


def _last_words(last: Reconciliation, code: Exit, to_approve: str, *, skips_confirmation: bool) -> None:
    """Print on stderr, as far as they apply, how to approve the plan, and that the time is over.
    `skips_confirmation`: `--yes` was given, which approves no plan.
    """
    if code is Exit.APPROVAL:
        is_changed = last.status.reason(Condition.APPROVAL_REQUIRED) == Reason.PLAN_CHANGED
        plan = "the approval is for another plan; this one" if is_changed else "a plan"
        limit = "--yes does not approve it; " if skips_confirmation else ""
        tell(f"kafkafeatures: {plan} is waiting for approval; {limit}to approve: {to_approve}")
    if code is Exit.UNREACHABLE and code is not _refusal(last.decision):
        tell(f"kafkafeatures: {TIMED_OUT}")
