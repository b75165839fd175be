"""Kafka's constants in records of partitions and of min.insync.replicas, and fields that a change leaves as they are.

For everything that applies or shows such records. Needs no numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MIN_INSYNC_REPLICAS = "min.insync.replicas"
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4  # ConfigResource.Type
NO_LEADER = -1
LEADER_UNCHANGED = -2  # in a PartitionChange
RECOVERY = "leaderRecoveryState"
"""Field of a partition; 1: the leader was elected without being in sync, and has not recovered yet (KIP-704)."""


def value_or(data: Mapping[str, Any], name: str, current: Any) -> Any:
    """The field `name` of a record; `current` where the record leaves it null, as a change does with what it keeps."""
    value = data.get(name)
    return current if value is None else value
