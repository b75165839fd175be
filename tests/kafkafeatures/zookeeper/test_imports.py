"""kazoo is imported by the first ensemble that is opened, and by nothing else: it brings threads, and takes time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = """
apiVersion: kafkafeatures.dev/v1alpha1
kind: KafkaFeatures
metadata: {name: orders}
spec:
  cluster:
    bootstrapServers: "127.0.0.1:9092"
    zookeeper: {connect: "127.0.0.1:2181"}
  migration: {desired: DESIRED}
"""
COMMAND = """
import argparse, sys
from kafkafeatures.cli.document import apply, plan
from kafkafeatures.cli.document.documents import add_document_flags, documents_of, connection_settings_of
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.cluster import Cluster
parser = argparse.ArgumentParser()
add_document_flags(parser)
arguments = parser.parse_args(["-f", sys.argv[1]])
(document,) = documents_of(arguments)
connection = connection_settings_of(arguments, document)
print(connection.zookeeper(Cluster(connection.settings, environment=SYSTEM)) is not None, "kazoo" in sys.modules)
"""
OPERATOR = """
import sys
from kafkafeatures.app import real_ensembles
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.zookeeper.ensemble import Ensemble
opened = real_ensembles(SYSTEM)
before = "kazoo" in sys.modules
opened(Ensemble((Address("127.0.0.1", 2181),)), None)
print(before, "kazoo" in sys.modules)
"""


def printed_words(code: str, *arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(("desired", "expected"), [("None", ["False", "False"]), ("PreMigration", ["True", "True"])])
def test_a_command_imports_the_zookeeper_client_only_for_a_document_with_a_migration(
    desired: str, expected: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(DOCUMENT.replace("DESIRED", desired))
    assert printed_words(COMMAND, str(path)) == expected


def test_the_operator_imports_the_zookeeper_client_when_it_opens_an_ensemble() -> None:
    assert printed_words(OPERATOR) == ["False", "True"]
