"""Makes the records about topics and partitions: when a broker leaves, returns or has caught up, and for reassignments.

Called by the modules of the simulator that decide when, such as `brokers`, and by `world` for actions of people. The
functions return records; they write nothing, and do not depend on time.

Source: `ReplicationControlManager.generateLeaderAndIsrUpdates` and `PartitionChangeBuilder`: a broker in controlled
shutdown, or fenced, is removed from every ISR, whatever min.insync.replicas is. The last broker of an ISR stays in it,
but no longer leads. Eligible leader replicas (KIP-966) are not simulated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kafkasim.log import Write
from kafkasim.plan import TopicPlan
from kraftlog import Image
from kraftlog.schema import table

if TYPE_CHECKING:  # numpy, which a world without topics does without
    from kraftlog.partitions import Partition

NO_LEADER = -1
MIN_INSYNC_REPLICAS = "min.insync.replicas"
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4  # ConfigResource.Type
_PARTITION = ((23, 2), (17, 1))
"""Versions of PartitionRecord and PartitionChangeRecord, each after the metadata.version from which on it is written,
the newest first; 0 before.
"""


class TopicPartition(NamedTuple):
    """A partition of a topic, with its state in the log."""

    topic_id: UUID
    topic: str
    number: int
    state: Partition


Changes = Mapping[str, Any]


def partitions_in(image: Image) -> Iterator[TopicPartition]:
    """All partitions, by topic and number."""
    ids = {topic.name: topic.id for topic in image.partitions.topics.values()}
    for name, number, state in sorted(image.partitions.rows(), key=lambda row: row[:2]):
        yield TopicPartition(ids[name], name, number, state)


def all_of(image: Image, directories: Mapping[int, UUID], metadata_version: int) -> list[Write]:
    """Records of a snapshot: topics, partitions, and settings of min.insync.replicas."""
    partitions = image.partitions
    writes = [Write(table.TOPIC, {"name": each.name, "topicId": each.id}) for each in partitions.topics.values()]
    writes += [whole(partition, directories, metadata_version) for partition in partitions_in(image)]
    writes += [topic_config(name, value) for name, value in partitions.min_insync_replicas.topics.items()]
    writes += [broker_config(broker_id, value) for broker_id, value in partitions.min_insync_replicas.brokers.items()]
    if partitions.min_insync_replicas.cluster is not None:
        writes.append(broker_config(None, partitions.min_insync_replicas.cluster))
    return writes


def created(topic: TopicPlan, topic_id: UUID, directories: Mapping[int, UUID], metadata_version: int) -> list[Write]:
    """Records of a new topic whose replicas are all in sync, with its configs."""
    writes = [Write(table.TOPIC, {"name": topic.name, "topicId": topic_id})]
    if topic.min_insync_replicas is not None:
        writes.append(topic_config(topic.name, topic.min_insync_replicas))
    for number, replicas in enumerate(topic.replicas):
        data = {
            "partitionId": number,
            "topicId": topic_id,
            "replicas": replicas,
            "isr": replicas,
            "removingReplicas": (),
            "addingReplicas": (),
            "leader": replicas[0],
            "leaderEpoch": 0,
            "partitionEpoch": 0,
        }
        writes.append(_whole(data, directories, metadata_version))
    return writes


def whole(partition: TopicPartition, directories: Mapping[int, UUID], metadata_version: int) -> Write:
    """A Partition record with the whole state of a partition."""
    state = partition.state
    data: dict[str, Any] = {
        "partitionId": partition.number,
        "topicId": partition.topic_id,
        "replicas": state.replicas,
        "isr": _in_order(state.in_sync, state.replicas),
        "removingReplicas": _in_order(state.removing, state.replicas),
        "addingReplicas": _in_order(state.adding, state.replicas),
        "leader": state.leader,
        "leaderEpoch": state.leader_epoch,
        "partitionEpoch": state.partition_epoch,
    }
    return _whole(data, directories, metadata_version)


def _whole(data: dict[str, Any], directories: Mapping[int, UUID], metadata_version: int) -> Write:
    version = _version(metadata_version)
    if version >= 1:
        data["directories"] = tuple(directories[each] for each in data["replicas"])
    return Write(table.PARTITION, data, version)


def topic_config(topic: str, value: int | None) -> Write:
    """min.insync.replicas of a topic; None deletes it."""
    return _config(_TOPIC_RESOURCE, topic, value)


def broker_config(broker_id: int | None, value: int | None) -> Write:
    """min.insync.replicas of a broker, or of all brokers if `broker_id` is None; None as the value deletes it."""
    return _config(_BROKER_RESOURCE, "" if broker_id is None else str(broker_id), value)


def _config(kind: int, name: str, value: int | None) -> Write:
    text = None if value is None else str(value)
    return Write(table.CONFIG, {"resourceType": kind, "resourceName": name, "name": MIN_INSYNC_REPLICAS, "value": text})


def without(
    partitions: Iterable[TopicPartition], broker: int, alive: Collection[int], metadata_version: int
) -> list[Write]:
    """Changes that remove the broker from every ISR, unless it is the last one there, and elect other leaders. `alive`:
    brokers that may lead.
    """
    writes = []
    for partition in partitions:
        state = partition.state
        if broker not in state.in_sync and state.leader != broker:
            continue
        remaining = tuple(each for each in _in_order(state.in_sync, state.replicas) if each != broker)
        changes: dict[str, Any] = {"isr": remaining} if remaining and broker in state.in_sync else {}
        if state.leader == broker:
            changes["leader"] = _leader(state.replicas, remaining, alive)
        if changes:
            writes.append(_change(partition, changes, metadata_version))
    return writes


def with_leaders(partitions: Iterable[TopicPartition], broker: int, metadata_version: int) -> list[Write]:
    """Changes that make this broker the leader of partitions without one that have it in their ISR."""
    return [
        _change(partition, {"leader": broker}, metadata_version)
        for partition in partitions
        if partition.state.leader == NO_LEADER and broker in partition.state.in_sync
    ]


def in_sync(partitions: Iterable[TopicPartition], broker: int, metadata_version: int) -> list[Write]:
    """Changes that add the broker to the ISR of these partitions; this may complete a reassignment."""
    return [
        _change(
            partition,
            {"isr": _in_order({*partition.state.in_sync, broker}, partition.state.replicas)},
            metadata_version,
        )
        for partition in partitions
    ]


def fallen_behind(partitions: Iterable[TopicPartition], broker: int, metadata_version: int) -> list[Write]:
    """Changes that remove the broker from the ISR of these partitions, except those that have no leader or that it
    leads.
    """
    return [
        _change(partition, {"isr": remaining}, metadata_version)
        for partition in partitions
        if broker in partition.state.in_sync
        and partition.state.leader not in (broker, NO_LEADER)
        and (
            remaining := tuple(
                each for each in _in_order(partition.state.in_sync, partition.state.replicas) if each != broker
            )
        )
    ]


def moving(
    partition: TopicPartition, target: Sequence[int], directories: Mapping[int, UUID], metadata_version: int
) -> Write:
    """The change that begins a reassignment; replicas are the new ones first, then those to be removed (KIP-455)."""
    current = partition.state.replicas
    changes: dict[str, Any] = {
        "replicas": (*target, *(each for each in current if each not in target)),
        "removingReplicas": tuple(each for each in current if each not in target),
        "addingReplicas": tuple(each for each in target if each not in current),
    }
    return _change(partition, changes, metadata_version, directories)


def moved(
    partition: TopicPartition, alive: Collection[int], directories: Mapping[int, UUID], metadata_version: int
) -> list[Write]:
    """The change that ends a reassignment if every remaining replica is in sync; else nothing."""
    state = partition.state
    target = tuple(each for each in state.replicas if each not in state.removing)
    if not state.in_sync.issuperset(target):
        return []
    changes: dict[str, Any] = {"isr": target, "replicas": target, "removingReplicas": (), "addingReplicas": ()}
    if state.leader not in target:
        changes["leader"] = _leader(target, target, alive)
    return [_change(partition, changes, metadata_version, directories)]


def _leader(replicas: Sequence[int], in_sync: Collection[int], alive: Collection[int]) -> int:
    """The first replica that is in sync and alive (`PartitionChangeBuilder.electAnyLeader`)."""
    return next((each for each in replicas if each in in_sync and each in alive), NO_LEADER)


def _change(
    partition: TopicPartition, changes: Changes, metadata_version: int, directories: Mapping[int, UUID] | None = None
) -> Write:
    """A PartitionChange record. `directories`: given if the replicas change, as the record then has their disks."""
    data = {"partitionId": partition.number, "topicId": partition.topic_id, **changes}
    version = _version(metadata_version)
    if directories is not None and version >= 1:
        data["directories"] = tuple(directories[each] for each in changes["replicas"])
    return Write(table.PARTITION_CHANGE, data, version)


def _in_order(brokers: Collection[int], replicas: Sequence[int]) -> tuple[int, ...]:
    """These brokers, in the order of the replicas."""
    return tuple(each for each in replicas if each in brokers)


def _version(metadata_version: int) -> int:
    return next((version for since, version in _PARTITION if metadata_version >= since), 0)
