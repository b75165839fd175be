"""Reads all partitions by requests to brokers, for clusters whose metadata log cannot be read.

Called by `partitions.py` and `elected.py`. One broker that is up to date with the controllers is asked for topics and
partitions (DescribeTopicPartitions, before Kafka 3.8 Metadata), for reassignments in progress
(ListPartitionReassignments), and for `min.insync.replicas` of each topic (DescribeConfigs). This module decides whether
the list is complete: Kafka silently leaves out topics that a user may not describe. So every unfenced broker is asked
for the partitions on its disks (DescribeLogDirs), a request that needs no rights on topics. If a disk has a partition
that was not listed, the whole reading is a `Failure`: a restart could make that partition unavailable. A fenced broker
need not be asked: its partitions are also on unfenced brokers, or are unavailable already.
`kafka/partitions/collected.py` compares the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    PartitionsReading,
    QuorumAnswer,
    Role,
)
from kafkafeatures.core.facts.settings import MIN_INSYNC_REPLICAS
from kafkafeatures.kafka.base.errors import KafkaError, NotKafka, ResponseTooLarge, UnsupportedApi, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.base.threads import run_in_thread
from kafkafeatures.kafka.partitions.collected import Collected, Incomplete
from kafkafeatures.kafka.probe.broker_defaults import BrokerDefaults
from kafkafeatures.kafka.wire.topic_messages import (
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
    TopicAnswer,
)

BROKERS_TRIED = 3
"""Brokers that are asked for the list, one after the other, until one answers."""
TOPICS_AT_ONCE = 1000
"""Topics in one DescribeConfigs request."""

Keep = Callable[[int], None]
"""Counts the memory of what was read so far, in bytes. Raises KafkaError if it is too much."""


async def ask_for_partitions(
    pool: Pool, probe: ClusterProbe, defaults: BrokerDefaults, keep: Keep
) -> PartitionsReading | Failure:
    """The partitions, or a Failure if any may be missing. `keep` is called with the bytes of memory used so far; it may
    raise KafkaError to end the reading.
    """
    if isinstance(probe.brokers, Failure):
        return probe.brokers
    brokers = {broker.id: Address(broker.host, broker.port) for broker in probe.brokers.brokers if not broker.is_fenced}
    last: Failure | None = None
    for source in _following(probe.quorum, brokers):
        try:
            return await _ask(pool, source, brokers, defaults, keep)
        except ResponseTooLarge as error:
            return to_failure(error, "partitions")
        except KafkaError as error:
            last = to_failure(error, str(source))
        except Incomplete as incomplete:
            return incomplete.failure
    if isinstance(probe.quorum, Failure):
        return probe.quorum
    words = "no broker is known to follow the active controller closely, so what they say may be old"
    return last or Failure(FailureKind.STALE, "DescribeQuorum", words)


def _following(quorum: QuorumAnswer | Failure, brokers: Mapping[int, Address]) -> list[Address]:
    """Brokers that have just fetched the metadata log from the leader, the most advanced first. A broker that was cut
    off from the controllers still answers, with outdated in-sync replicas.
    """
    if isinstance(quorum, Failure) or not quorum.has_majority:
        return []
    # A combined node fetches as a voter, any other broker as an observer.
    followers = {follower.id: follower for follower in (*quorum.observers, *quorum.voters) if follower.id in brokers}
    current = [follower for follower in followers.values() if follower.last_fetch_timestamp >= quorum.recent_since]
    current.sort(key=lambda follower: -follower.log_end_offset)
    return [brokers[follower.id] for follower in current[:BROKERS_TRIED]]


async def _ask(
    pool: Pool, source: Address, brokers: Mapping[int, Address], defaults: BrokerDefaults, keep: Keep
) -> PartitionsReading | Failure:
    collected = Collected()
    async for topics in _pages(pool, source):
        await run_in_thread(partial(collected.add, topics))
        keep(collected.weight)
    return await completed(pool, collected, source, brokers, defaults)


async def completed(
    pool: Pool, collected: Collected, source: Address, brokers: Mapping[int, Address], defaults: BrokerDefaults
) -> PartitionsReading | Failure:
    """The reading, after all topics are in `collected`: adds reassignments and configs from the same broker, and checks
    with every broker that no partition is missing.
    """
    await run_in_thread(collected.close)
    moving = await pool.ask(source, Role.BROKER, ListPartitionReassignmentsRequest())
    await run_in_thread(partial(collected.add_reassignments, moving))
    for at in range(0, len(collected.names), TOPICS_AT_ONCE):
        names = collected.names[at : at + TOPICS_AT_ONCE]
        request = DescribeConfigsRequest(TOPIC_RESOURCE, tuple(names), (MIN_INSYNC_REPLICAS,))
        collected.add_configs(names, (await pool.ask(source, Role.BROKER, request)).configs)
    highest = await defaults.by_asking(brokers)  # also proves that each address leads to the broker of that id
    if isinstance(highest, Failure):
        return highest
    doubts = await asyncio.gather(
        *(_hidden(pool, collected, *id_and_address) for id_and_address in sorted(brokers.items()))
    )
    if failure := next((failure for failure in doubts if failure is not None), None):
        return failure
    return PartitionsReading(await run_in_thread(collected.partitions), highest)


async def _pages(pool: Pool, source: Address) -> AsyncIterator[Sequence[TopicAnswer]]:
    """All topics with their partitions, page by page. A topic whose partitions do not fit continues on the next one."""
    cursor: tuple[str, int] | None = None
    while True:
        try:
            page = await pool.ask(source, Role.BROKER, DescribeTopicPartitionsRequest(cursor))
        except UnsupportedApi:  # before Kafka 3.8
            yield (await pool.ask(source, Role.BROKER, MetadataRequest(all_topics=True))).topics
            return
        yield page.topics
        if page.cursor is None:
            return
        if cursor is not None and page.cursor <= cursor:
            raise NotKafka("a page of topics that was sent before", sent=True)
        cursor = page.cursor


async def _hidden(pool: Pool, collected: Collected, broker: int, address: Address) -> Failure | None:
    """The reason to doubt that the answers include everything on the disks of a broker; None where it is certain."""
    try:
        answer = await pool.ask(address, Role.BROKER, DescribeLogDirsRequest())
        await run_in_thread(partial(collected.check, broker, str(address), answer))
    except KafkaError as error:
        return to_failure(error, str(address))
    except Incomplete as incomplete:
        return incomplete.failure
    return None
