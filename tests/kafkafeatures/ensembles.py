"""What is read of ZooKeeper at a moment of a migration that was seen on real nodes of Kafka 3.9.1."""

from __future__ import annotations

import json
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure
from kafkafeatures.core.facts.znodes import (
    Compared,
    ControllerEpoch,
    MigrationProgress,
    Read,
    Znode,
    ZooKeeperReading,
)
from tests.kafkafeatures.worlds import NOW

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ENSEMBLE = "zk:2181/kafka"


def elected(broker: int = 1, *, czxid: int = 90) -> ControllerClaim:
    """`/controller` of a broker in ZooKeeper mode."""
    return ControllerClaim(broker, -1, is_ephemeral=True, czxid=czxid, version=0)


def claimed(controller: int = 3003, *, epoch: int = 3, czxid: int = 70) -> ControllerClaim:
    """`/controller` of the leader of a KRaft quorum."""
    return ControllerClaim(controller, epoch, is_ephemeral=False, czxid=czxid, version=0)


def progress(offset: int = 409, *, epoch: int = 3, czxid: int = 40, version: int = 9) -> MigrationProgress:
    """`/migration`; with -1 as the first controller creates it."""
    leader = 3003 if offset >= 0 else -1
    document = {
        "version": 0, "kraft_metadata_offset": offset, "kraft_controller_id": leader,
        "kraft_metadata_epoch": epoch if offset >= 0 else -1, "kraft_controller_epoch": epoch if offset >= 0 else -1,
    }  # fmt: skip
    raw = json.dumps(document, separators=(",", ":")).encode()
    return znodes.migration(Znode("/migration", raw, version, czxid, is_ephemeral=False))


def reading(**parts: Any) -> ZooKeeperReading:
    """Dual write, the quorum's claim in place; but for these parts."""
    found = ZooKeeperReading(
        NOW, ENSEMBLE, CLUSTER, claimed(), ControllerEpoch(5, 5), progress(), None, {}, (), reassigning=False
    )  # fmt: skip
    return replace(found, **parts)


class Ensemble:
    """An ensemble that holds what was read once, and nothing to compare. `reads`: how often it was looked at."""

    def __init__(self, found: ZooKeeperReading | Failure | None = None) -> None:
        self.found = found or reading()
        self.reads = 0

    async def read(self) -> ZooKeeperReading | Failure:
        self.reads += 1
        return self.found

    async def controller(self) -> Read[ControllerClaim]:
        return self.found if isinstance(self.found, Failure) else self.found.controller

    async def compare(self, cluster_id: str) -> Compared | Failure:
        return NOT_ASKED
