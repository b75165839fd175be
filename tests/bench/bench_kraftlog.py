"""How long a follower takes from bytes to an image: a snapshot of about 10 MB and the 100,000 records behind it.

The snapshot is that of a cluster with many partitions: 100 registered brokers, and partition records of about 100
bytes in large batches; the log behind it is what a busy controller writes, one or two records per batch. Everything
is built here, nothing is read; prints one line.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from kraftlog import Replay
from kraftlog.batches import Record, encode_batch
from kraftlog.records import control, frame
from kraftlog.schema import table

NOW = 1_795_219_804_022
BROKERS = 100


@dataclass(frozen=True)
class Size:
    """Bytes of the snapshot, records behind it, and how often it is read."""

    snapshot: int
    log: int
    rounds: int


FULL = Size(10_000_000, 100_000, 5)
QUICK = Size(100_000, 1_000, 1)

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
