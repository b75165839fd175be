"""Partitions of a live cluster, from its metadata log and by requests, compared with those of an independent client.

All tests of this file use one cluster, in their order: three brokers and an authorizer. `alice` may read the metadata
log. `bob` may not, but may describe every topic, until the last tests revoke that right.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import Failure, FailureKind, LogReading, PartitionsReading, Readings, Role
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.errors import UnsupportedApi
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address, ClusterSettings, Sasl, Security, parse_addresses
from kafkafeatures.kafka.cluster import Cluster as Client
from kafkafeatures.kafka.partitions import asked as asked_partitions
from kafkafeatures.kafka.wire.messages import Request
from kafkafeatures.kafka.wire.pem import Tls
from kafkafeatures.kafka.wire.topic_messages import DescribeTopicPartitionsRequest
from kraftlog.partitions import Partition
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.cluster import Cluster
from tests.e2e.rig.held import admin, hold_broker_default, hold_rights, hold_topic
from tests.e2e.rig.listeners import USERS
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import NEWEST

EVERY_TOPIC = ResourcePattern(ResourceType.TOPIC, "*")
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
SHORT_SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
MIN_INSYNC = "min.insync.replicas"

Rows = dict[tuple[str, int], Partition]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(
        tmp_path_factory.mktemp("partitions"), NEWEST, controllers=1, brokers=3, kind="PLAIN", authorizer=True,
        properties=SHORT_SESSIONS,
    )  # fmt: skip
    with made as running:
        hold_topic(running, "orders", {at: [at % 3 + 1, (at + 1) % 3 + 1, (at + 2) % 3 + 1] for at in range(5)})
        hold_topic(running, "payments", {at: [1, 2, 3] for at in range(3)}, **{MIN_INSYNC: "2"})
        hold_topic(running, "alone", {0: [2], 1: [3]})
        hold_rights(running, "alice", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS")
        hold_rights(running, "bob", "DESCRIBE", "DESCRIBE_CONFIGS")
        hold_rights(running, "bob", "DESCRIBE", "DESCRIBE_CONFIGS", resource=EVERY_TOPIC)
        yield running


def settings(cluster: Cluster, user: str) -> ClusterSettings:
    login = Security(Tls(ca=cluster.certificates.ca), Sasl("PLAIN", user, USERS[user]))
    return ClusterSettings(parse_addresses(cluster.bootstrap_servers, ""), brokers=login, controllers=login)


def read(cluster: Cluster, user: str, *, partitions: bool = True) -> Readings:
    async def once() -> Readings:
        async with Client(settings(cluster, user), environment=SYSTEM) as client:
            return await client.read(partitions=partitions)

    return asyncio.run(once())


def of_log(cluster: Cluster) -> PartitionsReading | Failure:
    """The partitions that `alice` reads from the metadata log."""
    log, partitions = read(cluster, "alice")[1:]
    assert isinstance(log, LogReading), log
    assert isinstance(partitions, Failure) or partitions.offset == log.image.offset
    return partitions


def requested(cluster: Cluster) -> PartitionsReading | Failure:
    """The partitions that `bob` reads by requests, because he may not read the log."""
    log, partitions = read(cluster, "bob")[1:]
    assert isinstance(log, Failure)
    assert log.kind is FailureKind.AUTHORIZATION
    assert isinstance(partitions, Failure) or partitions.offset == -1
    return partitions


def comparable(found: PartitionsReading) -> Rows:
    """The rows without the fields that the answers of brokers do not have."""
    rows = found.partitions.rows()
    return {(name, at): replace(row, partition_epoch=0, is_recovering=False) for name, at, row in rows}


def theirs(cluster: Cluster) -> Rows:
    """The rows that an independent client reads."""
    with admin(cluster) as client:
        names = sorted(client.list_topics())
        topics: list[Any] = client.describe_topic_partitions(names)["topics"]
        moving = client.list_partition_reassignments()
    rows = {}
    for topic in topics:
        for partition in topic["partitions"]:
            at = topic["name"], partition["partition_index"]
            moved = moving.get(TopicPartition(*at), {"adding_replicas": (), "removing_replicas": ()})
            rows[at] = Partition(
                tuple(partition["replica_nodes"]),
                frozenset(partition["isr_nodes"]),
                frozenset(partition["eligible_leader_replicas"] or ()),
                frozenset(moved["adding_replicas"]),
                frozenset(moved["removing_replicas"]),
                partition["leader_id"],
                partition["leader_epoch"],
                0,
            )
    return rows


def agree(cluster: Cluster, holds: Callable[[Rows], object]) -> Rows:
    """Read until `holds` is true for the rows, and assert that the log, requests and the independent client agree.

    If the cluster changed during the reading, it is read again.
    """
    until = time.monotonic() + 60
    while True:
        before, logged, by_requests, after = theirs(cluster), of_log(cluster), requested(cluster), theirs(cluster)
        both = isinstance(logged, PartitionsReading) and isinstance(by_requests, PartitionsReading)
        if both and before == after and holds(before):
            break
        assert time.monotonic() < until, (before, logged, by_requests)
    assert isinstance(logged, PartitionsReading)
    assert isinstance(by_requests, PartitionsReading)
    assert comparable(logged) == before
    assert comparable(by_requests) == before
    assert logged.partitions.min_insync_replicas.topics == by_requests.partitions.min_insync_replicas.topics
    assert logged.default_min_insync_replicas == by_requests.default_min_insync_replicas
    names = [{topic.id: topic.name for topic in each.partitions.topics.values()} for each in (logged, by_requests)]
    assert names[0] == names[1]
    return before


def whole(reading: PartitionsReading | Failure) -> PartitionsReading:
    assert isinstance(reading, PartitionsReading), reading
    return reading


def test_partitions_of_the_log_and_of_api_requests_are_those_that_an_independent_client_reads(cluster: Cluster) -> None:
    found = agree(cluster, lambda rows: all(len(one.in_sync) == len(one.replicas) for one in rows.values()))
    assert len(found) == 10
    assert whole(of_log(cluster)).partitions.min_insync_replicas.topics == {"payments": 2}


def test_a_broker_without_describe_topic_partitions_is_asked_for_metadata(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a broker is older than Kafka 3.8, and has no eligible leader replicas (ELR) either."""

    class Older(Pool):
        async def ask(self, address: Address, role: Role, message: Request[Any], **options: Any) -> Any:
            if isinstance(message, DescribeTopicPartitionsRequest):
                raise UnsupportedApi("the node does not offer DescribeTopicPartitions")
            return await super().ask(address, role, message, **options)

    monkeypatch.setattr("kafkafeatures.kafka.cluster.Pool", Older)
    assert comparable(whole(requested(cluster))) == theirs(cluster)


def test_pages_of_partitions_are_read_to_the_last(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small pages end in the middle of topics."""
    requests: list[DescribeTopicPartitionsRequest] = []

    def small(cursor: tuple[str, int] | None) -> DescribeTopicPartitionsRequest:
        requests.append(DescribeTopicPartitionsRequest(cursor, limit=2))
        return requests[-1]

    monkeypatch.setattr(asked_partitions, "DescribeTopicPartitionsRequest", small)
    assert comparable(whole(requested(cluster))) == theirs(cluster)
    assert len(requests) == 5  # ten partitions, two in each page


def test_a_default_that_a_request_sets_for_all_brokers_applies_in_the_next_reading(cluster: Cluster) -> None:
    """The brokers are not asked again, because the log has this default."""

    async def before_and_after() -> list[int]:
        found = []
        async with Client(settings(cluster, "alice"), environment=SYSTEM) as client:
            for value in ("1", "2"):
                hold_broker_default(cluster.brokers[0], MIN_INSYNC, value)
                found.append(whole((await client.read(partitions=True)).partitions).default_min_insync_replicas)
        return found

    assert asyncio.run(before_and_after()) == [1, 2]
    wait_until("the brokers heard of it", lambda: whole(requested(cluster)).default_min_insync_replicas == 2)
    hold_broker_default(cluster.brokers[0], MIN_INSYNC, "1")
    wait_until("the brokers heard of it", lambda: whole(requested(cluster)).default_min_insync_replicas == 1)


def test_a_broker_that_was_killed_leaves_the_isr(cluster: Cluster) -> None:
    """Until a killed broker is fenced, the partitions are unknown. Its file may have the highest min.insync.replicas,
    and its disks may have topics that the user may not see.

    After that, its disks are not needed: other brokers have the same replicas, or none that is available does.
    """
    cluster.nodes[3].kill()
    for user in ("alice", "bob"):
        found = read(cluster, user).partitions
        assert isinstance(found, Failure), found
        assert found.kind is FailureKind.NOT_LISTENING
    kill(cluster, 3)
    rows = agree(cluster, lambda rows: not any(3 in one.in_sync for one in rows.values() if len(one.replicas) > 1))
    assert rows["alone", 1].eligible == {3}
    assert rows["alone", 1].leader == -1


def kill(cluster: Cluster, broker: int) -> None:
    """Kill a broker and wait until it is fenced: the independent client would connect to it while it is listed."""
    cluster.nodes[broker].kill()
    port = cluster.nodes[1].ports[cluster.internal]
    wait_until(f"broker {broker} is fenced", lambda: broker not in listed_brokers(port))


def test_a_reassignment_that_is_running_is_shown(cluster: Cluster) -> None:
    """The reassignment cannot end, because the new replica is on a broker that is gone."""
    with admin(cluster) as client:
        done = client.alter_partition_reassignments({TopicPartition("alone", 0): [3, 1]})
    assert set(done.values()) == {None}
    found = agree(cluster, lambda rows: rows["alone", 0].adding)
    assert found["alone", 0].adding == {1, 3}
    assert found["alone", 0].removing == {2}
    assert set(found["alone", 0].replicas) == {1, 2, 3}


def test_replicas_that_are_eligible_without_being_in_sync_are_shown(cluster: Cluster) -> None:
    kill(cluster, 2)
    found = agree(cluster, lambda rows: rows["payments", 0].in_sync == {1})
    assert found["payments", 0].eligible
    cluster.heal()
    agree(cluster, lambda rows: all(len(rows["orders", at].in_sync) == 3 for at in range(5)))


def test_the_reader_of_the_log_drops_partitions_that_no_reading_needs(cluster: Cluster) -> None:
    async def with_and_without() -> tuple[LogReading, LogReading, bool]:
        async with Client(settings(cluster, "alice"), environment=SYSTEM) as client:
            first, second = (await client.read(partitions=True)).log, (await client.read()).log
            assert isinstance(first, LogReading)
            assert isinstance(second, LogReading)
            return first, second, await client.unchanged()

    first, second, unchanged = asyncio.run(with_and_without())
    assert first.image.partitioned is not None
    assert second.image.partitioned is None
    assert replace(first.image, partitioned=None, offset=0, timestamp_ms=0, counts={}) == replace(
        second.image, offset=0, timestamp_ms=0, counts={}
    )
    assert unchanged


def drop_topic_rights(cluster: Cluster) -> None:
    every = ResourcePatternFilter(ResourceType.TOPIC, None, ACLResourcePatternType.ANY)
    with admin(cluster) as client:
        client.delete_acls([ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, every)])


def refused(cluster: Cluster, user: str, words: str) -> Failure:
    """The failure of a reading whose message contains `words`, as soon as the change of rights is in effect."""
    failures: list[Failure] = []

    def is_refused() -> bool:
        last = read(cluster, user).partitions
        if isinstance(last, Failure) and words in last.message:
            failures.append(last)
        return bool(failures)

    wait_until(f"a failure for {user} names {words}", is_refused)
    return failures[0]


def test_a_topic_that_is_hidden_from_the_user_is_a_failure_with_its_missing_right(cluster: Cluster) -> None:
    """Kafka leaves the topic out of its answers, without an error."""
    drop_topic_rights(cluster)
    hold_rights(cluster, "bob", "DESCRIBE", "DESCRIBE_CONFIGS", resource=ORDERS)
    hold_rights(cluster, "bob", "DESCRIBE", "DESCRIBE_CONFIGS", resource=ResourcePattern(ResourceType.TOPIC, "alone"))

    found = refused(cluster, "bob", "payments")
    assert found.kind is FailureKind.AUTHORIZATION
    assert "hosts partitions that are not shown to User:bob: of payments" in found.message
    assert found.remedy.endswith(
        " --add --allow-principal User:bob --operation Describe --operation DescribeConfigs --topic '*'"
    )


def test_a_topic_whose_configs_the_user_may_not_read_is_named(cluster: Cluster) -> None:
    hold_rights(cluster, "bob", "DESCRIBE", resource=ResourcePattern(ResourceType.TOPIC, "payments"))
    found = refused(cluster, "bob", MIN_INSYNC)
    assert found.kind is FailureKind.AUTHORIZATION
    assert found.message == "min.insync.replicas of the topic payments is not shown to User:bob"


def test_a_missing_right_on_the_cluster_is_named_with_the_command_that_grants_it(cluster: Cluster) -> None:
    """The right is needed even by a user who may read the log: the log does not have the files of brokers."""
    drop_cluster_right(cluster, "alice", ACLOperation.DESCRIBE_CONFIGS)
    found = refused(cluster, "alice", "DESCRIBE_CONFIGS")
    assert found.remedy.endswith(" --add --allow-principal User:alice --operation DescribeConfigs --cluster")


def drop_cluster_right(cluster: Cluster, user: str, operation: ACLOperation) -> None:
    pattern = ResourcePatternFilter(ResourceType.CLUSTER, "kafka-cluster", ACLResourcePatternType.LITERAL)
    with admin(cluster) as client:
        client.delete_acls([ACLFilter(f"User:{user}", "*", operation, ACLPermissionType.ANY, pattern)])
