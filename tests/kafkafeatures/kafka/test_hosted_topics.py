"""Replicas of a broker that is gone: the new replicas that are proposed for each of its partitions."""

from __future__ import annotations

from kafkafeatures.core.facts.readings import Host
from kafkafeatures.kafka.requests.unregister import moved_from
from kafkafeatures.kafka.wire.topic_messages import MetadataResponse, PartitionAnswer, TopicAnswer


def topic(name: str, *replicas: tuple[int, ...]) -> TopicAnswer:
    parts = tuple(PartitionAnswer(0, number, ids[0], 1, ids, ids) for number, ids in enumerate(replicas))
    return TopicAnswer(0, name, None, parts)


def answer(live: tuple[int, ...], *topics: TopicAnswer) -> MetadataResponse:
    return MetadataResponse("c", 1, tuple(Host(id_, "h", id_) for id_ in live), topics)


def test_each_replica_goes_to_a_live_broker_that_has_none_of_the_partition() -> None:
    found = moved_from(answer((1, 2, 3), topic("orders", (1, 2, 4), (2, 4, 3), (4, 1)), topic("audit", (1, 2, 3))), 4)
    assert found[:2] == (("orders", 0, (1, 2, 3)), ("orders", 1, (2, 1, 3)))
    assert found[2][:2] == ("orders", 2)
    assert found[2][2] in {(2, 1), (3, 1)}
    assert len(found) == 3  # partitions without a replica there stay as they are


def test_a_partition_gets_one_replica_fewer_if_no_live_broker_can_take_the_replica() -> None:
    assert moved_from(answer((1, 2), topic("orders", (1, 2, 4))), 4) == (("orders", 0, (1, 2)),)


def test_the_only_replica_of_a_partition_is_never_proposed_away() -> None:
    """An empty replica that takes its place would hide that the data is lost."""
    assert moved_from(answer((1, 2), topic("single", (4,))), 4) == ()
