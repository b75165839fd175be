"""Readers of topics and their partitions in ZooKeeper: `/brokers/topics/<topic>` and the partition states below it.

Pure. Called by `zookeeper/copied.py` and the simulator for znodes, and by `comparison.py` and `expected.py` for paths.
Znodes are read as `ZkTopicMigrationClient` and `TopicZNode` of Kafka 3.9 read them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from kafkafeatures.core.facts.znodes import Id, Int
from kafkafeatures.core.migration.copied.entries import Placed
from kafkafeatures.core.migration.copied.findings import EXITS, ZnodeFinding, read

TOPICS = "/brokers/topics"
PENDING_DELETIONS = "/admin/delete_topics"
"""Topics that are named here are not copied."""

_UUID = 16
"""Bytes of a topic id."""
_INVENTED = "the copy would write a state with all replicas in sync"
"""Consequence for the copy if a state is absent, or its content is no JSON."""


class Assignment(NamedTuple):
    """Replicas of a partition, by broker id, and those that are being added or removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Topic(Struct, frozen=True):
    """Content of `/brokers/topics/<topic>`. `id`: topic id as Kafka's tools show it."""

    name: str
    id: str
    partitions: Mapping[int, Assignment]


class State(Struct, frozen=True):
    """Content of `/brokers/topics/<topic>/partitions/<partition>/state`."""

    leader: Annotated[int, Meta(ge=-1, lt=2**31)]
    leader_epoch: Int
    isr: tuple[Id, ...]
    controller_epoch: Int
    leader_recovery_state: Annotated[int, Meta(ge=0, le=1)] = 0


Replicas = Annotated[tuple[Id, ...], Meta(min_length=1)]


class _Topic(Struct, frozen=True):
    partitions: Mapping[str, Replicas]
    adding: Mapping[str, tuple[Id, ...]] = field(name="adding_replicas", default_factory=dict)
    removing: Mapping[str, tuple[Id, ...]] = field(name="removing_replicas", default_factory=dict)
    topic_id: str | None = None


def topic_path(name: str) -> str:
    """Path of a topic."""
    return f"{TOPICS}/{name}"


def topic_name(path: str) -> str | None:
    """Name of the topic with this path; None for any other path."""
    return path.removeprefix(f"{TOPICS}/") if path.startswith(f"{TOPICS}/") else None


def state_path(topic: str, partition: int) -> str:
    """Path of the state of a partition."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def read_topic(name: str, data: bytes) -> Topic | ZnodeFinding:
    """The topic in a znode; a finding if Kafka could not copy it. Never raises."""
    path = topic_path(name)
    topic = read(path, data, partial(_topic, name), EXITS)
    if isinstance(topic, Topic) and not topic.id:
        return ZnodeFinding(
            path,
            "has no id of the topic",
            "set inter.broker.protocol.version to 2.8 or newer on all brokers, and restart the one that is controller: "
            "it gives each topic an id",
            EXITS,
        )
    return topic


def read_state(topic: str, partition: int, data: bytes | None) -> State | ZnodeFinding:
    """State of a partition. A finding if Kafka could not copy it; also if the znode is absent (`data` None), as Kafka
    then invents a state. Never raises.
    """
    path = state_path(topic, partition)
    if data is None:
        return ZnodeFinding(
            path,
            "is absent: the partition has no state",
            "start the brokers of its replicas until it has a leader, or delete the topic",
            _INVENTED,
        )
    return read(path, data, partial(msgspec.convert, type=State), _INVENTED)


def placed(assignment: Assignment, state: State) -> Placed:
    """Placement of a partition by its assignment and its state."""
    replicas, adding, removing = assignment
    in_sync = tuple(sorted(state.isr))
    recovers = bool(state.leader_recovery_state)
    return Placed(
        replicas, tuple(sorted(adding)), tuple(sorted(removing)), state.leader, in_sync, state.leader_epoch, recovers
    )  # fmt: skip


def shown_id(raw: bytes) -> str:
    """A topic id as Kafka's tools show it (`Uuid.toString`)."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _topic(name: str, document: Any) -> Topic:
    fields = msgspec.convert(document, _Topic)
    partitions = {
        _number(key): Assignment(replicas, fields.adding.get(key, ()), fields.removing.get(key, ()))
        for key, replicas in fields.partitions.items()
    }
    return Topic(name, "" if fields.topic_id is None else _id(fields.topic_id), partitions)


def _number(key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and int(key) < 2**31):
        raise ValueError("a partition whose name is not a number")
    return int(key)


def _id(text: str) -> str:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
    except ValueError:  # binascii.Error is one
        raw = b""
    if len(raw) != _UUID:
        raise ValueError("topic_id is not an id")
    return shown_id(raw)
