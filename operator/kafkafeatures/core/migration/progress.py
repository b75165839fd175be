"""Progress of a migration: position of the cluster, the way that comes next, and the settings that differ.

Pure. Made in each reconciliation from its readings. The status gives one fact alone: which controllers were asked to
lose the flag. It tells dual write from Finalizing.
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
from kafkafeatures.core.facts.early_rights import with_early_remedy
from kafkafeatures.core.facts.observation import Known, Node, NodeState, Observation
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.releases import level_name
from kafkafeatures.core.facts.settings import NodeSettings
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.demands import (
    NodeDemand,
    SettingDifferences,
    SettingsByNode,
    demands,
    setting_facts_of,
)
from kafkafeatures.core.migration.edges import (
    MOVE_BROKERS_BACK,
    TARGETS,
    UNFLAG_BROKERS,
    Edge,
    NoEdge,
    PersonAction,
    next_edge,
)
from kafkafeatures.core.migration.phases import phase_of
from kafkafeatures.core.migration.positions import BrokerMode, MigrationEvidence, Misplaced, Position, facts_of

PREFLIGHTED = (Position.ZOOKEEPER, Position.PRE_MIGRATION, Position.FLAGGING)
"""Positions at which nothing was copied yet, so that later changes may still prevent the copy."""


class MigrationProgress(Struct, frozen=True, dict=True):
    """Position of a cluster in a migration, and its evidence.

    observation: the readings of the cluster, without controllers that are registered and gone.
    znodes: the reading of ZooKeeper.
    facts: the evidence from which the position was derived.
    position: the position.
    desired: where the document wants the migration to go.
    unflagging: ids of controllers that were asked to lose the flag, with the consent (`core/migration/finalize.py`).
    """

    observation: Observation
    znodes: ZooKeeperReading
    facts: MigrationEvidence
    position: Position
    desired: Desired
    unflagging: frozenset[int] = frozenset()

    @cached_property
    def _next_edge(self) -> Edge | NoEdge | None:
        return next_edge(self.position, self.desired, self.facts)

    @property
    def is_finalizing(self) -> bool:
        """Tell whether controllers lose the flag on request, or a controller without it has ended the migration."""
        return self.position is Position.FINALIZING

    @property
    def is_at_goal(self) -> bool:
        """Tell whether the cluster is where the document wants it."""
        return self._next_edge is None

    @property
    def way(self) -> Edge | None:
        """The way that comes next; None at the goal, or if no way leads there."""
        return self._next_edge if isinstance(self._next_edge, Edge) else None

    @property
    def no_way(self) -> NoEdge | None:
        """Reason why no way leads to the goal; None if one does, or at the goal."""
        return self._next_edge if isinstance(self._next_edge, NoEdge) else None

    @property
    def phase(self) -> Phase:
        """Phase of the migration in the status. It is RolledBack only once nothing is left to do."""
        back = self.desired is Desired.ROLLED_BACK and self.way is not None and self.position is Position.ZOOKEEPER
        return Phase.ROLLING_BACK if back else phase_of(self.position, self.desired)

    @cached_property
    def demands(self) -> SettingDifferences:
        """Settings of each node that differ from what the next position requires."""
        node_settings, edge = settings_by_node(self.observation, is_copied=self.facts.offset > 0), self.way
        end = edge.end_from(self.position) if edge is not None else TARGETS[self.desired]
        return demands(
            self.position, end, edge, setting_facts_of(node_settings, release_of(self.observation)), node_settings
        )

    @cached_property
    def differing(self) -> Mapping[int, NodeDemand]:
        """Nodes of the role that is restarted next whose settings differ, or are not known."""
        role = self.way.restarts if self.way is not None else None
        return {node.id: node for node in self.demands.nodes if node.role is role and node.differs}

    @property
    def cluster_id(self) -> str:
        """The id of the cluster in ZooKeeper; empty if it was not read."""
        cluster_id = self.znodes.cluster_id
        return cluster_id if isinstance(cluster_id, str) else ""

    @property
    def claim(self) -> ControllerClaim | None:
        """Claim of the node that `/controller` names; None if the znode is absent, or was not read."""
        claim = self.znodes.controller
        return claim if isinstance(claim, ControllerClaim) else None

    @cached_property
    def route(self) -> tuple[Edge, ...]:
        """Ways from here to the goal, in order; they end earlier if no way leads on."""
        return tuple(_route(self.position, self.desired, self.facts))


def _route(position: Position, desired: Desired, evidence: MigrationEvidence) -> Iterator[Edge]:
    # Each way is assumed to have succeeded: the evidence is changed as the cluster would be at its end.
    while isinstance(edge := next_edge(position, desired, evidence), Edge):
        yield edge
        position = edge.end_from(position)
        if edge.deletes or PersonAction.NO_CONTROLLERS in edge.further_actions:  # stopped controllers leave /migration
            evidence = msgspec.structs.replace(evidence, has_progress=not edge.deletes)
        if edge is UNFLAG_BROKERS:
            evidence = msgspec.structs.replace(evidence, absent=())
        if edge is MOVE_BROKERS_BACK:  # it may begin and end at Copied: no broker is in KRaft mode any more
            brokers = dict.fromkeys(evidence.brokers, BrokerMode.FLAGGED)
            evidence = msgspec.structs.replace(evidence, brokers=brokers)


def progress_of(
    observation: Observation,
    desired: Desired,
    assigned: frozenset[int] | None = None,
    *,
    requested: frozenset[int] = frozenset(),
) -> MigrationProgress | Misplaced | Failure:
    """Progress of the cluster; or a contradiction in the evidence, or the Failure of a reading.

    assigned: brokers that have replicas; None: not known.
    requested: controllers that were asked to lose the flag, with the consent. Any other controller without the flag has
        lost it by accident, and the cluster is still in dual write.
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
    """Reading of ZooKeeper, all unknown, for a cluster that no longer needs one."""
    cluster_id = observation.cluster_id.value if isinstance(observation.cluster_id, Known) else failure
    return ZooKeeperReading(observation.at, "", cluster_id, None, failure, None, failure, failure, failure, failure)


def without_ghost_controllers(observation: Observation) -> Observation:
    """Observation without ghost controllers: those that are registered, do not vote, and do not run, such as the
    controllers of a dynamic quorum that was tried and removed. Kafka 3.9 cannot unregister them, and they can never
    lead, so neither their settings nor their flags matter.
    """
    nodes = tuple(
        node
        for node in observation.nodes
        if node.roles != (Role.CONTROLLER,) or node.is_voter or node.state is not NodeState.GHOST
    )
    return observation if len(nodes) == len(observation.nodes) else msgspec.structs.replace(observation, nodes=nodes)


def release_of(observation: Observation) -> str:
    """Name of the finalized metadata.version, as inter.broker.protocol.version is written; empty if there is none."""
    return level_name(METADATA_VERSION, observation.level_of(METADATA_VERSION) or 0)


def settings_by_node(observation: Observation, *, is_copied: bool) -> SettingsByNode:
    """Settings of each node by role and id; a Failure for a node that did not prove its id."""
    return {
        (role, node.id): NodeSettings(node.proved_at, node.settings)
        if node.proved_at
        else _unproved(node, is_early=role is Role.CONTROLLER and not is_copied)
        for node in observation.nodes
        for role in node.roles
    }


_GRANT = "grant DESCRIBE_CONFIGS on the cluster to the operator's user"
"""Remedy for brokers, and for controllers after the copy: before it controllers have no ACLs (`early_rights.py`)."""


def _unproved(node: Node, *, is_early: bool) -> Failure:
    failure = node.identity_failure or Failure(
        FailureKind.AUTHORIZATION, node.title, "its settings could not be read", _GRANT
    )
    return with_early_remedy(failure) if is_early else failure
