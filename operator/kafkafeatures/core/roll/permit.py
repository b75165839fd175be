"""Permit to restart certain nodes in ZooKeeper mode or during a migration: those that a migration from ZooKeeper has to
move to its next position, or brokers that need another inter.broker.protocol.version (IBP).

Pure. Made by `core/migration/restarts.py` and `core/ibp/restarts.py` in each reconciliation. Without a permit
(`NO_PERMIT`), nothing is restarted in ZooKeeper mode or while a migration is open (`core/roll/migrations.py`). With a
permit, the other checks of a roll hold as for any restart, except where a field below says otherwise, and for the
levels that the next binary must support (`core/roll/held_levels.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kafkafeatures.api.values import replace
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.facts.observation import Known, Observation, Unknown

if TYPE_CHECKING:  # `is_left_to_migration` is called for every document, most of which restart no node
    from kafkafeatures.core.roll.drivers import Driver
    from kafkafeatures.core.roll.pods import Fleet


class Permit(Struct, frozen=True):
    """Permission to restart certain nodes for a migration, or to give brokers another inter.broker.protocol.version.

    purpose: position of the migration, or version, that the restarts lead to, as text; it identifies their roll.
    needing: nodes that have to be restarted, and why.
    last: the node that is restarted after all others; None: any may be.
    is_first: no node has been restarted for this purpose yet, so the first one goes alone.
    unknown: nodes of which it is not known whether they still have to be restarted.
    has_quorum: an active controller of a quorum is needed; False in ZooKeeper mode, which has none.
    restarts: False: the present step of the migration restarts no node, so the permit only lets earlier restarts end.
        They must be over before the step, if need be without a reading of the partitions. `proven` and `unneeded` are
        for this case.
    proven: nodes that certainly run with the settings that the step needs: their restart is over once they are in sync
        again.
    unneeded: nodes that are not expected to come back, such as controllers that are to stop: nobody waits for them.
    is_half_done: some nodes are restarted already and the rest has to follow, so a majority of the voters is enough to
        restart brokers, even if a voter is missing.
    is_granted: False for `NO_PERMIT` alone.
    """

    purpose: str
    needing: Mapping[int, str]
    last: int | None = None
    is_first: bool = False
    unknown: frozenset[int] = frozenset()
    has_quorum: bool = True
    restarts: bool = True
    proven: frozenset[int] = frozenset()
    unneeded: frozenset[int] = frozenset()
    is_half_done: bool = False
    is_granted: bool = True

    def applied(self, fleet: Fleet, driver: Driver) -> Fleet:
        """Fleet in which only permitted nodes need a restart. Where a driver reads pods, only those of them whose
        template has changed: it brings the new settings.
        """
        if not self.is_granted:
            return fleet
        if not driver.reads_pods:
            return replace(fleet, needing=self.needing)
        due = {id_: self.needing[id_] for id_ in fleet.needing if id_ in self.needing}
        return replace(fleet, needing=due)

    def is_over_for(self, id_: int) -> bool:
        """Tell whether this node certainly needs no restart for this purpose."""
        return id_ not in self.needing and id_ not in self.unknown

    def in_turn(self, needing: frozenset[int]) -> frozenset[int]:
        """Nodes of `needing` whose turn it is: the last one only once no other is left."""
        other_ids = needing - {self.last}
        return other_ids if self.last in needing and other_ids else needing


NO_PERMIT = Permit("", {}, is_granted=False)
"""Permit of a roll without a migration: in KRaft mode, every node that needs a restart is restarted."""


def without_requests(observation: Observation) -> Observation:
    """Observation without requests of people to restart pods, which do not count during a migration."""
    if isinstance(observation.workloads, Unknown):
        return observation
    return replace(
        observation, workloads=replace(observation.workloads, value=observation.workloads.value.with_requests(0))
    )


def is_left_to_ibp(desired: DesiredState, observation: Observation) -> bool:
    """Tell whether the stage of the inter.broker.protocol.version decides on every restart: if the document asks for
    one, and the cluster is not in KRaft mode, which has none.
    """
    return bool(desired.ibp) and not observation.in_kraft_mode


def is_left_to_migration(desired: DesiredState, observation: Observation) -> bool:
    """Tell whether the stage of the migration decides on every restart: if the document asks for one, until the cluster
    is in KRaft mode and no controller that answers has `zookeeper.metadata.migration.enable`.
    """
    if desired.migration is None:
        return False
    if not observation.in_kraft_mode:
        return True
    return any(isinstance(node.answer, Known) and node.answer.value.zk_migration_ready for node in observation.nodes)
