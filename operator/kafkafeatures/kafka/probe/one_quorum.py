"""Whether all addresses that were given lead to one quorum: two may have one cluster id, where one is a copy.

Called by `prober.py` once the nodes are known, and asks only where the lists leave a doubt: an address that no list
names, and a broker where brokers and controllers were given apart. It judges nothing; `core/facts/identity.py` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kafkafeatures.core.facts.identity import QuorumView, two_quorums
from kafkafeatures.core.facts.readings import Failure, FailureKind, Host, NodeAnswer, ProbedNode, QuorumAnswer, Role
from kafkafeatures.kafka.base.errors import KafkaError
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.directory import Directory, address_of
from kafkafeatures.kafka.probe.quorum import describe_quorum, short_timeout
from kafkafeatures.kafka.wire.messages import DescribeClusterRequest


async def of_another_quorum(pool: Pool, directory: Directory, nodes: Sequence[ProbedNode]) -> Failure | None:
    """Which addresses lead to which of two quorums; None where nothing shows that there are two."""
    if isinstance(directory.quorum, Failure) or isinstance(directory.cluster_id, Failure):
        return None  # two cluster ids are named already
    listed = {(node.role, Address(node.host, node.port)) for node in nodes}
    given = {
        Role.BROKER: tuple(dict.fromkeys(pool.settings.bootstrap_servers)),
        Role.CONTROLLER: tuple(dict.fromkeys(pool.settings.bootstrap_controllers)),
    }
    unlisted = [(role, one) for role, those in given.items() if len(those) > 1 for one in those]
    asked = [(role, one) for role, one in unlisted if (role, one) not in listed]
    if given[Role.BROKER] and given[Role.CONTROLLER]:
        asked += _any_broker(nodes)
    if not asked:
        return None
    others = await asyncio.gather(*(_quorum_at(pool, role, address) for role, address in asked))
    every = given[Role.CONTROLLER] or given[Role.BROKER]
    at = ", ".join(str(one) for one in every if one not in {address for _, address in asked})
    view = QuorumView(at or "the first address", directory.quorum, _hosts(directory.voters))
    found = (two_quorums(view, other) for other in others if other is not None)
    return next((one for one in found if one is not None), None)


def _any_broker(nodes: Sequence[ProbedNode]) -> list[tuple[Role, Address]]:
    for node in nodes:
        if node.role is Role.BROKER and isinstance(node.answer, NodeAnswer) and node.answer.runs_in_kraft_mode:
            return [(Role.BROKER, Address(node.host, node.port))]
    return []


async def _quorum_at(pool: Pool, role: Role, address: Address) -> QuorumView | None:
    quorum, voters = await describe_quorum(pool, address, role)
    if isinstance(quorum, Failure) and quorum.kind is FailureKind.NO_LEADER and role is Role.CONTROLLER:
        request = DescribeClusterRequest(endpoint_type=2)
        try:
            answer = await pool.ask(address, role, request, timeout=short_timeout(pool))
        except KafkaError:
            return None
        leader = next((one for one in answer.nodes if one.id == answer.controller_id), None)
        if leader is not None:
            quorum, voters = await describe_quorum(pool, address_of(leader), role)
    return QuorumView(str(address), quorum, _hosts(voters)) if isinstance(quorum, QuorumAnswer) else None


def _hosts(voters: Sequence[Host]) -> dict[int, tuple[str, int]]:
    return {voter.id: (voter.host, voter.port) for voter in voters}
