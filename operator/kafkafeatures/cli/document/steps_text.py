"""Steps as people read them: the same for a plan made just now and for one that stands in a status.

They are drawn from the records of `api/status.py`: on a terminal in colour, in a pipe as plain lines, for which rich is
not imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
"""What `approvedBy` means."""
UNDO: Mapping[str, str] = {Undo.IMPOSSIBLE: "irreversible", Undo.LOSSY: "downgrade may lose metadata"}
"""What a step is marked with; nothing where it is safe to undo."""


def draw_steps(console: Console, steps: Iterable[StepStatus]) -> None:
    """Draw what each changes, whether it is done, how it can be undone where that is not safe, and how far one can go
    back afterwards where that is not all there is to say.
    """
    from rich.text import Text

    from kafkafeatures.cli.shell.indented import hanging

    for step in steps:
        text = Text(_title(step)).append(_mark(step), "yellow")
        hanging(console, text, indent=5, first=Text("  "))
        for effect in filter(None, (*step.effects, step.way_back)):
            hanging(console, Text(effect, "dim"), indent=5)


def step_lines(steps: Iterable[StepStatus]) -> Iterator[str]:
    """Lines of text that say what `draw_steps` draws."""
    for step in steps:
        yield f"  {_title(step)}{_mark(step)}"
        yield from (f"     {effect}" for effect in filter(None, (*step.effects, step.way_back)))


def warnings_of(steps: Iterable[StepStatus]) -> Iterator[str]:
    """Sentences to read before one says yes to these steps."""
    pending = [step for step in steps if step.state != StepState.DONE]
    lossy = [step.detail or "?" for step in pending if step.undo == Undo.LOSSY and step.consent]
    if lossy:  # of all steps only downgrades have such a consent
        yield f"The downgrade may lose metadata, which raising the level again does not restore: {', '.join(lossy)}."
    if any(step.undo == Undo.IMPOSSIBLE for step in pending):
        yield "Kafka refuses to undo the steps marked irreversible."


def until_of(way_back: WayBack) -> str:
    """Until when one can still go back."""
    return f"until {way_back.until}" if way_back.until else "until an irreversible step is carried out"


def draw_way_back(console: Console, way_back: WayBack | None) -> None:
    """Until when and how one can still go back, before a step that is irreversible."""
    if way_back is not None:
        from rich.text import Text

        from kafkafeatures.cli.shell.indented import line

        line(console, Text(f"Way back: {until_of(way_back)}: {way_back.how or '?'}"))


def _title(step: StepStatus) -> str:
    return f"{step.id or '-'}. {step.detail or '?'}{' (done)' if step.state == StepState.DONE else ''}"


def _mark(step: StepStatus) -> str:
    """Facts that people have to know before they approve it; nothing where it is safe to undo and needs no consent."""
    consent = f"uses consent {step.consent}" if step.consent else ""
    marks = ", ".join(filter(None, (UNDO.get(step.undo), consent)))
    return f"  {marks}" if marks else ""
