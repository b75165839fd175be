"""What is read of ZooKeeper at a moment of a migration that was seen on real nodes of Kafka 3.9.1."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome
from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure
from kafkafeatures.core.facts.znodes import (
    ControllerEpoch,
    MigrationZnode,
    Read,
    StoreComparison,
    Znode,
    ZooKeeperReading,
)
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.ports import PreparedDeletion, Withheld
from tests.kafkafeatures.worlds import NOW

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
ENSEMBLE = "zk:2181/kafka"


def elected(broker: int = 1, *, czxid: int = 90) -> ControllerClaim:
    """`/controller` of a broker in ZooKeeper mode."""
    return ControllerClaim(broker, -1, is_ephemeral=True, czxid=czxid, version=0)


def claimed(controller: int = 3003, *, epoch: int = 3, czxid: int = 70) -> ControllerClaim:
    """`/controller` of the leader of a KRaft quorum."""
    return ControllerClaim(controller, epoch, is_ephemeral=False, czxid=czxid, version=0)


def progress(offset: int = 409, *, epoch: int = 3, czxid: int = 40, version: int = 9) -> MigrationZnode:
    """`/migration`; with -1 as the first controller creates it."""
    leader = 3003 if offset >= 0 else -1
    document = {
        "version": 0, "kraft_metadata_offset": offset, "kraft_controller_id": leader,
        "kraft_metadata_epoch": epoch if offset >= 0 else -1, "kraft_controller_epoch": epoch if offset >= 0 else -1,
    }  # fmt: skip
    raw = json.dumps(document, separators=(",", ":")).encode()
    at = int(NOW.timestamp() * 1000)
    return znodes.migration(Znode("/migration", raw, version, czxid, is_ephemeral=False, mtime=at))


def reading(**parts: Any) -> ZooKeeperReading:
    """Dual write, the quorum's claim in place; but for these parts."""
    found = ZooKeeperReading(
        NOW, ENSEMBLE, CLUSTER, claimed(), ControllerEpoch(5, 5), progress(), None, {}, (), reassigning=False
    )  # fmt: skip
    return replace(found, **parts)


@dataclass
class Ensemble:
    """A port that shows what it is given, and notes what is asked of it; what ZooKeeper itself does is in tests/e2e.

    `happened`: reads, sessions and transactions, in their order. `moved`: what `/controller` is once it is read alone.
    `compares`, `surveys`: what a comparison comes to, and a survey. `refuses`: there is no session. `outcomes`: what
    the next transactions come to.
    """

    found: ZooKeeperReading | Failure = field(default_factory=reading)
    happened: list[str] = field(default_factory=list)
    moved: list[Read[ControllerClaim]] = field(default_factory=list)
    compares: StoreComparison | Failure = NOT_ASKED
    surveys: Survey | Failure = NOT_ASKED
    refuses: bool = False
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def reads(self) -> int:
        """How often it was looked at."""
        return self.happened.count("znodes")

    async def read(self) -> ZooKeeperReading | Failure:
        self.happened.append("znodes")
        return self.found

    async def controller(self) -> Read[ControllerClaim]:
        self.happened.append("/controller")
        if self.moved:
            return self.moved[0]
        return self.found if isinstance(self.found, Failure) else self.found.controller

    async def survey(self, within: float) -> Survey | Failure:
        self.happened.append(f"survey, {within:g} s old")
        return self.surveys

    async def compare(self, cluster_id: str) -> StoreComparison | Failure:
        self.happened.append("comparison")
        return self.compares

    @asynccontextmanager
    async def prepared(self, step: DeleteZnodes) -> AsyncIterator[PreparedDeletion | NotSent]:
        self.happened.append("connected")
        yield NotSent("no session within 10 s") if self.refuses else _Prepared(self, step)
        self.happened.append("closed")


@dataclass
class _Prepared:
    ensemble: Ensemble
    step: DeleteZnodes

    async def send(self, withheld: Withheld) -> Outcome:
        if why := withheld():
            return NotSent(why)
        self.ensemble.happened.append(self.step.target)
        return self.ensemble.outcomes.pop(0) if self.ensemble.outcomes else Applied()
