"""The command line between the decision and the request: the document changes, or Ctrl-C is pressed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kafkafeatures.environment import SYSTEM, Environment
from kafkafeatures.reconcile.ages import Ages
from kafkafeatures.reconcile.context import ReconcileContext
from kafkafeatures.reconcile.file_store import FileStore
from tests.kafkafeatures.documents import read_file
from tests.kafkafeatures.reconcile.simulated import Cluster, reconcile_once

DOCUMENT = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: orders}
spec:
  cluster: {bootstrapServers: kafka:9092}
  features: {levels: [{name: metadata.version, level: 27}]}
"""


class Command:
    """A command that changes a level; `happens` is called once the change is decided, before its intent is written."""

    def __init__(self, folder: Path, happens: Callable[[Command], None]) -> None:
        self.path, self.state = folder / "orders.yaml", folder / "state.yaml"
        self.path.write_text(DOCUMENT)
        self.kafka, self._happens = Cluster({"metadata.version": 21}), happens

    def run(self) -> FileStore:
        with FileStore(read_file(self.path), self.state, reread=partial(read_file, self.path)) as store:
            context = ReconcileContext(
                store,
                self.kafka,
                Environment(clock=self.kafka.now, sleep=self.kafka.sleep),
                Ages(SYSTEM.monotonic),
                before_act=lambda _: self._happens(self),
            )
            asyncio.run(reconcile_once(context))
        return store

    def change(self, text: str) -> None:
        self.path.write_text(text)


def test_a_document_that_changed_only_in_comments_is_carried_out(tmp_path: Path) -> None:
    command = Command(tmp_path, lambda command: command.change(f"# a comment\n{DOCUMENT}"))
    assert command.run().changed_because == ""
    assert len(command.kafka.sent) == 1


@pytest.mark.parametrize(
    ("happens", "cause"),
    [
        (lambda command: command.change(DOCUMENT.replace("27", "25")), "was changed"),
        (lambda command: command.change(DOCUMENT + "  suspend: true\n"), "was changed"),
        (lambda command: command.change("no: document"), "cannot be read"),
        (lambda command: command.path.unlink(), "cannot be read"),
    ],
    ids=["another level", "suspended", "invalid document", "deleted document"],
)
def test_a_document_that_changed_or_vanished_after_the_decision_sends_nothing(
    tmp_path: Path, happens: Callable[[Command], None], cause: str
) -> None:
    command = Command(tmp_path, happens)
    assert cause in command.run().changed_because
    assert command.kafka.sent == []
    assert "NotSent" in command.state.read_text()
    assert "intents" not in command.state.read_text()


def test_ctrl_c_before_the_last_second_sends_nothing_and_leaves_no_intent(tmp_path: Path) -> None:
    def ctrl_c(_: Command) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    command = Command(tmp_path, ctrl_c)
    with pytest.raises(asyncio.CancelledError):
        command.run()
    assert command.kafka.sent == []
    assert "NotSent" in command.state.read_text()
    assert "intents" not in command.state.read_text()
