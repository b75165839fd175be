"""Translates requests and responses about topics, partitions, configs and log directories between our messages and
kio's.

Called by `codec.py`, with the kio schemas of a version. A response is decoded as a whole; if it is large, in a thread
beside the event loop (`connection.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from types import ModuleType
from typing import Any

from kafkafeatures.core.facts.levels import VersionRange
from kafkafeatures.core.facts.readings import Host
from kafkafeatures.kafka.wire import topic_messages as m
from kafkafeatures.kafka.wire.api import Api, operations, plain
from kafkafeatures.kafka.wire.frame import MAX_TOPICS_FRAME


def _ids(brokers: Iterable[Any] | None) -> tuple[int, ...]:
    return tuple(map(int, brokers or ()))


# --- requests ---


def metadata(schema: ModuleType, message: m.MetadataRequest) -> Any:
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": message.authorized_operations}
    if schema.__name__.split(".")[-2] in ("v9", "v10"):  # later versions do not have the field
        fields["include_cluster_authorized_operations"] = False
    return schema.MetadataRequest(topics=None if message.all_topics else (), **fields)


def topic_partitions(schema: ModuleType, message: m.DescribeTopicPartitionsRequest) -> Any:
    cursor = None
    if message.cursor is not None:
        cursor = schema.Cursor(topic_name=message.cursor[0], partition_index=message.cursor[1])
    return schema.DescribeTopicPartitionsRequest(topics=(), response_partition_limit=message.limit, cursor=cursor)


def reassignments(schema: ModuleType, message: m.ListPartitionReassignmentsRequest) -> Any:
    return schema.ListPartitionReassignmentsRequest(timeout=timedelta(milliseconds=message.timeout_ms), topics=None)


def configs(schema: ModuleType, message: m.DescribeConfigsRequest) -> Any:
    return schema.DescribeConfigsRequest(
        resources=tuple(
            schema.DescribeConfigsResource(
                resource_type=message.resource, resource_name=name, configuration_keys=message.keys
            )
            for name in message.names
        ),
        include_synonyms=message.resource == m.BROKER_RESOURCE,
    )


def log_dirs(schema: ModuleType, message: m.DescribeLogDirsRequest) -> Any:
    return schema.DescribeLogDirsRequest(topics=None)


# --- responses ---


def read_metadata(body: Any, version: int) -> m.MetadataResponse:
    return m.MetadataResponse(
        cluster_id=body.cluster_id,
        controller_id=int(body.controller_id),
        brokers=tuple(Host(int(b.node_id), b.host, int(b.port)) for b in body.brokers),
        topics=tuple(_topic(topic) for topic in body.topics if topic.name is not None),
    )


def read_topic_partitions(body: Any, version: int) -> m.DescribeTopicPartitionsResponse:
    cursor = body.next_cursor
    return m.DescribeTopicPartitionsResponse(
        topics=tuple(_topic(topic) for topic in body.topics if topic.name is not None),
        cursor=None if cursor is None else (str(cursor.topic_name), int(cursor.partition_index)),
    )


def _topic(topic: Any) -> m.TopicAnswer:
    id_ = getattr(topic, "topic_id", None)  # Metadata v9 has none
    partitions = tuple(map(_partition, topic.partitions))
    bits = operations(topic.topic_authorized_operations)
    return m.TopicAnswer(int(topic.error_code), str(topic.name), id_, partitions, bits)


def _partition(answer: Any) -> m.PartitionAnswer:
    return m.PartitionAnswer(
        int(answer.error_code),
        int(answer.partition_index),
        int(answer.leader_id),
        int(answer.leader_epoch),
        _ids(answer.replica_nodes),
        _ids(answer.isr_nodes),
        _ids(getattr(answer, "eligible_leader_replicas", None)),
        _ids(getattr(answer, "offline_replicas", None)),
    )


def read_reassignments(body: Any, version: int) -> m.ListPartitionReassignmentsResponse:
    return m.ListPartitionReassignmentsResponse(
        int(body.error_code),
        plain(body.error_message),
        {
            (str(topic.name), int(partition.partition_index)): m.Reassignment(
                _ids(partition.replicas), _ids(partition.adding_replicas), _ids(partition.removing_replicas)
            )
            for topic in body.topics
            for partition in topic.partitions
        },
    )


def read_configs(body: Any, version: int) -> m.DescribeConfigsResponse:
    return m.DescribeConfigsResponse({str(result.resource_name): _config(result) for result in body.results})


def _config(result: Any) -> m.ConfigAnswer:
    entries = {str(entry.name): _config_entry(entry) for entry in result.configs}
    return m.ConfigAnswer(int(result.error_code), plain(result.error_message), entries)


def _config_entry(config: Any) -> m.ConfigEntry:
    """A sensitive value is not read, whatever was sent."""
    head = int(config.config_source), bool(config.is_sensitive), bool(config.read_only)
    source, is_sensitive, is_read_only = head
    if is_sensitive:
        return m.ConfigEntry(None, source, is_sensitive=True, is_read_only=is_read_only)
    layers = {int(synonym.source): str(synonym.value) for synonym in config.synonyms if synonym.value is not None}
    return m.ConfigEntry(plain(config.value), source, layers, is_read_only=is_read_only)


def read_log_dirs(body: Any, version: int) -> m.DescribeLogDirsResponse:
    return m.DescribeLogDirsResponse(
        int(body.error_code),
        tuple(
            m.LogDir(
                int(log_dir.error_code),
                str(log_dir.log_dir),
                {
                    str(topic.name): frozenset(int(p.partition_index) for p in topic.partitions)
                    for topic in log_dir.topics
                },
            )
            for log_dir in body.results
        ),
    )


APIS: dict[int, Api] = {
    api.request.api_key: api
    for api in (
        Api(m.MetadataRequest, VersionRange(9, 12), metadata, read_metadata),
        Api(m.DescribeConfigsRequest, VersionRange(4, 4), configs, read_configs, MAX_TOPICS_FRAME),
        # below v3, the answer to a user without the right is that nothing is hosted
        Api(
            m.DescribeLogDirsRequest,
            VersionRange(3, 4),
            log_dirs,
            read_log_dirs,
            MAX_TOPICS_FRAME,
        ),
        Api(
            m.ListPartitionReassignmentsRequest,
            VersionRange(0, 0),
            reassignments,
            read_reassignments,
            MAX_TOPICS_FRAME,
        ),
        Api(
            m.DescribeTopicPartitionsRequest,
            VersionRange(0, 0),
            topic_partitions,
            read_topic_partitions,
            MAX_TOPICS_FRAME,
        ),
    )
}
"""By API key: the APIs that this module translates."""
