"""Partitions of a real cluster before and during a migration from ZooKeeper, compared with Kafka's own tool.

They are read from whatever is the controller. All tests of this file use one cluster, in their order: three brokers in
ZooKeeper mode, then with a quorum that waits, then in dual write.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kazoo.client import KazooClient

from kafkafeatures.api.spec import Availability
from kafkafeatures.api.status import Status
from kafkafeatures.core import kinds
from kafkafeatures.core.engine.desired_state import DesiredState
from kafkafeatures.core.engine.kind import ReadContext, ReadRequirements
from kafkafeatures.core.facts.observation import Known, Observation, Unknown
from kafkafeatures.core.facts.readings import NOT_ASKED, Failure, FailureKind, PartitionsReading
from kafkafeatures.core.facts.replication import Replication
from kafkafeatures.core.levels.stage import Levels
from kafkafeatures.core.migration.settings import Shape
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.reconcile.look import Ports, look, look_again
from kafkafeatures.zookeeper.client import ZooKeeper as EnsemblePort
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kraftlog.image import ZkMigrationState
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.releases import OLD, release
from tests.e2e.rig.zookeeper import ZooKeeper, read_znode

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
QUICK = {"zookeeper.session.timeout.ms": "3000", "controlled.shutdown.enable": "false"}
"""The session of a killed broker ends after seconds, and a stopped broker does not hand over its partitions."""
TOPICS: dict[str, dict[str, Any]] = {
    "orders": {"assignments": {at: [at % 3 + 1, (at + 1) % 3 + 1, (at + 2) % 3 + 1] for at in range(6)}},
    "payments": {"assignments": {0: [1, 2, 3], 1: [3, 2, 1]}, "configs": {"min.insync.replicas": "2"}},
    "alone": {"assignments": {0: [1], 1: [2], 2: [3]}},
}
ROW = re.compile(r"^\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S*)\tIsr: (\S*)(.*)$", re.MULTILINE)

Rows = dict[tuple[str, int], tuple[int, tuple[int, ...], frozenset[int], frozenset[int], frozenset[int]]]
"""Leader, replicas, those in sync, those that are added and those that are removed."""


class Demanding(Levels):
    """A stage that needs partitions in each reading, with or without znodes."""

    def __init__(self, *, znodes: bool) -> None:
        self._znodes = znodes

    def demands(self, asked: ReadContext) -> ReadRequirements:
        return ReadRequirements(partitions=True, znodes=self._znodes)


class Rig:
    """The cluster, a client of its ensemble that may write, and the id of the broker that is stopped."""

    def __init__(self, cluster: MigratingCluster, client: KazooClient) -> None:
        self.cluster, self.client, self.stopped = cluster, client, 0
        self.ensemble = EnsemblePort(Ensemble(*parse_connect(cluster.ensemble, "test"), timeout=10.0), SYSTEM)

    def controller(self) -> int:
        claim = read_znode(self.client, "/kafka/controller")
        return -1 if claim is None else int(claim["brokerid"])

    def is_copied(self) -> bool:
        """True if `/migration` says so, and each replica is in sync according to Kafka's tool."""
        if json.loads(self.client.get("/kafka/migration")[0])["kraft_metadata_offset"] > 0:
            with suppress(subprocess.SubprocessError):
                rows = self.described().values()
                return all(set(replicas) - adding <= in_sync for _, replicas, in_sync, adding, _ in rows)
        return False

    def readings(self, *, moves: bool = False) -> tuple[Observation, Observation]:
        """A reading, and the one that is made right before a restart.

        `moves`: another controller is elected during each of them.
        """
        servers, controllers = self.cluster.bootstrap_servers, self.cluster.bootstrap_controllers

        async def both() -> tuple[Observation, Observation]:
            settings = ClusterSettings(parse_addresses(servers, ""), parse_addresses(controllers, ""))
            async with Cluster(settings, environment=SYSTEM) as kafka:
                context = ReadContext(DesiredState({}), Status(), NOT_ASKED, SYSTEM.clock())
                ports = Ports(kafka, None, self.ensemble)
                if moves:
                    kafka.read = partial(self._moving, kafka.read)  # type: ignore[method-assign]
                    kafka.look_again = partial(self._moving, kafka.look_again)  # type: ignore[method-assign]
                return await look(ports, context, lambda _: True), await look_again(ports, context)

        return asyncio.run(both())

    async def _moving(self, read: Callable[..., Awaitable[Any]], **options: Any) -> Any:
        """What `read` reads. Before it returns, a controller is elected, which may be the same one again."""
        readings = await read(**options)
        before = self.client.get("/kafka/controller")[1].czxid
        await asyncio.to_thread(self.client.delete, "/kafka/controller")
        wait_until("a broker is elected", lambda: self.controller() >= 0)
        assert self.client.get("/kafka/controller")[1].czxid != before
        return readings

    def described(self) -> Rows:
        """What `kafka-topics.sh --describe` shows."""
        servers = ",".join(
            f"127.0.0.1:{self.cluster.ports[id_]}" for id_ in self.cluster.brokers if self.cluster.nodes[id_].alive
        )
        command = release(OLD).java(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", servers, "--describe", log4j="tool"
        )
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        rows: Rows = {}
        for topic, at, leader, replicas, in_sync, rest in ROW.findall(done.stdout):
            adding, removing = (re.search(rf"{kind} Replicas: ([\d,]*)", rest) for kind in ("Adding", "Removing"))
            rows[topic, int(at)] = (
                -1 if leader == "none" else int(leader),
                _ids(replicas),
                frozenset(_ids(in_sync)),
                frozenset(_ids(adding[1] if adding else "")),
                frozenset(_ids(removing[1] if removing else "")),
            )
        return rows


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(id_) for id_ in text.split(",") if id_)


def rows(observation: Observation) -> Rows:
    partitions = read(observation).partitions
    return {
        (name, at): (row.leader, row.replicas, row.in_sync, row.adding, row.removing)
        for name, at, row in partitions.rows()
    }


def read(observation: Observation) -> PartitionsReading:
    assert isinstance(observation.partitions, Known), observation.partitions
    return observation.partitions.value


@pytest.fixture(autouse=True)
def _demanding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "STAGES", (Demanding(znodes=True),))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    root = tmp_path_factory.mktemp("elected")
    with (
        ZooKeeper(root) as zookeeper,
        MigratingCluster(root / "nodes", zookeeper, controllers=(3001,), extra=QUICK) as cluster,
    ):
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            identity = json.dumps({"version": "1", "id": CLUSTER_ID}).encode()
            client.create(
                "/kafka/cluster/id", identity, makepath=True
            )  # brokers use the cluster id that they find there
            for id_ in cluster.brokers:
                cluster.run(id_, Shape.PLAIN_BROKER)
            cluster.format_controllers(CLUSTER_ID)
            wait_until("each broker lists all", lambda: all(_lists(cluster, id_) for id_ in (1, 2, 3)), step=0.2)
            yield Rig(cluster, client)
        finally:
            client.stop()
            client.close()


def _lists(cluster: MigratingCluster, id_: int) -> bool:
    assert cluster.nodes[id_].alive, cluster.nodes[id_].log[-3000:]
    with suppress(OSError, ValueError):
        return listed_brokers(cluster.ports[id_]) == set(cluster.brokers)
    return False


def settled(rig: Rig, holds: Callable[[Observation], bool]) -> Observation:
    """Read the cluster until `holds` is true for both readings. Asserts that they equal the output of Kafka's tool."""
    observations: list[Observation] = []

    def is_so() -> bool:
        observations[:] = rig.readings()
        return all(holds(observation) for observation in observations)

    try:
        wait_until("the partitions are as expected", is_so, 240, step=0.3)
    except AssertionError as late:
        for id_, node in rig.cluster.nodes.items():
            late.add_note(f"{id_} {'runs' if node.alive else 'does not run'}: {node.log[-2000:]}")
        raise AssertionError(f"{late}: {'; '.join(map(_shown, observations))}") from late
    assert rows(observations[0]) == rows(observations[1]) == rig.described()
    return observations[1]


def wait_until_all_are_listed(rig: Rig, restarted: int) -> None:
    brokers = rig.cluster.brokers
    description = f"{restarted} is back, and each broker lists all"
    wait_until(description, lambda: all(_lists(rig.cluster, id_) for id_ in brokers), step=0.2)


def _shown(observation: Observation) -> str:
    partitions = observation.partitions
    behind = Replication(partitions.value).under_replicated() if isinstance(partitions, Known) else partitions
    return f"{state(observation)}, not in sync {behind}, gaps {observation.gaps}"


def is_away(rig: Rig) -> Callable[[Observation], bool]:
    """True if the killed broker is in sync only for partitions of which it had the last replica."""

    def holds(observation: Observation) -> bool:
        if isinstance(observation.partitions, Unknown):
            return False
        all_rows = rows(observation).values()
        return all(rig.stopped not in in_sync or leader == -1 for leader, _, in_sync, *_ in all_rows)

    return holds


def unknown(observation: Observation) -> Failure:
    assert isinstance(observation.partitions, Unknown), observation.partitions
    return observation.partitions.failure


def test_partitions_in_zookeeper_mode_come_from_the_broker_that_is_controller(rig: Rig) -> None:
    """A broker is killed while a replica is added to it, so that this reassignment cannot end."""
    cluster, controller = rig.cluster, rig.controller()
    rig.stopped = next(id_ for id_ in cluster.brokers if id_ != controller)
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{cluster.ports[controller]}")
    try:
        admin.create_topics(TOPICS)
        cluster.nodes[rig.stopped].freeze()
        done = admin.alter_partition_reassignments({TopicPartition("alone", controller - 1): [controller, rig.stopped]})
    finally:
        admin.close()
    assert set(done.values()) == {None}
    cluster.nodes[rig.stopped].kill()

    found = read(settled(rig, is_away(rig)))
    assert found.claim is not None
    assert (found.claim.node_id, found.claim.is_kraft, found.offset) == (controller, False, -1)
    assert found.partitions.min_insync_replicas.topics == {"payments": 2}
    assert found.default_min_insync_replicas == 1

    replication = Replication(found)
    assert len(replication) == 11
    assert replication.reassigning() == (1, (f"alone-{controller - 1}",))
    assert replication.offline() == (1, (f"alone-{rig.stopped - 1}",))
    assert replication.under_replicated()[0] == 8  # all partitions with three replicas
    (third,) = set(cluster.brokers) - {controller, rig.stopped}
    now = replication.judge(frozenset({rig.stopped}), Availability.RESPECT_MIN_ISR)
    assert (now.allows(rig.stopped), now.allows(third), now.allows(controller)) == (True, False, False)


def test_partitions_are_unknown_where_another_controller_was_elected_meanwhile(rig: Rig) -> None:
    first, second = rig.readings(moves=True)
    assert unknown(first).message == "the controller changed while they were read"
    assert unknown(second).kind is FailureKind.STALE  # also if the broker does not know yet that it was elected
    settled(rig, is_away(rig))


def test_partitions_in_zookeeper_mode_are_unknown_where_zookeeper_is_not_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "STAGES", (Demanding(znodes=False),))
    for observation in rig.readings():
        assert unknown(observation).kind is FailureKind.NOT_ASKED
        assert "name the ensemble" in unknown(observation).remedy


def test_partitions_do_not_come_from_the_log_in_pre_migration(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.cluster.run(3001, Shape.MIGRATING_CONTROLLER)
    observation = settled(rig, lambda each: is_away(rig)(each) and state(each) is ZkMigrationState.PRE_MIGRATION)
    assert read(observation).offset == -1
    for observation in rig.readings(moves=True):
        assert state(observation) is ZkMigrationState.PRE_MIGRATION
        assert unknown(observation).kind is FailureKind.STALE
    monkeypatch.setattr(kinds, "STAGES", (Demanding(znodes=False),))
    for observation in rig.readings():
        assert state(observation) is ZkMigrationState.PRE_MIGRATION
        assert "was not read" in unknown(observation).message


def test_partitions_in_dual_write_come_from_the_log(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = rig.cluster
    for id_ in sorted(cluster.brokers, key=lambda each: each != rig.stopped):  # one after the other, as a person does
        cluster.run(id_, Shape.FLAGGED_BROKER)
        wait_until_all_are_listed(rig, id_)
    try:
        wait_until("Kafka has copied ZooKeeper", rig.is_copied, 100, step=1)
    except AssertionError:  # elections may race while brokers restart: a person would restart nodes that hang
        for id_ in cluster.nodes:
            cluster.kill_and_run(id_)
            wait_until_all_are_listed(rig, id_)
        wait_until("Kafka has copied ZooKeeper", rig.is_copied, 100, step=1)

    def holds(observation: Observation) -> bool:
        if state(observation) is not ZkMigrationState.MIGRATION or isinstance(observation.partitions, Unknown):
            return False
        return not Replication(read(observation)).under_replicated()[0]

    found = read(settled(rig, holds))
    assert found.offset > 0
    assert found.claim is not None
    assert (found.claim.node_id, found.claim.is_kraft) == (3001, True)
    assert found.partitions.min_insync_replicas.topics == {"payments": 2}
    monkeypatch.setattr(kinds, "STAGES", (Demanding(znodes=False),))
    for observation in rig.readings():
        assert "was not read" in unknown(observation).message


def state(observation: Observation) -> ZkMigrationState | None:
    found = observation.zk_migration_state
    return ZkMigrationState.of(found.value) if isinstance(found, Known) else None
