"""Answers of simulated brokers about topics, to the requests of an ordinary client."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Role
from kafkafeatures.kafka.base.errors import ErrorCode
from kafkasim.plan import TopicPlan
from tests.kafkasim.clusters import plan, served
from tests.kafkasim.test_wire import ask, kio

BROKER = Role.BROKER
TOPICS = (TopicPlan("orders", ((1, 2, 3), (2, 3, 1)), 2), TopicPlan("stock", ((3, 1),)))
CLUSTER = replace(plan(), topics=TOPICS, min_insync_replicas=2)
KEY = "min.insync.replicas"
TOPIC_CONFIGS, BROKER_CONFIGS = 2, 4
"""Types of resources in DescribeConfigs."""
OF_TOPIC, OF_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 2, 3, 4, 5
"""Sources of a value in DescribeConfigs."""


def configs_of(kind: int, *names: str) -> Any:
    messages = kio(32, 4)
    resources = tuple(
        messages.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=(KEY,))
        for name in names
    )
    return messages.DescribeConfigsRequest(resources=resources, include_synonyms=True)


def pages_of(limit: int, cursor: Any = None) -> Any:
    messages = kio(75, 0)
    at = None if cursor is None else messages.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    return messages.DescribeTopicPartitionsRequest(topics=(), response_partition_limit=limit, cursor=at)


def metadata_of(topics: Any) -> Any:
    return kio(3, 12).MetadataRequest(topics=topics, include_topic_authorized_operations=False)


async def test_partitions_come_in_pages_with_their_isr() -> None:
    async with served(CLUSTER) as server:
        first = await ask(server, BROKER, 1, 0, pages_of(1))
        (topic,) = first.topics
        (partition,) = topic.partitions
        assert (topic.name, partition.partition_index, partition.leader_id) == ("orders", 0, 1)
        assert (partition.replica_nodes, partition.isr_nodes) == ((1, 2, 3), (1, 2, 3))
        at = first.next_cursor
        second = await ask(server, BROKER, 1, 0, pages_of(9, (at.topic_name, at.partition_index)))
        assert [(one.name, len(one.partitions)) for one in second.topics] == [("orders", 1), ("stock", 1)]
        assert second.next_cursor is None


async def test_metadata_answers_for_all_topics_or_for_named_ones_and_marks_unknown_names() -> None:
    messages = kio(3, 12)
    named = (messages.MetadataRequestTopic(name="stock", topic_id=None),)
    unknown = (messages.MetadataRequestTopic(name="nothing", topic_id=None),)
    async with served(CLUSTER) as server:
        everything = await ask(server, BROKER, 2, 12, metadata_of(None))
        assert [(one.name, len(one.partitions)) for one in everything.topics] == [("orders", 2), ("stock", 1)]
        one = await ask(server, BROKER, 2, 12, metadata_of(named))
        assert [each.name for each in one.topics] == ["stock"]
        none = await ask(server, BROKER, 2, 12, metadata_of(unknown))
        assert none.topics[0].error_code.value == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        empty = await ask(server, BROKER, 2, 12, metadata_of(()))
        assert empty.topics == ()


async def test_a_topic_without_describe_is_left_out_of_answers_but_not_of_log_dirs() -> None:
    async with served(CLUSTER) as server:
        server.world.hidden_topics = frozenset({"stock"})
        found = await ask(server, BROKER, 1, 0, pages_of(9))
        assert [one.name for one in found.topics] == ["orders"]
        (disk,) = (await ask(server, BROKER, 1, 4, kio(35, 4).DescribeLogDirsRequest(topics=None))).results
        assert [one.name for one in disk.topics] == ["orders", "stock"]
        (other,) = (await ask(server, BROKER, 2, 4, kio(35, 4).DescribeLogDirsRequest(topics=None))).results
        assert [one.name for one in other.topics] == ["orders"]
        (refused,) = (await ask(server, BROKER, 1, 4, configs_of(TOPIC_CONFIGS, "stock"))).results
        assert refused.error_code.value == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_min_insync_replicas_comes_from_topic_then_broker_then_default_config_then_file() -> None:
    async with served(CLUSTER) as server:

        async def layers(kind: int, name: str) -> tuple[str, list[tuple[int, str]]]:
            (result,) = (await ask(server, BROKER, 1, 4, configs_of(kind, name))).results
            (config,) = result.configs
            return config.value, [(one.source, one.value) for one in config.synonyms]

        assert await layers(TOPIC_CONFIGS, "orders") == ("2", [(OF_TOPIC, "2"), (STATIC, "2"), (DEFAULT, "1")])
        assert await layers(BROKER_CONFIGS, "1") == ("2", [(STATIC, "2"), (DEFAULT, "1")])
        await server.act(lambda world: world.configure(3))
        await server.act(lambda world: world.configure(1, broker_id=1))
        await server.until(lambda world: world.log.high_watermark == world.log.end_offset)
        of_broker = ("1", [(OF_BROKER, "1"), (DYNAMIC_DEFAULT, "3"), (STATIC, "2"), (DEFAULT, "1")])
        assert await layers(BROKER_CONFIGS, "1") == of_broker
        assert await layers(TOPIC_CONFIGS, "stock") == of_broker


async def test_a_broker_does_not_report_the_configuration_of_another_broker() -> None:
    async with served(CLUSTER) as server:
        (result,) = (await ask(server, BROKER, 1, 4, configs_of(BROKER_CONFIGS, "2"))).results
        assert result.error_code.value == ErrorCode.INVALID_REQUEST


async def test_partitions_in_reassignment_are_listed() -> None:
    request = kio(46, 0).ListPartitionReassignmentsRequest(timeout=timedelta(seconds=1), topics=None)
    async with served(CLUSTER) as server:
        assert (await ask(server, BROKER, 1, 0, request)).topics == ()
        await server.act(lambda world: world.reassign("stock", 0, (2, 1)))
        await server.until(lambda world: world.log.high_watermark == world.log.end_offset)
        (topic,) = (await ask(server, BROKER, 1, 0, request)).topics
        (moving,) = topic.partitions
        assert (moving.adding_replicas, moving.removing_replicas) == ((2,), (3,))
