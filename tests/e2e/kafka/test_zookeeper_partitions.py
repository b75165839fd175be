"""Partitions of a real cluster while it migrates from ZooKeeper, as the operator reads them, compared with Kafka's own
tool.

All tests share one cluster, which goes on in their order: three brokers in ZooKeeper mode, then beside them a quorum
that waits for them (pre-migration), then dual write.
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
"""The session of a killed broker ends after 3 s, and a broker that is stopped does not hand over its leaders."""
TOPICS: dict[str, dict[str, Any]] = {
    "orders": {"assignments": {at: [at % 3 + 1, (at + 1) % 3 + 1, (at + 2) % 3 + 1] for at in range(6)}},
    "payments": {"assignments": {0: [1, 2, 3], 1: [3, 2, 1]}, "configs": {"min.insync.replicas": "2"}},
    "alone": {"assignments": {0: [1], 1: [2], 2: [3]}},
}
"""Eight partitions with three replicas each, and three with a single replica, one on each broker."""
ROW = re.compile(r"^\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S*)\tIsr: (\S*)(.*)$", re.MULTILINE)

Rows = dict[tuple[str, int], tuple[int, tuple[int, ...], frozenset[int], frozenset[int], frozenset[int]]]
"""By topic and partition: leader (-1: none), replicas, and those that are in sync, being added and being removed."""


class Demanding(Levels):
    """A stage that requires partitions in each reading of the cluster, with the znodes or without."""

    def __init__(self, *, znodes: bool) -> None:
        self._znodes = znodes

    def demands(self, asked: ReadContext) -> ReadRequirements:
        return ReadRequirements(partitions=True, znodes=self._znodes)


class Rig:
    """The cluster. `client`: a client of the ensemble that may write. `stopped`: the broker that is away; 0: none."""

    def __init__(self, cluster: MigratingCluster, client: KazooClient) -> None:
        self.cluster, self.client, self.stopped = cluster, client, 0
        self.ensemble = EnsemblePort(Ensemble(*parse_connect(cluster.ensemble, "test"), timeout=10.0), SYSTEM)

    def controller(self) -> int:
        claim = read_znode(self.client, "/kafka/controller")
        return -1 if claim is None else int(claim["brokerid"])

    def is_copied(self) -> bool:
        """True if a znode says that the metadata was copied, and Kafka's tool shows every replica in sync."""
        if json.loads(self.client.get("/kafka/migration")[0])["kraft_metadata_offset"] > 0:
            with suppress(subprocess.SubprocessError):
                rows = self.described().values()
                return all(set(replicas) - adding <= in_sync for _, replicas, in_sync, adding, _ in rows)
        return False

    def observations(self, *, moves: bool = False) -> tuple[Observation, Observation]:
        """The observation of a reconciliation, and that right before a restart. `moves`: a broker is elected controller
        anew while each of them is made.
        """
        servers, controllers = self.cluster.bootstrap_servers, self.cluster.bootstrap_controllers

        async def both() -> tuple[Observation, Observation]:
            settings = ClusterSettings(parse_addresses(servers, ""), parse_addresses(controllers, ""))
            async with Cluster(settings, environment=SYSTEM) as kafka:
                asked, ports = (
                    ReadContext(DesiredState({}), Status(), NOT_ASKED, SYSTEM.clock()),
                    Ports(kafka, None, self.ensemble),
                )
                if moves:
                    kafka.read = partial(self._moving, kafka.read)  # type: ignore[method-assign]
                    kafka.look_again = partial(self._moving, kafka.look_again)  # type: ignore[method-assign]
                return await look(ports, asked, lambda _: True), await look_again(ports, asked)

        return asyncio.run(both())

    async def _moving(self, read: Callable[..., Awaitable[Any]], **options: Any) -> Any:
        """Read, then have a controller elected, be it another broker or the same one, and only then return."""
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
        found: Rows = {}
        for topic, at, leader, replicas, in_sync, rest in ROW.findall(done.stdout):
            adding, removing = (re.search(rf"{kind} Replicas: ([\d,]*)", rest) for kind in ("Adding", "Removing"))
            found[topic, int(at)] = (
                -1 if leader == "none" else int(leader),
                _ids(replicas),
                frozenset(_ids(in_sync)),
                frozenset(_ids(adding[1] if adding else "")),
                frozenset(_ids(removing[1] if removing else "")),
            )
        return found


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one)


def rows(seen: Observation) -> Rows:
    found = read(seen).partitions
    return {
        (name, at): (one.leader, one.replicas, one.in_sync, one.adding, one.removing) for name, at, one in found.rows()
    }


def read(seen: Observation) -> PartitionsReading:
    assert isinstance(seen.partitions, Known), seen.partitions
    return seen.partitions.value


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
            client.create("/kafka/cluster/id", identity, makepath=True)  # brokers take the id that they find
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
    """Wait until `holds` is true of both observations. Then both must have the same partitions as Kafka's tool shows.
    Returns the second one.
    """
    seen: list[Observation] = []

    def is_so() -> bool:
        seen[:] = rig.observations()
        return all(holds(one) for one in seen)

    try:
        wait_until("it is as expected", is_so, 240, step=0.3)
    except AssertionError as late:
        for id_, node in rig.cluster.nodes.items():
            late.add_note(f"{id_} {'runs' if node.alive else 'does not run'}: {node.log[-2000:]}")
        raise AssertionError(f"{late}: {'; '.join(map(_shown, seen))}") from late
    assert rows(seen[0]) == rows(seen[1]) == rig.described()
    return seen[1]


def lists_all(rig: Rig, restarted: int) -> None:
    brokers = rig.cluster.brokers
    each = f"{restarted} is back, and each broker lists all"
    wait_until(each, lambda: all(_lists(rig.cluster, one) for one in brokers), step=0.2)


def _shown(seen: Observation) -> str:
    found = seen.partitions
    behind = Replication(found.value).under_replicated() if isinstance(found, Known) else found
    return f"{state(seen)}, not in sync {behind}, gaps {seen.gaps}"


def is_away(rig: Rig) -> Callable[[Observation], bool]:
    """A condition: the killed broker is out of sync, except in partitions without a leader, where it was the last
    replica in sync.
    """

    def holds(seen: Observation) -> bool:
        if isinstance(seen.partitions, Unknown):
            return False
        return all(rig.stopped not in in_sync or leader == -1 for leader, _, in_sync, *_ in rows(seen).values())

    return holds


def unknown(seen: Observation) -> Failure:
    assert isinstance(seen.partitions, Unknown), seen.partitions
    return seen.partitions.failure


def test_partitions_in_zookeeper_mode_come_from_the_broker_that_is_controller(rig: Rig) -> None:
    """One broker is killed, and a partition is being reassigned to it, which cannot end meanwhile."""
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
    assert (found.claim.node_id, found.claim.is_kraft, found.offset) == (controller, False, -1)  # -1: not from the log
    assert found.partitions.min_insync_replicas.topics == {"payments": 2}
    assert found.default_min_insync_replicas == 1

    judged = Replication(found)
    assert len(judged) == 11  # 6 of orders, 2 of payments, 3 of alone
    assert judged.reassigning() == (1, (f"alone-{controller - 1}",))
    assert judged.offline() == (1, (f"alone-{rig.stopped - 1}",))
    assert judged.under_replicated()[0] == 8  # those with three replicas; an offline partition is not counted again
    (third,) = set(cluster.brokers) - {controller, rig.stopped}
    now = judged.judge(frozenset({rig.stopped}), Availability.RESPECT_MIN_ISR)
    # Payments has two replicas in sync and requires two, so only the broker that is away already may be restarted.
    assert (now.allows(rig.stopped), now.allows(third), now.allows(controller)) == (True, False, False)


def test_partitions_are_unknown_where_another_controller_was_elected_meanwhile(rig: Rig) -> None:
    first, second = rig.observations(moves=True)
    assert unknown(first).message == "the controller changed while they were read"
    # The message of the second one may also be about a broker that does not know yet that it was elected.
    assert unknown(second).kind is FailureKind.STALE
    settled(rig, is_away(rig))


def test_partitions_in_zookeeper_mode_are_unknown_where_zookeeper_is_not_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "STAGES", (Demanding(znodes=False),))
    for seen in rig.observations():
        assert unknown(seen).kind is FailureKind.NOT_ASKED
        assert "name the ensemble" in unknown(seen).remedy


def test_partitions_do_not_come_from_the_log_in_pre_migration(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.cluster.run(3001, Shape.MIGRATING_CONTROLLER)
    seen = settled(rig, lambda one: is_away(rig)(one) and state(one) is ZkMigrationState.PRE_MIGRATION)
    assert read(seen).offset == -1  # not from the log
    for one in rig.observations(moves=True):
        assert state(one) is ZkMigrationState.PRE_MIGRATION
        assert unknown(one).kind is FailureKind.STALE
    # Without the znodes there are no partitions at all, although the log can be read by now.
    monkeypatch.setattr(kinds, "STAGES", (Demanding(znodes=False),))
    for one in rig.observations():
        assert state(one) is ZkMigrationState.PRE_MIGRATION
        assert "was not read" in unknown(one).message


def test_partitions_in_dual_write_come_from_the_log(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = rig.cluster
    for id_ in sorted(cluster.brokers, key=lambda one: one != rig.stopped):  # one by one, as a person does
        cluster.run(id_, Shape.FLAGGED_BROKER)
        lists_all(rig, id_)
    try:
        wait_until("Kafka has copied its metadata", rig.is_copied, 100, step=1)
    except AssertionError:  # Kafka's elections race while brokers restart; a person restarts the nodes that hang
        for id_ in cluster.nodes:
            cluster.kill_and_run(id_)
            lists_all(rig, id_)
        wait_until("Kafka has copied its metadata", rig.is_copied, 100, step=1)

    def holds(seen: Observation) -> bool:
        if state(seen) is not ZkMigrationState.MIGRATION or isinstance(seen.partitions, Unknown):
            return False
        return not Replication(read(seen)).under_replicated()[0]

    found = read(settled(rig, holds))
    assert found.offset > 0
    assert found.claim is not None
    assert (found.claim.node_id, found.claim.is_kraft) == (3001, True)
    assert found.partitions.min_insync_replicas.topics == {"payments": 2}
    # Without the znodes it is not known that the quorum is the controller, so its log does not count.
    monkeypatch.setattr(kinds, "STAGES", (Demanding(znodes=False),))
    for one in rig.observations():
        assert "was not read" in unknown(one).message


def state(seen: Observation) -> ZkMigrationState | None:
    found = seen.zk_migration_state
    return ZkMigrationState.of(found.value) if isinstance(found, Known) else None
