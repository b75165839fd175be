"""A recorder with what it hears, and leaders whose logs it records; its clock advances by a minute with each look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kafkafeatures.api.status import Status
from kafkafeatures.environment import Environment
from kafkafeatures.kafka.log.source import LogSource
from kafkafeatures.kafka.recorder.recorder import LogRecorder
from kafkafeatures.kafka.recorder.recordings import RecorderSettings, Resource
from kraftlog import files
from tests.kafkafeatures.kafka.scripted_leader import Leader
from tests.kraftlog.build import batch, no_op

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ORDERS = ("kafka", "orders")
START = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class Heard:
    """Notifications about recordings, collected for a test."""

    complete: list[Resource] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    written: int = 0
    freed: int = 0
    gaps: int = 0
    held: int = 0
    room: dict[Resource, int] = field(default_factory=dict, compare=False)

    def recorded(self, resource: Resource) -> None:
        self.complete.append(resource)

    def forgot(self, resource: Resource) -> None:
        self.complete = [one for one in self.complete if one != resource]

    def failed(self, reason: str) -> None:
        self.failures.append(reason)

    def wrote(self, size: int) -> None:
        self.written += size

    def removed(self, size: int) -> None:
        self.freed += size

    def gap(self, resource: Resource) -> None:
        self.gaps += 1

    def note_size(self, size: int) -> None:
        self.held = size

    def note_room(self, resource: Resource, size: int) -> None:
        self.room[resource] = size


@dataclass
class Cluster:
    """A cluster that was read: its log is committed up to `until`."""

    leader: Leader
    until: int
    cluster_id: str = ID

    def followed(self, cluster_id: str) -> LogSource | None:
        if cluster_id != self.cluster_id:
            return None
        link: object = self.leader
        return LogSource(link, 9, cluster_id=cluster_id, timeout=5.0, until=self.until)  # type: ignore[arg-type]  # is one


class Rig:
    """A recorder, and a clock that advances by a minute with each look."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.seconds, self.heard, self.folder = 0.0, Heard(), folder
        self.settings = RecorderSettings(str(folder), **limits)
        self.begin()

    def begin(self) -> None:
        environment = Environment(lambda: START + timedelta(seconds=self.seconds), lambda: self.seconds, lambda: 0.5)
        self.recorder = LogRecorder(self.settings, self.heard, environment)

    async def look(self, leader: Leader, until: int = 105, resource: Resource = ORDERS, cluster_id: str = ID) -> None:
        self.recorder.saw(resource, Cluster(leader, until, cluster_id), Status(cluster_id=cluster_id))
        await settled()
        self.seconds += 60

    def names(self, recording: str = "recorder-kafka_orders", cluster_id: str = ID) -> list[str]:
        return sorted(one.name for one in (self.folder / cluster_id / recording / files.DIRECTORY).iterdir())

    def found(self, pattern: str = "*") -> list[Path]:
        return sorted(self.folder.rglob(pattern))

    def log(self, recording: str = "recorder-kafka_orders") -> bytes:
        paths = sorted((self.folder / ID / recording / files.DIRECTORY).glob("*.log*"))
        return b"".join(one.read_bytes() for one in paths)


async def settled() -> None:
    turns = [one for one in asyncio.all_tasks() if one.get_name().startswith("record ")]
    await asyncio.gather(*turns, return_exceptions=True)


@asynccontextmanager
async def recording(folder: Path, **limits: int) -> AsyncIterator[Rig]:
    rig = Rig(folder, **limits)
    try:
        yield rig
    finally:
        await rig.recorder.close()


def whole(count: int, start: int = 0) -> Leader:
    """A log that begins at its beginning, without a snapshot."""
    data = b"".join(batch(one, no_op(), epoch=3) for one in range(start, count))
    return Leader(start=start, data=data, high_watermark=count, snapshots={})
