"""Steps and blockers as people read them: the same for a plan made just now and for one that stands in a status.

Both are drawn from the shapes of `core/report.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kafkafeatures.core.plan import is_downgrade
from kafkafeatures.core.releases import format_level
from kafkafeatures.core.steps import UpdateFeature

Shape = Mapping[str, Any]

COLOURS = {"InSync": "green", "Changes": "green", "ApprovalRequired": "yellow", "Blocked": "red", "Unknown": "red"}
"""Of verdicts."""
APPROVED = {
    "PlanHash": "approved by its hash",
    "Annotation": "approved by its hash",
    "NamedInSpec": "approved: each level is named in the document",
    "Policy": "approved by policy Never",
}
"""What `approvedBy` means."""
UNDO = {"Impossible": "irreversible", "Lossy": "downgrade may lose metadata"}
"""What a step is marked with; nothing where it is safe to undo."""


def draw_steps(console: Console, steps: Iterable[Shape]) -> None:
    """One line each: what it changes, whether it is done, how it can be undone where that is not safe."""
    for step in steps:
        text = Text(f"{step.get('id', '-')}. {told_step(step)}{' (done)' if step.get('state') == 'Done' else ''}")
        text.append_text(_fate(step))
        console.print(Padding(text, (0, 0, 0, 2), expand=False))


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


def told_step(step: Shape) -> str:
    """Levels with their names."""
    change = _change(step)
    if change is None:
        return str(step.get("detail", "?"))
    before, after = (format_level(change.feature, level) for level in (change.before, change.after))
    return f"{change.feature} {before} -> {after}"


def _fate(step: Shape) -> Text:
    change = _change(step)
    if change is not None and is_downgrade(change):
        return Text("  downgrade", "yellow")
    undo = UNDO.get(str(step.get("undo")))
    return Text(f"  {undo}", "yellow") if undo else Text("")


def _change(step: Shape) -> UpdateFeature | None:
    """None for a step of a kind that this version does not know."""
    try:
        return UpdateFeature.parse(step.get("detail", ""))
    except ValueError:
        return None
