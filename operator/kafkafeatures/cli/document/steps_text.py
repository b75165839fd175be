"""Steps and blockers as people read them: the same for a plan made just now and for one that stands in a status.

Both are drawn from the shapes of `core/report/status.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kafkafeatures.api.reasons import PlanVerdict

Shape = Mapping[str, Any]

COLOURS = {
    PlanVerdict.IN_SYNC: "green",
    PlanVerdict.CHANGES: "green",
    PlanVerdict.APPROVAL_REQUIRED: "yellow",
    PlanVerdict.BLOCKED: "red",
    PlanVerdict.UNKNOWN: "red",
}
APPROVED = {
    "PlanHash": "approved by its hash",
    "Annotation": "approved by annotation",
    "NamedInSpec": "approved: each level is named in the document",
    "Policy": "approved by policy Never",
}
"""What `approvedBy` means."""
UNDO = {"Impossible": "irreversible", "Lossy": "downgrade may lose metadata"}
"""What a step is marked with; nothing where it is safe to undo."""


def draw_steps(console: Console, steps: Iterable[Shape]) -> None:
    """One line each: what it changes, whether it is done, how it can be undone where that is not safe."""
    for step in steps:
        text = Text(
            f"{step.get('id', '-')}. {step.get('detail', '?')}{' (done)' if step.get('state') == 'Done' else ''}"
        )
        text.append_text(_mark(step))
        console.print(Padding(text, (0, 0, 0, 2), expand=False))


def warnings_of(steps: Iterable[Shape]) -> Iterator[str]:
    """What has to be known before one says yes to these steps, in sentences."""
    pending = [step for step in steps if step.get("state") != "Done"]
    lossy = [str(step.get("detail", "?")) for step in pending if step.get("undo") == "Lossy" and step.get("consent")]
    if lossy:  # of all steps only downgrades have such a consent
        yield f"The downgrade may lose metadata, which raising the level again does not restore: {', '.join(lossy)}."
    if any(step.get("undo") == "Impossible" for step in pending):
        yield "Kafka refuses to undo the steps marked irreversible."


def draw_blockers(console: Console, blockers: Iterable[Shape]) -> None:
    """Two paragraphs each: what prevents the change, and what to do about it."""
    for blocker in blockers:
        what = Text(f"{blocker['kind']}: {blocker['message']}", "red")
        console.print(Padding(what, (0, 0, 0, 2), expand=False))
        remedy = blocker.get("remedy") or ""
        if "kafkafeatures " in remedy:  # to be copied: the terminal breaks it, we do not
            console.print(Text(f"    {remedy}"), soft_wrap=True)
        elif remedy:
            console.print(Padding(Text(remedy), (0, 0, 0, 4), expand=False))


def draw_way_back(console: Console, way_back: Shape) -> None:
    """Until when and how one can still go back, before a step that is irreversible."""
    if way_back:
        until = f"until {way_back['until']}" if way_back.get("until") else "until the plan is carried out"
        console.print(Text(f"Way back: {until}: {way_back.get('how', '?')}"), overflow="fold")


def _mark(step: Shape) -> Text:
    """What people have to know before they approve it; nothing where it is safe to undo and needs no consent."""
    consent = f"uses consent {step['consent']}" if step.get("consent") else ""
    marks = ", ".join(filter(None, (UNDO.get(str(step.get("undo"))), consent)))
    return Text(f"  {marks}", "yellow") if marks else Text("")
