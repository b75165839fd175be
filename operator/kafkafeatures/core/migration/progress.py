"""Place of a cluster on its way, which way comes next, and what its nodes have otherwise: all that is judged.

Pure. Made by `core/migration/stage.py` in each look, of that look alone: nothing of it is remembered in a status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec
from msgspec import Struct

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.api.reasons import Phase
from kafkafeatures.api.spec import Desired
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.early_rights import GRANT
from kafkafeatures.core.facts.observation import Known, NodeState, Observation, Unknown
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.releases import level_name
from kafkafeatures.core.facts.settings import NodeSettings
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.demands import NodeDemand, Said, SettingDifferences, demands, known_of
from kafkafeatures.core.migration.edges import (
    MOVE_BROKERS_BACK,
    TARGETS,
    UNFLAG_BROKERS,
    Edge,
    NoEdge,
    RestartBetween,
    next_edge,
)
from kafkafeatures.core.migration.phases import phase_of
from kafkafeatures.core.migration.positions import BrokerMode, MigrationEvidence, Misplaced, Position, facts_of

PREFLIGHTED = (Position.ZOOKEEPER, Position.PRE_MIGRATION, Position.FLAGGING)
"""Positions at which nothing was copied yet, and what changes meanwhile may still prevent the copy."""


class MigrationProgress(Struct, frozen=True, dict=True):
    """A position, and by which facts. unflagging: controllers that were asked to lose the flag, with the consent
    (`core/migration/finalize.py`).
    """

    observation: Observation
    znodes: ZooKeeperReading
    facts: MigrationEvidence
    position: Position
    desired: Desired
    unflagging: frozenset[int] = frozenset()

    @cached_property
    def edge(self) -> Edge | NoEdge | None:
        """The way that comes next; None at the goal."""
        return next_edge(self.position, self.desired, self.facts)

    @property
    def is_finalizing(self) -> bool:
        """Tell whether controllers lose the flag, as they were asked to; or one without it has ended the migration."""
        return self.position is Position.FINALIZING

    @property
    def way(self) -> Edge | None:
        """The way that comes next, where there is one."""
        return self.edge if isinstance(self.edge, Edge) else None

    @property
    def phase(self) -> Phase:
        """Phase of the migration, as people read it. It is not rolled back while something is left to do."""
        back = self.desired is Desired.ROLLED_BACK and self.way is not None and self.position is Position.ZOOKEEPER
        return Phase.ROLLING_BACK if back else phase_of(self.position, self.desired)

    @cached_property
    def demands(self) -> SettingDifferences:
        """Settings that each node has otherwise than the position that comes next needs them."""
        node_settings, edge = said_of(self.observation, is_copied=self.facts.offset > 0), self.way
        end = edge.end_from(self.position) if edge is not None else TARGETS[self.desired]
        return demands(self.position, end, edge, known_of(node_settings, release_of(self.observation)), node_settings)

    @cached_property
    def differing(self) -> Mapping[int, NodeDemand]:
        """Nodes of the role that is restarted next, which are not as they have to be, or of which it is not known."""
        role = self.way.restarts if self.way is not None else None
        return {node.id: node for node in self.demands.nodes if node.role is role and node.differs}

    @property
    def cluster_id(self) -> str:
        """The id of the cluster in ZooKeeper; empty where it was not read."""
        cluster_id = self.znodes.cluster_id
        return cluster_id if isinstance(cluster_id, str) else ""

    @property
    def claim(self) -> ControllerClaim | None:
        """Node that `/controller` names; None where it is absent, or was not read."""
        claim = self.znodes.controller
        return claim if isinstance(claim, ControllerClaim) else None

    @cached_property
    def route(self) -> tuple[Edge, ...]:
        """All ways to the goal, from here."""
        return tuple(_route(self.position, self.desired, self.facts))


def _route(position: Position, desired: Desired, evidence: MigrationEvidence) -> Iterator[Edge]:
    while isinstance(edge := next_edge(position, desired, evidence), Edge):
        yield edge
        position = edge.end_from(position)
        if edge.deletes or RestartBetween.NO_CONTROLLERS in edge.beside:  # which have left /migration
            evidence = msgspec.structs.replace(evidence, has_progress=not edge.deletes)
        if edge is UNFLAG_BROKERS:
            evidence = msgspec.structs.replace(evidence, absent=())
        if edge is MOVE_BROKERS_BACK:  # it ends where it may have begun, with no broker in KRaft mode any more
            brokers = dict.fromkeys(evidence.brokers, BrokerMode.FLAGGED)
            evidence = msgspec.structs.replace(evidence, brokers=brokers)


def place_of(
    observation: Observation,
    desired: Desired,
    assigned: frozenset[int] | None = None,
    *,
    requested: frozenset[int] = frozenset(),
) -> MigrationProgress | Misplaced | Failure:
    """Place of the cluster; or what contradicts what, or what could not be read. assigned: brokers that have replicas;
    None where that is not known. requested: controllers that were asked to lose the flag, with the consent: any other
    one without it has lost it by accident, and the cluster is still in dual write.
    """
    if isinstance(observation.zookeeper, Known):
        znodes = observation.zookeeper.value
    elif observation.has_left_zookeeper:
        znodes = _unread(observation, observation.zookeeper.failure)
    else:
        return observation.zookeeper.failure
    observation = without_ghost_controllers(observation)
    facts = facts_of(observation, znodes, assigned, goes_back=desired is Desired.ROLLED_BACK)
    if isinstance(facts, Failure):
        return facts
    position = position_of(facts)
    if isinstance(position, Misplaced):
        return position
    if position is Position.DUAL_WRITE and not requested.isdisjoint(facts.unflagged):
        position = Position.FINALIZING
    return MigrationProgress(observation, znodes, facts, position, desired, requested)


def _unread(observation: Observation, failure: Failure) -> ZooKeeperReading:
    """A reading of ZooKeeper where none is needed any longer, and nothing of another cluster either."""
    cluster_id = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else failure
    return ZooKeeperReading(observation.at, "", cluster_id, None, failure, None, failure, failure, failure, failure)


def without_ghost_controllers(observation: Observation) -> Observation:
    """The observation without controllers that are registered, do not vote, and do not run: such as one of a dynamic
    quorum that was tried and taken away. Kafka 3.9 cannot unregister it, and it can never lead: neither its settings
    nor its flag matter.
    """
    nodes = tuple(
        node
        for node in observation.nodes
        if node.roles != (Role.CONTROLLER,) or node.is_voter or node.state is not NodeState.GHOST
    )
    return observation if len(nodes) == len(observation.nodes) else msgspec.structs.replace(observation, nodes=nodes)


def release_of(observation: Observation) -> str:
    """The name of the finalized metadata.version, as the brokers' IBP has it; empty where there is none."""
    return level_name(METADATA_VERSION, observation.level_of(METADATA_VERSION) or 0)


def said_of(observation: Observation, *, is_copied: bool) -> Said:
    """Settings, as each node gives them; of one that did not say who it is, nothing is known."""
    return {
        (role, node.id): NodeSettings(node.proved_at, node.settings)
        if node.proved_at
        else _silent(node.title, node.answer, GRANT if role is Role.CONTROLLER and not is_copied else _GRANT)
        for node in observation.nodes
        for role in node.roles
    }


_GRANT = "grant DESCRIBE_CONFIGS on the cluster to the operator's user"


def _silent(title: str, answer: object, remedy: str) -> Failure:
    if isinstance(answer, Unknown):
        return answer.failure
    reason = "its settings could not be read" if isinstance(answer, Known) else "it was not asked"
    return Failure(FailureKind.AUTHORIZATION, title, reason, remedy)
