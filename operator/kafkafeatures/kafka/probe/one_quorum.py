"""Whether all addresses that were given lead to one quorum: two may have one cluster id, where one is a copy.

Called by `prober.py` once the nodes are known, and asks only where the lists leave a doubt: an address that no list
names, and a broker where brokers and controllers were given apart. Answers that contradict each other were given one
after the other: those who gave them are asked once more, now at the same time, and a change in between shows as one. It
judges nothing; `core/facts/identity.py` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.identity import QuorumView, two_quorums, unsettled
from kafkafeatures.core.facts.readings import Failure, FailureKind, Host, NodeAnswer, ProbedNode, QuorumAnswer, Role
from kafkafeatures.kafka.base.errors import KafkaError
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.directory import Directory, address_of
from kafkafeatures.kafka.probe.quorum import describe_quorum, short_timeout
from kafkafeatures.kafka.wire.messages import DescribeClusterRequest

ASKED_AGAIN = 3
"""Addresses of one side that are asked once more: one that answers will do."""


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
    own = [one for one in every if one not in {address for _, address in asked}]
    at = ", ".join(map(str, own)) or "the first address"
    view = QuorumView(at, directory.quorum, _hosts(directory.voters))
    role = Role.CONTROLLER if given[Role.CONTROLLER] else Role.BROKER
    for way, other in zip(asked, others, strict=True):
        found = two_quorums(view, other) if other is not None else None
        if found is not None:
            return await _once_more(pool, found, _answering(nodes, role, asked), way, at)
    return None


async def _once_more(
    pool: Pool, found: Failure, own: Sequence[tuple[Role, Address]], way: tuple[Role, Address], at: str
) -> Failure | None:
    """What is left of a contradiction. `own`: addresses that lead to one side, as `at` does; `way`: to the other."""
    if not own:
        return found
    *views, other = await asyncio.gather(*(_quorum_at(pool, *one) for one in (*own[:ASKED_AGAIN], way)))
    view = next((one for one in views if one is not None), None)
    if view is None or other is None:
        return unsettled(found)
    return two_quorums(replace(view, at=at), other)


def _answering(
    nodes: Sequence[ProbedNode], role: Role, but: Sequence[tuple[Role, Address]]
) -> list[tuple[Role, Address]]:
    """Nodes of the lists that answer, `but` those."""
    found = (node for node in nodes if node.role is role and isinstance(node.answer, NodeAnswer))
    ways = ((node.role, Address(node.host, node.port)) for node in found)
    return [way for way in ways if way not in but]


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
