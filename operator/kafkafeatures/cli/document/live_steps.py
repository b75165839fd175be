"""Shows the progress of `apply` on a terminal: one line for each level, redrawn in place.

Imported only for a terminal, since it needs `rich`. Other messages are printed above these lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from kafkafeatures.api.reasons import Reason
from kafkafeatures.cli.shell.indented import hanging
from kafkafeatures.cli.shell.output import console
from kafkafeatures.core.engine.decisions import Act, Done, Wait
from kafkafeatures.core.engine.steps import Applied, DryRunAccepted, Step
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.levels.read_back import verified_on
from kafkafeatures.core.levels.stage import levels_in
from kafkafeatures.core.levels.update_feature import UpdateFeature
from kafkafeatures.core.words import counted
from kafkafeatures.reconcile.act import Reconciliation
from kafkafeatures.reconcile.context import EffectRecord
from kafkafeatures.reconcile.evaluation import Evaluation

# states of a line, by the class of the outcome of the step
_OUTCOMES = {"Applied": "finalized", "Rejected": "rejected", "NotSent": "not sent", "OutcomeUnknown": "sent, no answer"}


@dataclass(slots=True)
class _Line:
    """The line of one change of a level. `state`: such as "sent". `sent_at`: when the change was sent, in monotonic
    seconds; None before. `took`: seconds from then until every live node shows the level, or until now. `is_verified`:
    every live node shows it.
    """

    state: str
    sent_at: float | None = None
    took: float = 0.0
    is_verified: bool = False

    @property
    def text(self) -> str:
        """The state, and the seconds since the change was sent."""
        return self.state if self.sent_at is None else f"{self.state}  {self.took:.1f} s"


class LiveSteps:
    """The lines of all changes, in the order of the plan. `monotonic`: a clock in seconds. `shown`: where they are
    printed; stderr by default.
    """

    def __init__(self, monotonic: Callable[[], float], shown: Console | None = None) -> None:
        self._monotonic = monotonic
        self._console = shown or console(errors=True)
        self._lines: dict[UpdateFeature, _Line] = {}
        self._nodes = 0  # the most live nodes on which a level was verified, for the summary
        self._drawn = 0  # lines on the screen now, just above the cursor

    def sent(self, effect: EffectRecord) -> None:
        """Called when a step was sent."""
        if (line := self._of(effect.step)) is not None:
            line.state, line.sent_at = "sent", self._monotonic()
            self._draw()

    def begin(self, evaluation: Evaluation) -> None:
        """Called right before a step is sent. If it changes a level, add lines for all levels of the proposal."""
        changes = levels_in(evaluation.proposal).changes
        if isinstance(evaluation.decision, Act) and evaluation.decision.step in changes:
            state = "dry run accepted" if isinstance(evaluation.verdict, DryRunAccepted) else "pending"
            for change in changes:
                self._lines.setdefault(change, _Line(state))
            self._draw()

    def read(self, observation: Observation) -> None:
        """Update the lines to what the cluster shows now."""
        for change, line in self._lines.items():
            if line.sent_at is None or line.is_verified or observation.level_of(change.feature) != change.to_level:
                continue
            verified, nodes = verified_on(observation, change.feature, change.to_level)
            line.state, line.is_verified = f"verified {verified}/{nodes}", verified == nodes
            self._nodes = max(self._nodes, nodes)
        self._draw()

    def ended(self, last: Reconciliation) -> bool:
        """Show the outcome of the step. Returns True if the lines say everything, so that no message need be
        printed.
        """
        if isinstance(last.decision, Act) and (line := self._of(last.decision.step)) is not None:
            line.state = _OUTCOMES[type(last.outcome).__name__]
            self._draw()
            return isinstance(last.outcome, Applied)
        is_verifying = isinstance(last.decision, Wait) and last.decision.reason is Reason.VERIFYING
        return bool(self._lines) and (is_verifying or isinstance(last.decision, Done))

    def say(self, text: str) -> None:
        """Print a message above the lines."""
        self._erase()
        hanging(self._console, Text(text), indent=2, first=Text())
        self._draw()

    def summary(self) -> str:
        """Summary of the changes that were verified, in one line; empty without any."""
        done = [line for line in self._lines.values() if line.is_verified]
        if not done:
            return ""
        seconds = sum(line.took for line in done)
        levels = f"{counted(len(done), 'level')} changed"
        return f"{levels} and verified on {counted(self._nodes, 'live node')} in {seconds:.1f} s"

    def _of(self, step: Step) -> _Line | None:
        """The line of a step; None where it changes no level."""
        return next((line for change, line in self._lines.items() if change == step), None)

    def _draw(self) -> None:
        """Draw all lines again, in place of those that are on the screen."""
        self._erase()
        for line in self._lines.values():
            if line.sent_at is not None and not line.is_verified:
                line.took = self._monotonic() - line.sent_at
        for title, line in zip(self._titles(), self._lines.values(), strict=True):
            drawn = Text(f"  {title}  {line.text}", "green" if line.is_verified else "")
            self._console.print(drawn, no_wrap=True, overflow="crop")
        self._drawn = len(self._lines)

    def _titles(self) -> list[str]:
        """Titles of the changes, all in a short form if one of them does not fit beside the longest state."""
        room = self._console.width - 4 - max((len(line.text) for line in self._lines.values()), default=0)
        titles = [change.title for change in self._lines]
        if any(len(title) > room for title in titles):
            titles = [f"{change.feature} -> {change.to_level}"[: max(room, 0)] for change in self._lines]
        width = max(map(len, titles), default=0)
        return [title.ljust(width) for title in titles]

    def _erase(self) -> None:
        """Erase the lines, and move the cursor to where the first one began."""
        for _ in range(self._drawn):
            self._console.control(Control((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)))
        self._drawn = 0
