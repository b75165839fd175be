"""The new replicas that are proposed for partitions with a replica on a broker that is gone (here broker 4)."""

from __future__ import annotations

from kafkafeatures.core.facts.readings import Host
from kafkafeatures.kafka.requests.unregister import moved_from
from kafkafeatures.kafka.wire.topic_messages import MetadataResponse, PartitionAnswer, TopicAnswer


def topic(name: str, *replicas: tuple[int, ...]) -> TopicAnswer:
    """A topic whose partitions have these replicas."""
    parts = tuple(PartitionAnswer(0, number, ids[0], 1, ids, ids) for number, ids in enumerate(replicas))
    return TopicAnswer(0, name, None, parts)


def answer(live: tuple[int, ...], *topics: TopicAnswer) -> MetadataResponse:
    return MetadataResponse("c", 1, tuple(Host(id_, "h", id_) for id_ in live), topics)


def test_each_replica_goes_to_a_live_broker_that_has_none_of_the_partition() -> None:
    moves = moved_from(answer((1, 2, 3), topic("orders", (1, 2, 4), (2, 4, 3), (4, 1)), topic("audit", (1, 2, 3))), 4)
    assert moves[:2] == (("orders", 0, (1, 2, 3)), ("orders", 1, (2, 1, 3)))
    assert moves[2][:2] == ("orders", 2)
    assert moves[2][2] in {(2, 1), (3, 1)}
    assert len(moves) == 3  # no new replicas for the topic "audit", which has none on broker 4


def test_a_partition_gets_one_replica_fewer_if_no_live_broker_can_take_the_replica() -> None:
    assert moved_from(answer((1, 2), topic("orders", (1, 2, 4))), 4) == (("orders", 0, (1, 2)),)


def test_no_new_replica_is_proposed_for_a_partition_whose_only_replica_is_gone() -> None:
    """An empty replica elsewhere would hide that the data is lost."""
    assert moved_from(answer((1, 2), topic("single", (4,))), 4) == ()
