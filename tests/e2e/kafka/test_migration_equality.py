"""The comparison of ZooKeeper and the metadata log, on a real cluster of Kafka 3.9 that writes to both.

Kafka made the copy, so the readers of znodes must find it equal. One test uses a bug of Kafka that loses a write: when
the last quota of a client is removed, `KRaftMigrationZkWriter` logs an error and never tries again.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient

from kafkafeatures.core.migration.copied.entries import Kind
from kafkafeatures.core.migration.copied.survey import Survey
from kafkafeatures.zookeeper.copied import dry_run
from kafkafeatures.zookeeper.ensemble import Ensemble, parse_connect
from tests.e2e.kafka.cli import run
from tests.e2e.rig.asking import listed_brokers
from tests.e2e.rig.held import BROKER, TOPIC, set_config, set_quota
from tests.e2e.rig.migration import Migration
from tests.e2e.rig.process import wait_until
from tests.e2e.rig.zookeeper import ZooKeeper

SECRET = "secret-9f3c"
JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
GROUPS = ResourcePattern(ResourceType.GROUP, "g-", ACLResourcePatternType.PREFIXED)
RIGHTS = [
    ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ORDERS),
    ACL("User:bob", "10.0.0.1", ACLOperation.WRITE, ACLPermissionType.DENY, ORDERS),
    ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, GROUPS),
]
QUOTAS: list[tuple[dict[str, str | None], str, float]] = [
    ({"user": "alice@x"}, "producer_byte_rate", 1e6),
    ({"user": None}, "request_percentage", 12.5),
    ({"client-id": "app 1"}, "consumer_byte_rate", 2e6),
    ({"user": "bob", "client-id": None}, "producer_byte_rate", 3e6),
    ({"ip": "10.1.2.3"}, "connection_creation_rate", 7.0),
]


@contextmanager
def admin(cluster: Migration) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        yield client
    finally:
        client.close()


def credentials(password: str) -> list[UserScramCredentialUpsertion]:
    mechanisms = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
    return [UserScramCredentialUpsertion("alice@x", mechanism, password) for mechanism in mechanisms]


def produce(cluster: Migration) -> None:
    """For which a broker needs a block of producer ids."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True)
    try:
        producer.send("orders", b"x").get(60)
    finally:
        producer.close()


def hold_everything(cluster: Migration, zookeeper: KazooClient) -> None:
    """Create all kinds of metadata that Kafka copies. The token is written here: a request for one needs a login."""
    with admin(cluster) as client:
        configs = {"retention.ms": "1000000", "min.insync.replicas": "1"}
        client.create_topics({"orders": {"num_partitions": 3, "replication_factor": 1, "configs": configs}})
        client.create_topics({"plain": {"num_partitions": 1, "replication_factor": 1}})
        assert not client.create_acls(RIGHTS)["failed"]
        assert client.alter_user_scram_credentials(credentials(SECRET)) == {"alice@x": None}
    for entity, key, value in QUOTAS:
        set_quota(cluster.port, entity, key, value)
    set_config(cluster.port, BROKER, "", "log.retention.ms", "7200000")
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{SECRET}";'
    set_config(cluster.port, BROKER, "1", JAAS, login)
    produce(cluster)
    now = int(time.time() * 1000)
    token = {
        "version": 2, "owner": "User%3Aalice", "renewers": ["User%3Abob"], "issueTimestamp": now,
        "maxTimestamp": now + 10**9, "expiryTimestamp": now + 10**8, "tokenId": "token-1",
    }  # fmt: skip
    zookeeper.create("/kafka/delegation_token/tokens/token-1", json.dumps(token).encode(), makepath=True)


def compared(cluster: Migration) -> tuple[int, dict[str, Any]]:
    """Exit code and document of `migration compare`."""
    addresses = (
        *("--bootstrap-server", cluster.bootstrap_servers),
        *("--bootstrap-controller", cluster.bootstrap_controllers),
    )
    done = run("migration", "compare", "--zookeeper", cluster.ensemble, *addresses, "-o", "json")
    assert SECRET not in done.stdout + done.stderr
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def named(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Kind and name of each difference."""
    return {(difference["kind"], difference["name"]) for difference in document["differences"]}


class Walk:
    """A cluster in dual write. `before`: what `compare` gave before the copy. `copied`: what it gave right after it."""

    def __init__(self, cluster: Migration, client: KazooClient) -> None:
        self.cluster, self.client = cluster, client
        self.before: tuple[int, dict[str, Any]] | None = None
        self.copied: tuple[int, dict[str, Any]] | None = None
        self.survey: Survey | None = None

    def migration(self) -> dict[str, Any]:
        znode: dict[str, Any] = json.loads(self.client.get("/kafka/migration")[0])
        return znode

    @property
    def is_copied(self) -> bool:
        return self.client.exists("/kafka/migration") is not None and self.migration()["kraft_metadata_offset"] > 0


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    root = tmp_path_factory.mktemp("equality")
    with ZooKeeper(root) as zookeeper, Migration(root, zookeeper, authorizer=True) as cluster:
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            walk = Walk(cluster, client)
            cluster.run("broker", cluster.plain)
            wait_until("a broker registers", lambda: client.exists("/kafka/brokers/ids/1") is not None)
            wait_until("the broker answers", lambda: answers(cluster))
            hold_everything(cluster, client)
            cluster.format_controller(json.loads(client.get("/kafka/cluster/id")[0])["id"])
            cluster.run("controller", cluster.migrating_controller)
            wait_until("a quorum waits", lambda: client.exists("/kafka/migration") is not None)
            wait_until("the comparison says so", lambda: is_waiting(walk))
            cluster.run("broker", cluster.flagged)
            wait_until("ZooKeeper is copied", lambda: walk.is_copied)
            walk.copied = compared(cluster)
            cluster.run("broker", cluster.kraft)
            wait_until("the broker is in KRaft mode", lambda: not client.get_children("/kafka/brokers/ids"))
            wait_until("the broker answers again", lambda: answers(cluster))
            yield walk
        finally:
            client.stop()
            client.close()


def answers(cluster: Migration) -> bool:
    try:
        return listed_brokers(cluster.port) == {1}
    except (OSError, struct.error):
        return False


def is_waiting(walk: Walk) -> bool:
    """Compare once, and keep the result. True if the quorum has a leader, and nothing was copied."""
    walk.before = compared(walk.cluster)
    return "nothing was copied" in walk.before[1]["notRead"][0]["why"]


def test_the_comparison_is_unknown_before_zookeeper_is_copied(walk: Walk) -> None:
    assert walk.before is not None
    code, document = walk.before
    assert (code, document["equal"]) == (5, None)
    assert "Copied or DualWrite" in document["notRead"][0]["remedy"]


def test_all_kinds_of_metadata_are_equal_after_the_copy_and_in_dual_write(walk: Walk) -> None:
    for code, document in (walk.copied or (1, {}), compared(walk.cluster)):
        assert (code, document["equal"], document["differences"]) == (0, True, []), document
        assert document["offset"] > 0


async def test_a_dry_run_of_the_copy_reads_all_metadata_and_has_no_findings(walk: Walk) -> None:
    survey = await dry_run(Ensemble(*parse_connect(walk.cluster.ensemble, "test")))
    assert isinstance(survey, Survey)
    assert (survey.findings, survey.failures) == ((), ())
    assert {kind: survey.counts[kind] for kind in Kind if kind not in (Kind.TOPIC, Kind.PARTITION)} == {
        Kind.TOPIC_CONFIG: 2, Kind.BROKER_CONFIG: 2, Kind.QUOTA: len(QUOTAS), Kind.CREDENTIAL: 2,
        Kind.RIGHT: len(RIGHTS), Kind.TOKEN: 1, Kind.PRODUCER_ID: 1,
    }  # fmt: skip
    assert survey.passwords == ("/config/brokers/1",)
    assert survey.controller_epoch > 0
    assert set(survey.assigned) == {1}


def test_topics_acls_quotas_and_credentials_changed_in_dual_write_are_equal_in_zookeeper_and_the_log(
    walk: Walk,
) -> None:
    cluster = walk.cluster
    with admin(cluster) as client:
        topic = {"num_partitions": 2, "replication_factor": 1, "configs": {"segment.ms": "600000"}}
        client.create_topics({"made": topic, "gone": topic})
        client.create_partitions({"plain": 2})
        client.delete_topics(["gone"])
        pattern = ResourcePatternFilter(ResourceType.GROUP, "g-", ACLResourcePatternType.PREFIXED)
        client.delete_acls([ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern)])
        assert not client.create_acls([ACL("User:eve", "*", ACLOperation.ALL, ACLPermissionType.DENY, ORDERS)])[
            "failed"
        ]
        client.alter_user_scram_credentials(credentials(f"{SECRET}-2"))
    set_config(cluster.port, TOPIC, "orders", "retention.ms", "2000000")
    set_quota(cluster.port, {"user": "bob", "client-id": None}, "producer_byte_rate", 5e6)
    produce(cluster)
    code, document = compared(cluster)
    assert (code, document["differences"]) == (0, [])
    written = json.loads(walk.client.get("/kafka/latest_producer_id_block")[0])
    assert written["broker"] == -1  # the controller writes it: a block that begins with the next id


def test_a_change_by_hand_in_zookeeper_is_reported_with_both_values(walk: Walk) -> None:
    paths = [f"/kafka/{path}" for path in ("config/topics/orders", "config/users/alice%40x", "kafka-acl/Topic/orders")]
    state = "/kafka/brokers/topics/orders/partitions/0/state"
    contents = {path: walk.client.get(path)[0] for path in (*paths, state)}
    try:
        walk.client.set(paths[0], b'{"version":1,"config":{"retention.ms":"5","min.insync.replicas":"1"}}')
        walk.client.set(paths[1], contents[paths[1]].replace(b"salt=", b"salt=AAAA"))
        walk.client.set(paths[2], b"{")
        walk.client.set(state, json.dumps({**json.loads(contents[state]), "isr": [1, 2]}).encode())
        code, document = compared(walk.cluster)
        where = ("--bootstrap-controller", walk.cluster.bootstrap_controllers)
        shown = run("migration", "compare", "--zookeeper", walk.cluster.ensemble, *where)
    finally:
        for path, content in contents.items():
            walk.client.set(path, content)
    assert (code, document["equal"]) == (4, False)
    assert document["counts"] == {"partition": 1, "topic config": 1, "SCRAM credential": 2, "ACL": 1}
    assert named(document) == {
        ("partition", "orders-0"), ("topic config", "orders retention.ms"), ("ACL", "/kafka-acl/Topic/orders"),
        ("SCRAM credential", "alice@x SCRAM-SHA-256"), ("SCRAM credential", "alice@x SCRAM-SHA-512"),
    }  # fmt: skip
    assert shown.returncode == 4
    assert "topic config orders retention.ms: 5 in ZooKeeper, 2000000 in the metadata log" in shown.stdout.splitlines()
    assert "in sync 1,2, leader 1" in shown.stdout
    assert "SCRAM credential alice@x SCRAM-SHA-256: not the same, and secret" in shown.stdout
    assert SECRET not in shown.stdout
    assert compared(walk.cluster)[0] == 0


def test_an_ensemble_of_another_cluster_is_not_compared(walk: Walk) -> None:
    other = json.dumps({"version": "1", "id": "4L6g3nShT-eMCtK--X86sw"}).encode()
    walk.client.create("/other/cluster/id", other, makepath=True)
    where = ("--bootstrap-controller", walk.cluster.bootstrap_controllers)
    done = run("migration", "compare", "--zookeeper", walk.cluster.ensemble.replace("/kafka", "/other"), *where)
    assert (done.returncode, done.stdout) == (5, "")
    assert "it is the ensemble of cluster 4L6g3nShT-eMCtK--X86sw, but the nodes belong to cluster" in done.stderr


def test_a_lost_write_to_zookeeper_is_reported_and_the_next_active_controller_repeats_it(walk: Walk) -> None:
    set_quota(walk.cluster.port, {"client-id": "app 1"}, "consumer_byte_rate", None)
    code, document = compared(walk.cluster)
    assert (code, named(document)) == (4, {("quota", "client-id app 1 consumer_byte_rate")})
    assert (document["differences"][0]["inZooKeeper"], document["differences"][0]["inLog"]) == ("2000000", "absent")
    epoch = walk.migration()["kraft_controller_epoch"]
    walk.cluster.run("controller", walk.cluster.migrating_controller)
    wait_until("another controller is active", lambda: walk.migration()["kraft_controller_epoch"] > epoch)
    wait_until("the new controller has written all metadata again", lambda: compared(walk.cluster)[0] == 0, step=0.5)
