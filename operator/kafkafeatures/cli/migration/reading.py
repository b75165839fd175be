"""Reads a cluster, its ensemble, and settings of each node once, for `kafkafeatures migration settings`."""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.cli.cluster import ensemble
from kafkafeatures.cli.cluster.connect import cluster_of, on_cluster
from kafkafeatures.cli.migration.connection import MigrationConnection
from kafkafeatures.core.facts.early_rights import is_before_the_copy, with_early_remedy
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.demands import SettingsByNode
from kafkafeatures.core.migration.positions import MigrationEvidence, Misplaced, Position, facts_of
from kafkafeatures.kafka.base.settings import ClusterSettings


class MigrationReading(Struct, frozen=True):
    """Readings of the ensemble, of the cluster, and of settings by node."""

    zookeeper: ZooKeeperReading
    observation: Observation
    settings: SettingsByNode

    @property
    def placement(self) -> tuple[Position, MigrationEvidence] | Misplaced | Failure:
        """The position of the migration with its evidence; Misplaced if facts contradict each other, Failure if some
        are unknown.
        """
        facts = facts_of(self.observation, self.zookeeper)
        if isinstance(facts, Failure):
            return facts
        position = position_of(facts)
        return position if isinstance(position, Misplaced) else (position, facts)


def look(connection: MigrationConnection, names: frozenset[str]) -> MigrationReading:
    """Read the ensemble and then the cluster, since the metadata log must be newer than the znodes. `names`: the
    settings to read of each node. Raises CommandFailed.
    """
    zookeeper = ensemble.read(connection.ensemble)
    observation, node_settings = on_cluster(_read_cluster(connection.settings, names, zookeeper))
    return MigrationReading(zookeeper, observation, node_settings)


async def _read_cluster(
    settings: ClusterSettings, names: frozenset[str], zookeeper: ZooKeeperReading
) -> tuple[Observation, SettingsByNode]:
    async with cluster_of(settings) as cluster:
        readings = await cluster.read()
        observation, node_settings = observe(*readings, zookeeper=zookeeper), await cluster.settings_of(names)
        if is_before_the_copy(readings.probe, readings.log, zookeeper):
            node_settings = {
                key: with_early_remedy(values) if key[0] is Role.CONTROLLER else values
                for key, values in node_settings.items()
            }
        return observation, node_settings
