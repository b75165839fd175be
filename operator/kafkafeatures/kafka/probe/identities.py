"""Which process is which node: asked of the process, at the address that leads to it.

A node tells the configs of BROKER <id> for its own id alone, whichever is asked for, controllers too
(`ConfigHelper.scala`). With the IP address that the connection led to it is proved where this node runs, whatever names
it is registered with: `core/roll/matching.py` holds that against the pods. The config that is asked for is how often it
writes a snapshot of the metadata (`core/roll/snapshots.py`): its file says it, so it holds for a life. Called by
`cluster.py`, while a roll is planned or running. Where there is no such answer nothing is proved, and nothing is said
in its place.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.readings import ClusterProbe, Failure, LogReading, NodeAnswer, ProbedNode, Role
from kafkafeatures.kafka.base.errors import KafkaError
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.wire.topic_messages import BROKER_RESOURCE, ConfigAnswer, DescribeConfigsRequest
from kraftlog import Image

SNAPSHOT_INTERVAL = "metadata.log.max.snapshot.interval.ms"


class _Proof(NamedTuple):
    """At which IP address the process said who it is; empty: it did not. And how often it writes snapshots."""

    at: str
    snapshot_interval: timedelta | None = None


_NONE = _Proof("")


class Identities:
    """Of one cluster. A proof is remembered for as long as the metadata log shows the same registration of the node."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._proved: dict[tuple[Role, Address], tuple[UUID, _Proof]] = {}

    async def prove(self, probe: ClusterProbe, log: LogReading | Failure) -> ClusterProbe:
        """The same, with the addresses at which processes said who they are."""
        lives = {} if isinstance(log, Failure) else _incarnations(log.image)
        nodes = await asyncio.gather(*(self._proof(node, lives) for node in probe.nodes))
        return replace(probe, nodes=tuple(nodes))

    async def _proof(self, node: ProbedNode, lives: dict[tuple[Role, int], UUID]) -> ProbedNode:
        if node.id is None or isinstance(node.answer, Failure):
            return node
        key, life = (node.role, Address(node.host, node.port)), lives.get((node.role, node.id))
        known = self._proved.get(key)
        if known is not None and known[0] == life:
            proof = known[1]
        else:
            proof = await self._ask(node.id, node.role, node.answer, key[1])
        if proof.at and life is not None:
            self._proved[key] = life, proof
        return replace(node, proved_at=proof.at, snapshot_interval=proof.snapshot_interval)

    async def _ask(self, id_: int, role: Role, answer: NodeAnswer, address: Address) -> _Proof:
        request = DescribeConfigsRequest(BROKER_RESOURCE, (str(id_),), SNAPSHOT_INTERVAL)
        if request.api_key not in answer.apis:
            return _NONE
        try:
            async with self._pool.lease(address, role) as lease:
                told = (await lease.connection.request(request)).configs.get(str(id_))
                return _NONE if told is None or told.error_code else _Proof(lease.connection.peer, _interval(told))
        except KafkaError:
            return _NONE


def _interval(told: ConfigAnswer) -> timedelta | None:
    try:
        return timedelta(milliseconds=int(told.value or ""))
    except (ValueError, OverflowError):
        return None


def _incarnations(image: Image) -> dict[tuple[Role, int], UUID]:
    brokers = {(Role.BROKER, id_): one.incarnation for id_, one in image.brokers.items()}
    return brokers | {(Role.CONTROLLER, id_): one.incarnation for id_, one in image.controllers.items()}
