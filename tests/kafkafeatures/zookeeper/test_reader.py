"""The znodes that decide the phase of a migration are never read from a server that is behind its leader."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kafkafeatures.core.facts.readings import Failure, FailureKind
from kafkafeatures.core.facts.znodes import Znode, ZooKeeperReading
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.zookeeper import reader
from kafkafeatures.zookeeper.ensemble import Ensemble

BEHIND = Failure(FailureKind.TIMED_OUT, "ZooKeeper", "not in sync with its leader")
PHASE = {"/controller", "/controller_epoch", "/migration"}


class Recorded:
    """A session that records in which order it is requests. Real ensembles are in tests/e2e."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.is_behind = False

    async def __aenter__(self) -> Recorded:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def synced(self, path: str) -> Failure | None:
        self.requests.append(("sync", path))
        return BEHIND if self.is_behind else None

    async def get(self, path: str) -> Znode | None:
        self.requests.append(("get", path))
        return Znode(path, b'{"version":"1","id":"abc"}', 0, 1, False) if path == "/cluster/id" else None

    async def children(self, path: str) -> None:
        self.requests.append(("children", path))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    recorded = Recorded()
    monkeypatch.setattr(reader, "Session", lambda _: recorded)
    return recorded


async def read(session: Recorded) -> Any:
    del session
    return await reader.read_zookeeper(Ensemble((Address("zk", 2181),)), lambda: datetime(2026, 1, 2, tzinfo=UTC))


async def test_the_znodes_that_decide_the_phase_are_synced_before_they_are_read(
    session: Recorded,
) -> None:
    assert isinstance(await read(session), ZooKeeperReading)
    assert {path for kind, path in session.requests if kind == "sync"} == PHASE
    for path in PHASE:
        assert session.requests.index(("sync", path)) < session.requests.index(("get", path))


async def test_the_znodes_that_decide_the_phase_are_unknown_if_the_server_could_not_sync(session: Recorded) -> None:
    session.is_behind = True
    reading = await read(session)
    assert isinstance(reading, ZooKeeperReading)
    assert (reading.controller, reading.controller_epoch, reading.migration) == (BEHIND, BEHIND, BEHIND)
    assert not PHASE & {path for kind, path in session.requests if kind == "get"}
    assert not isinstance(reading.cluster_id, Failure)
