"""Common part of the stories that run in this process (`roll.py`, `migrate.py`): one resource, reconciled on a
simulation.

The production code of `reconcile` and of the file store runs on ports of the simulator (`kafkasim`). Time is simulated
too: a wait advances the simulation. After every reconciliation new Events and the message of the condition Ready are
printed.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkafeatures.api.document import read_document
from kafkafeatures.api.reasons import Condition
from kafkafeatures.api.status import EMPTY, Status
from kafkafeatures.cli.cluster.connect import on_loop
from kafkafeatures.cli.demo.text import not_the_story, show, width
from kafkafeatures.cli.shell.output import console
from kafkafeatures.core.engine.decisions import Act
from kafkafeatures.core.engine.plan import HASH_SHOWN
from kafkafeatures.core.report.events import events_between
from kafkafeatures.environment import Environment
from kafkafeatures.reconcile.act import Reconciliation, reconcile, summary_of
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import EffectRecord, ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore

if TYPE_CHECKING:
    from kafkasim.migration.cluster import MigratingCluster
    from kafkasim.world import World

BEGINS_MS = 1_800_000_000_000
"""Simulated time at which each story begins, in ms since 1970."""
_LONGEST_MS = 6 * 3_600_000
"""Simulated time after which a wait has failed."""
_CHECK_EVERY = 60.0
"""Seconds until the next reconciliation, if the last one does not say when."""


class Scene(ABC):
    """A simulated world with one resource. `world`: the simulation with its clock. `document`: YAML of the resource, as
    in Git. `state`: the file of its status. `effects`: the steps that were sent. `environment`: simulated time. `ages`:
    when readings were made.
    """

    def __init__(self, world: World | MigratingCluster, document: str, state: Path) -> None:
        self._simulation = world
        self.environment = Environment(
            lambda: datetime.fromtimestamp(self.now_ms / 1000, UTC), lambda: self.now_ms / 1000, sleep=self.sleep
        )
        self.ages = Ages(self.environment.monotonic)
        self.effects: list[EffectRecord] = []
        self._document: dict[str, Any] = yaml.safe_load(document)
        self._state = state
        self._last = EMPTY  # the status after the last reconciliation
        self._generation = 0
        self._shown = ""  # the message of Ready that was handled last

    @property
    def now_ms(self) -> int:
        """Time in the simulated world, in milliseconds."""
        return self._simulation.now_ms

    def advance(self, milliseconds: int) -> None:
        """Let this much time pass in the simulated world."""
        self._simulation.advance(self.now_ms + milliseconds, sparse=True)

    @abstractmethod
    def context(self, store: FileStore) -> ReconcileContext:
        """The context of a reconciliation: the ports of this simulation."""

    def after_reconciliation(self, previous_status: Status, done: Reconciliation) -> None:  # noqa: B027 - may do nothing
        """Called after each reconciliation, to record what the story checks, or to play people."""

    def is_shown(self, message: str, reason: str | None) -> bool:
        """True if this message of Ready is printed; a story overrides this to leave some out."""
        return True

    async def until(self, reached: Callable[[Status], bool]) -> None:
        """Reconcile and print changes until `reached` is true of the status. If the resource is stalled then, print the
        remedies. Raises CommandFailed if the status is not reached in time. The document is read at the beginning.
        """
        deadline = self.now_ms + _LONGEST_MS
        with FileStore(read_document(self._document), self._state) as store:
            context = self.context(store)
            while self.now_ms < deadline:
                resource = await store.read()
                done = await reconcile(context, resource)
                self._generation = resource.generation
                self._print(resource.status, done)
                self._last = done.status
                self.after_reconciliation(resource.status, done)
                if reached(done.status):
                    stalled = done.status.condition(Condition.STALLED)
                    for blocker in done.status.blockers:
                        if stalled is not None and blocker.remedy not in stalled.message:
                            self._line("", blocker.remedy, "dim")
                    show("")
                    return
                await self.sleep(_CHECK_EVERY if done.requeue_after is None else done.requeue_after)
        raise not_the_story(summary_of(done))

    async def sleep(self, seconds: float) -> None:
        """Let so much time pass in the simulated world."""
        self.advance(max(int(seconds * 1000), 1))

    @property
    def time(self) -> str:
        """The simulated time since the beginning, as text."""
        return str(timedelta(seconds=(self.now_ms - BEGINS_MS) // 1000))

    def approve(self) -> None:
        """Approve the plan in the status, by its hash in the document."""
        if self._last.plan is None:
            raise not_the_story("there is no plan to approve")
        approval = {"planHash": self._last.plan.hash[:HASH_SHOWN]}
        show(f"  approval:\n    planHash: {approval['planHash']}\n")
        self._document["spec"]["approval"] = approval

    def _print(self, previous_status: Status, done: Reconciliation) -> None:
        """Print new Events, and the message of Ready if it changed. The message is left out where an Event says the
        same: after a step, and when the resource is stalled.
        """
        for event in events_between(previous_status, done.status):
            self._line(event.reason, event.note, "red" if event.warning else "bold")
        ready = done.status.condition(Condition.READY)
        if ready is None or ready.message == self._shown or isinstance(done.decision, Act):
            return
        self._shown = ready.message
        is_in_event = done.status.condition(Condition.STALLED) is not None  # then an Event has printed it
        if not is_in_event and self.is_shown(ready.message, ready.reason):
            self._line("", ready.message, "dim")

    def _line(self, reason: str, text: str, style: str) -> None:
        """Print a line that begins with the simulated time. `style`: of the reason; of the text if there is no
        reason.
        """
        row = Table.grid(padding=(0, 1))
        row.add_column(no_wrap=True)
        row.add_column(overflow="fold")
        message = Text.assemble((reason, style), ": ", text) if reason else Text(text, style)
        row.add_row(self.time, message)
        self._console().print(row)

    def _console(self) -> Console:
        """Console that output is drawn on; without any escape sequence where NO_COLOR is set."""
        return console(width=width(), plain=bool(os.environ.get("NO_COLOR")))


S = TypeVar("S", bound=Scene)


def play(scene: Callable[[Path], S], story: Callable[[S], Awaitable[None]]) -> None:
    """Tell a story on a scene whose status is kept in a temporary folder."""

    async def played() -> None:
        with tempfile.TemporaryDirectory(prefix="kafkafeatures-demo-") as folder:
            await story(scene(Path(folder) / "state.yaml"))

    on_loop(played())
