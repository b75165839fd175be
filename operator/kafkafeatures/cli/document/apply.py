"""`kafkafeatures apply -f FILE`: the reconciler without Kubernetes, repeated until the document is settled.

Ends with the status document on stdout, on a terminal with a summary. Progress goes to stderr, a line per change. What
a document asks for is checked on every node first; a document that is blocked sends nothing and names every blocker.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.api.status import BlockerStatus, Status, StepState
from kafkafeatures.cli.cluster.connect import failed, on_loop
from kafkafeatures.cli.document.documents import (
    Reach,
    add_document_flags,
    document_errors,
    how_to_approve,
    is_stream,
    read,
    state_of,
)
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.shell.output import FORMATS, console, paragraph, print_document, tell
from kafkafeatures.cli.shell.values import duration
from kafkafeatures.core.engine.blockers import Blocker, grouped
from kafkafeatures.core.engine.decisions import Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.engine.settling import ON_ITS_WAY
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.levels.stage import levels_in
from kafkafeatures.core.resolve import driver_in
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.reconcile.act import Reconciliation, execute, summary_of
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.evaluate import EffectRecord, Evaluation, ReconcileContext, Unread, evaluate
from kafkafeatures.reconcile.file_store import FileStore, read_file

if TYPE_CHECKING:
    from kafkafeatures.cli.document.live_steps import LiveSteps

TIMED_OUT = "timed out; run the command again to continue"

_NEEDS_THE_OPERATOR = (
    "spec.workload.driver: {} needs the operator, which restarts the pods; create the resource on Kubernetes, or set "
    "the driver to None or Manual"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `apply`."""
    add_document_flags(parser)
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
        help="format of the status document (default: yaml; on a terminal, a summary line instead)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Reconcile until settled, and print how it ended."""
    if arguments.dry_run:
        from kafkafeatures.cli.document.plan import CODES, plan_of_file

        return CODES[plan_of_file(arguments, arguments.output or "table")]
    with ExitStack() as stack:
        with document_errors(arguments.file):
            resource, reach = read(arguments)
            driver = driver_in(resource.spec.workload)
            if driver.reads_pods:
                raise InvalidDocument((_NEEDS_THE_OPERATOR.format(driver.name),))
            state = state_of(arguments)
            again = None if is_stream(arguments.file) else partial(read_file, arguments.file)
            said = {"approve": arguments.approve or "", "accepted_log": arguments.accept_restored_log}
            store = FileStore(resource, state, **said, again=again)
            stack.enter_context(store)
        named = bool(resource.spec.approval.plan_hash)
        permission, progress = _Permission(store, arguments, approved_in_document=named), _Progress()
        while True:
            try:
                last, code = on_loop(_until_settled(store, reach, arguments.timeout, progress, permission))
                break
            except _Question as question:  # asked while nothing is connected; then everything is looked at anew
                permission.ask(question)
    to_approve = ""
    if code is Exit.APPROVAL or sys.stderr.isatty():
        permission.show(last.status)
    if code is Exit.APPROVAL and last.status.plan:
        to_approve = how_to_approve(arguments, resource, last.status.plan.hash)
    if arguments.output is None and sys.stdout.isatty():
        _last_words(last, code, to_approve)
        if progress.summary:
            print(progress.summary)
        kept = f"; status kept in {state}" if state else ""
        print(f"{resource.metadata.namespace}/{resource.metadata.name}: {last.status.reason(Condition.READY)}{kept}")
        return code
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": resource.metadata.name, "namespace": resource.metadata.namespace},
        "spec": resource.written,
        "status": last.status.as_json(),
    }
    print_document(document, arguments.output or "yaml")
    _last_words(last, code, to_approve)
    return code


async def _until_settled(
    store: FileStore,
    reach: Reach,
    timeout: float,
    progress: _Progress,
    permission: _Permission,
) -> tuple[Reconciliation, Exit]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    last = None
    async with Cluster(reach.settings, environment=SYSTEM) as cluster:
        context = ReconcileContext(
            store,
            cluster,
            now=SYSTEM.clock,
            sleep=SYSTEM.sleep,
            monotonic=SYSTEM.monotonic,
            ages=progress.ages,
            before_act=partial(_before_act, permission, progress),
            effects=progress.sent,
            zookeeper=reach.zookeeper(cluster),
            # The lock shows that the process of before has ended, and nothing of what it wrote to the network.
            hand_over=ON_ITS_WAY.total_seconds(),
        )
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    found = await evaluate(context, await store.read())
                    progress.read(found)
                    last = await execute(context, found)
            except TimeoutError:
                if last is not None and last.status == (await store.read()).status:
                    return last, Exit.UNREACHABLE  # nothing was begun since, so that is still how it is
                state = progress.said or "the cluster did not answer in time"
                raise CommandFailed(f"{TIMED_OUT}: {state}", Exit.UNREACHABLE) from None
            if store.why_over:
                progress.tell(last)
                raise CommandFailed(f"{store.why_over}; nothing more was sent; run it again", Exit.BLOCKED)
            code = progress.code_of(last)
            if code is Exit.APPROVAL:
                permission.check_approval(last.status)
            progress.tell(last, code)
            if code is not None:
                return last, code
            pause = min(last.requeue_after if last.requeue_after is not None else 1.0, deadline - loop.time())
            if pause <= 0 and loop.time() >= deadline:
                return last, Exit.UNREACHABLE
            await asyncio.sleep(max(pause, 0.0))


def _before_act(permission: _Permission, progress: _Progress, found: Evaluation) -> None:
    permission.check(found)
    progress.begin(found)


class _Question(Exception):
    """The plan of this status must be confirmed before it is carried out. `approves`: it waits for approval."""

    def __init__(self, status: Status, *, approves: bool) -> None:
        super().__init__()
        self.status, self.approves = status, approves


class _Permission:
    """A person at the terminal sees the plan and says yes to it, before the first of its steps is sent.

    Without a terminal what the document approves goes ahead; but a downgrade by a consent that may have been used
    before never goes ahead by itself. A yes also approves a plan that waits for approval, unless another one was
    approved by its hash.
    """

    def __init__(self, store: FileStore, arguments: argparse.Namespace, *, approved_in_document: bool) -> None:
        self._store = store
        self._sure: bool = arguments.yes
        self._approved = bool(arguments.approve)  # and no other plan is carried out then
        self._may_approve = not (self._sure or self._approved or approved_in_document)
        self._given = ""  # the hash of a plan
        self._shown = ""  # the same

    def check(self, found: Evaluation) -> None:
        """Raises what keeps the reconciliation from acting on the plan. A person who is not asked sees it."""
        if self._given == found.proposal.plan.hash:
            return
        if self._sure:
            if sys.stderr.isatty():
                self.show(found.status)
            return
        why = self._store.why_unverified(levels_in(found.proposal).changes)
        if (why or not self._approved) and _at_terminal():
            raise _Question(found.status, approves=False)
        if why:
            raise CommandFailed(f"{why}; not a terminal; use --yes to skip confirmation", Exit.APPROVAL)
        if _at_terminal():
            self.show(found.status)

    def check_approval(self, status: Status) -> None:
        """Raises _Question where a plan waits for an approval that the user at the terminal may give."""
        if self._may_approve and status.plan and _at_terminal():
            raise _Question(status, approves=True)

    def ask(self, question: _Question) -> None:
        """Show the plan. Raises CommandFailed unless the answer is yes."""
        plan = question.status.plan
        if plan is None:
            raise RuntimeError("nothing is asked without a plan")
        self.show(question.status)
        why = self._store.why_unverified(step for step in plan.steps if step.state != StepState.DONE)
        if why:
            paragraph(f"{why[0].upper()}{why[1:]}.", errors=True)
        print(
            "Approve and apply? [y/N] " if question.approves else "Apply this plan? [y/N] ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandFailed("not confirmed; nothing was changed", Exit.BLOCKED)
        self._given = plan.hash
        if question.approves:
            self._store.approve(plan.hash)

    def show(self, status: Status) -> None:
        """The plan with what has to be known of it, once."""
        plan = status.plan
        if plan is None or plan.hash == self._shown:
            return
        from kafkafeatures.cli.document.steps_text import draw_steps, warnings_of

        self._shown = plan.hash
        tell(f"Plan {plan.hash[:HASH_SHOWN]} of {self._store.name}, cluster {status.cluster_id or 'unknown'}:")
        draw_steps(console(errors=True), plan.steps)
        for warning in warnings_of(plan.steps):
            paragraph(warning, errors=True)


def _at_terminal() -> bool:
    """Whether there is a person who reads what is asked, and can answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


class _Progress:
    """What outlives a question: what was said already, whether the cluster was seen, how old its stamps are. On a
    terminal each level has a line that is drawn anew.
    """

    def __init__(self) -> None:
        self.ages = Ages(SYSTEM.monotonic)
        self.said = ""
        self._seen = False
        self._live: LiveSteps | None = None
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            from kafkafeatures.cli.document.live_steps import LiveSteps

            self._live = LiveSteps(SYSTEM.monotonic)

    def begin(self, found: Evaluation) -> None:
        """The next step is about to be sent."""
        if self._live is not None:
            self._live.begin(found)

    def sent(self, effect: EffectRecord) -> None:
        """A step was sent."""
        if self._live is not None:
            self._live.sent(effect)

    def read(self, found: Evaluation | Unread) -> None:
        """What the cluster shows now."""
        if self._live is not None and isinstance(found, Evaluation):
            self._live.read(found.observation)

    def tell(self, last: Reconciliation, code: Exit | None = None) -> None:
        """Say what is new. `code`: the command is over, and what blocks it is said at its end."""
        line = _line(last, code)
        if self._live is not None and self._live.ended(last):
            return
        if line != self.said:
            (tell if self._live is None else self._live.say)(line)
            self.said = line

    @property
    def summary(self) -> str:
        """What was done, where a person watched."""
        return self._live.summary() if self._live is not None else ""

    def code_of(self, last: Reconciliation) -> Exit | None:
        """The exit code if the command is over; None to continue, because what is missing resolves automatically."""
        match last.decision:
            case Done():
                return Exit.DONE
            case Failure() as failure:
                if not self._seen and not last.status.intents:
                    raise failed(failure)  # nothing has to be settled: a wrong address should not cost ten minutes
                return None
            case Held(reason=reason):
                return Exit.APPROVAL if reason is Reason.APPROVAL_REQUIRED else Exit.BLOCKED
            case Stalled():
                return Exit.BLOCKED
            case Wait(condition=(Condition.APPROVAL_REQUIRED, _)):
                return Exit.APPROVAL  # which no time brings; what it soaks meanwhile is kept in the state file
            case Act() | Wait() as decision:
                self._seen = True
                return None if _may_pass(decision) else Exit.BLOCKED


def _may_pass(decision: Act | Wait) -> bool:
    """An old live node or a missing quorum may be an upgrade under way; a missing right or address is not."""
    blockers = decision.blockers if isinstance(decision, Wait) else ()
    return all(blocker.why is None or blocker.why.may_pass for blocker in blockers)


def _line(last: Reconciliation, code: Exit | None) -> str:
    """A line of progress. At the end only the reason, where the message is that of a blocker: all of them follow."""
    decision = last.decision
    if not isinstance(decision, Wait | Stalled | Held) or not decision.blockers:
        return summary_of(last)
    if code is not None and decision.message.startswith(tuple(one.message for one in grouped(decision.blockers))):
        return f"{decision.reason}: blocked"
    return f"{summary_of(last)}{'; waiting' if isinstance(decision, Wait) and _may_pass(decision) else ''}"


def _records(blockers: tuple[Blocker, ...]) -> list[BlockerStatus]:
    from kafkafeatures.core.report.blockers import blocker_status

    return [*map(blocker_status, grouped(blockers))]


def _last_words(last: Reconciliation, code: Exit, to_approve: str) -> None:
    """Why it ended, and what prevents more: in blocks on a terminal, in lines elsewhere."""
    decision: Decision | Failure = last.decision
    if code is Exit.UNREACHABLE:
        tell(f"kafkafeatures: {TIMED_OUT}")
    if isinstance(decision, Stalled | Wait | Held):
        records = _records(decision.blockers)
        if sys.stderr.isatty():
            from kafkafeatures.cli.cluster.blockers_text import draw_blockers

            draw_blockers(console(errors=True), records)
        else:
            from kafkafeatures.cli.cluster.blockers_text import blocker_lines

            for line in blocker_lines(records):
                tell(f"kafkafeatures: {line}")
        if code is Exit.APPROVAL:
            tell(f"kafkafeatures: a plan is waiting for approval; to approve: {to_approve}")
