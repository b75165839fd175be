"""Implements `KafkaPort` and `ZooKeeperPort` (`core/ports.py`) on a simulated cluster that migrates.

Kafka is read through the product's `kafkafeatures.kafka.cluster.Cluster`, on connections without bytes. Znodes are
parsed and compared by the product's own code. A ZooKeeper server may be behind the others for reads without `sync`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar, cast

from kafkafeatures.core.engine.steps import Applied, NotSent, Outcome, Rejected
from kafkafeatures.core.facts import znodes
from kafkafeatures.core.facts.claims import ControllerClaim
from kafkafeatures.core.facts.readings import Failure, FailureKind, Role
from kafkafeatures.core.facts.znodes import (
    Read,
    RegisteredBroker,
    StoreComparison,
    Znode,
    ZooKeeperReading,
    of_another_cluster,
    parsed,
)
from kafkafeatures.core.migration.copied.comparison import Comparison
from kafkafeatures.core.migration.copied.expected import Expected
from kafkafeatures.core.migration.copied.places import read_entries
from kafkafeatures.core.migration.copied.survey import Sink, Survey, Surveyor
from kafkafeatures.core.migration.copied.topics import Topic, read_state, read_topic, state_path
from kafkafeatures.core.migration.delete_znodes import EPOCH as EPOCH_PATH
from kafkafeatures.core.migration.delete_znodes import DeleteZnodes
from kafkafeatures.core.migration.equality import Differs
from kafkafeatures.core.ports import PreparedDeletion, Withheld
from kafkafeatures.kafka.base.settings import Address
from kafkafeatures.kafka.cluster import Cluster
from kafkasim.connection import Access, Network
from kafkasim.migration import topics
from kafkasim.migration.cluster import MigratingCluster
from kafkasim.migration.driver import BROKERS, CONTROLLER, EPOCH, PROGRESS
from kafkasim.migration.files import ENSEMBLE
from kafkasim.migration.tree import Operation, Refused
from kafkasim.node import Node
from kafkasim.world import World
from kraftlog.image import ZkMigrationState

T = TypeVar("T")
CALL_MS = 10
"""Virtual time in ms that a reading of ZooKeeper takes."""
CLUSTER_ID = "/cluster/id"
SYNCED = (CONTROLLER, EPOCH, PROGRESS)
"""Znodes that are read with `sync`, so that they are always current."""


class MigrationNetwork(Network):
    """The processes that a client reaches: those that listen now, in either world."""

    def __init__(self, cluster: MigratingCluster, access: Access | None = None) -> None:
        self._cluster = cluster
        self._keys = {Address(*cluster.address(key)): key for key in cluster.files}
        # Of `World`, a network needs only the time here: nodes are looked up in the methods below.
        super().__init__(cast("World", cluster), access or Access())

    def addresses(self, role: Role) -> tuple[Address, ...]:
        return tuple(at for at, key in self._keys.items() if key[0] is role)

    def node_at(self, address: Address) -> Node | None:
        key = self._keys.get(address)
        answering = None if key is None else self._cluster.answering(*key)
        return None if answering is None else answering[1]

    def world_of(self, node: Node) -> World:
        answering = self._cluster.answering(node.role, node.id)
        if answering is None or answering[1] is not node:
            return self._cluster.zookeeper
        return answering[0]

    def reaches(self, node: Node) -> bool:
        answering = self._cluster.answering(node.role, node.id)
        return answering is not None and answering[1] is node and super().reaches(node)


def kafka_of(
    cluster: MigratingCluster, access: Access | None = None, *, through: type[MigrationNetwork] = MigrationNetwork
) -> tuple[Cluster, MigrationNetwork]:
    """A new adapter of the product, and its network. `through`: class of the network, which tests may replace."""
    network = through(cluster, access)
    return Cluster(network.settings, environment=network.environment, connect=network.connect), network


class SimulatedEnsemble:
    """`ZooKeeperPort`. `behind_ms`: called for each reading, returns the ms by which the server is behind."""

    def __init__(self, cluster: MigratingCluster, behind_ms: Callable[[], int] = lambda: 0) -> None:
        self._cluster, self._behind_ms = cluster, behind_ms

    async def read(self) -> ZooKeeperReading | Failure:
        """Read the znodes that a migration depends on."""
        await self._pass_time()
        served = self._cluster.tree.before(self._behind_ms())  # znodes as the server has them, maybe old ones

        def get(path: str, shape: Callable[[Znode], T]) -> Read[T]:
            return parsed(self._cluster.tree.get(path) if path in SYNCED else served.get(path), shape)

        brokers: dict[int, RegisteredBroker | Failure] = {}
        for path in served:
            if path.startswith(f"{BROKERS}/"):
                id_ = int(path.removeprefix(f"{BROKERS}/"))
                broker = get(path, partial(znodes.broker, id_))
                if broker is not None:
                    brokers[id_] = broker
        reassigning = get("/admin/reassign_partitions", znodes.reassigns)
        return ZooKeeperReading(
            self._now(), ENSEMBLE, get(CLUSTER_ID, znodes.cluster_id), get(CONTROLLER, znodes.controller),
            get(EPOCH, znodes.controller_epoch), get(PROGRESS, znodes.migration), get("/feature", znodes.feature),
            brokers, tuple(self._cluster.tree.below("/admin/delete_topics")), reassigning or False,
        )  # fmt: skip

    async def controller(self) -> Read[ControllerClaim]:
        await self._pass_time()
        return parsed(self._cluster.tree.get(CONTROLLER), znodes.controller)

    async def compare(self, cluster_id: str) -> StoreComparison | Failure:
        """Compare all topics in ZooKeeper with the metadata log, once ZooKeeper has had time to follow."""
        await self._pass_time(700)  # ms
        quorum = self._cluster.quorum
        if quorum is None or quorum.active is None:
            return Failure(FailureKind.NO_LEADER, "metadata log", "no controller is active")
        if quorum.image.zk_migration_state != ZkMigrationState.MIGRATION:
            return Failure(FailureKind.UNSUPPORTED, "metadata log", "nothing was copied yet, or all is over")
        image = quorum.image
        comparison = Comparison(Expected(image))
        self._feed(comparison)
        comparison.finish()
        differences = comparison.differences()
        if not differences:
            return StoreComparison(self._now(), image.offset)
        if self._cluster.stalls():
            return Failure(FailureKind.STALE, "znode /migration", "ZooKeeper is behind the metadata log")
        differs = Differs(image.offset, differences, comparison.omitted)
        examples = tuple(map(str, differs.examples))
        return StoreComparison(self._now(), image.offset, differs.total, str(differs), examples, digest=differs.digest)

    async def survey(self, within: float) -> Survey | Failure:
        """A survey of all znodes that Kafka copies, always a new one, whatever age `within` allows."""
        await self._pass_time()
        surveyor = Surveyor()
        self._feed(surveyor)
        return surveyor.survey

    @asynccontextmanager
    async def prepared(self, step: DeleteZnodes) -> AsyncIterator[PreparedDeletion | NotSent]:
        """Open a session for the step, in which nothing was sent yet; NotSent if it is of another cluster."""
        await self._pass_time()
        identity = self._cluster.tree.get(CLUSTER_ID)
        other = of_another_cluster(parsed(identity, znodes.cluster_id), ENSEMBLE, step.cluster_id)
        yield NotSent(str(other)) if other is not None else Transaction(self._cluster, step)

    def _feed(self, sink: Sink) -> None:
        """Pass all topics, partitions and configs in ZooKeeper to a survey or a comparison."""
        tree = self._cluster.tree
        for name in tree.below(topics.TOPICS):
            znode = tree.get(f"{topics.TOPICS}/{name}")
            topic = None if znode is None else read_topic(name, znode.data)
            sink.topic(name, topic)
            for number in topic.partitions if isinstance(topic, Topic) else ():
                state = tree.get(state_path(name, number))
                if isinstance(topic, Topic):
                    sink.partition(topic, number, read_state(name, number, None if state is None else state.data))
        for name in tree.below(topics.CONFIGS):
            path = f"{topics.CONFIGS}/{name}"
            config = tree.get(path)
            sink.entries(path, read_entries(path, None if config is None else config.data))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._cluster.now_ms / 1000, UTC)

    async def _pass_time(self, ms: int = CALL_MS) -> None:
        await asyncio.sleep(0)
        self._cluster.advance(self._cluster.now_ms + ms)


class Transaction:
    """`PreparedDeletion`. What ZooKeeper does with it is `Tree.transact`."""

    def __init__(self, cluster: MigratingCluster, step: DeleteZnodes) -> None:
        self._cluster, self._step = cluster, step

    async def send(self, withheld: Withheld) -> Outcome:
        """Send the transaction: check the cluster id, check or raise the epoch, and delete; unless it is withheld."""
        if reason := withheld():
            return NotSent(reason)
        step = self._step
        raised = None if step.raise_to is None else str(step.raise_to).encode()
        identity = self._cluster.tree.get(CLUSTER_ID)
        check = Operation(CLUSTER_ID, -1 if identity is None else identity.version)
        raise_epoch = Operation(EPOCH_PATH, step.epoch.version, raised)
        deletions = (Operation(path, life.version, deletes=True) for path, life in step.deletes.items())
        try:
            self._cluster.transact(check, raise_epoch, *deletions)
        except Refused as refusal:
            return Rejected(refusal.code, f"znode {refusal.path}: it was written or deleted meanwhile")
        return Applied()
