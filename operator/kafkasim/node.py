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
    """`features_epoch`: what a controller reports as FinalizedFeaturesEpoch. `refused`: it runs, and tries to join.

    `stopping`: a broker in controlled shutdown, which answers still. `unclean`: its logs must be recovered first.
    `directory`: of its disk, which may be exchanged while it does not run. `caught_up_ms`: since when a controller has
    all of the metadata log; before that it follows. `started_ms`: its process; `snapshot_ms`: up to when its newest
    snapshot went, when it started. `let_in`: this process of a broker has registered once. `migrating`: it has the flag
    of a migration from ZooKeeper. `request_log_level`: of the request logger of this process. `in_zookeeper_mode`: a
    broker that keeps its metadata there. `file`: the settings that its process was started with; None where nothing but
    what is in the world is known of them.
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
    let_in: bool = True
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
        """True if its port is open: that of a broker is when it was let in."""
        return self.running and self.let_in and not self.refused
