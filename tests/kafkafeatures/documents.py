"""A document of a file that holds no other one."""

from __future__ import annotations

from pathlib import Path

from kafkafeatures.api.spec import KafkaFeatures
from kafkafeatures.cli.cluster import document_reader as reader


def read_file(path: Path) -> KafkaFeatures:
    (one,) = reader.read_file(path).resources
    return one
