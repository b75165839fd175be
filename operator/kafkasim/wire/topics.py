"""The exchanges about topics: typed responses as fields of Kafka's messages, restricted to what was requested.

Called by `exchanges`. The product asks for all topics; another client may name some, and gets only those.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from msgspec.structs import asdict

from kafkafeatures.kafka.wire.logger_codec import LOGGER_RESOURCE, IncrementalAlterConfigsRequest
from kafkafeatures.kafka.wire.messages import NO_OPERATIONS
from kafkafeatures.kafka.wire.topic_messages import (
    ConfigAnswer,
    DescribeConfigsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    PartitionAnswer,
    TopicAnswer,
)
from kafkasim.answers import topics
from kafkasim.answers.node import NodeAnswers
from kafkasim.answers.topics import INVALID_REQUEST, NONE, UNKNOWN_TOPIC_OR_PARTITION

Answer = dict[str, Any]

UNKNOWN_TOPIC_ID = 100
_SIZE = 1_000  # bytes of a partition; nothing depends on it
_INT = 3  # of `ConfigDef.Type`, as DescribeConfigs reports it


async def metadata(node: NodeAnswers, version: int, request: Any) -> Answer:
    """Metadata: the live brokers, and topics: all that may be seen, or those that are named."""
    requested = request.topics
    question = MetadataRequest(requested is None or bool(requested), request.include_topic_authorized_operations)
    response = node.metadata(question, version)
    if requested is None:
        answers = [_topic(topic) for topic in response.topics]
    else:
        by_name = {topic.name: topic for topic in response.topics}
        names: dict[Any, str] = {topic.id: topic.name for topic in response.topics}
        answers = []
        for requested_topic in requested:
            name = (
                names.get(getattr(requested_topic, "topic_id", None), "")
                if requested_topic.name is None
                else requested_topic.name
            )
            answers.append(_topic(by_name[name]) if name in by_name else _unknown(requested_topic))
    return asdict(response) | {
        "brokers": [
            {"node_id": host.id, "host": host.host, "port": host.port, "rack": None} for host in response.brokers
        ],
        "topics": answers,
        "cluster_authorized_operations": NO_OPERATIONS,
        "error_code": NONE,
    }


def _unknown(requested_topic: Any) -> Answer:
    return {
        "error_code": UNKNOWN_TOPIC_ID if requested_topic.name is None else UNKNOWN_TOPIC_OR_PARTITION,
        "name": requested_topic.name,
        "topic_id": getattr(requested_topic, "topic_id", None),
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
        "partitions": [_partition(partition) for partition in topic.partitions],
        "topic_authorized_operations": NO_OPERATIONS if topic.operations is None else topic.operations,
    }


def _partition(partition: PartitionAnswer) -> Answer:
    return {
        "error_code": partition.error_code,
        "partition_index": partition.partition,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.in_sync,
        "eligible_leader_replicas": (),
        "last_known_elr": (),
        "offline_replicas": partition.offline,
    }


async def describe_topic_partitions(node: NodeAnswers, version: int, request: Any) -> Answer:
    """DescribeTopicPartitions: a page of partitions, from a cursor on."""
    cursor = None if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
    question = DescribeTopicPartitionsRequest(cursor, request.response_partition_limit)
    response = topics.page(node.world, question, {each.name for each in request.topics})
    next_cursor = (
        None if response.cursor is None else {"topic_name": response.cursor[0], "partition_index": response.cursor[1]}
    )
    return {"topics": [_topic(topic) for topic in response.topics], "next_cursor": next_cursor}


async def list_reassignments(node: NodeAnswers, version: int, request: Any) -> Answer:
    """ListPartitionReassignments: reassignments in progress."""
    response = node.reassignments(ListPartitionReassignmentsRequest(), version)
    names = None if request.topics is None else {each.name for each in request.topics}
    answers = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": index,
                    "replicas": reassignment.replicas,
                    "adding_replicas": reassignment.adding,
                    "removing_replicas": reassignment.removing,
                }
                for (_, index), reassignment in moving
            ],
        }
        for name, moving in groupby(response.reassignments.items(), key=lambda each: each[0][0])
        if names is None or name in names
    ]
    return asdict(response) | {"topics": answers}


async def describe_log_dirs(node: NodeAnswers, version: int, request: Any) -> Answer:
    """DescribeLogDirs: partitions on the disks of this broker."""
    response = topics.log_dirs(node.world, node.node)
    names = None if request.topics is None else {each.topic for each in request.topics}
    results = [
        {
            "error_code": directory.error_code,
            "log_dir": directory.path,
            "topics": [
                {"name": name, "partitions": _sizes(partitions)}
                for name, partitions in directory.hosted.items()
                if names is None or name in names
            ],
            "is_cordoned": False,
        }
        for directory in response.directories
    ]
    return {"error_code": response.error_code, "results": results}


def _sizes(partitions: Iterable[int]) -> list[Answer]:
    return [
        {"partition_index": each, "partition_size": _SIZE, "offset_lag": 0, "is_future_key": False}
        for each in sorted(partitions)
    ]


async def describe_configs(node: NodeAnswers, version: int, request: Any) -> Answer:
    """DescribeConfigs: the configs of each resource in the request, of any type."""
    results = []
    for resource in request.resources:
        kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
        response = topics.configs(node.world, node.node, DescribeConfigsRequest(kind, (name,), tuple(keys or ())))
        results.append(_configs(kind, name, response.configs[name], synonyms=request.include_synonyms))
    return {"results": results}


def _configs(kind: int, name: str, config: ConfigAnswer, *, synonyms: bool) -> Answer:
    head = {"error_code": config.error_code, "error_message": config.error_message}
    entries = [
        {
            "name": key,
            "value": entry.value,
            "read_only": entry.is_read_only,
            "config_source": entry.source,
            "is_sensitive": entry.is_sensitive,
            "synonyms": [{"name": key, "value": text, "source": source} for source, text in entry.layers.items()]
            if synonyms
            else [],
            "config_type": _INT,
            "documentation": None,
        }
        for key, entry in config.entries.items()
    ]
    return head | {"resource_type": kind, "resource_name": name, "configs": entries}


async def set_logger_levels(node: NodeAnswers, version: int, request: Any) -> Answer:
    """IncrementalAlterConfigs for loggers of brokers; nothing else is simulated."""
    answers = []
    for resource in request.resources:
        head = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        code, text = NONE, None
        for config in resource.configs:
            if resource.resource_type != LOGGER_RESOURCE or not resource.resource_name.isdecimal():
                code, text = INVALID_REQUEST, "not simulated"
                continue
            level = IncrementalAlterConfigsRequest(int(resource.resource_name), config.name, config.value or "")
            answer = topics.set_logger_level(node.node, level)
            code, text = answer.error_code or code, answer.error_message or text
        answers.append({**head, "error_code": code, "error_message": text})
    return {"responses": answers}
