"""Recorded answers of real nodes about topics, partitions and configs, and the values that are decoded."""

from __future__ import annotations

from typing import Any

import pytest
from kio.index import load_response_schema

from kafkafeatures.core.facts.settings import SettingSource
from kafkafeatures.kafka.wire.codec import decode_response, every_api
from kafkafeatures.kafka.wire.topic_messages import (
    BROKER_RESOURCE,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
)
from tests.fuzz.replies import Reply, replies
from tests.kafkafeatures.kafka.wire.test_codec import rewritten

NEW = (32, 35, 46, 75)  # APIs that `test_codec.py` has no recordings of

MIN = "min.insync.replicas"


def answers(message: Any) -> list[Any]:
    """The recorded answers to this request, of each release, in every version that we send."""
    found = []
    for one in replies():
        ours = every_api()[one.api].versions
        if one.of.endswith(f"broker: {message}") and ours.min <= one.version <= ours.max:
            found.append(decode_response(one.api, one.version, one.data)[1])
    assert len(found) >= 3, message
    return found


@pytest.mark.parametrize("reply", [one for one in replies() if one.api in NEW], ids=lambda one: one.of)
def test_every_recorded_reply_is_encoded_again_bit_for_bit(reply: Reply) -> None:
    assert rewritten(load_response_schema(reply.api, reply.version), reply.data) == reply.data


def test_metadata_and_describe_topic_partitions_answers_agree() -> None:
    pages, lists = answers(DescribeTopicPartitionsRequest()), answers(MetadataRequest(all_topics=True))
    for answer in (*pages, *lists):
        ((code, name, _, partitions, _),) = answer.topics
        assert (code, name) == (0, "orders")
        assert [one.partition for one in sorted(partitions, key=lambda one: one.partition)] == [0, 1, 2, 3, 4]
        for one in partitions:
            assert sorted(one.replicas) == sorted(one.in_sync) == [1, 2]
            assert one.leader == one.replicas[0]
            assert one.leader_epoch >= 0
    assert all(answer.cursor is None for answer in pages)
    assert all(answer.topics[0].id is not None for answer in pages)


def test_a_page_of_partitions_has_the_cursor_of_the_next_page() -> None:
    for first in answers(DescribeTopicPartitionsRequest(limit=2)):
        assert first.cursor == ("orders", 2)
        assert [one.partition for one in first.topics[0].partitions] == [0, 1]
    for rest in answers(DescribeTopicPartitionsRequest(cursor=("orders", 3))):
        assert [one.partition for one in rest.topics[0].partitions] == [3, 4]
        assert rest.cursor is None


def test_log_dirs_of_a_broker_list_its_replicas() -> None:
    for answer in answers(DescribeLogDirsRequest()):
        assert answer.error_code == 0
        (directory,) = answer.directories
        assert directory.error_code == 0
        assert directory.hosted == {"orders": frozenset(range(5))}


def test_an_answer_of_a_cluster_without_reassignments_lists_none() -> None:
    for answer in answers(ListPartitionReassignmentsRequest()):
        assert (answer.error_code, answer.reassignments) == (0, {})


def test_a_topic_without_own_configs_has_the_values_of_the_broker() -> None:
    for answer in answers(DescribeConfigsRequest(names=("orders", "nobody"), keys=(MIN,))):
        assert answer.configs["orders"].entries[MIN].value == "1"
        # Set for all brokers of the cluster where ELR is on, else the default; never on the topic or on one broker.
        assert answer.configs["orders"].entries[MIN].source >= SettingSource.ALL_BROKERS
        assert answer.configs["nobody"].error_code == 3  # UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_answers_for_its_own_configs_only() -> None:
    for answer in answers(DescribeConfigsRequest(BROKER_RESOURCE, ("1",), (MIN,))):
        assert answer.configs["1"].entries[MIN].value == "1"
        assert answer.configs["1"].entries[MIN].layers[SettingSource.DEFAULT] == "1"
    for answer in answers(DescribeConfigsRequest(BROKER_RESOURCE, ("2",), (MIN,))):
        assert answer.configs["2"].error_code == 42  # INVALID_REQUEST
