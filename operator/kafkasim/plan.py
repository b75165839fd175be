"""What a world is built from: nodes with their releases, and the levels the cluster was brought to before it begins.

Made by `__main__` from flags and by tests; read by `world` once. A plan that no real cluster could have come to is
refused with ValueError.
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
    """One node. `ghost`: it registered once, is fenced if a broker, and no process of it runs any more. `migrating`: a
    broker in ZooKeeper mode, or a controller that is ready to migrate from there. `later`: no process of it has run
    yet, and it is not registered.
    """

    role: Role
    id: int
    release: Release
    ghost: bool = False
    migrating: bool = False
    later: bool = False


class TopicPlan(Struct, frozen=True):
    """A topic. `replicas`: of each partition, the preferred leader first. `min_insync_replicas` None: not set."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    min_insync_replicas: int | None = None


class Timing(Struct, frozen=True):
    """Times that brokers with replicas take, in ms, as recorded of real nodes (tests/golden/restarts). One without
    takes no time for any of it.

    fenced: from the controlled shutdown until the answer that lets it go. shutdown: until its process ends. load: from
    its registration until it wants to be unfenced. recovery: so much longer after an unclean stop. catch_up: from then
    on until a replica is in sync, at least and at most. snapshot: from one snapshot of the metadata to the next. idle:
    from one NoOp of a controller that has nothing else to write to the next.
    """

    fenced: int = 2_300
    shutdown: int = 2_900
    load: int = 1_100
    recovery: int = 4_000
    catch_up: tuple[int, int] = (300, 2_400)
    snapshot: int = 3_600_000  # metadata.log.max.snapshot.interval.ms
    idle: int = NOOP_MS


class Plan(Struct, frozen=True):
    """A cluster. `levels`: finalized levels, metadata.version among them; kraft.version 1 makes the quorum a dynamic
    one. `leader`: the first active controller, the lowest id when None. `cluster_id` None: drawn at random.
    `min_insync_replicas`: what the files of brokers say, which no log knows, and of controllers, unless
    `controllers_min_insync_replicas` says otherwise. `zk_migration_state`: what a cluster of
    Kafka 3.x begins with; 2 where it comes from ZooKeeper.
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
