"""Asks each broker in ZooKeeper mode which node it takes for the controller (Metadata).

Called by `cluster.py` when a migration goes back to ZooKeeper. A broker in ZooKeeper mode names the controller that
contacted it last. If that is a controller of the quorum, or if the broker runs in KRaft mode, it names a random live
broker instead (`KafkaApis.handleTopicMetadataRequest` of Kafka 3.9). So each broker is asked several times: only a real
answer stays the same.
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
"""Requests to each broker. With three brokers, random answers agree five times in one of 81 readings; a restart is
permitted after two readings that agree.
"""


async def named_controllers(pool: Pool, nodes: Iterable[ProbedNode]) -> Mapping[int, frozenset[int] | Failure]:
    """By broker id: the set of controller ids that it named, with -1 for "no controller"; or the Failure to ask it."""

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
