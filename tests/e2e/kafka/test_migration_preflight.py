"""The preflight of a migration, with readings of real nodes: two clusters of Kafka 3.9 in one ensemble.

The cluster `sound` can be migrated. The cluster `spoiled` has nearly every problem that the preflight detects.
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
"""The first id that Kafka generates for a broker without one."""
USERS = {"super.users": "User:ANONYMOUS"}
SECRETS = {"password.encoder.secret": "encodes-for-tests", "delegation.token.secret.key": "signs-for-tests"}
JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hidden-9f3c";'
NO_CONTROLLERS_YET, WITH_CONTROLLERS = Position.PRE_MIGRATION, Position.COPIED
"""Ends of a plan: for the first, the preflight runs before there are controllers."""


class Rig:
    """The two clusters, and a client of their ensemble that may write."""

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
            cluster = MigratingCluster(
                root / name, zookeeper, chroot=f"/{name}", brokers=brokers, controllers=(3001,), extra=extra
            )
            return stack.enter_context(cluster)

        sound, spoiled = cluster_of("sound", 1), cluster_of("spoiled", 1, 2)
        for cluster, id_, release in ((sound, SOUND, "3.9"), (spoiled, SPOILED, "3.8")):
            path = f"/{cluster.root.name}/cluster/id"  # brokers use the cluster id that they find there
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
            set_config(cluster.ports[1], BROKER, "1", JAAS, LOGIN)  # a password, which Kafka encodes in ZooKeeper
        wait_until("the controllers reached ZooKeeper", lambda: client.exists("/sound/migration"), step=0.2)
        wait_until("they reached another chroot", lambda: client.exists("/spoilt/migration"), step=0.2)
        yield Rig(sound, spoiled, client)


def _start_spoiled(cluster: MigratingCluster) -> None:
    """Start a broker with several log dirs before 3.7-IV2, and one that sets neither an id nor a protocol version.

    And a controller with another listener, another chroot and another default than the brokers.
    """
    broker = cluster.settings(1, Shape.PLAIN_BROKER)
    dirs = ",".join(str(cluster.root / f"1-{name}") for name in "ab")
    cluster.start(1, {**broker, IBP: "3.7-IV1", "log.dirs": dirs})
    without = cluster.settings(2, Shape.PLAIN_BROKER)
    cluster.start(2, {name: value for name, value in without.items() if name not in ("broker.id", IBP)})
    controller = cluster.settings(3001, Shape.MIGRATING_CONTROLLER)
    listeners = "REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT"
    wrong = {
        LISTENER: "REPLICATION", "listener.security.protocol.map": listeners, "num.partitions": "6",
        CONNECT: cluster.ensemble.replace("/spoiled", "/spoilt"), AUTHORIZER: STANDARD,
        "allow.everyone.if.no.acl.found": "true",
    }  # fmt: skip
    cluster.start(3001, {**controller, **wrong})


def _lists(node: Daemon, port: int) -> bool:
    assert node.alive, node.log[-2000:]
    with suppress(OSError, ValueError, KafkaError):
        return bool(listed_brokers(port))
    return False


def ensemble_of(cluster: MigratingCluster) -> Ensemble:
    return Ensemble(*parse_connect(cluster.ensemble, "test"))


async def read_input(cluster: MigratingCluster, end: Position, ensemble: Ensemble | None = None) -> PreflightInput:
    """Read what a reconciliation reads: znodes first, then the nodes. Controllers only if there should be some."""
    source = ensemble or ensemble_of(cluster)
    znodes = await read_zookeeper(source, lambda: datetime.now(UTC))
    assert isinstance(znodes, ZooKeeperReading), znodes
    controllers = parse_addresses(cluster.bootstrap_controllers if end is WITH_CONTROLLERS else "", "test")
    settings = ClusterSettings(parse_addresses(cluster.bootstrap_servers, "test"), controllers, request_timeout=5)
    async with Cluster(settings, environment=SYSTEM) as nodes:
        seen = observe(*await nodes.read(settings=NAMES), zookeeper=znodes)
    return PreflightInput(end, seen, znodes, await dry_run(source), controllers_for=timedelta(minutes=1))


def messages(preflight: PreflightInput) -> list[str]:
    return [finding.message for finding in findings(preflight)]


def has(found: Iterable[str], *parts: str) -> bool:
    """True if one of the messages contains all parts."""
    return any(all(part in message for part in parts) for message in found)


@pytest.mark.parametrize("end", [NO_CONTROLLERS_YET, WITH_CONTROLLERS])
async def test_the_preflight_has_no_blocker_for_a_real_cluster_that_is_ready_to_migrate(
    rig: Rig, end: Position
) -> None:
    assert messages(await read_input(rig.sound, end)) == []


async def test_the_preflight_names_each_real_broker_with_its_wrong_settings_before_controllers_run(rig: Rig) -> None:
    found = await read_input(rig.spoiled, NO_CONTROLLERS_YET)
    assert messages(found) == [
        f"broker 1 has {IBP} 3.7-IV1, and other brokers have 3.9-IV0",
        f"broker {GENERATED} does not set {IBP}; it follows the binary, and is 3.9-IV0 now",
        f"broker {GENERATED} has a generated id: broker.id is not set, and with "
        "zookeeper.metadata.migration.enable it does not start",
        f"broker 1 has several log dirs, which need {IBP} 3.7-IV2 or higher",
    ]


async def test_the_preflight_names_controllers_that_lack_settings_of_the_brokers(rig: Rig) -> None:
    found = messages(await read_input(rig.spoiled, WITH_CONTROLLERS))
    assert has(found, f"broker 1 has {IBP} 3.7-IV1, and the controllers have metadata.version 3.8-IV0")
    assert has(found, f"controller 3001 has {LISTENER} REPLICATION, which is not a listener of brokers 1, {GENERATED}")
    assert has(found, f"controller 3001 has {CONNECT}", "/spoilt, and the brokers have", "another chroot")
    assert has(found, "controller 3001 has num.partitions 6, and the brokers have 1")
    assert has(found, "have not created /migration: they cannot use ZooKeeper")
    assert has(found, f"broker {GENERATED} does not set {IBP}")  # findings of the brokers remain
    assert has(found, "controller 3001 does not set password.encoder.secret", "(/config/brokers/1)")
    assert has(found, "controller 3001 sets allow.everyone.if.no.acl.found, and the brokers do not set it")
    assert "hidden-9f3c" not in str(found)


async def test_the_preflight_refuses_the_ensemble_of_another_real_cluster(rig: Rig) -> None:
    found = messages(await read_input(rig.sound, NO_CONTROLLERS_YET, ensemble_of(rig.spoiled)))
    assert has(found, f"is the ensemble of cluster {SPOILED}, but the nodes belong to cluster {SOUND}")


def _controller(client: KazooClient, chroot: str) -> object:
    """The id that `/controller` names; None while it is absent."""
    claim = read_znode(client, f"{chroot}/controller")
    return claim and claim["brokerid"]


async def test_the_preflight_has_no_blocker_after_brokers_have_the_flag_and_zookeeper_is_copied(rig: Rig) -> None:
    rig.sound.start(1, rig.sound.settings(1, Shape.FLAGGED_BROKER))
    wait_until("the quorum claims ZooKeeper", lambda: _controller(rig.client, "/sound") == 3001, step=0.2)
    wait_until("the broker answers", partial(_lists, rig.sound.nodes[1], rig.sound.ports[1]), step=0.2)
    assert messages(await read_input(rig.sound, WITH_CONTROLLERS)) == []


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
    rig.client.create("/spoiled/admin/delete_topics/orders")  # the topic remains until the broker is back
    found = messages(await read_input(rig.spoiled, NO_CONTROLLERS_YET))
    assert has(found, "1 topic in /admin/delete_topics: orders")
    assert has(found, f"broker {GENERATED} has replicas, of kept-0 for example, but is not registered")


async def test_the_preflight_names_a_feature_and_damaged_progress_in_a_real_ensemble(rig: Rig) -> None:
    """The last test: a broker that sees a finalized feature which it does not support exits."""
    seen = await read_input(rig.spoiled, NO_CONTROLLERS_YET)
    rig.client.set("/spoiled/feature", json.dumps({"version": 2, "status": 1, "features": {"foo": 1}}).encode())
    rig.client.create("/spoiled/migration", b"null")
    znodes = await read_zookeeper(ensemble_of(rig.spoiled), lambda: datetime.now(UTC))
    assert not isinstance(znodes, Failure)
    found = messages(replace(seen, znodes=znodes))
    assert has(found, "/feature has finalized features, which Kafka does not copy: foo")
    assert has(found, "znode /migration: cannot be read", "the controllers would wait forever")
