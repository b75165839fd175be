"""Plan of a world: its nodes with their releases, topics, timing, and the levels that are finalized at the beginning.

A plan with a contradiction raises ValueError: two nodes of one role with the same id, no controller, no
metadata.version, a partition without replicas or on a broker that is not planned, or a level that a controller or a
ghost does not support.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from kafkafeatures.api.names import METADATA_VERSION
from kafkafeatures.core.facts.readings import Role
from kafkasim.releases import KRAFT_VERSION, Release

NOOP_MS = 500  # metadata.max.idle.interval.ms


class NodePlan(Struct, frozen=True):
    """A node of a plan.

    ghost: it is registered (a broker is fenced, too), but has no process.
    migrating: a broker in ZooKeeper mode, or a controller that is ready to migrate.
    later: it has not started yet, and is not registered.
    """

    role: Role
    id: int
    release: Release
    ghost: bool = False
    migrating: bool = False
    later: bool = False


class TopicPlan(Struct, frozen=True):
    """A topic. `replicas`: broker ids for each partition, the preferred leader first. `min_insync_replicas` None: not
    set.
    """

    name: str
    replicas: tuple[tuple[int, ...], ...]
    min_insync_replicas: int | None = None


class Timing(Struct, frozen=True):
    """Times in ms, as recorded with real nodes (tests/golden/restarts). The first five are those of a broker with
    replicas; a broker without replicas takes none of them. The others are those of a controller.

    fenced: from the request for a controlled shutdown to its confirmation.
    shutdown: from the same request to the end of the process.
    load: from registration to the request to be unfenced.
    recovery: added to `load` after a kill.
    catch_up: from being unfenced until a replica is in sync; least and most.
    snapshot: between two metadata snapshots.
    idle: between two NoOps of an idle controller.
    """

    fenced: int = 2_300
    shutdown: int = 2_900
    load: int = 1_100
    recovery: int = 4_000
    catch_up: tuple[int, int] = (300, 2_400)
    snapshot: int = 3_600_000  # metadata.log.max.snapshot.interval.ms
    idle: int = NOOP_MS


class Plan(Struct, frozen=True):
    """A cluster.

    levels: finalized levels, including metadata.version; kraft.version 1 means a dynamic quorum.
    leader: id of the first active controller; None for the lowest id.
    cluster_id: None for a random one.
    addresses: host and port of nodes; others get a port of 127.0.0.1.
    min_insync_replicas: the value in the properties of nodes, which the log does not have.
    controllers_min_insync_replicas: the same in the properties of controllers; None if it is equal.
    zk_migration_state: `ZkMigrationState` at the beginning, for Kafka 3.x: 2 if it migrates from ZooKeeper.
    """

    nodes: tuple[NodePlan, ...]
    levels: Mapping[str, int]
    leader: int | None = None
    cluster_id: str | None = None
    addresses: Mapping[tuple[Role, int], tuple[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    topics: tuple[TopicPlan, ...] = ()
    min_insync_replicas: int = 1
    controllers_min_insync_replicas: int | None = None
    zk_migration_state: int = 0
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        keys = [(node.role, node.id) for node in self.nodes]
        if len(set(keys)) != len(keys):
            raise ValueError("two nodes of one role have the same id")
        if not any(node.role is Role.CONTROLLER and not node.ghost for node in self.nodes):
            raise ValueError("a cluster needs a controller")
        if METADATA_VERSION not in self.levels:
            raise ValueError("a cluster has a metadata.version")
        brokers = {node.id for node in self.nodes if node.role is Role.BROKER}
        for topic in self.topics:
            if any(not each or not brokers.issuperset(each) for each in topic.replicas):
                raise ValueError(f"topic {topic.name} has a partition without replicas, or on a broker there is not")
        for node in self.nodes:
            if node.ghost or node.role is Role.CONTROLLER:
                self._must_fit(node)

    def _must_fit(self, node: NodePlan) -> None:
        for feature, level in self.levels.items():
            supported = node.release.features.get(feature)
            if level and (supported is None or level not in supported):
                raise ValueError(
                    f"{feature} {level} cannot be finalized with {node.role.value.lower()} {node.id} of Kafka "
                    f"{node.release.name} registered"
                )

    @property
    def is_dynamic(self) -> bool:
        """True if the voters are in the log (KIP-853)."""
        return self.levels.get(KRAFT_VERSION, 0) > 0
