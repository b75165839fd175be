"""Checks that all configured addresses lead to one quorum. Equal cluster ids do not prove it: one cluster may be a
copy.

Called by `prober.py` once the nodes are known. It asks only where the lists leave a doubt: a configured address that no
list of nodes has, and one broker if both brokers and controllers are configured. Two contradicting answers may only
mean that the quorum changed between them, so both sides are asked again, at the same time. `core/facts/identity.py`
decides whether two views contradict each other.
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
"""Addresses of the first side that are asked again; one answer is enough."""


async def of_another_quorum(pool: Pool, directory: Directory, nodes: Sequence[ProbedNode]) -> Failure | None:
    """A Failure that names the addresses of two different quorums; None if there is no sign of two."""
    if isinstance(directory.quorum, Failure) or isinstance(directory.cluster_id, Failure):
        return None  # nothing to compare; two different cluster ids are reported as the Failure that `cluster_id` is
    listed = {(node.role, Address(node.host, node.port)) for node in nodes}
    bootstrap_addresses = {
        Role.BROKER: tuple(dict.fromkeys(pool.settings.bootstrap_servers)),
        Role.CONTROLLER: tuple(dict.fromkeys(pool.settings.bootstrap_controllers)),
    }
    candidates = [
        (role, address)
        for role, addresses in bootstrap_addresses.items()
        if len(addresses) > 1  # the only address of a role is the one that its lists come from
        for address in addresses
    ]
    targets = [(role, address) for role, address in candidates if (role, address) not in listed]
    if bootstrap_addresses[Role.BROKER] and bootstrap_addresses[Role.CONTROLLER]:
        targets += _any_broker(nodes)
    if not targets:
        return None
    other_views = await asyncio.gather(*(_quorum_at(pool, role, address) for role, address in targets))
    known_addresses = bootstrap_addresses[Role.CONTROLLER] or bootstrap_addresses[Role.BROKER]
    own_addresses = [address for address in known_addresses if address not in {address for _, address in targets}]
    at = ", ".join(map(str, own_addresses)) or "the first address"
    view = QuorumView(at, directory.quorum, _hosts(directory.voters))
    role = Role.CONTROLLER if bootstrap_addresses[Role.CONTROLLER] else Role.BROKER
    for target, other in zip(targets, other_views, strict=True):
        contradiction = two_quorums(view, other) if other is not None else None
        if contradiction is not None:
            return await _once_more(pool, contradiction, _answering(nodes, role, targets), target, at)
    return None


async def _once_more(
    pool: Pool, failure: Failure, own: Sequence[tuple[Role, Address]], other_address: tuple[Role, Address], at: str
) -> Failure | None:
    """The Failure that remains after both sides were asked again; None if they agree now. `own`: addresses of the side
    that `at` names; `other_address`: the address of the other side.
    """
    if not own:
        return failure
    *views, other = await asyncio.gather(*(_quorum_at(pool, *target) for target in (*own[:ASKED_AGAIN], other_address)))
    view = next((candidate for candidate in views if candidate is not None), None)
    if view is None or other is None:
        return unsettled(failure)
    return two_quorums(replace(view, at=at), other)


def _answering(
    nodes: Sequence[ProbedNode], role: Role, excluded: Sequence[tuple[Role, Address]]
) -> list[tuple[Role, Address]]:
    """Listed nodes of this role that answered, without those in `excluded`."""
    answering = (node for node in nodes if node.role is role and isinstance(node.answer, NodeAnswer))
    targets = ((node.role, Address(node.host, node.port)) for node in answering)
    return [target for target in targets if target not in excluded]


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
        leader = next((node for node in answer.nodes if node.id == answer.controller_id), None)
        if leader is not None:
            quorum, voters = await describe_quorum(pool, address_of(leader), role)
    return QuorumView(str(address), quorum, _hosts(voters)) if isinstance(quorum, QuorumAnswer) else None


def _hosts(voters: Sequence[Host]) -> dict[int, tuple[str, int]]:
    return {voter.id: (voter.host, voter.port) for voter in voters}
