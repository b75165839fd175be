"""A plan as people read it: the picture, the steps, what of it is for good, what stands in the way, and the hash."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kafkafeatures.cli.matrix import draw
from kafkafeatures.core.decide import Act, approved_by
from kafkafeatures.core.plan import is_lowering, reversible
from kafkafeatures.core.releases import told
from kafkafeatures.core.report import plan_verdict
from kafkafeatures.core.steps import Accepted, Refused, UpdateFeature, Verdict
from kafkafeatures.reconcile.consider import Considered

_COLOURS = {"InSync": "green", "Changes": "green", "ApprovalRequired": "yellow", "Blocked": "red", "Unknown": "red"}
_APPROVED = {
    "PlanHash": "approved by its hash",
    "NamedInSpec": "approved: each level is named in the document",
    "Policy": "approved by policy Never",
}


def draw_plan(console: Console, seen: Considered, *, of_document: bool) -> None:
    """Print all of it. `of_document`: `apply` would do the same."""
    draw(console, seen.observation, in_the_way=False)  # of this plan: below
    _steps(console, seen)
    blocked = () if isinstance(seen.decision, Act) else seen.decision.blockers
    if blocked:
        console.print()
        console.print(Text("Stands in the way", "bold"))
        for blocker in blocked:
            console.print(Padding(Text(f"{blocker.kind.value}: {blocker.message}", "red"), (0, 0, 0, 2), expand=False))
            if blocker.remedy:
                console.print(Padding(Text(blocker.remedy), (0, 0, 0, 4), expand=False))
    if seen.verdict is not None:
        console.print()
        console.print(_server(seen.verdict), overflow="fold")
    verdict = plan_verdict(seen.decision, seen.observation, seen.proposal)
    console.print()
    line = Text.assemble(("Plan: ", "bold"), (verdict, f"bold {_COLOURS[verdict]}"))
    if seen.proposal.changes:
        line.append(f"  {seen.proposal.plan.hash[:19]}")
        how = approved_by(seen.wanted, seen.proposal)
        line.append(f"  {_APPROVED[how]}" if how else "")
    console.print(line, overflow="fold")
    if not isinstance(seen.decision, Act) and not blocked:
        console.print(Text(f"{seen.decision.reason.value}: {seen.decision.message}"), overflow="fold")
    if verdict == "ApprovalRequired" and of_document:
        console.print(Text(f"To approve it: kafkafeatures apply -f FILE --approve {seen.proposal.plan.hash[:19]}"))


def _steps(console: Console, seen: Considered) -> None:
    if not seen.proposal.changes:
        return
    console.print()
    console.print(Text("Steps", "bold"))
    for number, step in enumerate(seen.proposal.plan.steps, start=1):
        done = " (done)" if number <= seen.proposal.plan.done else ""
        text = Text(
            f"  {number}. {step.feature} {told(step.feature, step.before)} -> {told(step.feature, step.after)}{done}"
        )
        text.append_text(_fate(step))
        console.print(text, overflow="fold")


def _fate(step: UpdateFeature) -> Text:
    if is_lowering(step):
        return Text("  lowers it", "yellow")
    return Text("") if reversible(step) else Text("  irreversible", "yellow")


def _server(verdict: Verdict) -> Text:
    match verdict:
        case Accepted():
            return Text("The active controller accepts it (validateOnly).", "green")
        case Refused(_, message):
            return Text(f"The active controller refuses it (validateOnly): {message}", "red")
        case _:
            return Text(f"The active controller was not asked, or did not say: {verdict.why}", "yellow")
