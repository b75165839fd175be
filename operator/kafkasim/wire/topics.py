"""The exchanges about topics: typed answers in the fields of Kafka's messages, for what was asked and no more.

Called by `exchanges`. The product asks for all topics; another client may name some, and gets those.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from kafkafeatures.kafka.wire.messages import NO_OPERATIONS
from kafkafeatures.kafka.wire.topic_messages import (
    ConfigAnswer,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    PartitionAnswer,
    TopicAnswer,
)
from kafkasim.answers import topics
from kafkasim.answers.node import NodeAnswers
from kafkasim.answers.topics import NONE, UNKNOWN_TOPIC_OR_PARTITION

Answer = dict[str, Any]

UNKNOWN_TOPIC_ID = 100
_SIZE = 1_000  # bytes of a partition; nothing depends on it
_INT = 3


async def metadata(node: NodeAnswers, version: int, request: Any) -> Answer:
    """The live brokers, and topics: all that may be seen, or those that are named."""
    asked = request.topics
    question = MetadataRequest(asked is None or bool(asked), request.include_topic_authorized_operations)
    said = await node.metadata(question, version)
    if asked is None:
        shown = [_topic(one) for one in said.topics]
    else:
        by_name = {one.name: one for one in said.topics}
        names: dict[Any, str] = {one.id: one.name for one in said.topics}
        shown = []
        for one in asked:
            name = names.get(getattr(one, "topic_id", None), "") if one.name is None else one.name
            shown.append(_topic(by_name[name]) if name in by_name else _unknown(one))
    return {
        "throttle_time": 0,
        "brokers": [{"node_id": one.id, "host": one.host, "port": one.port, "rack": None} for one in said.brokers],
        "cluster_id": said.cluster_id,
        "controller_id": said.controller_id,
        "topics": shown,
        "cluster_authorized_operations": NO_OPERATIONS,
        "error_code": NONE,
    }


def _unknown(asked: Any) -> Answer:
    return {
        "error_code": UNKNOWN_TOPIC_ID if asked.name is None else UNKNOWN_TOPIC_OR_PARTITION,
        "name": asked.name,
        "topic_id": getattr(asked, "topic_id", None),
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _topic(topic: TopicAnswer) -> Answer:
    return {
        "error_code": topic.error_code,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.name.startswith("__"),
        "partitions": [_partition(one) for one in topic.partitions],
        "topic_authorized_operations": NO_OPERATIONS if topic.operations is None else topic.operations,
    }


def _partition(one: PartitionAnswer) -> Answer:
    return {
        "error_code": one.error_code,
        "partition_index": one.partition,
        "leader_id": one.leader,
        "leader_epoch": one.leader_epoch,
        "replica_nodes": one.replicas,
        "isr_nodes": one.in_sync,
        "eligible_leader_replicas": (),
        "last_known_elr": (),
        "offline_replicas": one.offline,
    }


async def describe_topic_partitions(node: NodeAnswers, version: int, request: Any) -> Answer:
    """In pages, from a cursor on."""
    cursor = None if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
    question = DescribeTopicPartitionsRequest(cursor, request.response_partition_limit)
    said = topics.page(node.world, question, {each.name for each in request.topics})
    behind = None if said.cursor is None else {"topic_name": said.cursor[0], "partition_index": said.cursor[1]}
    return {"throttle_time": 0, "topics": [_topic(one) for one in said.topics], "next_cursor": behind}


async def list_reassignments(node: NodeAnswers, version: int, request: Any) -> Answer:
    """What is being moved."""
    said = await node.reassignments(ListPartitionReassignmentsRequest(), version)
    named = None if request.topics is None else {each.name for each in request.topics}
    found = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": index,
                    "replicas": one.replicas,
                    "adding_replicas": one.adding,
                    "removing_replicas": one.removing,
                }
                for (_, index), one in moving
            ],
        }
        for name, moving in groupby(said.reassignments.items(), key=lambda each: each[0][0])
        if named is None or name in named
    ]
    return {"throttle_time": 0, "error_code": said.error_code, "error_message": said.error_message, "topics": found}


async def describe_log_dirs(node: NodeAnswers, version: int, request: Any) -> Answer:
    """What lies on the disks of this broker."""
    said = await node.log_dirs(DescribeLogDirsRequest(), version)
    named = None if request.topics is None else {each.topic for each in request.topics}
    results = [
        {
            "error_code": one.error_code,
            "log_dir": one.path,
            "topics": [
                {"name": name, "partitions": _sizes(found)}
                for name, found in one.hosted.items()
                if named is None or name in named
            ],
            "is_cordoned": False,
        }
        for one in said.directories
    ]
    return {"throttle_time": 0, "error_code": said.error_code, "results": results}


def _sizes(partitions: Iterable[int]) -> list[Answer]:
    return [
        {"partition_index": each, "partition_size": _SIZE, "offset_lag": 0, "is_future_key": False}
        for each in sorted(partitions)
    ]


async def describe_configs(node: NodeAnswers, version: int, request: Any) -> Answer:
    """One question for each resource: they may be of several kinds."""
    results = []
    for one in request.resources:
        kind, name, keys = one.resource_type, one.resource_name, one.configuration_keys
        said = await node.configs(DescribeConfigsRequest(kind, (name,), tuple(keys or ())), version)
        results.append(_configs(kind, name, said.configs[name], synonyms=request.include_synonyms))
    return {"throttle_time": 0, "results": results}


def _configs(kind: int, name: str, said: ConfigAnswer, *, synonyms: bool) -> Answer:
    head = {"error_code": said.error_code, "error_message": said.error_message}
    entries = [
        {
            "name": key,
            "value": one.value,
            "read_only": one.is_read_only,
            "config_source": one.source,
            "is_sensitive": one.is_sensitive,
            "synonyms": [{"name": key, "value": text, "source": source} for source, text in one.layers.items()]
            if synonyms
            else [],
            "config_type": _INT,
            "documentation": None,
        }
        for key, one in said.entries.items()
    ]
    return head | {"resource_type": kind, "resource_name": name, "configs": entries}
