"""Converts topics between the metadata log and znodes, in both directions.

Called by `driver`, which copies and writes, and by `elections` for the broker that is the controller in ZooKeeper mode.
Of configs only `min.insync.replicas` is converted, as in the whole simulator.

Source: `ZkTopicMigrationClient.scala`, `TopicZNode` and `TopicPartitionStateZNode` of `ZkData.scala`.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterator, Mapping
from uuid import UUID

from kafkafeatures.core.migration.copied.topics import Assignment, State, Topic, read_state, read_topic, shown_id
from kafkasim import replicas
from kafkasim.log import Write
from kafkasim.migration.tree import Tree
from kafkasim.replicas import TopicPartition
from kraftlog import Image
from kraftlog.partitions import Partition
from kraftlog.schema import table

TOPICS, CONFIGS = "/brokers/topics", "/config/topics"


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def written(image: Image, controller_epoch: int, was: Mapping[str, State]) -> dict[str, dict[str, bytes]]:
    """Data that the znodes of topics should have for this image, by topic and path. `was`: states of partitions that
    ZooKeeper has, by path; one that does not change keeps its controller epoch, others get `controller_epoch`.
    """
    contents_by_topic: dict[str, dict[str, bytes]] = {}
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in replicas.partitions_in(image):
        by_topic.setdefault(partition.topic, []).append(partition)
    minimum = image.partitions.min_insync_replicas.topics
    for topic, partitions in by_topic.items():
        path = f"{TOPICS}/{topic}"
        znodes = contents_by_topic[topic] = {path: _json(_assignment(partitions))}
        for partition in partitions:
            at = f"{path}/partitions/{partition.number}/state"
            znodes[at] = _state(partition.state, controller_epoch, was.get(at))
        config = {"min.insync.replicas": str(minimum[topic])} if topic in minimum else {}
        znodes[f"{CONFIGS}/{topic}"] = _json({"version": 1, "config": config})
    return contents_by_topic


def _assignment(partitions: Collection[TopicPartition]) -> dict[str, object]:
    """Content of the znode of a topic with these partitions."""
    first = next(iter(partitions))
    return {
        "removing_replicas": {
            str(partition.number): sorted(partition.state.removing)
            for partition in partitions
            if partition.state.removing
        },
        "partitions": {str(partition.number): partition.state.replicas for partition in partitions},
        "topic_id": shown_id(first.topic_id.bytes),
        "adding_replicas": {
            str(partition.number): sorted(partition.state.adding) for partition in partitions if partition.state.adding
        },
        "version": 3,
    }


def _state(state: Partition, controller_epoch: int, was: State | None) -> bytes:
    """Data of the znode with the state of a partition. `was`: the state that ZooKeeper has; None for none."""
    in_sync = [each for each in state.replicas if each in state.in_sync]
    is_same = was is not None and (was.leader, was.leader_epoch, list(was.isr)) == (
        state.leader, state.leader_epoch, in_sync,
    )  # fmt: skip
    epoch = was.controller_epoch if was is not None and is_same else controller_epoch
    return _json(
        {
            "controller_epoch": epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": in_sync,
        }
    )


def states(tree: Tree) -> dict[str, State]:
    """Every state of a partition that can be read, by its path."""
    states_by_path = {}
    for topic in topics(tree):
        for number in topic.partitions:
            path = f"{TOPICS}/{topic.name}/partitions/{number}/state"
            znode = tree.get(path)
            state = read_state(topic.name, number, None if znode is None else znode.data)
            if isinstance(state, State):
                states_by_path[path] = state
    return states_by_path


def topics(tree: Tree) -> Iterator[Topic]:
    """Every topic that can be read."""
    for name in tree.below(TOPICS):
        znode = tree.get(f"{TOPICS}/{name}")
        topic = read_topic(name, znode.data) if znode is not None else None
        if isinstance(topic, Topic):
            yield topic


def records(tree: Tree, image: Image, directories: Mapping[int, UUID], metadata_version: int) -> list[Write]:
    """Records after which a log with this image has the topics that ZooKeeper has. directories: log directory of each
    broker, in which its replicas are placed.
    """
    ids = {topic.name: topic.id for topic in image.partitions.topics.values()}
    writes: list[Write] = []
    at = states(tree)
    all_topics = list(topics(tree))
    for topic in all_topics:
        topic_id = ids.get(topic.name)
        if topic_id is None:
            topic_id = _uuid(topic.id)
            writes.append(Write(table.TOPIC, {"name": topic.name, "topicId": topic_id}))
        for number, assignment in topic.partitions.items():
            state = at.get(f"{TOPICS}/{topic.name}/partitions/{number}/state")
            if state is not None:
                partition = TopicPartition(topic_id, topic.name, number, _partition(assignment, state))
                writes.append(replicas.whole(partition, directories, metadata_version))
        config = tree.get(f"{CONFIGS}/{topic.name}")
        value = json.loads(config.data)["config"].get("min.insync.replicas") if config is not None else None
        if value is not None:
            writes.append(replicas.topic_config(topic.name, int(value)))
    names = {topic.name for topic in all_topics}
    writes += [Write(table.REMOVE_TOPIC, {"topicId": id_}) for name, id_ in ids.items() if name not in names]
    return writes


def _partition(assignment: Assignment, state: State) -> Partition:
    return Partition(
        replicas=assignment.replicas,
        in_sync=frozenset(state.isr),
        eligible=frozenset(),
        adding=frozenset(assignment.adding),
        removing=frozenset(assignment.removing),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=0,
    )


def _uuid(text: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(f"{text}=="))
