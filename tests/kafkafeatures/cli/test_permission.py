"""The question before a plan is carried out, and what the answer no says."""

from __future__ import annotations

import io
import sys
from argparse import Namespace

import pytest

from kafkafeatures.api.document import read_document
from kafkafeatures.cli.cluster.document_reader import STDIN
from kafkafeatures.cli.document import permission
from kafkafeatures.cli.document.documents import Document
from kafkafeatures.cli.document.permission import ConfirmationRequired, Permission
from kafkafeatures.cli.shell.exit_codes import CommandFailed
from kafkafeatures.interrupts import SentSteps
from kafkafeatures.reconcile.file_store import FileStore
from tests.kafkafeatures import statuses
from tests.kafkafeatures.statuses import resource

CONTENT = {
    "apiVersion": "kafkafeatures.dev/v1alpha1",
    "kind": "KafkaFeatures",
    "metadata": {"name": "orders"},
    "spec": {"cluster": {"bootstrapServers": "kafka:9092"}, "features": {}},
}


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ((), "not confirmed; nothing was changed"),
        (("group.version 0 -> 1",), "not confirmed; 1 step was sent: group.version 0 -> 1; see the result with "),
    ],
)
def test_the_answer_no_says_what_was_sent_before_the_question(
    steps: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = SentSteps()
    for step in steps:
        sent.note(step)
    monkeypatch.setattr(permission, "SENT_STEPS", sent)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    document = Document(STDIN, read_document(CONTENT))
    asks = Permission(FileStore(document.resource, None), Namespace(yes=False, approve=None), document)
    status = resource(statuses.waiting_for_approval()).status
    with pytest.raises(CommandFailed) as refused:
        asks.ask(ConfirmationRequired(status, approves=False))
    assert str(refused.value).startswith(text)
