"""What comparing ZooKeeper with the metadata log costs: a real ZooKeeper, and a snapshot of the same metadata.

The comparison runs in a process of its own (`python -m tests.bench.equality CONNECT SNAPSHOT`), which reads the
snapshot first, as a follower of the log does. Its memory is the kernel's highest resident size of it, less what it
held before, with everything imported. Beside it a task wants to wake up each 10 ms: the latest of its wake-ups is how
long everything else of an operator has to wait.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from kazoo.client import KazooClient

from kafkafeatures.core.migration.copied.topics import shown_id
from kafkafeatures.core.migration.equality import Equal
from kafkafeatures.environment import SYSTEM
from kafkafeatures.zookeeper.compare import compare
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kraftlog import Image, Section, SnapshotReader
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.records import control, frame
from kraftlog.schema import table
from kraftlog.schema.others import ACCESS_CONTROL_ENTRY
from tests.bench.snapshots import BATCH, NOW, PART
from tests.e2e.rig.zookeeper import ZooKeeper
from tests.kraftlog.partitions import partition, topic

T = TypeVar("T")

CLUSTER, CHROOT = "4L6g3nShT-eMCtK--X86sw", "/kafka"
AT_ONCE, OUTSTANDING = 200, 16  # znodes that are created in a transaction, and transactions
BEAT = 0.01  # seconds


@dataclass(frozen=True)
class Size:
    """Topics, partitions of each, and ACLs, ten of which are for one resource."""

    topics: int
    partitions: int
    acls: int


FULL = Size(5_000, 20, 10_000)
QUICK = Size(20, 5, 50)


def run(size: Size) -> None:
    """Fill both sides, and compare them."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ZooKeeper(Path(folder)) as zookeeper:
        path = Path(folder) / "snapshot"
        _write(path, list(_records(size)))
        _fill(zookeeper.connect, _znodes(size))
        command = [sys.executable, "-m", "tests.bench.equality", zookeeper.connect + CHROOT, str(path)]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(
        f"comparing ZooKeeper with the metadata log, {size.topics * size.partitions:,} partitions of "
        f"{size.topics:,} topics, {size.acls:,} ACLs: {told['seconds']:.1f} s, {told['cpu']:.1f} s of the processor, "
        f"{told['peak'] / 2**20:.0f} MiB with the log; the latest wake-up beside it {told['latest'] * 1000:.0f} ms"
    )


def _replicas(number: int, at: int) -> tuple[int, ...]:
    return tuple((number + at + more) % 60 for more in range(3))


def _records(size: Size) -> Iterator[bytes]:
    yield frame(table.ZK_MIGRATION_STATE, {"zkMigrationState": 1})
    for number in range(1, size.topics + 1):
        yield topic(number)
        for at in range(size.partitions):
            yield partition(number, at, *_replicas(number, at), version=0)
        yield frame(
            table.CONFIG,
            {"resourceType": 2, "resourceName": f"topic-{number}", "name": "retention.ms", "value": str(number)},
        )
    for number in range(size.acls):
        data = {"principal": f"User:{number % 10}", "host": "*", "operation": 3, "permissionType": 3}
        resource = {"resourceType": 2, "resourceName": f"topic-{1 + number // 10}", "patternType": 3}
        yield frame(ACCESS_CONTROL_ENTRY, {"id": UUID(int=number), **data, **resource})


def _znodes(size: Size) -> Iterator[tuple[str, object]]:
    for path in ("", "/cluster", "/brokers", "/brokers/topics", "/config", "/config/topics", "/kafka-acl"):
        yield path, None
    yield "/kafka-acl/Topic", None
    yield "/cluster/id", {"version": "1", "id": CLUSTER}
    progress = {"kraft_controller_id": 3001, "kraft_controller_epoch": 1, "kraft_metadata_epoch": 1}
    yield "/migration", {"version": 0, "kraft_metadata_offset": 1 << 40, **progress}
    for number in range(1, size.topics + 1):
        path = f"/brokers/topics/topic-{number}"
        replicas = {at: _replicas(number, at) for at in range(size.partitions)}
        yield path, {"version": 3, "topic_id": shown_id(UUID(int=number).bytes), "partitions": replicas}
        yield f"{path}/partitions", None
        for at, brokers in replicas.items():
            state = {"version": 1, "controller_epoch": 3, "leader": brokers[0], "leader_epoch": 0, "isr": brokers}
            yield f"{path}/partitions/{at}", None
            yield f"{path}/partitions/{at}/state", state
        yield f"/config/topics/topic-{number}", {"version": 1, "config": {"retention.ms": str(number)}}
    for number in range(0, size.acls, 10):
        acl = {"host": "*", "permissionType": "Allow", "operation": "Read"}
        acls = [{"principal": f"User:{each}", **acl} for each in range(10)]
        yield f"/kafka-acl/Topic/topic-{1 + number // 10}", {"version": 1, "acls": acls}


def _fill(connect: str, znodes: Iterable[tuple[str, object]]) -> None:
    client = KazooClient(connect)
    client.start()
    try:
        outstanding: list[Any] = []
        transaction, held = client.transaction(), 0
        for path, content in znodes:
            transaction.create(CHROOT + path, b"" if content is None else json.dumps(content).encode())
            held += 1
            if held == AT_ONCE:
                outstanding.append(transaction.commit_async())
                transaction, held = client.transaction(), 0
            if len(outstanding) == OUTSTANDING:
                outstanding.pop(0).get()
        for each in (*outstanding, transaction.commit_async()):
            assert not [one for one in each.get() if isinstance(one, Exception)]
    finally:
        client.stop()
        client.close()


def _write(path: Path, values: list[bytes]) -> None:
    key, value = control(table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": NOW})
    with path.open("wb") as file:
        file.write(encode_batch([Record(0, NOW, value, key)], leader_epoch=1, control=True))
        for start in range(0, len(values), BATCH):
            part = values[start : start + BATCH]
            file.write(
                encode_batch([Record(1 + start + at, NOW, each) for at, each in enumerate(part)], leader_epoch=1)
            )
        key, value = control(table.SNAPSHOT_FOOTER, {})
        file.write(encode_batch([Record(1 + len(values), NOW, value, key)], leader_epoch=1, control=True))


# --- in a process of its own ---


class Read:
    """The log as it was read."""

    def __init__(self, image: Image) -> None:
        self._image = image

    async def image(self) -> Image:
        return self._image

    def without_secrets(self, found: T) -> T:
        return found


async def _compared(connect: str, path: Path) -> dict[str, float]:
    before = _resident()
    reader = SnapshotReader(end_offset=1 << 40, epoch=1, sections=Section)
    with path.open("rb") as file:
        while part := file.read(PART):
            reader.feed(part)
    log, ensemble = Read(reader.finish().image()), Ensemble(*parse_connect(connect, "bench"))
    began, cpu = time.perf_counter(), time.process_time()
    late = [0.0]

    async def beat() -> None:
        while True:
            due = time.perf_counter() + BEAT
            await asyncio.sleep(BEAT)
            late[0] = max(late[0], time.perf_counter() - due)

    beside = asyncio.create_task(beat())
    found = await compare(ensemble, log, CLUSTER, SYSTEM)
    beside.cancel()
    assert isinstance(found, Equal), str(found)[:500]
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "cpu": time.process_time() - cpu, "peak": _peak() - before, "latest": late[0]}


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name))


def _resident() -> int:
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_compared(sys.argv[1], Path(sys.argv[2])))))
