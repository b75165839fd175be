"""A snapshot of many partitions, and a process that reads it and plans a roll: `python -m tests.bench.snapshots FILE`.

The process has everything imported before it begins. What it holds at most is the kernel's highest resident size of
this process alone, less what it held when it began.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path

from kafkafeatures.api.spec import Availability
from kafkafeatures.core.facts.readings import PartitionsReading
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.roll.planner import order
from kraftlog import Section, blocks, edges
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.records import control, frame
from kraftlog.replay import SnapshotReader
from kraftlog.schema import table

NOW = 1_795_219_804_022
BATCH = 65_000  # records: about 8 MiB, as a controller writes them
PART = 1 << 20  # bytes that are read at once
IMPORTED = blocks, edges
"""What a reader imports with the first large batch."""


def write_snapshot(path: Path, seen: PartitionsReading) -> None:
    """The partitions of a reading, each with three replicas in sync, as Kafka 4 writes them."""
    ids = struct.Struct(">iii")
    values, last = list[bytes](), -1
    for chunk in seen.partitions.chunks:
        for number, partition, replicas in zip(
            chunk.topic.tolist(), chunk.partition.tolist(), chunk.replicas.tolist(), strict=True
        ):
            topic = seen.partitions.topics[number]
            if number != last:  # a topic is followed by its partitions (`TopicImage.write`)
                last = number
                values.append(frame(table.TOPIC, {"name": topic.name, "topicId": topic.id}))
            three = b"\4" + ids.pack(*replicas)
            rest = three + three + b"\1\1" + ids.pack(replicas[0], 1, 1) + b"\4" + bytes(48)
            values.append(b"\1\3\1" + partition.to_bytes(4) + topic.id_bytes + rest + b"\0")
    key, value = control(table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": NOW})
    with path.open("wb") as file:
        file.write(encode_batch([Record(0, NOW, value, key)], leader_epoch=1, control=True))
        for start in range(0, len(values), BATCH):
            part = values[start : start + BATCH]
            records = [Record(1 + start + at, NOW, each) for at, each in enumerate(part)]
            file.write(encode_batch(records, leader_epoch=1))
        key, value = control(table.SNAPSHOT_FOOTER, {})
        file.write(encode_batch([Record(1 + len(values), NOW, value, key)], leader_epoch=1, control=True))


def plan(path: Path) -> dict[str, float]:
    """Read it, judge all brokers, order them. Seconds are of the processor."""
    idle, began = _resident(), time.process_time()
    reader = SnapshotReader(end_offset=1 << 40, epoch=1, sections=[Section.PARTITIONS])
    with path.open("rb") as file:
        while part := file.read(PART):
            reader.feed(part)
    partitions = reader.finish().image().partitions
    read = time.process_time()
    replication = Replication(PartitionsReading(partitions, 2))
    admission = replication.judge(frozenset(), Availability.NO_UNDER_REPLICATED)
    allowed = frozenset(broker for broker in replication.brokers() if admission.allows(broker))
    judged = time.process_time()
    planned = order(replication, allowed)
    ended = time.process_time()
    assert len(planned) == len(replication.brokers())
    return {
        "partitions": len(partitions),
        "seconds": ended - began,
        "read": read - began,
        "judged": judged - read,
        "planned": ended - judged,
        "memory": _resident("VmHWM") - idle,
    }


def _resident(name: str = "VmRSS") -> int:
    """Bytes of this process: now, or (VmHWM) at most."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(plan(Path(sys.argv[1]))))
