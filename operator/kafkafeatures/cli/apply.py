"""`kafkafeatures apply -f FILE`: the reconciler without Kubernetes, repeated until the document is settled.

Ends with the status document on stdout, on a terminal with a line. Progress goes to stderr, a line per change. What a
document asks for is checked on every node first; a document that is blocked sends nothing and names every blocker.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import ExitStack
from functools import partial

from kafkafeatures.api.document import InvalidDocument
from kafkafeatures.api.names import API_VERSION, KIND
from kafkafeatures.api.reasons import Condition, Reason
from kafkafeatures.cli.connect import failed, on_loop
from kafkafeatures.cli.documents import add_document_flags, approve_command, document_errors, is_stream, read, state_of
from kafkafeatures.cli.exit_codes import CommandFailed, Exit
from kafkafeatures.cli.output import FORMATS, console, print_document, tell
from kafkafeatures.cli.values import duration
from kafkafeatures.core.blockers import grouped
from kafkafeatures.core.decisions import Act, Decision, Done, Held, Stalled, Wait
from kafkafeatures.core.observation import Known
from kafkafeatures.core.plan import HASH_SHOWN
from kafkafeatures.core.readings import Failure
from kafkafeatures.core.report import steps_of
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.kafka.settings import ClusterSettings
from kafkafeatures.reconcile.act import Reconciliation, reconcile, summary_of
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.evaluate import Evaluation, ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore, read_file

TIMED_OUT = "timed out; run the command again to continue"

_DRIVERS = ("None", "Manual")
"""Of `spec.workload.driver`: those that work without Kubernetes."""
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
        "-o",
        "--output",
        choices=FORMATS[1:],
        help="format of the status document (default: yaml; on a terminal, a summary line instead)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Reconcile until settled, and print how it ended."""
    with ExitStack() as stack:
        with document_errors(arguments.file):
            resource, settings = read(arguments)
            if resource.spec.workload.driver not in _DRIVERS:
                raise InvalidDocument((_NEEDS_THE_OPERATOR.format(resource.spec.workload.driver),))
            state = state_of(arguments)
            again = None if is_stream(arguments.file) else partial(read_file, arguments.file)
            store = FileStore(resource, state, approve=arguments.approve or "", again=again)
            stack.enter_context(store)
        permission, progress = _Permission(store, arguments), _Progress()
        while True:
            try:
                last, code = on_loop(_until_settled(store, settings, arguments.timeout, progress, permission))
                break
            except _Question as question:  # asked while nothing is connected; then everything is looked at anew
                permission.ask(question.found)
    to_approve = approve_command(arguments, last.status.plan.hash) if code is Exit.APPROVAL and last.status.plan else ""
    if arguments.output is None and sys.stdout.isatty():
        _last_words(last, code, to_approve)
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
    store: FileStore, settings: ClusterSettings, timeout: float, progress: _Progress, permission: _Permission
) -> tuple[Reconciliation, Exit]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    last = None
    async with Cluster(settings) as cluster:
        context = ReconcileContext(
            store, cluster, now=SYSTEM.clock, sleep=SYSTEM.sleep, ages=progress.ages, before_act=permission.check
        )
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    last = await reconcile(context, await store.read())
            except TimeoutError:
                if last is not None and last.status == (await store.read()).status:
                    return last, Exit.UNREACHABLE  # nothing was begun since, so that is still how it is
                state = progress.said or "the cluster did not answer in time"
                raise CommandFailed(f"{TIMED_OUT}: {state}", Exit.UNREACHABLE) from None
            progress.tell(last)
            if store.why_over:
                raise CommandFailed(f"{store.why_over}; nothing more was sent; run it again", Exit.BLOCKED)
            code = progress.code_of(last)
            if code is not None:
                return last, code
            pause = min(last.requeue_after if last.requeue_after is not None else 1.0, deadline - loop.time())
            if pause <= 0 and loop.time() >= deadline:
                return last, Exit.UNREACHABLE
            await asyncio.sleep(max(pause, 0.0))


class _Question(Exception):
    """This plan must be confirmed before it is carried out."""

    def __init__(self, found: Evaluation) -> None:
        super().__init__()
        self.found = found


class _Permission:
    """A person at the terminal sees the plan and says yes to it, before the first of its steps is sent.

    Without a terminal what the document approves goes ahead; but a downgrade by a consent that may have been used
    before never goes ahead by itself.
    """

    def __init__(self, store: FileStore, arguments: argparse.Namespace) -> None:
        self._store = store
        self._sure: bool = arguments.yes
        self._approved = bool(arguments.approve)  # and no other plan is carried out then
        self._given = ""  # the hash of a plan

    def check(self, found: Evaluation) -> None:
        """Raises what keeps the reconciliation from acting on the plan."""
        if self._sure or self._given == found.proposal.plan.hash:
            return
        why = self._store.why_unverified(found.proposal.changes)
        if (why or not self._approved) and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
            raise _Question(found)
        if why:
            raise CommandFailed(f"{why}; not a terminal; use --yes to skip confirmation", Exit.APPROVAL)

    def ask(self, found: Evaluation) -> None:
        """Show the plan. Raises CommandFailed unless the answer is yes."""
        from kafkafeatures.cli.steps_text import draw_steps

        plan = found.proposal.plan
        cluster = found.observation.cluster_id.value if isinstance(found.observation.cluster_id, Known) else "unknown"
        tell(f"Plan {plan.hash[:HASH_SHOWN]} of {self._store.name}, cluster {cluster}:")
        draw_steps(console(errors=True), (step.as_json() for step in steps_of(plan)))
        why = self._store.why_unverified(found.proposal.changes)
        if why:
            tell(f"{why[0].upper()}{why[1:]}.")
        print("Apply this plan? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandFailed("not confirmed; nothing was changed", Exit.BLOCKED)
        self._given = plan.hash


class _Progress:
    """What outlives a question: what was said already, whether the cluster was seen, how old its stamps are."""

    def __init__(self) -> None:
        self.ages = Ages()
        self.said = ""
        self._seen = False

    def tell(self, last: Reconciliation) -> None:
        line = _line(last)
        if line != self.said:
            tell(line)
            self.said = line

    def code_of(self, last: Reconciliation) -> Exit | None:
        """The exit code if the command is over; None to go on: what resolves automatically is waited for."""
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


def _line(last: Reconciliation) -> str:
    waits = isinstance(last.decision, Wait) and last.decision.blockers and _may_pass(last.decision)
    return f"{summary_of(last)}{'; waiting' if waits else ''}"


def _last_words(last: Reconciliation, code: Exit, to_approve: str) -> None:
    decision: Decision | Failure = last.decision
    if code is Exit.UNREACHABLE:
        tell(f"kafkafeatures: {TIMED_OUT}")
    if isinstance(decision, Stalled | Wait | Held):
        for blocker in grouped(decision.blockers):
            remedy = f"; {blocker.remedy}" if blocker.remedy else ""
            tell(f"kafkafeatures: {blocker.message}{remedy}")
        if code is Exit.APPROVAL:
            tell(f"kafkafeatures: {decision.message}; to approve: {to_approve}")
        elif not decision.blockers and code is not Exit.UNREACHABLE:
            tell(f"kafkafeatures: {decision.message}")
