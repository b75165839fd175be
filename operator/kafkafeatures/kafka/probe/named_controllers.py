"""Which node each broker takes for the controller, by its own Metadata.

Called by `cluster.py` where a migration leads back to ZooKeeper. A broker in ZooKeeper mode names the controller that
made itself known to it last. While that is one of a quorum, and in KRaft mode always, it names any broker that lives
(`KafkaApis.handleTopicMetadataRequest` of Kafka 3.9), so each is asked several times: an answer by chance does not stay
the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from kafkafeatures.core.facts.readings import Failure, ProbedNode, Role
from kafkafeatures.kafka.base.errors import KafkaError, to_failure
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.topic_messages import MetadataRequest

TIMES = 5
"""With three brokers the same one is named so often by chance in one of 81 looks; a restart takes two looks."""


async def named_controllers(pool: Pool, nodes: Iterable[ProbedNode]) -> Mapping[int, frozenset[int] | Failure]:
    """By the ids of brokers: all that each named, -1 for none. Of one that did not answer the probe, its Failure."""

    async def of(node: ProbedNode) -> frozenset[int] | Failure:
        if isinstance(node.answer, Failure):
            return node.answer
        address = Address(node.host, node.port)
        try:
            return frozenset([(await pool.ask(address, Role.BROKER, MetadataRequest())).controller_id for _ in _TIMES])
        except KafkaError as error:
            return to_failure(error, str(address))

    brokers = [(node, node.id) for node in nodes if node.role is Role.BROKER and node.id is not None]
    answers = await asyncio.gather(*(of(node) for node, _ in brokers))
    return {id_: answer for (_, id_), answer in zip(brokers, answers, strict=True)}


_TIMES = range(TIMES)
