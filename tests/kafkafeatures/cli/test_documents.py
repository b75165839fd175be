"""What a document asks of the command line that runs it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kafkafeatures.cli.document import documents
from kafkafeatures.cli.shell.exit_codes import CommandFailed, Exit

BY_HAND = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: orders}
spec:
  cluster: {bootstrapServers: "127.0.0.1:9092"}
  workload: {driver: Manual}
"""


def test_restarts_by_hand_need_what_partitions_are_judged_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(BY_HAND)
    flags = argparse.Namespace(file=[path], secrets_dir=None, state=None, config=None, controller_config=None)
    (one,) = documents.documents_of(flags)
    assert documents.reach_of(flags, one)
    monkeypatch.setattr(documents, "find_spec", lambda _: None)
    with pytest.raises(CommandFailed, match="driver: Manual needs numpy; install it: pip install numpy") as failed:
        documents.reach_of(flags, one)
    assert failed.value.code is Exit.FAILED
