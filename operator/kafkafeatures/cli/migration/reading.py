"""One look at a cluster and at its ensemble, with settings of each node: what `settings` and `preflight` judge."""

from __future__ import annotations

from msgspec import Struct

from kafkafeatures.cli.cluster import ensemble
from kafkafeatures.cli.cluster.connect import cluster_of, on_cluster
from kafkafeatures.cli.migration.where import Where
from kafkafeatures.core.facts.early_rights import by_files, is_before_the_copy
from kafkafeatures.core.facts.observation import Observation
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import Failure, Role
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.contradictions import position_of
from kafkafeatures.core.migration.demands import Said
from kafkafeatures.core.migration.positions import Facts, Misplaced, Position, facts_of
from kafkafeatures.kafka.base.settings import ClusterSettings


class Seen(Struct, frozen=True):
    """What was read, and where the cluster is."""

    zookeeper: ZooKeeperReading
    observation: Observation
    said: Said

    @property
    def place(self) -> tuple[Position, Facts] | Misplaced | Failure:
        """Where the cluster is, and by which facts."""
        facts = facts_of(self.observation, self.zookeeper)
        if isinstance(facts, Failure):
            return facts
        position = position_of(facts)
        return position if isinstance(position, Misplaced) else (position, facts)


def look(where: Where, names: frozenset[str]) -> Seen:
    """The ensemble first: the metadata log has to be newer than the znodes. Raises CommandFailed."""
    zookeeper = ensemble.read(where.ensemble)
    observation, said = on_cluster(_cluster(where.settings, names, zookeeper))
    return Seen(zookeeper, observation, said)


async def _cluster(
    settings: ClusterSettings, names: frozenset[str], zookeeper: ZooKeeperReading
) -> tuple[Observation, Said]:
    async with cluster_of(settings) as cluster:
        found = await cluster.read()
        observation, said = observe(*found, zookeeper=zookeeper), await cluster.settings_of(names)
        if is_before_the_copy(found.probe, found.log, zookeeper):
            said = {key: by_files(one) if key[0] is Role.CONTROLLER else one for key, one in said.items()}
        return observation, said
