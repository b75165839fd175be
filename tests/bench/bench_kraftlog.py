"""How long a follower takes from bytes to an image, and from one record to the next image.

The first is of a snapshot of about 10 MB and the 100,000 records behind it. The snapshot is that of a cluster with many
partitions: 100 registered brokers, and partition records of about 100 bytes in large batches; the log behind it is what
a busy controller writes, one or two records per batch. The second is of an image of a million keys, against a copy of a
dict of as many. The third is of partitions as columns: a million in 20,000 topics on 1,000 brokers, one ISR change in
them, and a look at who is in sync of all. Everything is built here, nothing is read; prints a line for each.
"""

from __future__ import annotations

import statistics
import struct
import time
import uuid
from dataclasses import dataclass

from kraftlog import Replay, Section
from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.partitions import Replica
from kraftlog.records import control, frame
from kraftlog.schema import table

NOW = 1_795_219_804_022
BROKERS = 100


@dataclass(frozen=True)
class Size:
    """Bytes of the snapshot, records behind it, and how often it is read; keys of the large image; topics."""

    snapshot: int
    log: int
    rounds: int
    keys: int
    topics: int


FULL = Size(10_000_000, 100_000, 5, 1_000_000, 20_000)
QUICK = Size(100_000, 1_000, 1, 10_000, 100)
PARTITIONS = 50  # of a topic

# Bodies are opaque to the replay; what counts is the frame in front and the size.
PARTITION = bytes((1, 3, 1)) + bytes(range(90))
PARTITION_CHANGE = bytes((1, 5, 1)) + bytes(range(32))


def broker(number: int) -> bytes:
    """A registration as Kafka 4 writes it."""
    ranges = [
        ("metadata.version", 7, 29),
        ("kraft.version", 0, 1),
        ("transaction.version", 0, 2),
        ("group.version", 0, 1),
    ]
    data = {
        "brokerId": number,
        "isMigratingZkBroker": False,
        "incarnationId": uuid.UUID(int=number),
        "brokerEpoch": number,
        "endPoints": ({"name": "PLAINTEXT", "host": f"broker-{number}", "port": 9092, "securityProtocol": 0},),
        "features": tuple({"name": n, "minSupportedVersion": a, "maxSupportedVersion": b} for n, a, b in ranges),
        "rack": f"rack-{number % 3}",
        "fenced": False,
        "inControlledShutdown": False,
        "logDirs": (uuid.UUID(int=number + 1000),),
    }
    return frame(table.REGISTER_BROKER, data, 3)


def snapshot(size: int) -> tuple[bytes, int]:
    """The file and how many records it holds."""
    values = [frame(table.FEATURE_LEVEL, {"name": "metadata.version", "featureLevel": 29})]
    values += [broker(number) for number in range(BROKERS)]
    values += [PARTITION] * (size // (len(PARTITION) + 9))
    batches: list[bytes] = []
    offset = 1

    def add(records: list[Record], is_control: bool = False) -> None:
        batches.append(encode_batch(records, leader_epoch=4, control=is_control))

    key, value = control(table.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": NOW})
    add([Record(0, NOW, value, key)], is_control=True)
    for start in range(0, len(values), 8000):
        part = values[start : start + 8000]
        add([Record(offset + at, NOW + at % 50, each) for at, each in enumerate(part)])
        offset += len(part)
    key, value = control(table.SNAPSHOT_FOOTER, {})
    add([Record(offset, NOW, value, key)], is_control=True)
    return b"".join(batches), offset + 1


def log(start: int, records: int) -> bytes:
    """Batches of one and two records in turn, mostly idle ticks and partition changes, some fencing."""
    no_op = frame(table.NO_OP, {})
    fence = [
        frame(table.BROKER_REGISTRATION_CHANGE, {"brokerId": 7, "brokerEpoch": 7, "fenced": way}) for way in (1, -1)
    ]
    batches: list[bytes] = []
    offset = start
    while offset < start + records:
        values = [no_op] if len(batches) % 2 else [PARTITION_CHANGE, PARTITION_CHANGE]
        if len(batches) % 500 == 0:
            values = list(fence)
        values = values[: start + records - offset]
        batches.append(
            encode_batch([Record(offset + at, NOW + offset, each) for at, each in enumerate(values)], leader_epoch=5)
        )
        offset += len(values)
    return b"".join(batches)


def run(size: Size) -> None:
    """Measure kraftlog, and print the figures."""
    from_bytes(size)
    one_change(size.keys)
    columns(size.topics)


def one_change(keys: int) -> None:
    """A node registers in an image that knows when a million nodes were unregistered; the image before it is kept."""
    replay = Replay()
    for start in range(0, keys, 10_000):
        values = [frame(table.UNREGISTER_CONTROLLER, {"controllerId": start + n}) for n in range(10_000)]
        records = [Record(start + n, NOW, value) for n, value in enumerate(values)]
        replay.append(encode_batch(records, leader_epoch=1), below=keys)
    before = replay.image()
    copied = dict.fromkeys(range(keys), NOW)
    ours, theirs = [], []
    for number in range(101):
        node = {"controllerId": number * 97, "incarnationId": uuid.UUID(int=number), "zkMigrationReady": False}
        value = frame(table.REGISTER_CONTROLLER, {**node, "endPoints": (), "features": ()})
        data = encode_batch([Record(keys + number, NOW, value)], leader_epoch=1)
        began = time.perf_counter()
        replay.append(data, below=keys + number + 1)
        image = replay.image()
        ours.append(time.perf_counter() - began)
        assert len(image.unregistered) == keys - number - 1
        if number % 10 == 0:
            began = time.perf_counter()
            copied = dict(copied)
            theirs.append(time.perf_counter() - began)
    assert len(before.unregistered) == keys
    here, copy = statistics.median(ours), statistics.median(theirs)
    print(
        f"one registration in an image of {keys} keys: median {here * 1e3:.3f} ms, at most {max(ours) * 1e3:.1f} ms; "
        f"a copy of a dict of as many: {copy * 1e3:.1f} ms; {copy / here:,.0f}x faster"
    )


def partitions_of(topics: int) -> list[bytes]:
    """The records of topics with three replicas of each partition, all in sync, as Kafka 4 writes them."""
    values, brokers = [], 1_000
    ids = struct.Struct(">iii")
    for number in range(topics):
        topic = uuid.UUID(int=number + 1)
        values.append(frame(table.TOPIC, {"name": f"topic-{number}", "topicId": topic}))
        for at in range(PARTITIONS):
            first = (number * 7 + at) % brokers
            replicas = b"\4" + ids.pack(first, (first + 1) % brokers, (first + 2) % brokers)
            body = (
                at.to_bytes(4) + topic.bytes + replicas + replicas + b"\1\1" + ids.pack(first, 1, 1) + b"\4" + bytes(48)
            )
            values.append(b"\1\3\1" + body + b"\0")
    return values


def columns(topics: int) -> None:
    """From bytes to columns, one change, and a look at all of them."""
    values, batches, offset = partitions_of(topics), [], 0
    for start in range(0, len(values), 65_000):  # about 8 MiB, as a controller writes them
        part = values[start : start + 65_000]
        batches.append(encode_batch([Record(start + at, NOW, each) for at, each in enumerate(part)], leader_epoch=1))
    data, offset = b"".join(batches), len(values)
    del values, batches
    replay = Replay(sections=[Section.PARTITIONS])
    began = time.perf_counter()
    replay.append(data, below=offset)
    found = replay.image().partitions
    loaded = time.perf_counter() - began
    assert len(found) == topics * PARTITIONS
    changes, looks = [], []
    for number in range(100):
        change = {"partitionId": 3, "topicId": uuid.UUID(int=number * topics // 100 + 1), "isr": ()}
        batch = encode_batch([Record(offset + number, NOW, frame(table.PARTITION_CHANGE, change))], leader_epoch=1)
        began = time.perf_counter()
        replay.append(batch, below=offset + number + 1)
        found = replay.image().partitions
        changes.append(time.perf_counter() - began)
    many = []
    for number in range(topics // 4):
        change = {"partitionId": 7, "topicId": uuid.UUID(int=number + 1), "isr": (), "leader": -1}
        many.append(frame(table.PARTITION_CHANGE, change))
    batch = encode_batch([Record(offset + 100 + at, NOW, each) for at, each in enumerate(many)], leader_epoch=1)
    began = time.perf_counter()
    replay.append(batch, below=offset + 100 + len(many))
    found = replay.image().partitions
    together = time.perf_counter() - began
    for _ in range(5):
        began = time.perf_counter()
        short = sum(
            int(((chunk.flags & Replica.IN_SYNC.value).sum(axis=1) < 2).sum()) for chunk in found.chunks
        )  # partitions with fewer than two in sync
        looks.append(time.perf_counter() - began)
        assert short == 100 + len(many)
    print(
        f"partitions: {len(found):,} from {len(data) / 1e6:.0f} MB in {loaded:.2f} s; one ISR change: median "
        f"{statistics.median(changes) * 1e3:.2f} ms; {len(many):,} changes in one batch: {together * 1e3:.0f} ms; "
        f"counting who is in sync of all: {min(looks) * 1e3:.0f} ms"
    )


def from_bytes(size: Size) -> None:
    """Build, replay several times, print the median."""
    image, records = snapshot(size.snapshot)
    end = 1_000_000
    tail = log(end, size.log)
    times = []
    for _ in range(size.rounds):
        began = time.perf_counter()
        replay = Replay()
        replay.load_snapshot(image, end_offset=end, epoch=4)
        replay.append(tail, below=end + size.log)
        result = replay.image()
        times.append(time.perf_counter() - began)
        assert result.offset == end + size.log
        assert len(result.brokers) == BROKERS
        assert result.unreadable == 0
    seconds = sorted(times)[size.rounds // 2]
    rate = (records + size.log) / seconds
    print(f"image: {len(image) / 1e6:.1f} MB snapshot + {size.log} records in {seconds:.2f} s ({rate:,.0f} records/s)")
