"""What a broker answers about topics: their partitions, what is being moved, configurations, and what is on its disks.

Called by `answers`. As Kafka does, it leaves out topics that a client may not see (`World.hidden_topics`), and says
nothing of it; only what lies on the disks shows them. Of configurations there are min.insync.replicas and, of a node,
how often it writes a snapshot.

Source: `KafkaApis.scala`, `DescribeTopicPartitionsRequestHandler.java`, `ConfigHelper.scala`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from kafkasim.node import Node
from kafkasim.replicas import MIN_INSYNC_REPLICAS, NO_LEADER, Found, found_in
from kafkasim.settings import NAMES, minimum_layers, setting_of
from kafkasim.world import World

Answer = Mapping[str, Any]

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
TOPIC_AUTHORIZATION_FAILED = 29
INVALID_REQUEST = 42
UNKNOWN_TOPIC_ID = 100

NO_OPERATIONS = -(1 << 31)  # the allowed operations were not asked for
_LIMIT = 2_000  # max.request.partition.size.limit
_SIZE = 1_000  # bytes of a partition; nothing depends on it
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_OF_TOPIC = 1  # DescribeConfigsResponse.ConfigSource; the others are those of a setting
_INT = 3


def metadata_topics(world: World, asked: Iterable[Any] | None) -> list[Answer]:
    """The topics of a Metadata answer: all that may be seen, or those that are named."""
    there = {name: list(found) for name, found in groupby(_visible(world), key=lambda each: each.topic)}
    if asked is None:
        return [_topic(world, name, found) for name, found in there.items()]
    names: dict[Any, str] = {found[0].topic_id: name for name, found in there.items()}
    answers = []
    for one in asked:
        name = names.get(getattr(one, "topic_id", None), "") if one.name is None else one.name
        answers.append(_topic(world, name, there[name]) if name in there else _unknown(one))
    return answers


def _unknown(asked: Any) -> Answer:
    return {
        "error_code": UNKNOWN_TOPIC_ID if asked.name is None else UNKNOWN_TOPIC_OR_PARTITION,
        "name": asked.name,
        "topic_id": getattr(asked, "topic_id", None),
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _topic(world: World, name: str, found: Iterable[Found]) -> Answer:
    several = list(found)
    return {
        "error_code": NONE,
        "name": name,
        "topic_id": several[0].topic_id,
        "is_internal": name.startswith("__"),
        "partitions": [_partition(world, each) for each in several],
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _partition(world: World, found: Found) -> Answer:
    state = found.state
    live = {each.id for each in world.image.brokers.values() if not each.fenced}
    return {
        "error_code": LEADER_NOT_AVAILABLE if state.leader == NO_LEADER else NONE,
        "partition_index": found.number,
        "leader_id": state.leader,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": tuple(each for each in state.replicas if each in state.in_sync),
        "eligible_leader_replicas": (),
        "last_known_elr": (),
        "offline_replicas": tuple(each for each in state.replicas if each not in live),
    }


def describe_topic_partitions(world: World, request: Any) -> Answer:
    """In pages, from a cursor on."""
    wanted = {each.name for each in request.topics}
    begin = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
    there = [
        each for each in _visible(world) if (not wanted or each.topic in wanted) and (each.topic, each.number) >= begin
    ]
    size = min(request.response_partition_limit, _LIMIT)
    page, rest = there[:size], there[size:]
    cursor = {"topic_name": rest[0].topic, "partition_index": rest[0].number} if rest else None
    topics = [_topic(world, name, found) for name, found in groupby(page, key=lambda each: each.topic)]
    return {"throttle_time": 0, "topics": topics, "next_cursor": cursor}


def list_reassignments(world: World, request: Any) -> Answer:
    """What is being moved, of all topics: rights on topics hide none."""
    moving = [each for each in _all(world) if each.state.adding or each.state.removing]
    named = None if request.topics is None else {each.name for each in request.topics}
    topics = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": each.number,
                    "replicas": each.state.replicas,
                    "adding_replicas": tuple(sorted(each.state.adding)),
                    "removing_replicas": tuple(sorted(each.state.removing)),
                }
                for each in found
            ],
        }
        for name, found in groupby(moving, key=lambda each: each.topic)
        if named is None or name in named
    ]
    return {"throttle_time": 0, "error_code": NONE, "error_message": None, "topics": topics}


def describe_log_dirs(world: World, node: Node, request: Any) -> Answer:
    """Every topic that this broker has a replica of, hidden ones too."""
    hosted = [each for each in _all(world) if node.id in each.state.replicas]
    named = None if request.topics is None else {each.topic for each in request.topics}
    topics = [
        {
            "name": name,
            "partitions": [
                {"partition_index": each.number, "partition_size": _SIZE, "offset_lag": 0, "is_future_key": False}
                for each in found
            ],
        }
        for name, found in groupby(hosted, key=lambda each: each.topic)
        if named is None or name in named
    ]
    result = {"error_code": NONE, "log_dir": f"/simulated/{node.id}", "topics": topics, "is_cordoned": False}
    return {"throttle_time": 0, "error_code": NONE, "results": [result]}


def describe_configs(world: World, node: Node, request: Any) -> Answer:
    """min.insync.replicas of topics, and of this broker."""
    results = [_configs(world, node, each, synonyms=request.include_synonyms) for each in request.resources]
    return {"throttle_time": 0, "results": results}


def _configs(world: World, node: Node, resource: Any, *, synonyms: bool) -> Answer:
    kind, name, wanted = resource.resource_type, resource.resource_name, resource.configuration_keys
    answer = {"error_message": None, "resource_type": kind, "resource_name": name, "configs": []}
    if kind == _TOPIC_RESOURCE:
        if name in world.hidden_topics:
            return answer | {"error_code": TOPIC_AUTHORIZATION_FAILED, "error_message": "Topic authorization failed."}
        if all(each.topic != name for each in _all(world)):
            return answer | {"error_code": UNKNOWN_TOPIC_OR_PARTITION}
        of_topic = world.image.partitions.min_insync_replicas.topics.get(name)
        layers = minimum_layers(world, node.id).items()
        set_ = () if of_topic is None else ((_OF_TOPIC, str(of_topic)),)
        there = [_config(MIN_INSYNC_REPLICAS, (*set_, *layers), synonyms=synonyms)]
    elif kind != _BROKER_RESOURCE or name != str(node.id):
        text = f"Unexpected broker id, expected {node.id}, but received {name}"
        return answer | {"error_code": INVALID_REQUEST, "error_message": text}
    else:
        settings = {key: setting_of(world, node, key) for key in NAMES}
        there = [
            _config(key, one.layers.items(), synonyms=synonyms, read_only=one.is_read_only)
            for key, one in settings.items()
            if one is not None
        ]
    configs = [one for one in there if wanted is None or one["name"] in wanted]
    return answer | {"error_code": NONE, "configs": configs}


def _config(key: str, layers: Iterable[tuple[int, str]], *, synonyms: bool, read_only: bool = False) -> Answer:
    """`layers`: the strongest first."""
    every = [{"name": key, "value": text, "source": int(source)} for source, text in layers]
    return {
        "name": key,
        "value": every[0]["value"],
        "read_only": read_only,
        "config_source": every[0]["source"],
        "is_sensitive": False,
        "synonyms": every if synonyms else [],
        "config_type": _INT,
        "documentation": None,
    }


def _all(world: World) -> list[Found]:
    """All partitions, as brokers know them."""
    return list(found_in(world.image)) if world.image.partitioned is not None else []


def _visible(world: World) -> list[Found]:
    return [each for each in _all(world) if each.topic not in world.hidden_topics]
