"""What prevents a migration, by readings of real nodes: two clusters of Kafka 3.9 in one ensemble. One of them may be
migrated; of the other one nearly everything is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kazoo.client import KazooClient

from kafkafeatures.api.values import replace
from kafkafeatures.core.facts.observe import observe
from kafkafeatures.core.facts.readings import Failure
from kafkafeatures.core.facts.settings import IBP
from kafkafeatures.core.facts.znodes import ZooKeeperReading
from kafkafeatures.core.migration.positions import Position
from kafkafeatures.core.migration.preflight import NAMES, findings
from kafkafeatures.core.migration.preflight_input import PreflightInput
from kafkafeatures.core.migration.settings import AUTHORIZER, CONNECT, LISTENER, OF_ZOOKEEPER, Shape
from kafkafeatures.core.migration.settings import STANDARD_AUTHORIZER as STANDARD
from kafkafeatures.environment import SYSTEM
from kafkafeatures.kafka.base.settings import ClusterSettings, parse_addresses
from kafkafeatures.kafka.cluster import Cluster
from kafkafeatures.zookeeper.copied import dry_run
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from kafkafeatures.zookeeper.reader import read_zookeeper
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.held import BROKER, set_config
from tests.e2e.rig.migrating import MigratingCluster
from tests.e2e.rig.process import Daemon, wait_until
from tests.e2e.rig.zookeeper import ZooKeeper, read_znode

SOUND, SPOILED = "4L6g3nShT-eMCtK--X86sw", "5L6g3nShT-eMCtK--X86sw"
GENERATED = 1001
"""The first id that a broker takes which has none."""
USERS = {"super.users": "User:ANONYMOUS"}
SECRETS = {"password.encoder.secret": "encodes-for-tests", "delegation.token.secret.key": "signs-for-tests"}
JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hidden-9f3c";'
FIRST, AGAIN = Position.PRE_MIGRATION, Position.COPIED


class Rig:
    """`sound`, `spoiled`: the clusters. `client`: of the ensemble, which may write."""

    def __init__(self, sound: MigratingCluster, spoiled: MigratingCluster, client: KazooClient) -> None:
        self.sound, self.spoiled, self.client = sound, spoiled, client


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    root = tmp_path_factory.mktemp("preflight")
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(root))
        client = KazooClient(zookeeper.connect)
        client.start()
        stack.callback(client.close)
        stack.callback(client.stop)

        def cluster_of(name: str, *brokers: int) -> MigratingCluster:
            extra = {**USERS, **SECRETS, AUTHORIZER: OF_ZOOKEEPER}
            made = MigratingCluster(
                root / name, zookeeper, chroot=f"/{name}", brokers=brokers, controllers=(3001,), extra=extra
            )
            return stack.enter_context(made)

        sound, spoiled = cluster_of("sound", 1), cluster_of("spoiled", 1, 2)
        for cluster, id_, release in ((sound, SOUND, "3.9"), (spoiled, SPOILED, "3.8")):
            path = f"/{cluster.root.name}/cluster/id"  # brokers take the id that they find
            client.create(path, json.dumps({"version": "1", "id": id_}).encode(), makepath=True)
            cluster.format_controllers(id_, release)
        sound.run(1, Shape.PLAIN_BROKER)
        same = {**USERS, **SECRETS, AUTHORIZER: STANDARD}
        sound.start(3001, {**sound.settings(3001, Shape.MIGRATING_CONTROLLER), **same})
        _start_spoiled(spoiled)
        for cluster in (sound, spoiled):
            for broker in cluster.brokers:
                name, port = f"{cluster.root.name} {broker}", cluster.ports[broker]
                wait_until(f"{name} lists brokers", partial(_lists, cluster.nodes[broker], port), step=0.2)
            set_config(cluster.ports[1], BROKER, "1", JAAS, LOGIN)  # a password, which ZooKeeper gets encoded
        wait_until("the controllers reached ZooKeeper", lambda: client.exists("/sound/migration"), step=0.2)
        wait_until("they reached another chroot", lambda: client.exists("/spoilt/migration"), step=0.2)
        yield Rig(sound, spoiled, client)


def _start_spoiled(cluster: MigratingCluster) -> None:
    """A broker with several log dirs before 3.7-IV2, one that has no id and no protocol of its own; a controller with
    another listener, another chroot and another default.
    """
    broker = cluster.settings(1, Shape.PLAIN_BROKER)
    dirs = ",".join(str(cluster.root / f"1-{name}") for name in "ab")
    cluster.start(1, {**broker, IBP: "3.7-IV1", "log.dirs": dirs})
    without = cluster.settings(2, Shape.PLAIN_BROKER)
    cluster.start(2, {name: value for name, value in without.items() if name not in ("broker.id", IBP)})
    controller = cluster.settings(3001, Shape.MIGRATING_CONTROLLER)
    listeners = "REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT"
    otherwise = {
        LISTENER: "REPLICATION", "listener.security.protocol.map": listeners, "num.partitions": "6",
        CONNECT: cluster.ensemble.replace("/spoiled", "/spoilt"), AUTHORIZER: STANDARD,
        "allow.everyone.if.no.acl.found": "true",
    }  # fmt: skip
    cluster.start(3001, {**controller, **otherwise})


def _lists(node: Daemon, port: int) -> bool:
    assert node.alive, node.log[-2000:]
    with suppress(OSError, ValueError, KafkaError):
        return bool(listed_brokers(port))
    return False


def ensemble_of(cluster: MigratingCluster) -> Ensemble:
    return Ensemble(*parse_connect(cluster.ensemble, "test"))


async def look(cluster: MigratingCluster, end: Position, ensemble: Ensemble | None = None) -> PreflightInput:
    """What a reconciliation reads: znodes first, then the nodes, with controllers once there have to be some."""
    where = ensemble or ensemble_of(cluster)
    znodes = await read_zookeeper(where, lambda: datetime.now(UTC))
    assert isinstance(znodes, ZooKeeperReading), znodes
    controllers = parse_addresses(cluster.bootstrap_controllers if end is AGAIN else "", "test")
    settings = ClusterSettings(parse_addresses(cluster.bootstrap_servers, "test"), controllers, request_timeout=5)
    async with Cluster(settings, environment=SYSTEM) as nodes:
        seen = observe(*await nodes.read(settings=NAMES), zookeeper=znodes)
    return PreflightInput(end, seen, znodes, await dry_run(where), controllers_for=timedelta(minutes=1))


def said(asked: PreflightInput) -> list[str]:
    return [one.message for one in findings(asked)]


def has(found: Iterable[str], *parts: str) -> bool:
    return any(all(part in one for part in parts) for one in found)


@pytest.mark.parametrize("end", [FIRST, AGAIN])
async def test_the_preflight_has_no_blocker_for_a_real_cluster_that_is_ready_to_migrate(
    rig: Rig, end: Position
) -> None:
    assert said(await look(rig.sound, end)) == []


async def test_the_preflight_names_each_real_broker_with_its_wrong_settings_before_controllers_run(rig: Rig) -> None:
    found = await look(rig.spoiled, FIRST)
    assert said(found) == [
        f"broker 1 has {IBP} 3.7-IV1, and other brokers have 3.9-IV0",
        f"broker {GENERATED} does not set {IBP}; it follows the binary, and is 3.9-IV0 now",
        f"broker {GENERATED} has a generated id: broker.id is not set, and with the flag it does not start",
        f"broker 1 has several log dirs, which need {IBP} 3.7-IV2 or higher",
    ]


async def test_the_preflight_names_controllers_that_lack_settings_of_the_brokers(rig: Rig) -> None:
    found = said(await look(rig.spoiled, AGAIN))
    assert has(found, f"broker 1 has {IBP} 3.7-IV1, and the controllers have metadata.version 3.8-IV0")
    assert has(found, f"controller 3001 has {LISTENER} REPLICATION, which is not a listener of brokers 1, {GENERATED}")
    assert has(found, f"controller 3001 has {CONNECT}", "/spoilt, and the brokers have", "another chroot")
    assert has(found, "controller 3001 has num.partitions 6, and the brokers have 1")
    assert has(found, "have not created /migration: they cannot use ZooKeeper")
    assert has(found, f"broker {GENERATED} does not set {IBP}")  # what was wrong before is said again
    assert has(found, "controller 3001 does not set password.encoder.secret", "(/config/brokers/1)")
    assert has(found, "controller 3001 sets allow.everyone.if.no.acl.found, and the brokers do not set it")
    assert "hidden-9f3c" not in str(found)


async def test_the_preflight_refuses_the_ensemble_of_another_real_cluster(rig: Rig) -> None:
    found = said(await look(rig.sound, FIRST, ensemble_of(rig.spoiled)))
    assert has(found, f"is the ensemble of cluster {SPOILED}, but the nodes belong to cluster {SOUND}")


def _controller(client: KazooClient, chroot: str) -> object:
    """The id that `/controller` names; None while it is absent."""
    claim = read_znode(client, f"{chroot}/controller")
    return claim and claim["brokerid"]


async def test_the_preflight_has_no_blocker_after_brokers_have_the_flag_and_zookeeper_is_copied(rig: Rig) -> None:
    rig.sound.start(1, rig.sound.settings(1, Shape.FLAGGED_BROKER))
    wait_until("the quorum claims ZooKeeper", lambda: _controller(rig.client, "/sound") == 3001, step=0.2)
    wait_until("the broker answers", partial(_lists, rig.sound.nodes[1], rig.sound.ports[1]), step=0.2)
    assert said(await look(rig.sound, AGAIN)) == []


async def test_the_preflight_names_a_topic_that_waits_for_its_deletion_and_a_replica_on_a_missing_broker(
    rig: Rig,
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{rig.spoiled.ports[1]}")
    try:
        for name in ("orders", "kept"):
            admin.create_topics({name: {"assignments": {0: [1, GENERATED]}, "configs": {}}})
    finally:
        admin.close()
    rig.spoiled.nodes[2].stop()
    rig.client.create("/spoiled/admin/delete_topics/orders")  # it stays until the broker is back
    found = said(await look(rig.spoiled, FIRST))
    assert has(found, "1 topic in /admin/delete_topics: orders")
    assert has(found, f"broker {GENERATED} has replicas, of kept-0 for example, but is not registered")


async def test_the_preflight_names_a_feature_and_damaged_progress_in_a_real_ensemble(rig: Rig) -> None:
    """Last: a broker that sees a finalized feature which it does not have ends itself."""
    seen = await look(rig.spoiled, FIRST)
    rig.client.set("/spoiled/feature", json.dumps({"version": 2, "status": 1, "features": {"foo": 1}}).encode())
    rig.client.create("/spoiled/migration", b"null")
    znodes = await read_zookeeper(ensemble_of(rig.spoiled), lambda: datetime.now(UTC))
    assert not isinstance(znodes, Failure)
    found = said(replace(seen, znodes=znodes))
    assert has(found, "/feature has finalized features, which Kafka does not copy: foo")
    assert has(found, "znode /migration: cannot be read", "the controllers would wait forever")
