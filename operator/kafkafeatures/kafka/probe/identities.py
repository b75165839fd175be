"""Proves which node answers at an address, by asking that process for settings of its own.

A node answers for its own id only (`node_settings.py`), so the answer proves the id, and the IP address of the
connection says where that node runs, whatever host names are registered. `core/roll/matching.py` compares the IP
address with those of pods. Called by `cluster.py` where settings of nodes are needed, above all for a roll. Without an
answer nothing is proved, and the node stays without `proved_at`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from uuid import UUID

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.identity import RegistrationKey
from kafkafeatures.core.facts.readings import (
    ClusterProbe,
    Failure,
    FailureKind,
    LogReading,
    NodeAnswer,
    ProbedNode,
    Role,
)
from kafkafeatures.core.facts.settings import PROCESS_ROLES, NodeSettings, Setting
from kafkafeatures.kafka.base.pool import Pool
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.probe.node_settings import node_settings
from kafkafeatures.kafka.wire.topic_messages import DescribeConfigsRequest
from kraftlog import Image


class _SettingsOfProcess(Struct, frozen=True):
    """Settings that cannot change while the process runs. `incarnation`: its incarnation id, new at each start.
    `names`: the settings that need not be asked for again, including those that the node does not have.
    """

    incarnation: UUID
    names: frozenset[str]
    settings: NodeSettings


class Identities:
    """The proofs of one cluster. A proof, and settings that only a restart can change, are kept while the metadata log
    shows the same incarnation id. During a migration from ZooKeeper nothing is kept: a broker that goes back to
    ZooKeeper mode does not register with the quorum, so the log would still show its earlier process.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[tuple[Role, Address], _SettingsOfProcess] = {}

    async def prove(
        self,
        probe: ClusterProbe,
        log: LogReading | Failure,
        names: frozenset[str],
        doubtful: Set[RegistrationKey] = frozenset(),
    ) -> ClusterProbe:
        """The probe, with `settings` and `proved_at` (the IP address of the connection) of each node that answers.
        `names`: settings to read of every node. A node that is `doubtful` (`core/facts/identity.py`) is asked for
        `process.roles` as well, also if `names` is empty.
        """
        incarnations = {} if isinstance(log, Failure) else _incarnations(log.image)
        roles = frozenset({PROCESS_ROLES})

        async def proved(node: ProbedNode) -> ProbedNode:
            demanded = names | roles if (node.role, node.id) in doubtful else names
            return await self._proved(node, incarnations, demanded) if demanded else node

        return replace(probe, nodes=tuple(await asyncio.gather(*map(proved, probe.nodes))))

    async def _proved(
        self, node: ProbedNode, incarnations: Mapping[tuple[Role, int], UUID], names: frozenset[str]
    ) -> ProbedNode:
        if node.id is None or isinstance(node.answer, Failure):
            return node
        address, incarnation = Address(node.host, node.port), incarnations.get((node.role, node.id))
        entry = self._known.get((node.role, address))
        if entry is None or entry.incarnation != incarnation or not names <= entry.names:
            settings = await self._ask(node.id, node.role, node.answer, address, names)
            if isinstance(settings, Failure):
                answer = settings if settings.kind is FailureKind.ANOTHER_NODE else node.answer
                return replace(node, answer=answer, proved_at="", unproved=settings, settings={})
            if incarnation is not None:
                self._known[node.role, address] = _lasting(incarnation, names, settings)
            return replace(node, proved_at=settings.at, settings=settings.of)
        return replace(node, proved_at=entry.settings.at, settings=entry.settings.of)

    async def _ask(
        self, id_: int, role: Role, answer: NodeAnswer, address: Address, names: frozenset[str]
    ) -> NodeSettings | Failure:
        if DescribeConfigsRequest.api_key not in answer.apis:
            return Failure(FailureKind.UNSUPPORTED, str(address), "does not tell its configs")
        return await node_settings(self._pool, role, id_, address, names)


def _lasting(incarnation: UUID, names: frozenset[str], node_settings: NodeSettings) -> _SettingsOfProcess:
    """The settings of a node without dynamic ones, which a request may change at any moment."""
    fixed: dict[str, Setting] = {name: setting for name, setting in node_settings.of.items() if setting.is_read_only}
    return _SettingsOfProcess(
        incarnation, names - (node_settings.of.keys() - fixed.keys()), NodeSettings(node_settings.at, fixed)
    )


def _incarnations(image: Image) -> dict[tuple[Role, int], UUID]:
    """The incarnation ids by which a process is known again; none during a migration (see `Identities`)."""
    if image.is_migrating is not False:
        return {}
    brokers = {(Role.BROKER, id_): broker.incarnation for id_, broker in image.brokers.items()}
    return brokers | {(Role.CONTROLLER, id_): controller.incarnation for id_, controller in image.controllers.items()}
