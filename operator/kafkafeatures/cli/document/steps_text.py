"""Prints the steps of a plan, whether it was just made or comes from a status.

The input are records of `api/status.py`. The functions that print need `rich`; those that return lines do not import
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.status import ApprovedBy, StepState, StepStatus, WayBack
from kafkafeatures.core.facts.releases import Undo

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {
    PlanVerdict.IN_SYNC: "green",
    PlanVerdict.CHANGES: "green",
    PlanVerdict.APPROVAL_REQUIRED: "yellow",
    PlanVerdict.BLOCKED: "red",
    PlanVerdict.UNKNOWN: "red",
}
APPROVED: Mapping[str, str] = {
    ApprovedBy.PLAN_HASH: "approved by its hash",
    ApprovedBy.ANNOTATION: "approved by annotation",
    ApprovedBy.NAMED_IN_SPEC: "approved: each level is named in the document",
    ApprovedBy.POLICY: "approved by policy Never",
}
"""Texts for the values of `approvedBy` in the status."""
UNDO: Mapping[str, str] = {Undo.IMPOSSIBLE: "irreversible", Undo.LOSSY: "downgrade may lose metadata"}
"""Marks of steps that cannot be undone safely."""


def draw_steps(console: Console, steps: Sequence[StepStatus]) -> None:
    """Print each step: the change, its state, a mark if it cannot be undone safely, and how far the cluster can go back
    afterwards.
    """
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import hanging

    for step in steps:
        text = Text(_title(step)).append(_marked(step), "yellow")
        hanging(console, text, indent=5, first=Text("  "))
        for effect in filter(None, (*step.effects, step.way_back)):
            hanging(console, Text(effect, "dim"), indent=5)
    if loss := _loss(steps):
        hanging(console, Text(loss, "dim"), indent=2, first=Text("  "))


def step_lines(steps: Sequence[StepStatus]) -> Iterator[str]:
    """The output of `draw_steps` as plain lines."""
    for step in steps:
        yield f"  {_title(step)}{_marked(step)}"
        yield from (f"     {effect}" for effect in filter(None, (*step.effects, step.way_back)))
    if loss := _loss(steps):
        yield f"  {loss}"


def warnings_of(steps: Iterable[StepStatus]) -> Iterator[str]:
    """Warnings about these steps, to be read before confirming them."""
    pending = [step for step in steps if step.state != StepState.DONE]
    lossy = [step.detail or "?" for step in pending if step.undo == Undo.LOSSY and step.consent]
    if lossy:  # only downgrades have such a consent
        yield f"The downgrade may lose metadata, which raising the level again does not restore: {', '.join(lossy)}."
    if any(step.undo == Undo.IMPOSSIBLE for step in pending):
        yield "Kafka refuses to undo the steps marked irreversible."


def until_of(way_back: WayBack) -> str:
    """Text that says until when the cluster can go back."""
    return f"until {way_back.until}" if way_back.until else "until an irreversible step is carried out"


def draw_way_back(console: Console, way_back: WayBack | None) -> None:
    """Print until when and how the cluster can go back; nothing if there is no way back."""
    if way_back is not None:
        from rich.text import Text

        from kafkafeatures.cli.shell.indented import line

        line(console, Text(f"Way back: {until_of(way_back)}: {way_back.how or '?'}"))


def _loss(steps: Iterable[StepStatus]) -> str:
    """Sentence about raises whose downgrade may lose metadata; empty if there are none."""
    *others, last = ["", *(step.id for step in steps if step.undo == Undo.LOSSY and not step.consent)]
    numbers = f"Steps {', '.join(others[1:])} and {last}" if others[1:] else f"Step {last}"
    lost = "can be downgraded, but metadata that was written at the new level may then be lost"
    return f"{numbers} {lost}." if last else ""


def _title(step: StepStatus) -> str:
    return f"{step.id or '-'}. {step.detail or '?'}{' (done)' if step.state == StepState.DONE else ''}"


def marks_of(step: StepStatus) -> str:
    """Facts that people have to know before they approve a step; empty if it can be undone safely and needs no
    consent.
    """
    consent = f"uses consent {step.consent}" if step.consent else ""
    return ", ".join(filter(None, (UNDO.get(step.undo), consent)))


def _marked(step: StepStatus) -> str:
    marks = marks_of(step)
    return f"  {marks}" if marks else ""
