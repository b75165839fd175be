"""HTML of the steps of a plan and of its verdict, for the pages of `plan`, `report` and `serve`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.status import StepStatus, WayBack
from kafkafeatures.cli.document.steps_text import COLOURS, marks_of, until_of
from kafkafeatures.cli.shell.html_parts import Html, lines, small, table, text

VERDICTS: Mapping[PlanVerdict, str] = {
    PlanVerdict.IN_SYNC: "In sync",
    PlanVerdict.CHANGES: "Can be carried out",
    PlanVerdict.APPROVAL_REQUIRED: "Waiting for approval",
    PlanVerdict.BLOCKED: "Blocked",
    PlanVerdict.UNKNOWN: "Unknown",
}
"""Words for the verdict of a plan."""
_STYLES = {"green": "good", "yellow": "wait", "red": "bad"}


def style_of_verdict(verdict: PlanVerdict) -> str:
    """CSS class of a verdict: that of its colour on a terminal."""
    return _STYLES[COLOURS[verdict]]


def steps_table(steps: Iterable[StepStatus]) -> Html:
    """The table of steps: the change with its effects, the state, and how it can be undone."""
    rows = [
        (
            text(step.detail or "?") + Html().join(map(small, step.effects)),
            step.state or "?",
            lines(filter(None, (_marks(step), step.way_back))) or (step.undo and "can be undone"),
        )
        for step in steps
    ]
    return table("Steps, in their order", ("Step", "State", "Undo"), rows)


def _marks(step: StepStatus) -> Html:
    """What people have to know before they approve the step; empty for most steps."""
    marks = marks_of(step)
    return Html('<strong class="wait">{}</strong>').format(marks) if marks else Html()


def way_back_line(back: WayBack | None) -> Html:
    """Until when and how the cluster can go back; empty if there is no way back."""
    return Html("<p>Way back, {}: {}</p>").format(text(until_of(back)), text(back.how)) if back else Html()
