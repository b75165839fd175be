"""Records of topics, partitions and configs for tests, and the image of such records."""

from __future__ import annotations

import uuid
from typing import Any

from kraftlog import Image, Replay, Section
from kraftlog.partitions import Partition
from kraftlog.records import frame
from kraftlog.schema import table
from tests.kraftlog.build import batch, no_op

ALL = 1 << 62
"""An offset above all others: everything is read."""


def topic(number: int, name: str | None = None) -> bytes:
    return frame(table.TOPIC, {"name": name or f"topic-{number}", "topicId": uuid.UUID(int=number)})


def remove(number: int) -> bytes:
    return frame(table.REMOVE_TOPIC, {"topicId": uuid.UUID(int=number)})


def partition(number: int, at: int, *replicas: int, version: int = 1, **changes: Any) -> bytes:
    data = {
        "partitionId": at,
        "topicId": uuid.UUID(int=number),
        "replicas": replicas,
        "isr": replicas,
        "removingReplicas": (),
        "addingReplicas": (),
        "leader": replicas[0] if replicas else -1,
        "leaderEpoch": 0,
        "partitionEpoch": 0,
    }
    if version:
        data["directories"] = tuple(uuid.UUID(int=0) for _ in replicas)
    return frame(table.PARTITION, data | changes, version)


def change(number: int, at: int, version: int = 2, **changes: Any) -> bytes:
    return frame(table.PARTITION_CHANGE, {"partitionId": at, "topicId": uuid.UUID(int=number), **changes}, version)


def config(kind: int, name: str, value: str | None, key: str = "min.insync.replicas") -> bytes:
    return frame(table.CONFIG, {"resourceType": kind, "resourceName": name, "name": key, "value": value})


def clear_elr(name: str) -> bytes:
    return frame(table.CLEAR_ELR, {"topicName": name})


def read(*values: bytes, at_once: bool = False) -> Image:
    """The image of these records. `at_once`: all are in one batch, with enough others that it is read by columns;
    otherwise each is in a batch of its own, and decoded by itself.
    """
    replay = Replay(sections=[Section.PARTITIONS])
    if at_once:
        replay.append(batch(0, *values, *[no_op()] * 40), below=ALL)
    else:
        for offset, value in enumerate(values):
            replay.append(batch(offset, value), below=ALL)
    return replay.image()


def rows(image: Image) -> dict[tuple[str, int], Partition]:
    found = list(image.partitions.rows())
    content = {(name, number): content for name, number, content in found}
    assert len(content) == len(found) == len(image.partitions)
    return content
