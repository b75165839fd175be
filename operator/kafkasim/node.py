"""One simulated process of one role, running or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kafkafeatures.core.facts.readings import Role
from kafkasim.releases import Release

Key = tuple[Role, int]

CONFIGURED_LEVEL = "WARN"
"""Level of the request logger in the log4j configuration that Kafka ships."""


@dataclass(slots=True, eq=False)
class Node:
    """State of a node.

    directory: id of its disk, which may be replaced while it is down.
    incarnation: id of its process, or of the last one.
    running: its process runs.
    refused: the controller rejects the registration of this broker, which tries again.
    has_joined: this process of a broker has registered, or runs in ZooKeeper mode, so that its port opens.
    stopping: in controlled shutdown; it still answers.
    unclean: it was killed, and must recover its logs.
    features_epoch: FinalizedFeaturesEpoch that a controller reports.
    caught_up_ms: time at which a controller has read all of the metadata log.
    started_ms: start of its process.
    snapshot_ms: time of the last record in its newest snapshot when the process started.
    migrating: it has the flag for a migration from ZooKeeper.
    request_log_level: level of the request logger of this process.
    in_zookeeper_mode: the broker runs in ZooKeeper mode.
    file: properties that its process was started with; None if only the world's defaults apply.
    """

    role: Role
    id: int
    release: Release
    host: str
    port: int
    directory: UUID
    incarnation: UUID
    running: bool = True
    refused: bool = False
    has_joined: bool = True
    stopping: bool = False
    unclean: bool = False
    features_epoch: int = -1
    caught_up_ms: int = 0
    started_ms: int = 0
    snapshot_ms: int = 0
    migrating: bool = False
    request_log_level: str = CONFIGURED_LEVEL
    in_zookeeper_mode: bool = False
    file: Mapping[str, str] | None = None

    @property
    def listening(self) -> bool:
        """True if its port is open; that of a broker opens with its registration."""
        return self.running and self.has_joined and not self.refused
