"""Segments for the benchmarks of metadata logs: what a busy cluster writes, with as many records a batch as is asked.

Of a hundred records 70 change a partition, 12 are partitions, 4 topics, 4 configs, 2 registrations, 2 changes of one
and 6 say nothing: 500 topics from before and new ones, six brokers, as Kafka 4 writes them; it could replay them. The
same each time.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from kraftlog.batches import Record
from kraftlog.encoding import encode_batch
from kraftlog.records import frame
from kraftlog.schema import table

NOW = 1_795_219_804_022
_BROKERS = range(1, 7)
_RANGES = ("metadata.version", 7, 29), ("kraft.version", 0, 1), ("transaction.version", 0, 2), ("group.version", 0, 1)
_EPOCH = 900_000_000
_POOL = 40_000  # records, of which the segment is made


FIRST = 1_000_000_000
"""The offset of the first record. What the cluster had before is not known, so no record contradicts it."""


def segment(records: int, sizes: Sequence[int], seed: int = 7) -> bytes:
    """A segment of this many records from FIRST on, in batches that have one of these numbers of records each."""
    chance = random.Random(seed)
    pool = [_record(chance) for _ in range(min(records, _POOL))]
    batches, offset, now = [], FIRST, NOW
    end, topics = FIRST + records, _new_topics(chance)
    while offset < end:
        chosen = chance.choices(pool, k=min(chance.choice(sizes), end - offset))
        values = [value or next(topics) for value in chosen]
        batches.append(
            encode_batch([Record(offset + n, now + n // 8, v) for n, v in enumerate(values)], leader_epoch=4)
        )
        offset += len(values)
        now += chance.randrange(500)
    return b"".join(batches)


def _record(chance: random.Random) -> bytes:
    """One record; empty for one of a topic that is new, which no other record repeats."""
    (make,) = chance.choices(list(_MIX), weights=list(_MIX.values()))
    return make(chance)


def _of_a_new_topic(_: random.Random) -> bytes:
    return b""


def _new_topics(chance: random.Random) -> Iterator[bytes]:
    for number in count():
        topic = uuid.UUID(int=chance.getrandbits(128))
        name = f"orders.{chance.choice(('eu', 'us', 'apac'))}.{'events' * chance.randint(1, 3)}-{number}"
        yield frame(table.TOPIC, {"name": name, "topicId": topic})
        yield from (_partition(chance, topic, partition) for partition in range(3))


def _topic(chance: random.Random) -> uuid.UUID:
    """A topic from before the segment."""
    return uuid.UUID(int=random.Random(chance.randrange(500)).getrandbits(128))


def _replicas(chance: random.Random) -> tuple[int, ...]:
    return tuple(chance.sample(_BROKERS, 3))


def _changed(chance: random.Random) -> bytes:
    replicas = _replicas(chance)
    data = {"partitionId": chance.randrange(100), "topicId": _topic(chance), "isr": replicas[: chance.randint(1, 3)]}
    if chance.random() < 0.5:
        data["leader"] = replicas[0]
    return frame(table.PARTITION_CHANGE, data, 2)


def _partition(chance: random.Random, topic: uuid.UUID, partition: int) -> bytes:
    replicas = _replicas(chance)
    data = {
        "partitionId": partition, "topicId": topic, "replicas": replicas, "isr": replicas,
        "removingReplicas": (), "addingReplicas": (), "leader": replicas[0], "leaderEpoch": chance.randrange(300),
        "partitionEpoch": chance.randrange(300), "directories": tuple(uuid.UUID(int=1 << 80 | n) for n in replicas),
    }  # fmt: skip
    return frame(table.PARTITION, data, 2)


def _config(chance: random.Random) -> bytes:
    name, value = chance.choice(
        (("retention.ms", str(chance.randrange(1 << 30))), ("cleanup.policy", "compact"), ("own.secret", "hunter2"))
    )
    data = {"resourceType": 2, "resourceName": f"orders.eu.events-{chance.randrange(1000)}", "name": name}
    return frame(table.CONFIG, {**data, "value": value})


def _broker(chance: random.Random) -> bytes:
    number = chance.choice(_BROKERS)
    data = {
        "brokerId": number, "isMigratingZkBroker": False, "incarnationId": uuid.UUID(int=2 << 80 | number),
        "brokerEpoch": _EPOCH + number, "rack": f"rack-{number % 3}", "fenced": True,
        "endPoints": ({"name": "PLAINTEXT", "host": f"broker-{number}.kafka", "port": 9092, "securityProtocol": 0},),
        "features": tuple({"name": n, "minSupportedVersion": a, "maxSupportedVersion": b} for n, a, b in _RANGES),
        "inControlledShutdown": False, "logDirs": (uuid.UUID(int=1 << 80 | number),),
    }  # fmt: skip
    return frame(table.REGISTER_BROKER, data, 3)


def _fenced(chance: random.Random) -> bytes:
    number = chance.choice(_BROKERS)
    data = {"brokerId": number, "brokerEpoch": _EPOCH + number}
    return frame(table.BROKER_REGISTRATION_CHANGE, {**data, "fenced": chance.choice((-1, 1))}, 1)


def _no_op(chance: random.Random) -> bytes:
    return frame(table.NO_OP, {})


_MIX: dict[Callable[[random.Random], bytes], int] = {
    _changed: 70, _of_a_new_topic: 16, _config: 4, _broker: 2, _fenced: 2, _no_op: 6,
}  # fmt: skip
