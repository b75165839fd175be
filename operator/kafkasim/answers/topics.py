"""Responses of a broker about topics: partitions, reassignments, configs, and log directories.

Called by `answers.node` and `wire.topics`. Topics that a client may not describe (`World.hidden_topics`) are treated as
by Kafka: responses about partitions silently leave them out, DescribeConfigs refuses them, and reassignments and log
directories have them. Configs are those of `kafkasim.settings`, and the level of the request logger.

Source: `KafkaApis.scala`, `DescribeTopicPartitionsRequestHandler.java`, `ConfigHelper.scala`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS, Setting
from kafkafeatures.kafka.wire.logger_codec import (
    LOGGER_RESOURCE,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkafeatures.kafka.wire.topic_messages import (
    BROKER_RESOURCE,
    SET_ON_TOPIC,
    TOPIC_RESOURCE,
    ConfigAnswer,
    ConfigEntry,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
    LogDir,
    PartitionAnswer,
    Reassignment,
    TopicAnswer,
)
from kafkasim.node import Node
from kafkasim.replicas import NO_LEADER, TopicPartition, partitions_in
from kafkasim.settings import minimum_layers, names_of, setting_of
from kafkasim.world import World

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
TOPIC_AUTHORIZATION_FAILED = 29
INVALID_CONFIG = 40
INVALID_REQUEST = 42

REQUEST_LOGGER = "kafka.request.logger"
_LOGGER_LEVEL = 6  # DYNAMIC_BROKER_LOGGER_CONFIG of `ConfigSource`

TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
_CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
"""Operations on a topic, and on the cluster, that `AclEntry.supportedOperations` has: a bit for each `AclOperation`."""
_CLUSTER_ACTION = 9
"""Code of CLUSTER_ACTION in `AclOperation`."""
_MAX_PAGE = 2_000  # partitions; max.request.partition.size.limit


def visible_topics(world: World, authorized_operations: bool = False) -> tuple[TopicAnswer, ...]:
    """Every topic that the client may see; of each it may do everything, as where no authorizer is configured."""
    answers = _topics(world, _visible(world))
    return tuple(each._replace(operations=TOPIC_OPERATIONS) for each in answers) if authorized_operations else answers


def cluster_operations(world: World) -> int:
    """Operations that the client may do on the cluster."""
    return _CLUSTER_OPERATIONS if world.grants_cluster_action else _CLUSTER_OPERATIONS & ~(1 << _CLUSTER_ACTION)


def page(
    world: World, request: DescribeTopicPartitionsRequest, names: Collection[str] = ()
) -> DescribeTopicPartitionsResponse:
    """A page of partitions from a cursor on. `names`: topics whose partitions are requested; empty: all."""
    begin = request.cursor or ("", 0)
    from_cursor = [
        each for each in _visible(world) if (not names or each.topic in names) and (each.topic, each.number) >= begin
    ]
    size = min(request.limit, _MAX_PAGE)
    next_partition = from_cursor[size : size + 1]
    answers = _topics(world, from_cursor[:size])
    cursor = (next_partition[0].topic, next_partition[0].number) if next_partition else None
    return DescribeTopicPartitionsResponse(answers, cursor)


def _topics(world: World, partitions: Iterable[TopicPartition]) -> tuple[TopicAnswer, ...]:
    live = {broker.id for broker in world.image.brokers.values() if not broker.fenced}
    grouped = ((name, list(several)) for name, several in groupby(partitions, key=lambda each: each.topic))
    return tuple(
        TopicAnswer(NONE, name, several[0].topic_id, tuple(_partition(partition, live) for partition in several))
        for name, several in grouped
    )


def _partition(partition: TopicPartition, live: Collection[int]) -> PartitionAnswer:
    state = partition.state
    return PartitionAnswer(
        LEADER_NOT_AVAILABLE if state.leader == NO_LEADER else NONE,
        partition.number,
        state.leader,
        state.leader_epoch,
        state.replicas,
        tuple(each for each in state.replicas if each in state.in_sync),
        offline=tuple(each for each in state.replicas if each not in live),
    )


def reassignments(world: World) -> ListPartitionReassignmentsResponse:
    """Reassignments in progress, of all topics: rights on topics hide none."""
    moving = {
        (each.topic, each.number): Reassignment(
            each.state.replicas, tuple(sorted(each.state.adding)), tuple(sorted(each.state.removing))
        )
        for each in _all(world)
        if each.state.adding or each.state.removing
    }
    return ListPartitionReassignmentsResponse(NONE, None, moving)


def log_dirs(world: World, node: Node) -> DescribeLogDirsResponse:
    """Partitions that this broker has a replica of, those of hidden topics too."""
    hosted = [each for each in _all(world) if node.id in each.state.replicas]
    topics = {
        name: frozenset(each.number for each in partitions_of_topic)
        for name, partitions_of_topic in groupby(hosted, key=lambda each: each.topic)
    }
    return DescribeLogDirsResponse(NONE, (LogDir(NONE, f"/simulated/{node.id}", topics),))


def configs(world: World, node: Node, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """min.insync.replicas of topics, and settings and the request logger of this node."""
    configs_of = _CONFIGS_OF.get(request.resource, _of_another_broker)
    configs = {}
    for name in request.names:
        answer = configs_of(world, node, name)
        entries = {key: value for key, value in answer.entries.items() if not request.keys or key in request.keys}
        configs[name] = answer._replace(entries=entries)
    return DescribeConfigsResponse(configs)


def _of_topic(world: World, node: Node, name: str) -> ConfigAnswer:
    if name in world.hidden_topics:
        return ConfigAnswer(TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.", {})
    if all(each.topic != name for each in _all(world)):
        return ConfigAnswer(UNKNOWN_TOPIC_OR_PARTITION, None, {})
    of_topic = world.image.partitions.min_insync_replicas.topics.get(name)
    layers: dict[int, str] = {} if of_topic is None else {SET_ON_TOPIC: str(of_topic)}
    return ConfigAnswer(NONE, None, {MIN_INSYNC_REPLICAS: _entry({**layers, **minimum_layers(world, node)})})


def _of_node(world: World, node: Node, name: str) -> ConfigAnswer:
    if name != str(node.id):
        return _of_another_broker(world, node, name)
    settings = {key: setting for key in names_of(node) if (setting := setting_of(world, node, key)) is not None}
    return ConfigAnswer(NONE, None, {key: _of_setting(setting) for key, setting in settings.items()})


def _of_another_broker(world: World, node: Node, name: str) -> ConfigAnswer:
    """The error for configs of another broker, which only that broker has."""
    return ConfigAnswer(INVALID_REQUEST, f"Unexpected broker id, expected {node.id}, but received {name}", {})


def _of_loggers(world: World, node: Node, name: str) -> ConfigAnswer:
    """The request logger alone. Sources: `ConfigHelper.scala`, `Log4jController.scala`."""
    if name != str(node.id):
        return _of_another_broker(world, node, name)
    return ConfigAnswer(NONE, None, {REQUEST_LOGGER: ConfigEntry(node.request_log_level, _LOGGER_LEVEL)})


def set_logger_level(node: Node, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Set a level until the process ends. Source: `RuntimeLoggerManager.java`."""
    if request.broker_id != node.id:
        text = f"Unexpected node id. Expected {node.id}, but received {request.broker_id}"
        return IncrementalAlterConfigsResponse(INVALID_REQUEST, text)
    if request.logger != REQUEST_LOGGER:
        return IncrementalAlterConfigsResponse(INVALID_CONFIG, f"Logger {request.logger} does not exist!")
    node.request_log_level = request.level
    return IncrementalAlterConfigsResponse(NONE, None)


_CONFIGS_OF = {TOPIC_RESOURCE: _of_topic, BROKER_RESOURCE: _of_node, LOGGER_RESOURCE: _of_loggers}


def _of_setting(setting: Setting) -> ConfigEntry:
    if setting.layers:
        return _entry(setting.layers, read_only=setting.is_read_only)
    return ConfigEntry(
        setting.value, int(setting.source), {}, is_sensitive=setting.is_secret, is_read_only=setting.is_read_only
    )


def _entry(layers: Mapping[Any, str], *, read_only: bool = False) -> ConfigEntry:
    """The entry of a config with these values by source, the strongest first."""
    by_source = {int(source): value for source, value in layers.items()}
    strongest = next(iter(by_source))
    return ConfigEntry(by_source[strongest], strongest, by_source, is_read_only=read_only)


def _all(world: World) -> list[TopicPartition]:
    """All partitions, as brokers know them."""
    return list(partitions_in(world.image)) if world.image.partitioned is not None else []


def _visible(world: World) -> list[TopicPartition]:
    return [each for each in _all(world) if each.topic not in world.hidden_topics]
